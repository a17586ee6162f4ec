"""This module knows which ports of the switch the frames of each flow have to pass, and which of
these count them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from switchmark.metrics.balance import Way
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.plan import Node
from switchmark.model.record import TrialResult
from switchmark.model.topology import PortKind
from switchmark.path.hosts import itself, mac_of_uplink
from switchmark.path.path import Path


def ways_of(path: Path) -> tuple[Way, ...]:
    """Return the way of each flow through the switch, and of its answers, by the ports that have an
    end of their own at the switch: to open another port is to be inside of the switch."""
    apart = _apart(path)
    answered = path.test.dimension == "latency"
    ways = []
    for flow in path.flows:
        there = flow.crossings
        there = tuple(each for crossing in there for each in _crossings(path, *crossing))
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


def feeds_of(path: Path) -> Mapping[str, frozenset[str]]:
    """Return for every port of the switch the ports where the frames come in that are to leave by
    it; answers go back."""
    feeds: dict[str, set[str]] = {
        port.id: set() for each in path.switches for port in each.wiring.ports
    }
    for flow in path.flows:
        for crossing in flow.crossings:
            for source, sink in _crossings(path, *crossing):
                feeds[sink].add(source)
                if path.test.dimension == "latency":
                    feeds[source].add(sink)
    return {port: frozenset(sources) for port, sources in feeds.items()}


def _crossings(path: Path, source: str, sink: str) -> tuple[tuple[str, str], ...]:
    """Return the crossings of the instances of the switch that make one: through each of two."""
    if not path.uplinks:
        return ((source, sink),)
    flows = [flow for switch in path.switches for flow in switch.wiring.flows]
    out = next(flow.sink for flow in flows if flow.source == source)
    back = next(flow.source for flow in flows if flow.sink == sink)
    return (source, out), (back, sink)


def between_hosts(path: Path) -> Mapping[str, Any]:
    """Return the ports of each of two hosts' instances, and the cables between them, as a balance
    is told of them (`metrics.balance`)."""
    if not path.uplinks:
        return {}
    ends = [[port.id for port in switch.uplinks] for switch in path.switches]
    names = [uplink.name for uplink in path.uplinks]
    hosts = {each.host: [port.id for port in each.wiring.ports] for each in path.switches}
    return {"hosts": hosts, "cables": dict(zip(names, zip(*ends, strict=True), strict=True))}


def cables_of(path: Path) -> dict[str, str] | None:
    """Return in words what joins two hosts, by the name of each cable; None within one."""
    if not path.uplinks:
        return None
    near, far = (switch.host for switch in path.switches)
    return {
        each.name: f"{near} {each.ends[0]}, {far} {each.ends[1]}"
        + (": emulated, a veth pair" if each.made else path.between.emulated)
        for each in path.uplinks
    }


def named_ends(path: Path) -> tuple[tuple[Node, str, str], ...]:
    """Return the real NICs that join two hosts: where each is, its name, and its MAC for a run."""
    return tuple(
        (itself(switch.wiring), port.nic, mac_of_uplink(switch.wiring, port))
        for switch in path.switches
        for port in switch.uplinks
        if port.uplink == "named" and port.nic
    )


def uncounted_ports(path: Path, trial: TrialResult) -> tuple[str, ...]:
    """Return the ports at which frames are counted neither by the switch nor by an interface."""
    used = dict.fromkeys(p for flow in path.wiring.flows for p in (flow.source, flow.sink))
    apart = _apart(path)
    return tuple(port for port in used if port in apart and not _is_counted(trial.counters, port))


def _is_counted(counters: PathCounters, port: str) -> bool:
    counted = counters.at_switch.get(port, PortCounters())
    return counted.rx is not None and counted.tx is not None


def _apart(path: Path) -> frozenset[str]:
    """Return the ports with an end at the switch besides the function's. One that has none is
    itself the function's interface, made by the switch (`staged`), or the end of a cable whose
    other end another function opens (one socket for both), or leads nowhere."""
    opened = Counter(end.path for _, end in path.ends if end.path)
    ups = (port.id for switch in path.switches for port in switch.uplinks)
    return frozenset(ups if _seen(path) else ()) | frozenset(
        port.id
        for port, end in path.ends
        if end.kind is not PortKind.NULL
        and (end.switch_ifname or not end.staged)
        and opened[end.path] < 2
    )


def _seen(path: Path) -> bool:
    """Say whether uplinks end at the switch: a cable in its place is opened by the functions."""
    return any(end.switch_ifname or end.path for _, end in path.ends)
