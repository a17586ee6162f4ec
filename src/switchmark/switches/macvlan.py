"""Children of one interface are switched by their MACs: macvlan in bridge mode."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.machine.host import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import (
    Endpoint,
    Port,
    PortKind,
    Semantics,
    Wiring,
    mac_address,
)
from switchmark.model.version import Version
from switchmark.switches.links import (
    CABLE,
    COUNTERS,
    KernelSwitch,
    add_port,
    add_veth,
    kernel_endpoints,
    offloads_off,
    probe_kernel,
    silence,
    switch_ifname,
    wait_running,
)


class Macvlan(KernelSwitch):
    """Functions are children of one interface; a physical port is the parent of its pair's child.
    Without a physical port the parent is one end of a veth pair (a dummy may not be in the
    kernel)."""

    name = "macvlan"
    semantics = (Semantics.STATIC,)
    port_kinds = (PortKind.MACVLAN, PortKind.VETH, PortKind.NIC_KERNEL)
    counters = COUNTERS

    def probe(self, host: Host) -> Version:
        child = ("ip", "link", "add", "sm-m", "link", "sm-a", "type", "macvlan", "mode", "bridge")
        return Version(probe_kernel(host, CABLE, child), verified="verified")

    def accepts(self, w: Wiring) -> str | None:
        if len({port.part for port in w.ports}) < len(w.ports):
            return (
                "macvlan finds a frame's way by its MAC alone, among children of one parent: it "
                "cannot tell the two ports of a function apart\n\nhint: --switch linux-bridge"
            )
        for flow in w.flows:
            if w.port(flow.source).physical and w.port(flow.sink).physical:
                return (
                    "macvlan cannot join two physical ports: its functions share one parent"
                    "\n\nhint: --scenario v2v, p2v or v2p"
                )
        return None

    def _parent(self, w: Wiring, port: Port) -> str:
        """Return the interface that a function's port is a child of."""
        for flow in w.flows:
            for one, other in ((flow.source, flow.sink), (flow.sink, flow.source)):
                if one == port.id and w.port(other).physical:
                    return switch_ifname(w, w.port(other))
        return w.name("up")

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        veths = kernel_endpoints(w)
        return {
            port.id: veths[port.id]
            if port.physical
            else Endpoint(
                kind=PortKind.MACVLAN,
                mac=mac_address(port.index),
                ifname=w.name(f"e{port.index}"),
                staged=w.name(f"e{port.index}"),
                mtu=w.mtu,
            )
            for port in w.ports
        }

    def start(self, w: Wiring) -> Plan:
        steps: Plan = ()
        for port in (port for port in w.ports if port.physical):
            steps += add_port(w, port)
        children = [port for port in w.ports if not port.physical]
        if any(self._parent(w, port) == w.name("up") for port in children):
            near, far = w.name("up"), w.name("up-peer")
            macs = (mac_address(len(w.ports), router=True), mac_address(len(w.ports)))
            steps += add_veth(w, near, far, *macs)
            steps += silence(w, near) + silence(w, far)
            steps += tuple(
                Run(f"{end} up", ("ip", "link", "set", end, "up"), at=w.at) for end in (near, far)
            )
        for port in children:
            child, parent = w.name(f"e{port.index}"), self._parent(w, port)
            steps += (
                Run(
                    f"{child} is a child of {parent}",
                    (
                        *("ip", "link", "add", child, "link", parent, "mtu", str(w.mtu)),
                        *("address", mac_address(port.index), "type", "macvlan", "mode", "bridge"),
                    ),
                    at=w.at,
                    undo=("ip", "link", "del", child),
                ),
                offloads_off(w, child),
            )
        return steps

    def settled(self, w: Wiring) -> Plan:
        return wait_running(w, [switch_ifname(w, port) for port in w.ports if port.physical])


SWITCH = Macvlan()
