"""Two kernel bridges, joined by a VXLAN tunnel (RFC 7348) that every frame crosses: compared with
one bridge, the difference is the cost of encapsulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from switchmark.hosts.base import Host
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.bridges import add_bridge, add_bridge_port, wait_forwarding
from switchmark.switches.kernel_probes import CABLE, probe_kernel

_HEADERS = 14 + 20 + 8 + 8  # the inner Ethernet header, and the IPv4, UDP and VXLAN headers
_ALL = "00:00:00:00:00:00"  # the default entry of the forwarding table
_SIDES = (0, 1)


def _address(side: int) -> str:
    """Return the tunnel's address at a side, from a documentation network (RFC 5737)."""
    return f"192.0.2.{side + 1}"


def _sides(wiring: Wiring) -> Mapping[str, int]:
    """Return the side of each port, so that all flows cross from one side to the other."""
    sides: dict[str, int] = {}
    for flow in wiring.flows:
        sides.setdefault(flow.source, 1 - sides.get(flow.sink, 1))
        sides.setdefault(flow.sink, 1 - sides[flow.source])
    return {port.id: sides.get(port.id, 0) for port in wiring.ports}


def _tunnel(side: int, end: str, cable: str, mtu: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that create the tunnel's end at a side, over one end of a cable, and
    forward all its frames to the other side. The ends have different VNIs because they share a
    network stack; UDP has no checksum, as RFC 7348 recommends."""
    make = (
        *("ip", "link", "add", end, "mtu", str(mtu), "type", "vxlan", "id", str(side + 1)),
        *("local", _address(side), "dev", cable, "dstport", "4789", "nolearning", "noudpcsum"),
    )
    there = ("dst", _address(1 - side), "vni", str(2 - side), "via", cable)
    return make, ("bridge", "fdb", "append", _ALL, "dev", end, *there)


class Vxlan(links.KernelSwitch):
    """One bridge has the ports of the senders, the other the ports of the receivers. The tunnel
    between them crosses a veth pair, from one address to another, as between two hosts."""

    name = "vxlan"
    semantics = (Semantics.LEARNING,)
    port_kinds = links.PORT_KINDS
    resources = frozenset({"switch_cores", "copies"})
    counters = links.COUNTERS
    private_stack = True

    def probe(self, host: Host) -> Version:
        bridge = ("ip", "link", "add", "sm-br", "type", "bridge")
        tried = (CABLE, bridge, *_tunnel(0, "sm-t", "sm-a", 1400))
        return Version(probe_kernel(host, *tried))

    def accepts(self, wiring: Wiring) -> str | None:
        sides = _sides(wiring)
        for flow in wiring.flows:
            if sides[flow.source] == sides[flow.sink]:
                return (
                    f"vxlan has two bridges: frames from port {flow.source} to port "
                    f"{flow.sink} would not cross the tunnel between them\n\nhint: --switch "
                    "linux-bridge"
                )
        return None

    def start(self, wiring: Wiring) -> Plan:
        steps, sides = _underlay(wiring), _sides(wiring)
        for side in _SIDES:
            bridge, end = wiring.name(f"br{side}"), wiring.name(f"t{side}")
            make, send = _tunnel(side, end, wiring.name(f"u{side}"), wiring.mtu)
            undo = links.removal(wiring, end)
            steps += (
                *add_bridge(wiring, bridge),
                Run(f"the tunnel's end at {bridge}", make, at=wiring.node, undo=undo),
                links.offloads_off(wiring, end),
                Run(f"frames sent to {end} go to the other side", send, at=wiring.node),
                add_bridge_port(wiring, bridge, end),
            )
        for port in wiring.ports:
            near = links.switch_ifname(wiring, port)
            steps += links.add_port(wiring, port, up=False)
            bridge = wiring.name(f"br{sides[port.id]}")
            steps += (add_bridge_port(wiring, bridge, near, nic=bool(port.nic)),)
        bridges = [wiring.name(f"br{side}") for side in _SIDES]
        return steps + tuple(
            Run(f"{bridge} up", ("ip", "link", "set", bridge, "up"), at=wiring.node)
            for bridge in bridges
        )

    def settled(self, wiring: Wiring) -> Plan:
        ends = [wiring.name(f"t{side}") for side in _SIDES]
        return wait_forwarding(
            wiring, [links.switch_ifname(wiring, port) for port in wiring.ports] + ends
        )


def _underlay(wiring: Wiring) -> Plan:
    """Add the underlay of the tunnel: a cable with an address at each end. The addresses are bound
    to their interfaces, so that the kernel does not take the path for a local one."""
    ends = [wiring.name(f"u{side}") for side in _SIDES]
    macs = [mac_address(len(wiring.ports) + side, router=True) for side in _SIDES]
    steps = links.set_sysctls(
        wiring,
        "accept frames from an address of the other side",
        {"net.ipv4.conf.all.accept_local": "1", "net.ipv4.conf.all.rp_filter": "0"}
        | {"net.ipv4.conf.default.rp_filter": "0"},
    )
    steps += links.add_veth(
        replace(wiring, mtu=wiring.mtu + _HEADERS), ends[0], ends[1], macs[0], macs[1]
    )
    for side, end in enumerate(ends):
        here, there = _address(side), _address(1 - side)
        entry = ("lladdr", macs[1 - side], "dev", end, "nud", "permanent")
        steps += (
            Run(
                f"the tunnel's address on {end}",
                ("ip", "address", "add", f"{here}/32", "dev", end),
                at=wiring.node,
            ),
            Run(f"{end} up", ("ip", "link", "set", end, "up"), at=wiring.node),
            Run(
                f"the other side is behind {end}",
                ("ip", "route", "add", f"{there}/32", "dev", end),
                at=wiring.node,
            ),
            Run(
                f"a neighbour entry for {there}: no ARP during a trial",
                ("ip", "neighbour", "replace", there, *entry),
                at=wiring.node,
            ),
        )
    return steps


SWITCH = Vxlan()
