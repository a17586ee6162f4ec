"""Set-up of a kernel interface inside a node, the same for every environment."""

from __future__ import annotations

from switchmark.environments.base import Attachment
from switchmark.model.plan import Node, Plan, Run, Step


def set_up(node: Node, a: Attachment) -> Plan:
    """Set the interface up; for engines that use the IP stack, also set its address and
    neighbours."""
    name = a.endpoint.ifname
    if not name:
        return ()
    steps: list[Step] = []
    if a.address:
        steps.append(
            Run(
                f"the address of {name}",
                ("ip", "address", "add", a.address, "dev", name),
                at=node,
                subject=node.name,
            )
        )
    steps.append(Run(f"{name} up", ("ip", "link", "set", name, "up"), at=node, subject=node.name))
    for peer in a.neighbours:
        hop = peer.via or peer.ip
        steps.append(
            Run(
                f"a neighbour entry for {hop}: no ARP during a trial",
                (
                    *("ip", "neighbour", "replace", hop, "lladdr", peer.mac),
                    *("dev", name, "nud", "permanent"),
                ),
                at=node,
                subject=node.name,
            )
        )
        if peer.via:
            steps.append(
                Run(
                    f"the route to {peer.ip}",
                    ("ip", "route", "replace", f"{peer.ip}/32", "via", peer.via, "dev", name),
                    at=node,
                    subject=node.name,
                )
            )
    return tuple(steps)
