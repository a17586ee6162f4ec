"""The books of a path: what one side of each cable and of the switch counted and the other did
not. What no counter calls a drop is placed by the difference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from switchmark.model.record import TrialResult

__all__ = ["balanced"]

INSIDE = "inside switch"
_AT_SWITCH = "@switch"


@dataclass(frozen=True, slots=True)
class _Leg:
    """A stretch of the path: frames that entered it and left it, and those of the missing that
    somebody has counted already. Of each frame that enters, `copies` leave, and one that goes
    missing is `lost` of those that were to arrive."""

    place: str
    entered: int
    left: int
    counted: int
    copies: int = 1
    lost: int = 1

    @property
    def missing(self) -> int:
        return (self.entered * self.copies - self.left) * self.lost - self.counted


def balanced(
    trial: TrialResult,
    *,
    ports: Collection[str],
    through: bool,
    functions: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> TrialResult:
    """The trial with lost frames placed that the counters imply, never more than were lost.

    `ports` are all ports of the switch: what is inside of it is known only where it counts at each
    of them. `through` says that nobody stands in the way or answers, so that all that was sent
    enters the switch once. `functions` are those of a chain, with their ports.
    `evidence["balance"]` has each leg as frames in and out; a leg that gives more than it got
    multiplies frames.
    """
    legs = [leg for leg in _legs(trial, ports, through, functions) if leg is not None]
    places = dict(trial.lost_at)
    left = trial.lost - sum(places.values())
    for leg in legs:
        frames = min(left, leg.missing)
        if frames > 0:
            places[leg.place] = places.get(leg.place, 0) + frames
            left -= frames
    books = {leg.place: {"in": leg.entered, "out": leg.left} for leg in legs}
    evidence = {**trial.evidence, "balance": books}
    return trial.model_copy(update={"lost_at": places, "evidence": evidence})


def _legs(
    trial: TrialResult,
    ports: Collection[str],
    through: bool,
    functions: Mapping[str, Collection[str]],
) -> Iterable[_Leg | None]:
    switch = {
        place.removesuffix(_AT_SWITCH): counted
        for place, counted in trial.counters.items()
        if place.endswith(_AT_SWITCH)
    }
    parts = {port: trial.counters[port] for port in switch if port in trial.counters}
    for port, end in parts.items():
        known = _known(trial, f"{port} out", f"{port}@switch in")
        yield _leg(f"{port} out", end["tx"], switch[port]["rx"], known, lost=trial.copies)
    whole = bool(switch) and set(switch) == set(ports)
    entered = _sum(end["rx"] for end in switch.values()) if whole else None
    left = _sum(end["tx"] for end in switch.values()) if whole else None
    if through and switch and not parts:
        known = sum(_known(trial, f"{port}@switch in", f"engine {port}") for port in switch)
        yield _leg("to switch", trial.tx_frames, entered, known, lost=trial.copies)
    known = sum(_known(trial, f"{port}@switch out") for port in switch)
    yield _leg(INSIDE, entered, left, known, copies=trial.copies)
    for port, end in parts.items():
        yield _leg(f"{port} in", switch[port]["tx"], end["rx"], 0)
    for name, own in functions.items():
        rings = (f"{kind} {port}" for kind in ("ring", "engine") for port in own)
        known = _known(trial, f"function {name}", *rings)
        if parts.keys() >= set(own):
            taken = _sum(parts[port]["rx"] for port in own)
            given = _sum(parts[port]["tx"] for port in own)
            yield _leg(f"function {name}", taken, given, known)
        elif switch.keys() >= set(own):
            taken = _sum(switch[port]["tx"] for port in own)
            given = _sum(switch[port]["rx"] for port in own)
            yield _leg(f"function {name}", taken, given, known)
    if through and switch and not parts:
        counted = ("corrupted", "stray", "late", *(f"ring {port}" for port in switch))
        yield _leg("from switch", left, trial.rx_frames, _known(trial, *counted))


def _leg(
    place: str,
    entered: int | None,
    left: int | None,
    counted: int,
    *,
    copies: int = 1,
    lost: int = 1,
) -> _Leg | None:
    if entered is None or left is None:
        return None
    return _Leg(place, entered, left, counted, copies, lost)


def _known(trial: TrialResult, *places: str) -> int:
    return sum(trial.lost_at.get(place, 0) for place in places)


def _sum(values: Iterable[Any]) -> int | None:
    found = list(values)
    return None if None in found else sum(found)
