"""The hosts of a test, and the connection between the switches of two hosts. This module is pure.

With two hosts, the switch has an instance per host. An instance treats the uplink to the other host
as a physical port in place of the remote function. The uplink has the function's port number, and
therefore its addresses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from switchmark.errors import UsageError
from switchmark.model.addresses import mac_address
from switchmark.model.plan import HOST, Node
from switchmark.model.test import Test
from switchmark.model.topology import Between, Flow, Port, Semantics, Topology, Wiring

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_HINT = "--hosts a,b, by the names of the host file"
_SIDES = "ab"
_OF_HOST = ":"  # in the names of uplink ports only


@dataclass(frozen=True, slots=True)
class Uplink:
    """A cable between the instances of a switch on two hosts."""

    name: str
    ends: tuple[str, str]
    """The NICs on the first and on the second host: an interface of the kernel, or the PCI address
    at which the switch opens it."""
    made: bool
    """Whether the plan creates it, as a veth pair between the hosts."""
    drivers: tuple[str, str] = ("", "")
    """The drivers that hand its ends to programs; empty for the default driver, and for an
    interface of the kernel."""


def hosts_of(test: Test) -> tuple[str, ...]:
    """Return the host names of a test: both hosts of a remote test, the sender's first, or the host
    of a local test. Empty for this host. Raise UsageError for the wrong number of hosts."""
    names = tuple(name.strip() for name in (test.hosts or "").split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"'{name}' is no name of a host", hint=_HINT, axes=("hosts",))
    if test.locality == "local":
        if len(names) > 1:
            raise UsageError(
                f"hosts {test.hosts}: both ends of a local test are on one host",
                hint="--locality remote",
                axes=("hosts", "locality"),
            )
        return names if names != (HOST.host,) else ()
    if not names:
        raise UsageError(
            "locality remote is between two hosts", hint=_HINT, axes=("hosts", "locality")
        )
    if len(set(names)) != 2 or len(names) != 2:
        raise UsageError(
            f"hosts '{test.hosts}': locality remote is between two hosts",
            hint=_HINT,
            axes=("hosts",),
        )
    return names


def home_of(test: Test) -> str:
    """Return the host for commands that name no host: the host of a local test, else this host."""
    names = hosts_of(test)
    return names[0] if len(names) == 1 else HOST.host


def sides_of(topology: Topology) -> Mapping[str, int]:
    """Return the side of every part: 0 where the first flow of a pair begins, 1 where it ends.
    Raise UsageError if frames pass functions on the way."""
    sides: dict[str, int] = {}
    parts = {port.id: port.part for port in topology.ports}
    for flow in topology.flows:
        if flow.hops:
            raise UsageError(
                "between two hosts frames go from one end to the other, through no functions",
                hint="--scenario v2v, p2p, p2v or v2p, with --chain 1",
                axes=("locality", "scenario", "chain"),
            )
        if parts[flow.source] not in sides:
            sides[parts[flow.source]] = 0
            sides[parts[flow.sink]] = 1
        sides.setdefault(parts[flow.sink], 1)
    return sides


def side_name(side: int) -> str:
    """Return the letter in the names of a host's nodes and interfaces, after the run's prefix. It
    keeps the names distinct if both hosts are one machine."""
    return _SIDES[side]


def far_switch(host: str) -> str:
    """Return the name of the second host's instance among the parts."""
    return f"switch@{host}"


def uplinks_of(
    wiring: Wiring, far: Node, between: Between, *, shared: bool, past_kernel: bool
) -> tuple[Uplink, ...]:
    """Return the uplinks of a switch on two hosts: one uplink if its pairs share a cable, else one
    per pair. `far` is the node on the second host. Without real cables, the plan creates them.
    `past_kernel` says that the switch can open a NIC by its PCI address."""
    count = 1 if shared else len(_pairs(wiring, far))
    if not between.cables:
        return tuple(
            Uplink(f"u{n}", (wiring.name(f"a-up{n}"), wiring.name(f"b-up{n}")), made=True)
            for n in range(count)
        )

    def end(host: str, interface: str) -> tuple[str, str]:
        handed = between.handed.get((host, interface)) if past_kernel else None
        return (handed.address, handed.driver) if handed else (interface, "")

    pairs = ((end(wiring.node.host, a), end(far.host, b)) for a, b in between.cables[:count])
    return tuple(
        Uplink(f"u{n}", (a, b), made=False, drivers=(a_driver, b_driver))
        for n, ((a, a_driver), (b, b_driver)) in enumerate(pairs)
    )


def lacking_cables(
    switch: str, wiring: Wiring, uplinks: Sequence[Uplink], *, shared: bool
) -> str | None:
    """Return why a switch does not work between two hosts with these uplinks, or None."""
    pairs = len({frozenset((flow.source, flow.sink)) for flow in wiring.flows})
    cables = len(uplinks)
    if shared or cables >= pairs:
        return None
    return (
        f"{switch} ({wiring.semantics}) takes a cable for each pair: for {pairs} "
        f"pairs there {'is' if cables == 1 else 'are'} {cables}"
        f"\n\nhint: --pairs {cables}, or a switch that is learning"
    )


def halves_of(
    wiring: Wiring, far: Node, uplinks: Sequence[Uplink], far_cores: tuple[int, ...]
) -> tuple[Wiring, Wiring]:
    """Return the wirings of both instances, at `Wiring.at` and at `far` with its `far_cores`. A
    wiring has the ports of its host, and its ends of the uplinks."""
    pairs = _pairs(wiring, far)

    def half(side: int) -> Wiring:
        node = (wiring.node, far)[side]
        here = tuple(dict.fromkeys(pair[side] for pair in pairs))
        ups: dict[str, Port] = {}
        behind: dict[str, Port] = {}
        for number, pair in enumerate(pairs):
            uplink = uplinks[min(number, len(uplinks) - 1)]
            port = Port(
                id=f"{node.host}{_OF_HOST}{uplink.name}",
                index=pair[1 - side].index,
                part=f"{node.host}{_OF_HOST}{uplink.name}",
                physical=True,
                nic=uplink.ends[side],
                uplink="made" if uplink.made else "named",
                node=node,
            )
            behind[pair[1 - side].id] = ups.setdefault(uplink.name, port)
        flows: dict[tuple[str, str], Flow] = {}
        for flow in wiring.flows:
            source = behind.get(flow.source, wiring.port(flow.source)).id
            sink = behind.get(flow.sink, wiring.port(flow.sink)).id
            flows.setdefault((source, sink), replace(flow, source=source, sink=sink))
        return replace(
            wiring,
            prefix=f"{wiring.prefix}-{side_name(side)}",
            run_dir=node.run_dir,
            node=node,
            ports=(*here, *ups.values()),
            flows=tuple(flows.values()),
            cores=far_cores if side else wiring.cores,
        )

    return half(0), half(1)


def mac_of_uplink(half: Wiring, uplink: Port) -> str:
    """Return the MAC of an uplink's end. The router on the other host sends frames to the MAC of
    the function behind its uplink, so this end has that MAC."""
    if half.semantics is not Semantics.ROUTED:
        return mac_address(uplink.index, router=True)
    flow = next(f for f in half.flows if uplink.id in (f.source, f.sink))
    function = flow.source if flow.sink == uplink.id else flow.sink
    return mac_address(half.port(function).index)


def itself(half: Wiring) -> Node:
    """Return the host of an instance."""
    return replace(HOST, host=half.node.host, run_dir=half.run_dir)


def _pairs(wiring: Wiring, far: Node) -> list[tuple[Port, Port]]:
    """Return the pairs of ports that exchange frames, with the first host's port first."""
    pairs = {}
    for flow in wiring.flows:
        ends = [wiring.port(flow.source), wiring.port(flow.sink)]
        ends.sort(key=lambda port: port.node.host == far.host)
        pairs[ends[0].id, ends[1].id] = (ends[0], ends[1])
    return list(pairs.values())
