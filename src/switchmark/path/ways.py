"""This module knows which ports of the switch the frames of each flow have to pass, and which of
these count them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from switchmark.metrics.balance import Way
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.record import TrialResult
from switchmark.model.topology import PortKind
from switchmark.path.layout import Layout
from switchmark.switches.across import Across


def ways_of(layout: Layout) -> tuple[Way, ...]:
    """Return the way of each flow through the switch, and of its answers, by the ports that have an
    end of their own at the switch: to open another port is to be inside of the switch."""
    apart = _apart(layout)
    answered = layout.test.dimension == "latency"
    ways = []
    for flow in layout.flows:
        there = flow.crossings
        there = tuple(each for crossing in there for each in _crossings(layout, *crossing))
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


def feeds_of(layout: Layout) -> Mapping[str, frozenset[str]]:
    """Return for every port of the switch the ports where the frames come in that are to leave by
    it; answers go back."""
    feeds: dict[str, set[str]] = {port.id: set() for each in layout.wirings for port in each.ports}
    for flow in layout.flows:
        for crossing in flow.crossings:
            for source, sink in _crossings(layout, *crossing):
                feeds[sink].add(source)
                if layout.test.dimension == "latency":
                    feeds[source].add(sink)
    return {port: frozenset(sources) for port, sources in feeds.items()}


def _crossings(layout: Layout, source: str, sink: str) -> tuple[tuple[str, str], ...]:
    """Return the crossings of the instances of the switch that make one: through each of two."""
    if len(layout.wirings) == 1:
        return ((source, sink),)
    flows = [flow for wiring in layout.wirings for flow in wiring.flows]
    out = next(flow.sink for flow in flows if flow.source == source)
    back = next(flow.source for flow in flows if flow.sink == sink)
    return (source, out), (back, sink)


def between_hosts(layout: Layout) -> Mapping[str, Any]:
    """Return the ports of each of two hosts' instances, and the cables between them, as a balance
    is told of them (`metrics.balance`)."""
    if not isinstance(layout.switch, Across):
        return {}
    near, far = layout.wirings
    ends = [[port.id for port in half.ports if port.uplink] for half in (near, far)]
    names = [uplink.name for uplink in layout.switch.uplinks(layout.wiring)]
    hosts = {half.at.host: [port.id for port in half.ports] for half in (near, far)}
    return {"hosts": hosts, "cables": dict(zip(names, zip(*ends, strict=True), strict=True))}


def cables_of(layout: Layout) -> dict[str, str] | None:
    """Return in words what joins two hosts, by the name of each cable; None within one."""
    if not isinstance(layout.switch, Across):
        return None
    near, far = (half.at.host for half in layout.wirings)
    return {
        each.name: f"{near} {each.ends[0]}, {far} {each.ends[1]}"
        + (": emulated, a veth pair" if each.made else layout.between.emulated)
        for each in layout.switch.uplinks(layout.wiring)
    }


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
    ups = (port.id for half in layout.wirings for port in half.ports if port.uplink)
    return frozenset(ups if _seen(layout) else ()) | frozenset(
        port
        for port, end in layout.endpoints.items()
        if end.kind is not PortKind.NULL
        and (end.switch_ifname or not end.staged)
        and opened[end.path] < 2
    )


def _seen(layout: Layout) -> bool:
    """Say whether uplinks end at the switch: a cable in its place is opened by the functions."""
    return any(end.switch_ifname or end.path for end in layout.endpoints.values())
