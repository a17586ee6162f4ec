"""Kernel interfaces that several switches use as ports (veth pairs, taps, NICs), and their
counters. The kernel's default settings stay in place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from switchmark.model.addresses import mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Check, Node, Plan, Run, Step, Wait, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Wiring
from switchmark.switches.base import Counters, Counting, Switch
from switchmark.switches.changes import Change

OFFLOADS_OFF = ("tx", "sg", "tso", "gso", "tx-udp-segmentation", "gro")
"""Offloads that would pack several frames into one skb, or leave a checksum unset."""


READ_LINKS = ("ip", "-j", "-s", "link", "show")
"""The command that prints the kernel's counters of every interface in a node."""

PORT_KINDS = (PortKind.VETH, PortKind.TAP, PortKind.NIC_KERNEL)
"""The port kinds of a switch that accepts any kernel interface."""

_SOCKET = re.compile(r"^p_raw\s.*?\s\S+?:(\S+)\s.*\bskmem:\(.*?,d(\d+)\)", re.MULTILINE)


def switch_ifname(wiring: Wiring, port: Port) -> str:
    """Return the name of the switch's end of a port: the NIC, its end of the veth pair, or the tap.
    A function uses the interface that the port gives it."""
    if port.given:
        return port.given.ifname
    return port.nic or wiring.name(f"p{port.index}")


def kernel_endpoints(wiring: Wiring) -> Mapping[str, Endpoint]:
    """Return the function's end of each port: an end of a veth pair, a tap for a virtual machine,
    or a real NIC if the port names one."""
    return {
        port.id: Endpoint(
            kind=_kind(wiring, port),
            mac=mac_address(port.index),
            ifname=port.nic_peer or wiring.name(f"e{port.index}"),
            switch_ifname=switch_ifname(wiring, port),
            staged=wiring.name(f"e{port.index}") if _kind(wiring, port) is PortKind.VETH else "",
            in_place=_kind(wiring, port) is PortKind.VETH and _in_reach(wiring, port) is not None,
            mtu=wiring.mtu,
        )
        for port in wiring.ports
    }


def _kind(wiring: Wiring, port: Port) -> PortKind:
    if port.nic:
        return PortKind.NIC_KERNEL
    return PortKind.TAP if wiring.kind is PortKind.TAP and not port.physical else PortKind.VETH


def _in_reach(wiring: Wiring, port: Port) -> Node | None:
    """Return the node of a port's function if its end of the veth pair can be created there
    directly."""
    reached = port.node.environment in wiring.node.reaches
    return port.node if reached and _kind(wiring, port) is PortKind.VETH else None


def interface_mac(wiring: Wiring, port: Port) -> str:
    """Return the MAC of the function's end of a veth pair.

    If no IP stack should receive the frames, this MAC differs from the destination MAC: the stack
    then drops its copy at once as a frame for another host. With the same MAC it would look up a
    route for every copy, in the sender's context.
    """
    return mac_address(port.index, unheard=not wiring.functions.ip_stack)


def offloads_off(
    wiring: Wiring, ifname: str, *, gro: bool = False, node: Node | None = None, subject: str = ""
) -> Run:
    """Turn off all offloads of an interface, so that one skb carries one frame."""
    settings = [
        word for name in OFFLOADS_OFF for word in (name, "on" if gro and name == "gro" else "off")
    ]
    return Run(
        f"one frame is one skb on {ifname}" + (", which polls (NAPI)" if gro else ""),
        ("ethtool", "-K", ifname, *settings),
        at=node or wiring.node,
        subject=subject,
    )


def removal(wiring: Wiring, ifname: str) -> tuple[str, ...] | None:
    """Return the command that removes an interface of the switch. None if the node is deleted
    anyway: that removes all interfaces at once, where single removals take the kernel 20 ms
    each."""
    return None if wiring.node.isolated else ("ip", "link", "del", ifname)


def add_veth(
    wiring: Wiring,
    near: str,
    far: str,
    near_mac: str,
    far_mac: str,
    *,
    far_gro: bool = False,
    far_node: Node | None = None,
) -> Plan:
    """Add a veth pair at the switch. `near` is the switch's end; `far` is the function's end,
    created directly in the node `far_node` because a move takes the kernel some 20 ms."""
    count = str(wiring.functions.queues)
    queues = ("numtxqueues", count, "numrxqueues", count) * (wiring.functions.queues > 1)
    near_link = ("ip", "link", "add", near, "mtu", str(wiring.mtu), "address", near_mac, *queues)
    there = () if far_node is None else ("netns", far_node.name)
    far_link = ("name", far, *there, "mtu", str(wiring.mtu), "address", far_mac, *queues)
    return (
        Run(
            f"a cable from {near} to {far}",
            (*near_link, "type", "veth", "peer", *far_link),
            at=wiring.node,
            undo=removal(wiring, near),
            subject=near,
        ),
        offloads_off(wiring, near, gro=wiring.functions.napi, subject=near),
        offloads_off(wiring, far, gro=far_gro, node=far_node, subject=near),
    )


def add_tap(wiring: Wiring, name: str, mac: str) -> Plan:
    """Add a tap at the switch; the program that opens it is the other end of the cable."""
    return (
        Run(
            f"the tap {name}",
            ("ip", "tuntap", "add", "dev", name, "mode", "tap"),
            at=wiring.node,
            undo=removal(wiring, name),
        ),
        Run(
            f"frames of {wiring.mtu} bytes pass {name}",
            ("ip", "link", "set", name, "address", mac, "mtu", str(wiring.mtu)),
            at=wiring.node,
        ),
        offloads_off(wiring, name),
    )


def add_port(wiring: Wiring, port: Port, *, far_gro: bool = False, up: bool = True) -> Plan:
    """Add the switch's end of a port, a veth pair, a tap or the user's NIC, and set it up if `up`.
    The interfaces of a switch that runs as a function exist already and are up. `far_gro` turns on
    NAPI polling at the function's end of a veth pair, which it needs to receive frames from XDP
    redirect."""
    if wiring.given:
        return ()
    near, near_mac = switch_ifname(wiring, port), mac_address(port.index, router=True)
    steps: list[Step] = []
    if port.nic:
        if wiring.node.isolated:
            back = ("ip", "-n", wiring.node.name, "link", "set", near, "netns", "1")
            steps.append(
                Run(
                    f"lend the NIC {near} to the switch's node",
                    ("ip", "link", "set", near, "netns", wiring.node.name),
                    undo=None if port.uplink == "made" else back,
                )
            )
        steps.append(offloads_off(wiring, near))
    elif _kind(wiring, port) is PortKind.TAP:
        steps += add_tap(wiring, near, near_mac)
        steps += silence(wiring, near)
    else:
        far, far_mac = wiring.name(f"e{port.index}"), interface_mac(wiring, port)
        macs, far_node = (near_mac, far_mac), _in_reach(wiring, port)
        steps += add_veth(wiring, near, far, *macs, far_gro=far_gro, far_node=far_node)
        steps += silence(wiring, near)
    if up:
        subject = "" if port.nic else near
        way = ("ip", "link", "set", near, "up")
        steps.append(Run(f"{near} up", way, at=wiring.node, subject=subject))
    return tuple(steps)


def set_sysctls(wiring: Wiring, why: str, values: Mapping[str, str]) -> Plan:
    """Set kernel parameters of the switch's network stack: in its node, or leased on the host.
    Parameters that the kernel lacks are skipped, such as those of br_netfilter if the module is not
    loaded."""
    if not wiring.node.isolated:
        return tuple(
            Write(
                why,
                f"/proc/sys/{name.replace('.', '/')}",
                value.encode(),
                machine_wide=True,
                optional=True,
            )
            for name, value in values.items()
        )
    settings = tuple(f"{name}={value}" for name, value in values.items())
    return (Run(why, ("sysctl", "-e", "-q", "-w", *settings), at=wiring.node),)


def silence(wiring: Wiring, ifname: str) -> Plan:
    """Turn off IPv6 on an interface in the host's network stack; the nodes of a run have no
    IPv6."""
    if wiring.node.isolated:
        return ()
    setting = f"net.ipv6.conf.{ifname}.disable_ipv6=1"
    return (
        Run(f"no IPv6 on {ifname}: nothing but test frames", ("sysctl", "-e", "-q", "-w", setting)),
    )


def wait_running(wiring: Wiring, ifnames: Sequence[str]) -> Plan:
    """Wait until each interface is up and its peer is present."""
    return tuple(
        Wait(
            f"{ifname} has its link",
            Check(
                ("ip", "-o", "link", "show", "dev", ifname),
                at=wiring.node,
                pattern="[<,]LOWER_UP[,>]",
            ),
        )
        for ifname in ifnames
    )


def link_counters(wiring: Wiring) -> tuple[Run, ...]:
    """Return the command that reads the kernel's counters of every interface of the switch."""
    return (Run("counters of the switch's ports", READ_LINKS, at=wiring.node),)


def parse_link_counters(output: bytes) -> Mapping[str, PortCounters]:
    """Return the counters by interface name, from the output of `ip -j -s link show`. ValueError if
    it is garbled."""
    links = json.loads(output)
    if not isinstance(links, list):
        raise ValueError("ip printed no list of links")
    counters = {}
    for link in links:
        try:
            stats = link["stats64"]
            counters[str(link["ifname"])] = PortCounters(
                rx=int(stats["rx"]["packets"]),
                tx=int(stats["tx"]["packets"]),
                rx_dropped=int(stats["rx"]["dropped"]) + int(stats["rx"]["errors"]),
                tx_dropped=int(stats["tx"]["dropped"]) + int(stats["tx"]["errors"]),
            )
        except (KeyError, TypeError) as missing:
            raise ValueError(f"ip printed a link without {missing}") from missing
    return counters


def kernel_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters of the ports by id, for switches whose ports are kernel interfaces.

    The kernel counts a drop at a full veth end twice: as `tx_dropped` of the sending end and as
    `rx_dropped` of its peer. Here only the sending end counts it.
    """
    links = parse_link_counters(outputs[0])
    if wiring.given:
        return _function_counters(wiring, links)
    return Counters(
        {
            port.id: replace(counted, rx_dropped=None)
            if port.uplink == "made" or _kind(wiring, port) is PortKind.VETH
            else counted
            for port in wiring.ports
            if (counted := links.get(switch_ifname(wiring, port))) is not None
        }
    )


def _function_counters(wiring: Wiring, links: Mapping[str, PortCounters]) -> Counters:
    """Return the counters of a function's two ports. `tx_dropped` are frames that one port received
    and the function never handed to the other port, whose link counts the frames that it had no
    room for."""
    try:
        one, other = (links[switch_ifname(wiring, port)] for port in wiring.ports)
    except KeyError as missing:
        raise ValueError(f"ip printed no link {missing}") from missing
    return Counters(
        {
            port.id: replace(
                count,
                rx_dropped=None,
                tx_dropped=max(0, (peer.rx or 0) - (count.tx or 0) - (count.tx_dropped or 0)),
            )
            for port, count, peer in zip(wiring.ports, (one, other), (other, one), strict=True)
        }
    )


def socket_counters(wiring: Wiring) -> tuple[Run, ...]:
    """Return the commands that read the counters of a switch on AF_PACKET sockets: a full socket
    drops frames after the link has counted them."""
    sockets = Run("drops at the switch's sockets", ("ss", "-0", "-m", "-n", "-O"), at=wiring.node)
    return (*link_counters(wiring), sockets)


def parse_socket_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters of a switch on AF_PACKET sockets. `ss -0 -m -n -O` reports the drops as
    `p_raw UNCONN 0 0 *:IFNAME * skmem:(...,dN)`."""
    drops: dict[str, int] = {}
    for ifname, count in _SOCKET.findall(outputs[1].decode(errors="replace")):
        drops[ifname] = drops.get(ifname, 0) + int(count)
    return Counters(
        {
            port: replace(
                counted, rx_dropped=drops.get(switch_ifname(wiring, wiring.port(port)), 0)
            )
            for port, counted in kernel_counters(wiring, outputs).ports.items()
        }
    )


COUNTERS = Counting(link_counters, kernel_counters)
"""The kernel's interface counters, for switches whose ports are kernel interfaces."""


class KernelSwitch(Switch):
    """A switch whose ports are kernel interfaces: it is ready when all of them have their links."""

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        return kernel_endpoints(wiring)

    def settled(self, wiring: Wiring) -> Plan:
        return wait_running(wiring, [switch_ifname(wiring, port) for port in wiring.ports])

    def remade(self, wiring: Wiring) -> Change | None:
        """Return the plan that removes the kernel's part of the switch and creates it again, with
        its ports in place; None if there is no such plan."""
        return None

    def link(self, wiring: Wiring, port: Port) -> str | None:
        """Return the interface of the switch that carries the frames of a port; None if there is
        none that an event could set down."""
        return switch_ifname(wiring, port)

    def relinked(self, wiring: Wiring, port: Port) -> Plan:
        """Return the steps that restore what the kernel forgets when a port's link goes down."""
        return ()

    def reconfigured(self, wiring: Wiring) -> Change | None:
        """Return the plan that adds something harmless to the configuration and removes it; None if
        there is no such plan."""
        return None

    def events(self, wiring: Wiring) -> Mapping[str, Change]:
        """Return the events: `port-down` at the port where the first flow leaves, and those that
        the driver or its processes have. A switch without processes is killed and restarted in the
        same way: it is removed and created again."""
        port = wiring.port(wiring.flows[0].sink)
        events = dict(super().events(wiring))
        if near := self.link(wiring, port):
            way = ("ip", "link", "set", near)
            shown = Check(("ip", "-o", "link", "show", "dev", near), wiring.node, "state DOWN")
            events["port-down"] = Change(
                (
                    Run(f"{near} down", (*way, "down"), at=wiring.node),
                    Wait(f"{near} is seen down", shown),
                ),
                (Run(f"{near} up", (*way, "up"), at=wiring.node), *self.relinked(wiring, port)),
            )
        if remade := self.remade(wiring):
            events |= {"restart": remade, "kill": remade}
        if reconfigured := self.reconfigured(wiring):
            events["reconfigure"] = reconfigured
        return events
