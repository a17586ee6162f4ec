"""The network between two pods of a Kubernetes cluster, as the cluster's own plugins made it.

`switchmark pods` makes the pods and runs the traffic program in them, with UDP sockets on the
addresses that the pods have. Nothing is set up and nothing is counted: the network is a black box,
which may route, tunnel and rewrite headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address

from switchmark.hosts.base import Host
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Endpoint, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.observe.facts import kernel_release
from switchmark.switches.base import NO_COUNTERS, Switch

_LOCAL = re.compile(r"^\s*\|-- (\S+)\n\s*/32 host LOCAL$", re.MULTILINE)


class PodNetwork(Switch):
    """The network between the pods of a cluster; each pod has one address."""

    name = "pod-network"
    semantics = (Semantics.ROUTED,)
    port_kinds = (PortKind.VETH,)
    counters = NO_COUNTERS
    joins = "pods"

    @property
    def takes_uplink(self) -> bool:
        return True

    def shares_cable(self, semantics: Semantics) -> bool:
        return True

    def probe(self, host: Host) -> Version:
        return Version(f"on Linux {kernel_release(host)}")

    def accepts(self, wiring: Wiring) -> str | None:
        if not any(port.uplink for port in wiring.ports):
            return "pod-network joins two pods of a cluster\n\nhint: switchmark pods"
        if not wiring.functions.ip_stack:
            return "pods send by the sockets of their IP stacks\n\nhint: --engine udp-mmsg"
        if len(wiring.ports) > 2 or wiring.node.isolated:
            return (
                "a pod has one address and no nodes inside\n\nhint: --pairs 1 --environment host "
                "--switch-environment host"
            )
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        return {
            port.id: Endpoint(
                PortKind.VETH, mac_address(port.index), found=True, staged="eth0", mtu=wiring.mtu
            )
            for port in wiring.ports
        }

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        flat = super().addressing(wiring)
        if not wiring.answers:
            return flat
        ips = {port.id: _address_in(wiring.answers[port.index]) for port in wiring.ports}
        return {
            flow.id: Addressing(
                sent_src_mac=flat[flow.id].sent_src_mac,
                sent_dst_mac=flat[flow.id].sent_dst_mac,
                seen_src_mac=flat[flow.id].seen_src_mac,
                seen_dst_mac=flat[flow.id].seen_dst_mac,
                source_ip=ips[flow.source],
                sink_ip=ips[flow.sink],
            )
            for flow in wiring.flows
        }

    def start(self, wiring: Wiring) -> Plan:
        return ()

    def asks(self, wiring: Wiring) -> tuple[Run, ...]:
        """Return the command that prints the addresses of a pod. Any image has it."""
        return (Run("the address of the pod", ("cat", "/proc/net/fib_trie"), at=wiring.node),)


def _address_in(trie: bytes) -> str:
    """Return the first address of a network namespace that is not one of its loopback interface,
    from the kernel's routing trie. Raise ValueError without one."""
    for text in _LOCAL.findall(trie.decode(errors="replace")):
        if not IPv4Address(text).is_loopback:
            return str(text)
    raise ValueError("the pod has no IPv4 address")


SWITCH = PodNetwork()
