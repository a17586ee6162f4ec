"""The kernel's bridge learns addresses and forwards in the sender's context."""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.bridges import add_bridge, add_bridge_port, wait_forwarding
from switchmark.switches.changes import Change
from switchmark.switches.kernel_probes import CABLE, probe_kernel


class LinuxBridge(links.KernelSwitch):
    """A bridge of `ip link add type bridge`, without spanning tree or multicast snooping. As a
    function, its ports are the interfaces of its node."""

    name = "linux-bridge"
    semantics = (Semantics.LEARNING,)
    port_kinds = links.PORT_KINDS
    function_kinds = frozenset({PortKind.VETH, PortKind.TAP, PortKind.VF})
    resources = frozenset({"switch_cores", "copies"})
    counters = links.COUNTERS

    def probe(self, host: Host) -> Version:
        command = ("ip", "link", "add", "sm-br", "type", "bridge")
        return Version(probe_kernel(host, CABLE, command))

    def start(self, wiring: Wiring) -> Plan:
        bridge = wiring.name("br")
        steps = add_bridge(wiring, bridge)
        for port in wiring.ports:
            near = links.switch_ifname(wiring, port)
            steps += links.add_port(wiring, port, up=False)
            steps += (add_bridge_port(wiring, bridge, near, nic=bool(port.nic)),)
        return (*steps, _up(wiring, bridge))

    def remade(self, wiring: Wiring) -> Change:
        bridge = wiring.name("br")
        remove, show = ("ip", "link", "del", bridge), ("ip", "link", "show", "dev", bridge)
        ports = tuple(
            add_bridge_port(wiring, bridge, links.switch_ifname(wiring, port), nic=bool(port.nic))
            for port in wiring.ports
        )
        return Change(
            (
                Run(f"{bridge} is removed", remove, at=wiring.node),
                Wait(f"{bridge} is gone", Check(show, wiring.node, ok=(1,))),
            ),
            (*add_bridge(wiring, bridge), *ports, _up(wiring, bridge)),
        )

    def reconfigured(self, wiring: Wiring) -> Change:
        bridge, spare, end = (wiring.name(suffix) for suffix in ("br", "x0", "x1"))
        add = ("ip", "link", "add", spare, "type", "veth", "peer", "name", end)
        remove = ("ip", "link", "del", spare)
        member = Check(("ip", "-o", "link", "show", "dev", spare), wiring.node, f"master {bridge}")
        return Change(
            (
                Run("a spare cable", add, at=wiring.node, undo=remove),
                add_bridge_port(wiring, bridge, spare),
                Wait(f"{spare} is seen as a port", member),
            ),
            (Run(f"{spare} is removed", remove, at=wiring.node),),
        )

    def settled(self, wiring: Wiring) -> Plan:
        return wait_forwarding(wiring, [links.switch_ifname(wiring, port) for port in wiring.ports])


def _up(wiring: Wiring, bridge: str) -> Run:
    return Run(f"{bridge} up", ("ip", "link", "set", bridge, "up"), at=wiring.node)


SWITCH = LinuxBridge()
