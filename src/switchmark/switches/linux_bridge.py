"""The kernel's bridge: learning, done in the context of whoever sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from switchmark.machine.host import Host
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import (
    Addressing,
    Endpoint,
    Port,
    PortKind,
    Semantics,
    Wiring,
    mac_address,
)
from switchmark.model.version import Version
from switchmark.switches.base import Counters
from switchmark.switches.links import (
    add_port,
    bridged_addressing,
    kernel_counters,
    kernel_endpoints,
    link_counters,
    parse_link_counters,
    probe_kernel,
    set_sysctls,
    silence,
    switch_ifname,
)


class LinuxBridge:
    """`ip link add type bridge`, without spanning tree or multicast snooping. As a function its
    ports are interfaces of its node."""

    name = "linux-bridge"
    semantics = (Semantics.LEARNING,)
    port_kinds = (PortKind.VETH, PortKind.TAP, PortKind.NIC_KERNEL)
    environments = frozenset({"netns", "host", "lxc", "docker", "podman"})
    function_kinds = frozenset({PortKind.VETH, PortKind.TAP, PortKind.VF})
    resources = frozenset({"copies"})

    def probe(self, host: Host) -> Version:
        """The kernel's release; the bridge is part of it."""
        release = probe_kernel(
            host,
            ("ip", "link", "add", "sm-a", "type", "veth", "peer", "name", "sm-b"),
            ("ip", "link", "add", "sm-br", "type", "bridge"),
        )
        return Version(release, verified="verified")

    def own_core(self, mode: str | None) -> bool:
        return False

    def accepts(self, w: Wiring) -> str | None:
        return None

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        return kernel_endpoints(w)

    def addressing(self, w: Wiring) -> Mapping[str, Addressing]:
        return bridged_addressing(w)

    def start(self, w: Wiring) -> Plan:
        bridge = w.name("br")
        ports = tuple(step for port in w.ports for step in self._port(w, port.index))
        return (
            Run(
                "a bridge that forwards at once",
                (
                    *("ip", "link", "add", bridge, "type", "bridge"),
                    *("stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"),
                ),
                at=w.at,
                undo=("ip", "link", "del", bridge),
            ),
            *silence(w, bridge),
            # br_netfilter would drop IPv4 frames with a bad header before they are counted.
            *set_sysctls(
                w,
                "bridged frames do not pass iptables",
                {
                    f"net.bridge.bridge-nf-call-{table}": "0"
                    for table in ("iptables", "ip6tables", "arptables")
                },
            ),
            *ports,
            Run(f"{bridge} up", ("ip", "link", "set", bridge, "up"), at=w.at),
        )

    def _port(self, w: Wiring, index: int) -> Plan:
        port = w.ports[index]
        near = _ifname(w, port)
        return (
            *(() if w.given else add_port(w, port, mac_address(index, router=True))),
            Run(
                f"{near} is a port of the bridge",
                ("ip", "link", "set", near, "master", w.name("br")),
                at=w.at,
                undo=("ip", "link", "set", near, "nomaster") if port.nic else None,
            ),
        )

    def join(self, w: Wiring) -> Plan:
        return ()

    def settled(self, w: Wiring) -> Plan:
        return tuple(
            Wait(
                f"{name} forwards",
                Check(("bridge", "link", "show", "dev", name), at=w.at, pattern="state forwarding"),
            )
            for name in (_ifname(w, port) for port in w.ports)
        )

    def counters(self, w: Wiring) -> tuple[Run, ...]:
        return link_counters(w)

    def parse_counters(self, w: Wiring, outputs: tuple[bytes, ...]) -> Counters:
        return _function_counters(w, outputs[0]) if w.given else kernel_counters(w, outputs)


def _ifname(w: Wiring, port: Port) -> str:
    return w.given[port.id].ifname if w.given else switch_ifname(w, port)


def _function_counters(w: Wiring, output: bytes) -> Counters:
    """Between two ports: dropped is what came in at one and was not even offered to the other,
    whose link counts what it had no room for."""
    links = parse_link_counters(output)
    try:
        one, other = (links[_ifname(w, port)] for port in w.ports)
    except KeyError as missing:
        raise ValueError(f"ip printed no link {missing}") from missing
    return Counters(
        {
            port.id: replace(
                own,
                rx_dropped=None,
                tx_dropped=max(0, (peer.rx or 0) - (own.tx or 0) - (own.tx_dropped or 0)),
            )
            for port, own, peer in zip(w.ports, (one, other), (other, one), strict=True)
        }
    )


SWITCH = LinuxBridge()
