"""XDP redirects frames from one interface to another in the driver, before the kernel creates skbs:
a BPF program with a devmap."""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.redirects import RedirectingSwitch, redirect, wires


class XdpRedirect(RedirectingSwitch):
    """`bpf_redirect_map()` sends frames to the other interface through a devmap, in native mode
    only. Frames from a socket are skbs already: the receiving veth copies them to make room for
    XDP."""

    name = "xdp-redirect"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.VETH, PortKind.NIC_KERNEL)
    counters = links.COUNTERS  # a veth counts the frames of XDP at both ends

    def probe(self, host: Host) -> Version:
        release = probe_kernel(host, CABLE, redirect("xdp", "sm-a", "sm-b"))
        return Version(release, mode="native")

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in wiring.ports:  # a veth accepts frames from XDP only if its peer polls
            steps += links.add_port(wiring, port, far_gro=True)
        for port, near, far in wires(wiring):
            why = f"frames that the driver of {near} receives leave at {far}"
            undo = ("ip", "link", "set", "dev", near, "xdpdrv", "off") if port.nic else None
            steps += (Run(why, redirect("xdp", near, far), at=wiring.node, undo=undo),)
        return steps


SWITCH = XdpRedirect()
