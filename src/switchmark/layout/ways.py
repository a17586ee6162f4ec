"""This module knows which ports of the switch the frames of each flow have to pass, and which of
these count them. Pure."""

from __future__ import annotations

from collections import Counter

from switchmark.layout.layout import Layout
from switchmark.metrics.balance import Way
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.record import TrialResult
from switchmark.model.topology import PortKind

__all__ = ["uncounted_ports", "ways_of"]


def ways_of(layout: Layout) -> tuple[Way, ...]:
    """Return the way of each flow through the switch, and of its answers, by the ports that have an
    end of their own at the switch: to open another port is to be inside of the switch."""
    apart = _apart(layout)
    answered = layout.test.dimension == "latency"
    ways = []
    for flow in layout.flows:
        there = flow.crossings
        back = tuple((sink, source) for source, sink in there) if answered else ()
        entered, left = zip(*there, *back, strict=True)
        ways.append(
            Way(
                flow.id,
                flow.index,
                tuple(port for port in entered if port in apart),
                tuple(port for port in left if port in apart),
            )
        )
    return tuple(ways)


def uncounted_ports(layout: Layout, trial: TrialResult) -> tuple[str, ...]:
    """Return the ports at which frames are counted neither by the switch nor by an interface."""
    used = dict.fromkeys(p for flow in layout.wiring.flows for p in (flow.source, flow.sink))
    apart = _apart(layout)
    return tuple(port for port in used if port in apart and not _is_counted(trial.counters, port))


def _is_counted(counters: PathCounters, port: str) -> bool:
    counted = counters.at_switch.get(port, PortCounters())
    return counted.rx is not None and counted.tx is not None


def _apart(layout: Layout) -> frozenset[str]:
    """Return the ports with an end at the switch besides the function's. One that has none is
    itself the function's interface, made by the switch (`staged`), or the end of a cable whose
    other end another function opens (one socket for both), or leads nowhere."""
    opened = Counter(end.path for end in layout.endpoints.values() if end.path)
    return frozenset(
        port
        for port, end in layout.endpoints.items()
        if end.kind is not PortKind.NULL
        and (end.switch_ifname or not end.staged)
        and opened[end.path] < 2
    )
