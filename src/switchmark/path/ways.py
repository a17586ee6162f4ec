"""The switch ports that the frames of a flow must pass, and the ports that count them. This module
is pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from switchmark.metrics.balance import Way
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.place import PortEnd
from switchmark.model.plan import Node
from switchmark.model.record import TrialResult
from switchmark.model.topology import PortKind
from switchmark.path.hosts import itself, mac_of_uplink
from switchmark.path.path import Path


def ways_of(path: Path) -> tuple[Way, ...]:
    """Return the way of every flow, and of its answers, through the switch. A way has only ports
    with a separate end at the switch, because a program that opens any other port is inside the
    switch."""
    apart = _apart(path)
    answered = path.test.dimension == "latency"
    ways = []
    for flow in path.flows:
        there = flow.crossings
        there = tuple(step for crossing in there for step in _crossings(path, *crossing))
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
    """Return, for every port of the switch, the ports that its outgoing frames come from. Answers
    go the opposite way."""
    feeds: dict[str, set[str]] = {
        port.id: set() for switch in path.switches for port in switch.wiring.ports
    }
    for flow in path.flows:
        for crossing in flow.crossings:
            for source, sink in _crossings(path, *crossing):
                feeds[sink].add(source)
                if path.test.dimension == "latency":
                    feeds[source].add(sink)
    return {port: frozenset(sources) for port, sources in feeds.items()}


def _crossings(path: Path, source: str, sink: str) -> tuple[tuple[str, str], ...]:
    """Return the crossings that frames make between two ports: one per instance of the switch."""
    if not path.uplinks:
        return ((source, sink),)
    flows = [flow for switch in path.switches for flow in switch.wiring.flows]
    out = next(flow.sink for flow in flows if flow.source == source)
    back = next(flow.source for flow in flows if flow.sink == sink)
    return (source, out), (back, sink)


def between_hosts(path: Path) -> Mapping[str, Any]:
    """Return the ports of both hosts' instances, and the cables between the hosts, as arguments of
    `metrics.balance.balanced`."""
    if not path.uplinks:
        return {}
    ends = [[port.id for port in switch.uplinks] for switch in path.switches]
    names = [uplink.name for uplink in path.uplinks]
    hosts = {switch.host: [port.id for port in switch.wiring.ports] for switch in path.switches}
    return {"hosts": hosts, "cables": dict(zip(names, zip(*ends, strict=True), strict=True))}


def cables_of(path: Path) -> dict[str, str] | None:
    """Return the cables between two hosts in words, by cable name; None on one host."""
    if not path.uplinks:
        return None
    near, far = (switch.host for switch in path.switches)
    return {
        uplink.name: f"{near} {uplink.ends[0]}, {far} {uplink.ends[1]}"
        + (": emulated, a veth pair" if uplink.made else path.found.between.emulated)
        for uplink in path.uplinks
    }


def named_ends(path: Path) -> tuple[tuple[Node, str, str], ...]:
    """Return the interfaces of real cables between two hosts, with their node, name and MAC for the
    run. NICs that a switch opens past the kernel are not among them."""
    return tuple(
        (itself(switch.wiring), port.nic, mac_of_uplink(switch.wiring, port))
        for switch in path.switches
        for port in switch.uplinks
        if port.uplink == "named" and port.nic and not port.pci
    )


def handed_ends(path: Path) -> tuple[tuple[Node, PortEnd, str, str], ...]:
    """Return the NICs between two hosts that the switch opens past the kernel: with the node, the
    end of the port, the PCI address, and the driver that hands it over, empty for the default."""
    return tuple(
        (itself(switch.wiring), PortEnd(port.id, at_switch=True), port.nic, uplink.drivers[side])
        for side, switch in enumerate(path.switches)
        for uplink, port in zip(path.uplinks, switch.uplinks, strict=True)
        if port.pci and port.nic
    )


def uncounted_ports(path: Path, trial: TrialResult) -> tuple[str, ...]:
    """Return the ports whose frames neither the switch nor an interface counts."""
    used = dict.fromkeys(p for flow in path.wiring.flows for p in (flow.source, flow.sink))
    apart = _apart(path)
    return tuple(port for port in used if port in apart and not _is_counted(trial.counters, port))


def _is_counted(counters: PathCounters, port: str) -> bool:
    counted = counters.at_switch.get(port, PortCounters())
    return counted.rx is not None and counted.tx is not None


def _apart(path: Path) -> frozenset[str]:
    """Return the ports with a separate end at the switch. Any other port is the function's
    interface, created by the switch (`staged`), or the end of a cable that another function opens
    (one socket for both), or it leads nowhere."""
    opened = Counter(end.path for _, end in path.ends if end.path)
    ups = (port.id for switch in path.switches for port in switch.uplinks)
    return frozenset(ups if sees_uplinks(path) else ()) | frozenset(
        port.id
        for port, end in path.ends
        if end.kind is not PortKind.NULL
        and (end.switch_ifname or not end.staged)
        and opened[end.path] < 2
    )


def sees_uplinks(path: Path) -> bool:
    """Return whether uplinks end at ports that count the frames. On a cable, the functions open
    them; a NIC that switches frames itself shows none of them to the kernel."""
    return any(end.switch_ifname or end.path for _, end in path.ends)
