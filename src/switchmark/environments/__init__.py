"""This table lists the environments: to add one, add its file and one line here."""

from __future__ import annotations

from switchmark.environments import docker, host, lxc, netns, podman, vm
from switchmark.environments.base import Environment
from switchmark.model.plan import Node
from switchmark.plugins import Table, load_plugins

TABLE: Table[Environment] = load_plugins(
    "switchmark.environments",
    Environment,  # type: ignore[type-abstract]
    (
        host.ENVIRONMENT,
        netns.ENVIRONMENT,
        lxc.ENVIRONMENT,
        docker.ENVIRONMENT,
        podman.ENVIRONMENT,
        vm.ENVIRONMENT,
    ),
)


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the argv that runs `argv` in `node`, whatever its environment."""
    return TABLE[node.environment].inside(node, argv)
