"""The kernel's bridge learns addresses, and forwards in the context of whoever sends."""

from __future__ import annotations

from switchmark.machine.host import Host
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links

_TABLES = ("iptables", "ip6tables", "arptables")


class LinuxBridge(links.KernelSwitch):
    """`ip link add type bridge` makes the bridge, without spanning tree or multicast snooping. As a
    function its ports are interfaces of its node."""

    name = "linux-bridge"
    semantics = (Semantics.LEARNING,)
    port_kinds = links.PORT_KINDS
    function_kinds = frozenset({PortKind.VETH, PortKind.TAP, PortKind.VF})
    resources = frozenset({"copies"})
    counters = links.COUNTERS

    def probe(self, host: Host) -> Version:
        made = ("ip", "link", "add", "sm-br", "type", "bridge")
        return Version(links.probe_kernel(host, links.CABLE, made), verified="verified")

    def start(self, wiring: Wiring) -> Plan:
        bridge = wiring.name("br")
        at_once = ("stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
        make = ("ip", "link", "add", bridge, "type", "bridge", *at_once)
        undo = ("ip", "link", "del", bridge)
        steps: Plan = (Run("a bridge that forwards at once", make, at=wiring.at, undo=undo),)
        # br_netfilter would drop IPv4 frames with a bad header before they are counted.
        passed = {f"net.bridge.bridge-nf-call-{table}": "0" for table in _TABLES}
        steps += links.silence(wiring, bridge)
        steps += links.set_sysctls(wiring, "bridged frames do not pass iptables", passed)
        for port in wiring.ports:
            near = links.switch_ifname(wiring, port)
            join = ("ip", "link", "set", near, "master", bridge)
            leave = ("ip", "link", "set", near, "nomaster") if port.nic else None
            steps += links.add_port(wiring, port)
            steps += (Run(f"{near} is a port of the bridge", join, at=wiring.at, undo=leave),)
        return (*steps, Run(f"{bridge} up", ("ip", "link", "set", bridge, "up"), at=wiring.at))

    def settled(self, wiring: Wiring) -> Plan:
        ends = [links.switch_ifname(wiring, port) for port in wiring.ports]
        shown = ("bridge", "link", "show", "dev")
        forwards = "state forwarding"
        return tuple(
            Wait(f"{end} forwards", Check((*shown, end), at=wiring.at, pattern=forwards))
            for end in ends
        )


SWITCH = LinuxBridge()
