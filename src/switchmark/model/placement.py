"""This module says where the parts of a test ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from switchmark.model.written import Written

__all__ = ["PlacementRecord", "Seat"]


@dataclass(frozen=True, slots=True)
class Seat:
    """A seat is where a part runs; a record says `cpus` and `yield`."""

    cpus: tuple[int, ...] = ()
    """Its CPUs; none: wherever the kernel likes."""

    yield_: bool = False
    """It must yield, because somebody shares them."""


def _seat(value: object) -> object:
    if isinstance(value, Mapping):
        return Seat(tuple(value["cpus"]), value["yield"])
    return tuple(value) if isinstance(value, list) else value


def _cpus_and_yield(seat: Seat | tuple[int, ...]) -> dict[str, Any] | list[int]:
    if isinstance(seat, Seat):
        return {"cpus": list(seat.cpus), "yield": seat.yield_}
    return list(seat)


_WrittenSeat = Annotated[
    Seat | tuple[int, ...], BeforeValidator(_seat), PlainSerializer(_cpus_and_yield)
]
"""A seat as a member of a record; in early ones its CPUs alone."""


class PlacementRecord(Written):
    """This record says where the parts of a test ran."""

    policy: str
    """The policy that was followed, never `auto`."""

    seats: dict[str, _WrittenSeat]
    """By part: its `cpus`, and whether it must `yield` to a neighbour."""

    orchestrator: int | None = None
    """The CPU left for switchmark itself; None where none is."""

    doubts: tuple[str, ...] = ()
    """What is to be doubted of it."""
