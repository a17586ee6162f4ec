"""macvlan in bridge mode: the kernel switches frames between the children of an interface by
MAC."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.hosts.base import Host
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.links import (
    COUNTERS,
    KernelSwitch,
    add_port,
    add_veth,
    kernel_endpoints,
    offloads_off,
    removal,
    silence,
    switch_ifname,
    wait_running,
)


class Macvlan(KernelSwitch):
    """Functions are children of one interface. The parent is the physical port of the pair; without
    physical ports it is one end of a veth pair (the kernel may lack dummy interfaces)."""

    name = "macvlan"
    semantics = (Semantics.STATIC,)
    port_kinds = (PortKind.MACVLAN, PortKind.VETH, PortKind.NIC_KERNEL)
    counters = COUNTERS

    def probe(self, host: Host) -> Version:
        child = ("ip", "link", "add", "sm-m", "link", "sm-a", "type", "macvlan", "mode", "bridge")
        return Version(probe_kernel(host, CABLE, child))

    def accepts(self, wiring: Wiring) -> str | None:
        if len({port.part for port in wiring.ports}) < len(wiring.ports):
            return (
                "macvlan forwards by MAC alone, among the children of one parent: it cannot "
                "distinguish the two ports of a function\n\nhint: --switch linux-bridge"
            )
        for flow in wiring.flows:
            if wiring.port(flow.source).physical and wiring.port(flow.sink).physical:
                return (
                    "macvlan cannot connect two physical ports: its functions share one "
                    "parent\n\nhint: --scenario v2v, p2v or v2p"
                )
        return None

    def _parent(self, wiring: Wiring, port: Port) -> str:
        """Return the parent interface of a function's port."""
        for flow in wiring.flows:
            for one, other in ((flow.source, flow.sink), (flow.sink, flow.source)):
                if one == port.id and wiring.port(other).physical:
                    return switch_ifname(wiring, wiring.port(other))
        return wiring.name("up")

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        veths = kernel_endpoints(wiring)
        return {
            port.id: veths[port.id]
            if port.physical
            else Endpoint(
                kind=PortKind.MACVLAN,
                mac=mac_address(port.index),
                ifname=wiring.name(f"e{port.index}"),
                staged=wiring.name(f"e{port.index}"),
                mtu=wiring.mtu,
            )
            for port in wiring.ports
        }

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in (port for port in wiring.ports if port.physical):
            steps += add_port(wiring, port)
        children = [port for port in wiring.ports if not port.physical]
        if any(self._parent(wiring, port) == wiring.name("up") for port in children):
            near, far = wiring.name("up"), wiring.name("up-peer")
            macs = (mac_address(len(wiring.ports), router=True), mac_address(len(wiring.ports)))
            steps += add_veth(wiring, near, far, *macs)
            steps += silence(wiring, near) + silence(wiring, far)
            steps += tuple(
                Run(f"{end} up", ("ip", "link", "set", end, "up"), at=wiring.node)
                for end in (near, far)
            )
        for port in children:
            child, parent = wiring.name(f"e{port.index}"), self._parent(wiring, port)
            steps += (
                Run(
                    f"{child} is a child of {parent}",
                    (
                        *("ip", "link", "add", child, "link", parent, "mtu", str(wiring.mtu)),
                        *("address", mac_address(port.index), "type", "macvlan", "mode", "bridge"),
                    ),
                    at=wiring.node,
                    undo=removal(wiring, child),
                ),
                offloads_off(wiring, child),
            )
        return steps

    def link(self, wiring: Wiring, port: Port) -> str | None:
        return super().link(wiring, port) if port.physical else self._parent(wiring, port)

    def settled(self, wiring: Wiring) -> Plan:
        return wait_running(
            wiring, [switch_ifname(wiring, port) for port in wiring.ports if port.physical]
        )


SWITCH = Macvlan()
