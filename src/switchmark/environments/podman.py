"""Podman containers, without a daemon, with their storage in the run's folder."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.environments.base import Needs
from switchmark.environments.containers import (
    OfClient,
    cgroup_parent,
    cgroup_version,
    cgroups,
    configures_network,
    network,
    root_folder,
    root_of,
    version_of,
)
from switchmark.environments.netns import ENVIRONMENT as NETNS
from switchmark.hosts.base import Host
from switchmark.model.plan import Folder, Node, Plan, Run, Write
from switchmark.model.version import Version

_MADE = ("/run/containers/networks", "/run/runc")
"""System folders that podman 4.3 and runc create regardless of their options."""


class Podman(OfClient):
    """`podman run` creates a container in the network namespace of the node."""

    name = "podman"
    create_s = 1.5

    def probe(self, host: Host) -> Version:
        """Return the version of podman; the mode is the version of the host's control groups."""
        # First the program that fails without root: podman without root leaves folders in /tmp.
        version_of(host, ("runc", "--version"), self.name)
        text = version_of(host, ("podman", "--version"), self.name)
        return Version(text.rpartition(" ")[2], mode=cgroup_version(host), verified="verified")

    def create(self, node: Node, needs: Needs) -> Plan:
        return (
            *NETNS.create(network(node), needs),
            *cgroups(node),
            *((*root_of(node), _settings(node)) if needs.image is None else ()),
            *_folders(),
            _end_of_conmon(node),
            self.run(
                node,
                needs,
                ("--rootfs", root_folder(node)),
                network=f"ns:{NETNS.netns(node)}",
                options=(
                    *_options(node),
                    *(("--security-opt", "unmask=/proc/sys") if configures_network(needs) else ()),
                ),
                undo=_removal(node),
            ),
        )

    def hold(self, node: Node, folders: Sequence[str], mode: str | None) -> Plan:
        held = self.holding(node, folders, options=_options(node), undo=_removal(node))
        return (*cgroups(node), *_folders(), _end_of_conmon(node), *held)

    def client(self, node: Node) -> tuple[str, ...]:
        """Return the argv of podman with all state in the run's folder, or with the user's storage
        if that has the image. It uses runc because crun does not support hybrid control groups, and
        vfs because the other storage drivers leave a mount."""
        home = _home(node)
        options = (
            *("env", f"CONTAINERS_CONF={_settings_path(node)}", "podman"),
            *("--root", f"{home}/root", "--runroot", f"{home}/run", "--tmpdir", f"{home}/tmp"),
            *("--network-config-dir", f"{home}/networks", "--storage-driver", "vfs"),
        )
        return (
            *(("podman",) if node.image else options),
            *("--runtime", "runc", "--runtime-flag", f"root={home}/runc"),
            *("--cgroup-manager", "cgroupfs", "--events-backend", "file"),
        )


def _folders() -> Plan:
    why = "podman or runc creates it regardless of options"
    return tuple(Folder(why, path) for path in _MADE)


def _end_of_conmon(node: Node) -> Run:
    """Let the removal of the container be followed by the end of its conmon, which starts podman
    once more: that creates podman's folders again, also in a run's folder that was removed."""
    wait = 'timeout 5 tail --pid="$(cat "$1")" -s 0.01 -f /dev/null 2>/dev/null || true'
    return Run(
        "the process that watches the container ends after it",
        ("test", "-d", node.run_dir),
        undo=("sh", "-c", wait, "sh", _conmon_pid(node)),
    )


def _options(node: Node) -> tuple[str, ...]:
    return (
        *("--conmon-pidfile", _conmon_pid(node)),
        # conmon outlives its container for a moment, and would keep its control group alive.
        *("--cgroups", "no-conmon", "--cgroup-parent", cgroup_parent(node)),
        # The defaults exceed the limits that root without CAP_SYS_RESOURCE may set.
        *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),
    )


def _removal(node: Node) -> tuple[str, ...]:
    return ("rm", "--force", "--ignore", "--time", "0", node.name)


def _home(node: Node) -> str:
    return f"{node.run_dir}/podman"


def _conmon_pid(node: Node) -> str:
    return f"{node.run_dir}/{node.name}.conmon"


def _settings_path(node: Node) -> str:
    return f"{node.run_dir}/podman.conf"


def _settings(node: Node) -> Write:
    return Write(
        "podman keeps its locks in files: shared memory in /dev/shm would be left behind",
        _settings_path(node),
        b'[engine]\nlock_type = "file"\n',
    )


ENVIRONMENT = Podman()
