"""ipvlan in mode l2: the children of an interface share its MAC, and the kernel delivers frames by
IP address.

A child has its address in its function's IP stack, so only engines that use the IP stack work at
its end (Linux, Documentation/networking/ipvlan.rst).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from switchmark.hosts.base import Host
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.kernel_options import require_options
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

_MODE = ("type", "ipvlan", "mode", "l2", "bridge")


class Ipvlan(KernelSwitch):
    """Functions are children of one interface. The parent is the physical port of the pair; without
    physical ports it is one end of a veth pair."""

    name = "ipvlan"
    semantics = (Semantics.STATIC,)
    port_kinds = (PortKind.IPVLAN, PortKind.VETH, PortKind.NIC_KERNEL)
    counters = COUNTERS

    def probe(self, host: Host) -> Version:
        require_options(host, "CONFIG_IPVLAN")
        child = ("ip", "link", "add", "sm-i", "link", "sm-a", *_MODE)
        return Version(probe_kernel(host, CABLE, child))

    def accepts(self, wiring: Wiring) -> str | None:
        if not wiring.functions.ip_stack:
            return (
                "ipvlan forwards by the IP addresses of interfaces: without the IP stack, a "
                "function has none\n\nhint: --engine udp-mmsg"
            )
        if len({port.part for port in wiring.ports}) < len(wiring.ports):
            return (
                "ipvlan forwards by IP address alone: it cannot distinguish the two ports of "
                "a function\n\nhint: --scenario v2v, p2v or v2p"
            )
        for flow in wiring.flows:
            if wiring.port(flow.source).physical and wiring.port(flow.sink).physical:
                return (
                    "ipvlan cannot connect two physical ports: its functions share one "
                    "parent\n\nhint: --scenario v2v, p2v or v2p"
                )
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        physical = kernel_endpoints(wiring)
        return {
            port.id: physical[port.id]
            if port.physical
            else Endpoint(
                kind=PortKind.IPVLAN,
                mac=_mac(wiring, port),
                ifname=wiring.name(f"e{port.index}"),
                staged=wiring.name(f"e{port.index}"),
                mtu=wiring.mtu,
            )
            for port in wiring.ports
        }

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        flat = super().addressing(wiring)
        changed = {}
        for flow in wiring.flows:
            source, sink = (_mac(wiring, wiring.port(end)) for end in (flow.source, flow.sink))
            changed[flow.id] = replace(
                flat[flow.id],
                sent_src_mac=source,
                sent_dst_mac=sink,
                seen_src_mac=source,
                seen_dst_mac=sink,
            )
        return changed

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in (port for port in wiring.ports if port.physical):
            steps += add_port(wiring, port)
        children = [port for port in wiring.ports if not port.physical]
        up = wiring.name("up")
        if any(_parent(wiring, port) is None for port in children):
            peer, index = wiring.name("up-peer"), len(wiring.ports)
            steps += add_veth(wiring, up, peer, mac_address(index, router=True), mac_address(index))
            steps += silence(wiring, up) + silence(wiring, peer)
            steps += tuple(
                Run(f"{end} up", ("ip", "link", "set", end, "up"), at=wiring.node)
                for end in (up, peer)
            )
        for port in children:
            parent = _parent(wiring, port)
            child, of = (
                wiring.name(f"e{port.index}"),
                switch_ifname(wiring, parent) if parent else up,
            )
            steps += (
                Run(
                    f"{child} is a child of {of}",
                    ("ip", "link", "add", child, "link", of, "mtu", str(wiring.mtu), *_MODE),
                    at=wiring.node,
                    undo=removal(wiring, child),
                ),
                offloads_off(wiring, child),
            )
        return steps

    def link(self, wiring: Wiring, port: Port) -> str:
        parent = _parent(wiring, port)
        return wiring.name("up") if parent is None else switch_ifname(wiring, parent)

    def settled(self, wiring: Wiring) -> Plan:
        return wait_running(
            wiring, [switch_ifname(wiring, port) for port in wiring.ports if port.physical]
        )


def _parent(wiring: Wiring, port: Port) -> Port | None:
    """Return the physical port that is the parent of a function's port; None if it has no physical
    parent."""
    for flow in wiring.flows:
        for one, other in ((flow.source, flow.sink), (flow.sink, flow.source)):
            if one == port.id and wiring.port(other).physical:
                return wiring.port(other)
    return None


def _mac(wiring: Wiring, port: Port) -> str:
    """Return the MAC of a function's end of a port: children have the MAC of their parent."""
    if port.physical:
        return mac_address(port.index)
    parent = _parent(wiring, port)
    return mac_address(parent.index if parent else len(wiring.ports), router=True)


SWITCH = Ipvlan()
