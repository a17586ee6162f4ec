"""This module is the family of DPDK programs that forward between the ports 2i and 2i+1.

It knows no switch: each says in its own file what is particular to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.model.plan import Plan
from switchmark.model.topology import (
    Addressing,
    Endpoint,
    PortKind,
    Semantics,
    Wiring,
    ip_address,
    mac_address,
)
from switchmark.switches.base import Switch
from switchmark.switches.eal_ports import PORT_KINDS, device_ids, eal_endpoints, port_mac
from switchmark.switches.eal_telemetry import wait_linked

__all__ = ["PairedSwitch", "are_neighbours", "pairs"]

_PORTS = 32  # RTE_MAX_ETHPORTS


def pairs(w: Wiring) -> list[tuple[int, int]]:
    """Return DPDK's numbers of the ports 2i and 2i+1."""
    ids = [device_ids(w)[port.id] for port in w.ports]
    return list(zip(ids[::2], ids[1::2], strict=True))


def are_neighbours(w: Wiring) -> bool:
    """Say whether DPDK numbers the ports so that 2i and 2i+1 are a pair."""
    return all({a, b} == {a & ~1, a | 1} for a, b in pairs(w))


def _refusal(w: Wiring, name: str) -> str | None:
    """Return the reason why a program that forwards between the ports 2i and 2i+1 cannot make a
    wiring."""
    if any(end.server and (end.backend or w.kind is PortKind.MEMIF) for end in w.given.values()):
        return (
            f"function {name} connects to its ports: none is there that listens\n\n"
            "hint: a switch of its own between the functions"
        )
    nic = next((port.nic for port in w.ports if port.nic), None)
    if nic and w.semantics is not Semantics.PATCH:
        return (
            f"{name} would write the MAC of the NIC {nic} into frames, which only the NIC knows"
            f"\n\nhint: --semantics {Semantics.PATCH}"
        )
    if len(w.ports) % 2:
        return f"{name} forwards between pairs of ports: {len(w.ports)} ports are not pairs"
    if len(w.ports) > _PORTS:
        return f"{name} has at most {_PORTS} ports, not {len(w.ports)}"
    for flow in w.flows:
        source, sink = w.port(flow.source), w.port(flow.sink)
        if source.index ^ 1 != sink.index:
            return (
                f"{name} forwards between the ports 2i and 2i+1: it cannot join port "
                f"{source.index} ({source.id}) to port {sink.index} ({sink.id})"
            )
    return None


def _addressing(w: Wiring, macs: Mapping[str, str], *, rewritten: bool) -> Mapping[str, Addressing]:
    """Return the addresses of a patch, or of a program that writes both MACs: its port's own, and
    that of the sink."""
    return {
        flow.id: Addressing(
            sent_src_mac=macs[source.id],
            sent_dst_mac=port_mac(w, source) if rewritten else macs[sink.id],
            seen_src_mac=port_mac(w, sink) if rewritten else macs[source.id],
            seen_dst_mac=macs[sink.id],
            source_ip=ip_address(source.index),
            sink_ip=ip_address(sink.index),
        )
        for flow in w.flows
        for source, sink in ((w.port(flow.source), w.port(flow.sink)),)
    }


class PairedSwitch(Switch):
    """Such a DPDK program forwards between the ports 2i and 2i+1. It polls, has all its ports from
    the start, and telemetry tells their links. It is a patch, unless asked to write both MACs."""

    function_kinds = frozenset(PORT_KINDS)

    def own_core(self, mode: str | None) -> bool:
        return True

    def accepts(self, w: Wiring) -> str | None:
        return _refusal(w, self.name)

    def macs(self, w: Wiring) -> Mapping[str, str]:
        """Return the MACs of the functions' ends, by port id."""
        return {port.id: mac_address(port.index) for port in w.ports}

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        return eal_endpoints(w, self.macs(w))

    def addressing(self, w: Wiring) -> Mapping[str, Addressing]:
        return _addressing(w, self.macs(w), rewritten=w.semantics is Semantics.STATIC)

    def settled(self, w: Wiring) -> Plan:
        return wait_linked(w)
