"""Programs run directly on the host, in the host's network stack, without isolation."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.environments.base import Attachment, Environment, Needs
from switchmark.environments.interfaces import set_up
from switchmark.environments.netns import Netns
from switchmark.hosts.base import Host
from switchmark.model.plan import Node, Plan, Run, Step
from switchmark.model.topology import PortKind
from switchmark.model.version import Version


class HostEnvironment(Environment):
    """Functions run among the host's other processes; interfaces carry the run's prefix."""

    name = "host"
    port_kinds = Environment.port_kinds | {PortKind.NETMAP, PortKind.VF_PCI}
    isolated = False
    shares_host = True
    reaches = Netns.reaches

    def probe(self, host: Host) -> Version:
        return Version("-", verified="verified")

    def create(self, node: Node, needs: Needs) -> Plan:
        return ()

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        steps: list[Step] = []
        for a in attachments:
            name = a.endpoint.staged
            if name and a.source.environment != "host":
                steps.append(
                    Run(
                        f"move {name} to the host",
                        ("ip", "link", "set", name, "netns", "1"),
                        at=a.source,
                    )
                )
            if name:
                setting = f"net.ipv6.conf.{name}.disable_ipv6=1"
                steps.append(
                    Run(
                        f"no IPv6 on {name}: nothing but test frames",
                        ("sysctl", "-e", "-q", "-w", setting),
                        # No namespace removes the interface at its end.
                        undo=("ip", "link", "del", name),
                    )
                )
            steps += set_up(node, a)
        return tuple(steps)

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        return argv


ENVIRONMENT = HostEnvironment()
