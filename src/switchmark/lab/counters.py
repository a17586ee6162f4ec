"""What the ends of a path's ports and its switch have counted, at one moment or between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from switchmark.switches.base import PortCounters

__all__ = ["LinkCounters", "PathCounters"]

LinkCounters = Mapping[str, PortCounters]
"""Counters of both ends of each port: `f0`, the link at the part, and `f0@switch`."""


@dataclass(frozen=True, slots=True)
class PathCounters:
    """Counters of a path at one moment, or between two; the cycles are those of the switch's
    polling threads, None where it does not tell. `functions` are those of functions that the
    traffic program does not play, by part and port."""

    links: LinkCounters
    busy_cycles: int | None = None
    idle_cycles: int | None = None
    functions: Mapping[str, LinkCounters] = field(default_factory=dict)

    def since(self, before: PathCounters) -> PathCounters:
        """What was counted since `before`."""
        return PathCounters(
            _difference(before.links, self.links),
            _less(before.busy_cycles, self.busy_cycles),
            _less(before.idle_cycles, self.idle_cycles),
            {
                part: _difference(before.functions.get(part, {}), ports)
                for part, ports in self.functions.items()
            },
        )

    def as_dict(self) -> dict[str, dict[str, int | None]]:
        """The counters as a record keeps them: by place, and the cycles under `switch`."""
        found = {place: asdict(each) for place, each in self.links.items()}
        for part, ports in self.functions.items():
            found |= {f"function {part} {port}": asdict(each) for port, each in ports.items()}
        if self.busy_cycles is not None:
            cycles = {"busy_cycles": self.busy_cycles, "idle_cycles": self.idle_cycles}
            return {**found, "switch": cycles}
        return found


def _less(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else b - a


def _difference(before: LinkCounters, after: LinkCounters) -> LinkCounters:
    return {
        place: PortCounters(
            rx=_less(old.rx, new.rx),
            tx=_less(old.tx, new.tx),
            rx_dropped=_less(old.rx_dropped, new.rx_dropped),
            tx_dropped=_less(old.tx_dropped, new.tx_dropped),
        )
        for place, new in after.items()
        if (old := before.get(place)) is not None
    }
