"""The family of DPDK programs that forward between the ports 2i and 2i+1.

The module is independent of any single switch: drivers define their differences.
"""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.model.addresses import Addressing, ip_address, mac_address
from switchmark.model.plan import Plan
from switchmark.model.topology import Endpoint, PortKind, Semantics, Wiring
from switchmark.switches.base import Switch
from switchmark.switches.eal_ports import PORT_KINDS, device_ids, eal_endpoints, port_mac
from switchmark.switches.eal_telemetry import wait_linked

_PORTS = 32  # RTE_MAX_ETHPORTS


def pairs(wiring: Wiring) -> list[tuple[int, int]]:
    """Return DPDK's port numbers of each pair, the ports 2i and 2i+1."""
    ids = [device_ids(wiring)[port.id] for port in wiring.ports]
    return list(zip(ids[::2], ids[1::2], strict=True))


def are_neighbours(wiring: Wiring) -> bool:
    """Return whether DPDK numbers the ports of every pair 2i and 2i+1."""
    return all({a, b} == {a & ~1, a | 1} for a, b in pairs(wiring))


def _refusal(wiring: Wiring, name: str) -> str | None:
    """Return the reason why a program that forwards between the ports 2i and 2i+1 does not support
    a wiring."""
    if any(
        end.server and (end.backend or wiring.kind is PortKind.MEMIF)
        for end in wiring.given.values()
    ):
        return (
            f"function {name} connects to its ports, but nothing listens there\n\nhint: put a "
            "switch between the functions"
        )
    nic = next((port.nic for port in wiring.ports if port.nic), None)
    if nic and wiring.semantics is not Semantics.PATCH:
        return (
            f"{name} would write the MAC of the NIC {nic} into frames, and only the NIC knows "
            f"that MAC\n\nhint: --semantics {Semantics.PATCH}"
        )
    if len(wiring.ports) % 2:
        return f"{name} forwards between pairs of ports: {len(wiring.ports)} ports are not pairs"
    if len(wiring.ports) > _PORTS:
        return f"{name} has at most {_PORTS} ports, not {len(wiring.ports)}"
    for flow in wiring.flows:
        source, sink = wiring.port(flow.source), wiring.port(flow.sink)
        if source.index ^ 1 != sink.index:
            return (
                f"{name} forwards between the ports 2i and 2i+1: it cannot connect port "
                f"{source.index} ({source.id}) to port {sink.index} ({sink.id})"
            )
    return None


def _addressing(
    wiring: Wiring, macs: Mapping[str, str], *, rewritten: bool
) -> Mapping[str, Addressing]:
    """Return the addresses for a patch, or for a program that writes its port's MAC and the sink's
    MAC."""
    return {
        flow.id: Addressing(
            sent_src_mac=macs[source.id],
            sent_dst_mac=port_mac(wiring, source) if rewritten else macs[sink.id],
            seen_src_mac=port_mac(wiring, sink) if rewritten else macs[source.id],
            seen_dst_mac=macs[sink.id],
            source_ip=ip_address(source.index),
            sink_ip=ip_address(sink.index),
        )
        for flow in wiring.flows
        for source, sink in ((wiring.port(flow.source), wiring.port(flow.sink)),)
    }


class PairedSwitch(Switch):
    """A DPDK program that forwards between the ports 2i and 2i+1. It polls, has all its ports from
    the start, and reports its links by telemetry. By default it is a patch; on request it writes
    both MACs."""

    function_kinds = frozenset(PORT_KINDS)

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    def accepts(self, wiring: Wiring) -> str | None:
        return _refusal(wiring, self.name)

    def macs(self, wiring: Wiring) -> Mapping[str, str]:
        """Return the MACs of the functions' ends, by port id."""
        return {port.id: mac_address(port.index) for port in wiring.ports}

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        return eal_endpoints(wiring, self.macs(wiring))

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        return _addressing(
            wiring, self.macs(wiring), rewritten=wiring.semantics is Semantics.STATIC
        )

    def settled(self, wiring: Wiring) -> Plan:
        return wait_linked(wiring)
