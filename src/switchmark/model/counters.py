"""Counters of a path: of the ends of its ports, its switch and its functions.

They count up to one moment, or between two moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from switchmark.model.place import PortEnd

_Key = TypeVar("_Key")

_SWITCH, _FUNCTION = "switch", "function"
"""Keys of a record: `switch` has the cycles and the slow path of the switch, `function f1 f1.0` the
counters of a function at a port."""


@dataclass(frozen=True, slots=True)
class PortCounters:
    """The frames counted at a port; None if nothing counts them."""

    rx: int | None = None
    """Frames received at the port."""

    tx: int | None = None
    """Frames sent from the port."""

    rx_dropped: int | None = None
    """Frames dropped on receipt."""

    tx_dropped: int | None = None
    """Frames dropped on transmission."""

    def since(self, before: PortCounters) -> PortCounters:
        """Return the counts since `before`."""
        return PortCounters(
            rx=_less(before.rx, self.rx),
            tx=_less(before.tx, self.tx),
            rx_dropped=_less(before.rx_dropped, self.rx_dropped),
            tx_dropped=_less(before.tx_dropped, self.tx_dropped),
        )


LinkCounters = Mapping[PortEnd, PortCounters]
"""Counters by end of a port."""


@dataclass(frozen=True, slots=True)
class PathCounters:
    """The counters of a path, up to one moment or between two."""

    links: LinkCounters = field(default_factory=dict)
    """Counters by end of a port."""

    busy_cycles: int | None = None
    """Cycles in which the switch's polling threads had frames; None if it does not report them."""

    idle_cycles: int | None = None
    """Cycles in which the switch's polling threads had no frames."""

    functions: Mapping[str, Mapping[str, PortCounters]] = field(default_factory=dict)
    """Counters of functions other than the traffic program, by part and port."""

    read_ns: int | None = field(default=None, compare=False)
    """The time of reading, by the host's monotonic clock, or the time between two readings, in
    nanoseconds; None if unknown."""

    slow_path: int | None = None
    """Frames that the switch forwarded on its slow path; None if it has no fast path, or does not
    report it."""

    @property
    def at_switch(self) -> Mapping[str, PortCounters]:
        """Return the counters at the switch's end of a port, by port."""
        return {end.port: counted for end, counted in self.links.items() if end.at_switch}

    @property
    def at_parts(self) -> Mapping[str, PortCounters]:
        """Return the counters at the part's end of a port, by port."""
        return {end.port: counted for end, counted in self.links.items() if not end.at_switch}

    @property
    def inside(self) -> int:
        """Return the number of frames that entered the switch and were neither sent nor dropped; 0
        if it does not count at every port."""
        counts = [(port.rx, port.tx) for port in self.at_switch.values()]
        dropped = sum(port.tx_dropped or 0 for port in self.at_switch.values())
        differences = [rx - tx for rx, tx in counts if rx is not None and tx is not None]
        return sum(differences) - dropped if len(differences) == len(counts) else 0

    def since(self, before: PathCounters) -> PathCounters:
        """Return the counts since `before`.

        Busy and idle cycles are at least 0. Both are differences of estimates: idle cycles come out
        negative if the switch lost the CPU during its work, and busy cycles if it polled a little
        faster than expected."""
        return PathCounters(
            _difference(before.links, self.links),
            _at_least_0(_less(before.busy_cycles, self.busy_cycles)),
            _at_least_0(_less(before.idle_cycles, self.idle_cycles)),
            {
                part: _difference(before.functions.get(part, {}), ports)
                for part, ports in self.functions.items()
            },
            _less(before.read_ns, self.read_ns),
            _less(before.slow_path, self.slow_path),
        )

    def busy(self, phase_ns: int) -> float | None:
        """Return the share of a phase of `phase_ns` in which the switch had frames; None if the
        switch does not report it.

        The counters are read before and after the phase, while the path is quiet, so all busy
        cycles belong to the phase. The share is at most 1."""
        if self.busy_cycles is None or self.idle_cycles is None:
            return None
        cycles = self.busy_cycles + self.idle_cycles
        between_ns = max(self.read_ns or phase_ns, phase_ns)
        return min(1.0, self.busy_cycles / cycles * between_ns / phase_ns) if cycles else None

    def as_dict(self) -> dict[str, dict[str, int | None]]:
        """Return the counters in the form of a record: by place, with the cycles under `switch`."""
        by_place = {str(end): asdict(counters) for end, counters in self.links.items()}
        for part, ports in self.functions.items():
            by_place |= {
                f"{_FUNCTION} {part} {port}": asdict(counters) for port, counters in ports.items()
            }
        whole: dict[str, int | None] = {}
        if self.busy_cycles is not None:
            whole = {"busy_cycles": self.busy_cycles, "idle_cycles": self.idle_cycles}
            if self.read_ns is not None:  # early records lack it
                whole["read_ns"] = self.read_ns
        if self.slow_path is not None:
            whole["slow_path"] = self.slow_path
        return {**by_place, _SWITCH: whole} if whole else by_place

    @classmethod
    def parse(cls, content: Mapping[str, Mapping[str, Any]]) -> PathCounters:
        """Read the counters from the form of a record."""
        links: dict[PortEnd, PortCounters] = {}
        functions: dict[str, dict[str, PortCounters]] = {}
        for place, counts in content.items():
            counted = PortCounters(*map(counts.get, ("rx", "tx", "rx_dropped", "tx_dropped")))
            word, _, rest = place.partition(" ")
            if word == _FUNCTION and rest:
                part, _, port = rest.partition(" ")
                functions.setdefault(part, {})[port] = counted
            elif place != _SWITCH:
                links[PortEnd.parse(place)] = counted
        whole = content.get(_SWITCH, {})
        busy, idle = whole.get("busy_cycles"), whole.get("idle_cycles")
        return cls(links, busy, idle, functions, whole.get("read_ns"), whole.get("slow_path"))


def _less(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else b - a


def _at_least_0(count: int | None) -> int | None:
    return None if count is None else max(0, count)


def _difference(
    before: Mapping[_Key, PortCounters], after: Mapping[_Key, PortCounters]
) -> Mapping[_Key, PortCounters]:
    return {
        place: new.since(old)
        for place, new in after.items()
        if (old := before.get(place)) is not None
    }


def _counters(value: object) -> PathCounters:
    if isinstance(value, PathCounters):
        return value
    if not isinstance(value, Mapping) or not all(map(_are_counts, value.values())):
        raise ValueError("no counters by place")
    return PathCounters.parse(value)


def _are_counts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        count is None or type(count) is int for count in value.values()
    )


_COUNTS = {"type": "object", "additionalProperties": {"type": ["integer", "null"]}}

WrittenCounters = Annotated[
    PathCounters,
    PlainValidator(_counters),
    PlainSerializer(PathCounters.as_dict),
    WithJsonSchema({"type": "object", "additionalProperties": _COUNTS}),
]
"""The counters of a path, as a member of a record."""
