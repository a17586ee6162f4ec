"""Kernel bridges: steps that add a bridge and its ports, shared by the drivers that use bridges."""

from __future__ import annotations

from collections.abc import Iterable

from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import Wiring
from switchmark.switches import links

_TABLES = ("iptables", "ip6tables", "arptables")


def add_bridge(wiring: Wiring, bridge: str) -> Plan:
    """Add a bridge, still down, without spanning tree or multicast snooping."""
    at_once = ("stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
    make = ("ip", "link", "add", bridge, "type", "bridge", *at_once)
    # br_netfilter would drop IPv4 frames with a bad header before any counter sees them.
    passed = {f"net.bridge.bridge-nf-call-{table}": "0" for table in _TABLES}
    return (
        Run(
            "a bridge that forwards at once",
            make,
            at=wiring.node,
            undo=links.removal(wiring, bridge),
        ),
        *links.silence(wiring, bridge),
        *links.set_sysctls(wiring, "bridged frames do not pass iptables", passed),
    )


def add_bridge_port(wiring: Wiring, bridge: str, ifname: str, *, nic: bool = False) -> Run:
    """Make an interface a port of a bridge and set it up; the undo removes a host NIC from the
    bridge."""
    join = ("ip", "link", "set", ifname, "master", bridge, "up")
    leave = ("ip", "link", "set", ifname, "nomaster") if nic else None
    subject = "" if nic else ifname
    return Run(
        f"{ifname} is a port of the bridge", join, at=wiring.node, undo=leave, subject=subject
    )


def wait_forwarding(wiring: Wiring, ifnames: Iterable[str]) -> Plan:
    """Wait until each port of a bridge forwards."""
    command = ("bridge", "link", "show", "dev")
    forwards = "state forwarding"
    return tuple(
        Wait(f"{end} forwards", Check((*command, end), at=wiring.node, pattern=forwards))
        for end in ifnames
    )
