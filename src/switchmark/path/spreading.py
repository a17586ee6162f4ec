"""The kernel does the work of a switch that has no threads, and this says on which CPUs. Pure.

Behind a veth pair that is the CPU of whoever sends, unless RPS (receive packet steering) spreads
over several what comes in at an interface, by flow.
"""

from __future__ import annotations

from switchmark.model.cpus import cpu_mask, format_cpus
from switchmark.model.plan import Plan, Write
from switchmark.path.layout import Layout
from switchmark.path.needs import network_stack
from switchmark.path.roles import is_spread


def spread(layout: Layout) -> Plan:
    """Spread what comes in at the switch's ports over its CPUs, each flow on one of them; NICs of
    the host are spread where they are lent (`machine.nics.spread`)."""
    wiring = layout.wiring
    if not is_spread(layout) or not wiring.cores:
        return ()
    names = [layout.endpoints[port.id].switch_ifname for port in wiring.ports if not port.nic]
    return tuple(
        Write(
            f"flows that come in at {name} are worked on by CPU {format_cpus(wiring.cores)}",
            f"/sys/class/net/{name}/queues/rx-0/rps_cpus",
            cpu_mask(wiring.cores).encode(),
            at=network_stack(wiring.at),
        )
        for name in names
    )
