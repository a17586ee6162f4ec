"""Podman runs the containers, without a daemon; its storage is in the run's folder."""

from __future__ import annotations

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
from switchmark.model.plan import Folder, Node, Plan, Write
from switchmark.model.version import Version

_MADE = ("/run/containers/networks", "/run/runc")
"""Folders of the system's that podman 4.3 and runc make, though they are told of others."""


class Podman(OfClient):
    """`podman run` makes a container in the network namespace of the node."""

    name = "podman"
    create_s = 1.5

    def probe(self, host: Host) -> Version:
        """Return the version of podman, and which control groups the host has."""
        # First what refuses without root: podman itself then leaves folders in /tmp.
        version_of(host, ("runc", "--version"), self.name)
        text = version_of(host, ("podman", "--version"), self.name)
        return Version(text.rpartition(" ")[2], mode=cgroup_version(host), verified="verified")

    def create(self, node: Node, needs: Needs) -> Plan:
        return (
            *NETNS.create(network(node), needs),
            *cgroups(node),
            *((*root_of(node), _settings(node)) if needs.image is None else ()),
            *(Folder("podman or runc makes it, whatever it is told", path) for path in _MADE),
            self.run(
                node,
                needs,
                ("--rootfs", root_folder(node)),
                network=f"ns:{NETNS.netns(node)}",
                options=(
                    # conmon outlives its container for a moment, and would its control group.
                    *("--cgroups", "no-conmon", "--cgroup-parent", cgroup_parent(node)),
                    # The defaults are above what a root without CAP_SYS_RESOURCE may set.
                    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),
                    *(("--security-opt", "unmask=/proc/sys") if configures_network(needs) else ()),
                ),
                undo=("rm", "--force", "--ignore", "--time", "0", node.name),
            ),
        )

    def client(self, node: Node) -> tuple[str, ...]:
        """Return the argv of podman with everything that it keeps in the run's folder, or with the
        user's storage where that has the image. runc, as crun does not take the hybrid control
        groups; vfs, as the others leave a mount."""
        home = _home(node)
        own = (
            *("env", f"CONTAINERS_CONF={_settings_path(node)}", "podman"),
            *("--root", f"{home}/root", "--runroot", f"{home}/run", "--tmpdir", f"{home}/tmp"),
            *("--network-config-dir", f"{home}/networks", "--storage-driver", "vfs"),
        )
        return (
            *(("podman",) if node.image else own),
            *("--runtime", "runc", "--runtime-flag", f"root={home}/runc"),
            *("--cgroup-manager", "cgroupfs", "--events-backend", "file"),
        )


def _home(node: Node) -> str:
    return f"{node.run_dir}/podman"


def _settings_path(node: Node) -> str:
    return f"{node.run_dir}/podman.conf"


def _settings(node: Node) -> Write:
    return Write(
        "podman's locks are files, not memory in /dev/shm that it would leave",
        _settings_path(node),
        b'[engine]\nlock_type = "file"\n',
    )


ENVIRONMENT = Podman()
