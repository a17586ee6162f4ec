"""This module says where the parts of a test ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from switchmark.model.written import Written, object_schema


@dataclass(frozen=True, slots=True)
class Pin:
    """A seat is where a part runs; a record says `cpus` and `yield`."""

    cpus: tuple[int, ...] = ()
    """Its CPUs; none: wherever the kernel likes."""

    yield_: bool = False
    """It must yield, because somebody shares them."""


def _pin(value: object) -> object:
    if isinstance(value, Mapping):
        return Pin(tuple(value["cpus"]), value["yield"])
    return tuple(value) if isinstance(value, list) else value


def _cpus_and_yield(pin: Pin | tuple[int, ...]) -> dict[str, Any] | list[int]:
    if isinstance(pin, Pin):
        return {"cpus": list(pin.cpus), "yield": pin.yield_}
    return list(pin)


_CPUS = {"type": "array", "items": {"type": "integer"}}

_WrittenPin = Annotated[
    Pin | tuple[int, ...],
    BeforeValidator(_pin),
    PlainSerializer(_cpus_and_yield),
    WithJsonSchema({"anyOf": [object_schema(cpus=_CPUS, **{"yield": {"type": "boolean"}}), _CPUS]}),
]
"""A seat as a member of a record; in early ones its CPUs alone."""


class PlacementRecord(Written):
    """This record says where the parts of a test ran."""

    policy: str
    """The policy that was followed, never `auto`."""

    seats: dict[str, _WrittenPin]
    """By part: its `cpus`, and whether it must `yield` to a neighbour."""

    orchestrator: int | None = None
    """The CPU left for switchmark itself; None where none is."""

    doubts: tuple[str, ...] = ()
    """What is to be doubted of it."""
