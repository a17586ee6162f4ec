"""The frame balance of a path: frames counted on both sides of each cable and of the switch.

The difference of two counters places losses that no drop counter reports. If frames arrive that a
port of the switch did not count, they bypassed the switch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from switchmark.model.evidence import Balance, PastSwitch
from switchmark.model.place import Place, PlaceKind, PortEnd
from switchmark.model.record import TrialResult

_Direction = Literal["rx", "tx"]
_TO_SWITCH, _FROM_SWITCH = Place(PlaceKind.TO_SWITCH), Place(PlaceKind.FROM_SWITCH)
_AT_RECEIVER = (PlaceKind.CORRUPTED, PlaceKind.STRAY, PlaceKind.LATE, PlaceKind.BEYOND)


@dataclass(frozen=True, slots=True)
class Way:
    """The way of a flow through the switch."""

    flow: str
    """The id of the flow."""
    index: int
    """The number of the flow. Flows with the same index are copies of the same frames, made by the
    switch."""
    entered: tuple[str, ...]
    """The ports by which its frames enter the switch."""
    left: tuple[str, ...]
    """The ports by which its frames leave the switch."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A section of the path, with the frames that entered and left it."""

    place: Place
    """The section."""
    entered: int
    """The number of frames that entered it."""
    left: int
    """The number of frames that left it."""
    counted: int
    """The number of missing frames that a counter already explains."""
    copies: int = 1
    """The number of copies that the section makes of each frame."""
    lost: int = 1
    """The number of lost frames at the receivers for each missing frame."""

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
    hosts: Mapping[str, Collection[str]] = MappingProxyType({}),
    cables: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> TrialResult:
    """Return the trial with its lost frames placed where the counters imply, never more than were
    lost.

    `ports` are all ports of the switch: losses inside the switch are known only if the switch
    counts at all of them. `through` says that all frames sent enter the switch exactly once: no
    part drops them on the way or replies to them. `functions` are the functions of a chain with
    their ports. `hosts` are the hosts with an instance of the switch, each with the ports of its
    instance, and `cables` connect two instances. Frames of the warm-up that arrived in the measured
    phase were inside the only switch.

    The evidence gets the balance of each section. It also lists the ports of the `ways` that
    counted fewer frames than were received through them, if there are any.
    """
    sections = _spans(trial, ports, through, functions, hosts, cables)
    spans = [span for span in sections if span is not None]
    places = dict(trial.lost_at)
    left = trial.lost - sum(places.values())
    for span in spans:
        frames = min(left, span.missing)
        if frames > 0:
            places[span.place] = places.get(span.place, 0) + frames
            left -= frames
    balance = {span.place: Balance(span.entered, span.left) for span in spans}
    past = dict(_past(trial, ways))
    result = {"balance": balance, **({"past": past} if past else {})}
    evidence = trial.evidence.model_copy(update=result)
    return trial.model_copy(update={"lost_at": places, "evidence": evidence})


def _spans(
    trial: TrialResult,
    ports: Collection[str],
    through: bool,
    functions: Mapping[str, Collection[str]],
    hosts: Mapping[str, Collection[str]],
    cables: Mapping[str, tuple[str, str]],
) -> Iterable[_Span | None]:
    switch, left_over = trial.counters.at_switch, 0 if hosts else trial.evidence.left_over
    announced = trial.evidence.announced
    at_parts = trial.counters.at_parts
    parts = {port: at_parts[port] for port in switch if port in at_parts}
    for port, end in parts.items():
        out = Place.out(PortEnd(port))
        accounted = _known_losses(trial, out, Place.into(_at_switch(port)))
        yield _span(out, end.tx, switch[port].rx, accounted, lost=trial.copies)
    entered, left = _crossed(trial, ports, announced)
    if through and switch and not parts:
        ends = ((Place.into(_at_switch(port)), Place.engine(port)) for port in ports)
        accounted = sum(_known_losses(trial, *places) for places in ends)
        yield _span(_TO_SWITCH, trial.tx_frames, entered, accounted, lost=trial.copies)
    for host, its in (hosts or {"": ports}).items():
        accounted = _known_losses(trial, *(Place.out(_at_switch(port)) for port in its))
        inside, crossed = Place(PlaceKind.INSIDE_SWITCH, host), _crossed(trial, its, announced)
        yield _span(inside, *crossed, accounted - left_over, copies=trial.copies)
    for cable, joined in cables.items():
        came, gone = _crossed(trial, joined, announced)
        accounted = _known_losses(trial, *(Place.into(_at_switch(port)) for port in joined))
        yield _span(Place(PlaceKind.CABLE, cable), gone, came, accounted)
    for port, end in parts.items():
        yield _span(Place.into(PortEnd(port)), switch[port].tx, end.rx, 0)
    for name, of_it in functions.items():
        place = Place.function(name)
        rings = (kind(port) for kind in (Place.ring, Place.engine) for port in of_it)
        accounted = _known_losses(trial, place, *rings)
        if parts.keys() >= set(of_it):
            taken = _sum(parts[port].rx for port in of_it)
            forwarded = _sum(parts[port].tx for port in of_it)
            yield _span(place, taken, forwarded, accounted)
        elif switch.keys() >= set(of_it):
            taken = _sum(switch[port].tx for port in of_it)
            forwarded = _sum(switch[port].rx for port in of_it)
            yield _span(place, taken, forwarded, accounted)
    if through and switch and not parts:
        counted = (*map(Place, _AT_RECEIVER), *map(Place.ring, ports))
        yield _span(_FROM_SWITCH, left, trial.rx_frames, _known_losses(trial, *counted) + left_over)


def _crossed(
    trial: TrialResult, ports: Collection[str], announced: int
) -> tuple[int | None, int | None]:
    """Return how many frames entered and left the switch at some ports; None if a port has no
    counters.

    Frames that announce a MAC address leave by one port only, so they are subtracted.
    """
    ends = [trial.counters.at_switch.get(port) for port in ports]
    counted = [end for end in ends if end is not None]
    if not counted or len(counted) < len(ends):
        return None, None
    came, gone = _sum(end.rx for end in counted), _sum(end.tx for end in counted)
    return None if came is None else came - announced, None if gone is None else gone - announced


def _past(trial: TrialResult, ways: Sequence[Way]) -> Iterable[tuple[Place, PastSwitch]]:
    """Yield the places where more frames arrived than the switch counted, with both numbers."""
    # Late frames may have arrived after the ports were read.
    late = trial.lost_at.get(Place(PlaceKind.LATE), 0)
    if not trial.per_flow:  # frames were not assigned to flows
        yield from _past_in_all(trial, ways, late)
        return
    arrived: Counter[str] = Counter()
    for counts in trial.per_flow:
        arrived[counts.flow.partition("#")[0]] += counts.rx
    most: dict[tuple[int, str, _Direction], int] = {}
    for way in ways:
        passed: list[tuple[int, str, _Direction]] = [
            *((way.index, port, "rx") for port in way.entered),
            *((way.index, port, "tx") for port in way.left),
        ]
        for flow in passed:
            most[flow] = max(most.get(flow, 0), arrived[way.flow])
    expected: Counter[tuple[str, _Direction]] = Counter()
    for (_, port, key), frames in most.items():
        expected[port, key] += frames
    for (port, key), frames in expected.items():
        counted = _counted(trial, port, key)
        if counted is not None and counted < frames - late:
            place = Place.into if key == "rx" else Place.out
            yield place(_at_switch(port)), PastSwitch(arrived=frames, counted=counted)


def _past_in_all(
    trial: TrialResult, ways: Sequence[Way], late: int
) -> Iterable[tuple[Place, PastSwitch]]:
    """Yield the same for all ports together.

    The smallest number of ports on any way is the number of times that every frame is counted.
    """
    directions: tuple[tuple[_Direction, Place], ...] = (("rx", _TO_SWITCH), ("tx", _FROM_SWITCH))
    for key, place in directions:
        ports = {port for way in ways for port in (way.entered if key == "rx" else way.left)}
        passed = min((len(way.entered if key == "rx" else way.left) for way in ways), default=0)
        counted = _sum(_counted(trial, port, key) for port in ports)
        frames = trial.distinct * passed // (trial.copies if key == "rx" else 1)
        if counted is not None and counted < frames - late:
            yield place, PastSwitch(arrived=frames, counted=counted)


def _counted(trial: TrialResult, port: str, key: _Direction) -> int | None:
    """Return the count of the switch's end of a port."""
    end = trial.counters.links.get(_at_switch(port))
    return None if end is None else getattr(end, key)


def _at_switch(port: str) -> PortEnd:
    return PortEnd(port, at_switch=True)


def _span(
    place: Place,
    entered: int | None,
    left: int | None,
    counted: int,
    *,
    copies: int = 1,
    lost: int = 1,
) -> _Span | None:
    if entered is None or left is None:
        return None
    return _Span(place, entered, left, counted, copies, lost)


def _known_losses(trial: TrialResult, *places: Place) -> int:
    return sum(trial.lost_at.get(place, 0) for place in places)


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
