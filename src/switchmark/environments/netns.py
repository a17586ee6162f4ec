"""Network namespaces of `ip netns`: a separate network stack, without further isolation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.environments.base import Attachment, Environment, Needs
from switchmark.environments.interfaces import set_up
from switchmark.hosts.base import Host
from switchmark.hosts.programs import probe_version
from switchmark.model.plan import HOST, Node, Plan, Run, Step
from switchmark.model.topology import PortKind
from switchmark.model.version import Version

_ENTER_THEMSELVES = ("ip", "bridge", "tc")
"""Programs of iproute2 that take a node's name: a single process suffices."""

_NEED_THE_STACK = ("ethtool", "sysctl")
"""Programs that need a node's network stack, but not the new `/sys` mount of `ip netns exec`."""


class Netns(Environment):
    """A node is a network namespace with the node's name."""

    name = "netns"
    port_kinds = Environment.port_kinds | {PortKind.NETMAP, PortKind.VF_PCI}
    shares_host = True
    reaches = frozenset({name})

    def probe(self, host: Host) -> Version:
        """Return the version of iproute2."""
        version, *_ = probe_version(
            host, ("ip", "-V"), r"^(?:ip utility, )?(.*\S)", hint="apt-get install iproute2"
        )
        return Version(version, verified="verified")

    def create(self, node: Node, needs: Needs) -> Plan:
        return (
            Run(
                f"the node {node.name}",
                ("ip", "netns", "add", node.name),
                undo=("ip", "netns", "del", node.name),
                subject=node.name,
            ),
            no_ipv6(node),
        )

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        steps: list[Step] = []
        for a in attachments:
            name = a.endpoint.staged
            if name and a.source.name != node.name:
                steps.append(
                    Run(
                        f"move {name} to {node.name}",
                        ("ip", "link", "set", name, "netns", node.name),
                        at=_stack(a.source),
                    )
                )
            elif not name and a.endpoint.ifname:
                # A real NIC is on loan: the undo returns it before the namespace ends.
                nic = a.endpoint.ifname
                steps.append(
                    Run(
                        f"lend the NIC {nic} to {node.name}",
                        ("ip", "link", "set", nic, "netns", node.name),
                        undo=("ip", "-n", node.name, "link", "set", nic, "netns", "1"),
                    )
                )
            steps += set_up(node, a)
        return tuple(steps)

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        if argv[0] in _ENTER_THEMSELVES:
            return (argv[0], "-n", node.name, *argv[1:])
        if argv[0] in _NEED_THE_STACK:
            return ("nsenter", f"--net={self.netns(node)}", *argv)
        return ("ip", "netns", "exec", node.name, *argv)

    def netns(self, node: Node) -> str | None:
        return f"/run/netns/{node.name}"


def no_ipv6(node: Node) -> Run:
    """Turn off IPv6 in the network stack of a node of the run."""
    return Run(
        "no IPv6: nothing but test frames",
        (
            *("sysctl", "-e", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1"),
            "net.ipv6.conf.default.disable_ipv6=1",
        ),
        at=node,
        subject=node.name,
    )


def _stack(node: Node) -> Node:
    """Return the node from which a node's interfaces can be moved: a container sees only its own
    namespace, which carries the container's name."""
    return node if node.environment == HOST.environment else replace(node, environment=Netns.name)


ENVIRONMENT = Netns()
