"""The books of a path: what one side of each cable and of the switch counted and the other did
not. What no counter calls a drop is placed by the difference. What arrived and a port of the switch
did not count went past the switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from switchmark.model.record import TrialResult

__all__ = ["AT_SWITCH", "Way", "balanced"]

INSIDE = "inside switch"

AT_SWITCH = "@switch"
"""Marks the switch's end of a port, where a frame is lost: `f0@switch in`."""


@dataclass(frozen=True, slots=True)
class Way:
    """The ports of the switch by which the frames of a flow that arrived have `entered` and `left`
    it. Flows of one `index` are copies of the same frames, made by the switch."""

    flow: str
    index: int
    entered: tuple[str, ...]
    left: tuple[str, ...]


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
    ways: Sequence[Way] = (),
) -> TrialResult:
    """The trial with lost frames placed that the counters imply, never more than were lost.

    `ports` are all ports of the switch: what is inside of it is known only where it counts at each
    of them. `through` says that nobody stands in the way or answers, so that all that was sent
    enters the switch once. `functions` are those of a chain, with their ports.
    `evidence["balance"]` has each leg as frames in and out; a leg that gives more than it got
    multiplies frames. `evidence["past"]`, where there is something to tell, has the ports of the
    `ways` that counted fewer frames than came to be received by them: how many `arrived`, and how
    many the port `counted`.
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
    past = dict(_past(trial, ways))
    evidence = {**trial.evidence, "balance": books} | ({"past": past} if past else {})
    return trial.model_copy(update={"lost_at": places, "evidence": evidence})


def _legs(
    trial: TrialResult,
    ports: Collection[str],
    through: bool,
    functions: Mapping[str, Collection[str]],
) -> Iterable[_Leg | None]:
    switch = {
        place.removesuffix(AT_SWITCH): counted
        for place, counted in trial.counters.items()
        if place.endswith(AT_SWITCH)
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
        counted = ("corrupted", "stray", "late", "beyond", *(f"ring {port}" for port in switch))
        yield _leg("from switch", left, trial.rx_frames, _known(trial, *counted))


def _past(trial: TrialResult, ways: Sequence[Way]) -> Iterable[tuple[str, dict[str, int]]]:
    """By place, how many frames arrived that must have been counted there, where more than were."""
    late = trial.lost_at.get("late", 0)  # they may have come after the ports were read
    if not trial.per_flow:  # which flow a frame is of was not looked at
        yield from _past_in_all(trial, ways, late)
        return
    arrived: Counter[str] = Counter()
    for counts in trial.per_flow:
        arrived[counts.flow.partition("#")[0]] += counts.rx
    most: dict[tuple[int, str, str], int] = {}
    for way in ways:
        for port, key in (*((p, "rx") for p in way.entered), *((p, "tx") for p in way.left)):
            each = (way.index, port, key)
            most[each] = max(most.get(each, 0), arrived[way.flow])
    wanted: Counter[tuple[str, str]] = Counter()
    for (_, port, key), frames in most.items():
        wanted[port, key] += frames
    for (port, key), frames in wanted.items():
        counted = trial.counters.get(f"{port}{AT_SWITCH}", {}).get(key)
        if counted is not None and counted < frames - late:
            place = f"{port}{AT_SWITCH} {'in' if key == 'rx' else 'out'}"
            yield place, {"arrived": frames, "counted": counted}


def _past_in_all(
    trial: TrialResult, ways: Sequence[Way], late: int
) -> Iterable[tuple[str, dict[str, int]]]:
    """The same of all ports together. Each frame enters and leaves as often as those of any."""
    for key, place in (("rx", "to switch"), ("tx", "from switch")):
        ports = {port for way in ways for port in (way.entered if key == "rx" else way.left)}
        passed = min((len(way.entered if key == "rx" else way.left) for way in ways), default=0)
        counted = _sum(trial.counters.get(f"{port}{AT_SWITCH}", {}).get(key) for port in ports)
        frames = trial.distinct * passed // (trial.copies if key == "rx" else 1)
        if counted is not None and counted < frames - late:
            yield place, {"arrived": frames, "counted": counted}


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
