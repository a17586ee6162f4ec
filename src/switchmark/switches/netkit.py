"""The kernel's tc redirects frames between netkit devices, interface pairs for containers (Linux
6.7): like veth, but the far end sends without a queue in between.

A BPF program at the near end of a pair redirects incoming frames to the near end of another pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from switchmark.hosts.base import Host
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.kernel_options import require_options
from switchmark.switches.kernel_probes import probe_kernel
from switchmark.switches.redirects import RedirectingSwitch, redirect, wires


def _pair(
    near: str, far: str, near_more: tuple[str, ...] = (), far_more: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the command that creates a layer-2 pair, in the syntax of `ip` for Linux 6.7."""
    return (
        *("ip", "link", "add", near, *near_more, "type", "netkit", "mode", "l2"),
        *("peer", "name", far, *far_more),
    )


class Netkit(RedirectingSwitch):
    """Every port is a netkit pair; the qdisc `clsact` at its near end runs a program that calls
    `bpf_redirect()`."""

    name = "netkit"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.NETKIT,)
    counters = links.COUNTERS

    def probe(self, host: Host) -> Version:
        require_options(host, "CONFIG_NETKIT")
        hook = ("tc", "qdisc", "add", "dev", "sm-a", "clsact")
        tried = (_pair("sm-a", "sm-b"), hook, redirect("tc", "sm-a", "sm-b"))
        return Version(probe_kernel(host, *tried))

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        return {
            port.id: replace(endpoint, kind=PortKind.NETKIT, staged=endpoint.ifname, in_place=False)
            for port in wiring.ports
            for endpoint in (links.kernel_endpoints(wiring)[port.id],)
        }

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in wiring.ports:
            steps += self._add_pair(wiring, port)
        for _, near, far in wires(wiring):
            hook = ("tc", "qdisc", "add", "dev", near, "clsact")
            steps += (
                Run(f"programs can process the frames received at {near}", hook, at=wiring.node),
                Run(
                    f"frames received at {near} leave at {far}",
                    redirect("tc", near, far),
                    at=wiring.node,
                ),
            )
        return steps

    def _add_pair(self, wiring: Wiring, port: Port) -> Plan:
        near, far = links.switch_ifname(wiring, port), wiring.name(f"e{port.index}")
        mtu = ("mtu", str(wiring.mtu))
        near_more = (*mtu, "address", mac_address(port.index, router=True))
        far_more = (*mtu, "address", links.interface_mac(wiring, port))
        return (
            Run(
                f"a netkit pair from {near} to {far}",
                _pair(near, far, near_more, far_more),
                at=wiring.node,
                undo=links.removal(wiring, near),
            ),
            links.offloads_off(wiring, near),
            links.offloads_off(wiring, far),
            *links.silence(wiring, near),
            Run(f"{near} up", ("ip", "link", "set", near, "up"), at=wiring.node),
        )


SWITCH = Netkit()
