"""What the container runtimes have in common: a root file system, mounts, a network stack.

A container has the programs of this host: its root is empty but for read-only binds of `/usr`
and of what the node needs. Its network namespace has the node's name, so that its interfaces
are set up from the host, by the driver of `netns`, and it needs no privileges for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from switchmark.environments.base import Attachment, Needs
from switchmark.environments.netns import ENVIRONMENT as NETNS
from switchmark.errors import Unavailable
from switchmark.machine.anchor import privileges
from switchmark.machine.cgroups import PERIOD_US
from switchmark.machine.host import Host
from switchmark.machine.processes import MARK
from switchmark.model.plan import Node, Plan, Run
from switchmark.model.topology import PortKind

__all__ = [
    "ASLEEP",
    "MARKED",
    "Container",
    "Mount",
    "cgroup_parent",
    "cgroup_version",
    "cgroups",
    "configures_network",
    "mounts",
    "network",
    "prefix_of",
    "quota_us",
    "root_folder",
    "root_of",
    "run_words",
    "version_of",
]

ASLEEP = ("sleep", "infinity")
"""The first process of a container: it lasts as long as the container."""

MARKED = ("-e", MARK)
"""`docker exec` and `podman exec` pass the caller's value of this on, and nothing else."""

_OF_BPF = {"BPF": "SYS_ADMIN", "PERFMON": "SYS_ADMIN"}
"""docker 20.10 knows neither, and the filters of system calls of podman 4.3 and of docker let
bpf() pass with this alone."""

_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var")
_MERGED = ("usr/bin", "usr/sbin", "usr/lib", "usr/lib32", "usr/lib64", "usr/libx32")
_ETC = ("/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/passwd")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host at the same path in a container."""

    path: str
    writable: bool = False


class Container:
    """What the drivers of the runtimes need not say again."""

    port_kinds = frozenset(PortKind) - {PortKind.TAP}
    own_kernel = False
    isolated = True

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        return NETNS.attach(network(node), attachments)

    def netns(self, node: Node) -> str | None:
        return NETNS.netns(network(node))


def network(node: Node) -> Node:
    """The network namespace of a container, as a node of the host."""
    return replace(node, environment=NETNS.name)


def configures_network(needs: Needs) -> bool:
    """Does the node configure its own network stack, its sysctls too? A switch's does."""
    return "NET_ADMIN" in needs.capabilities


def prefix_of(node: Node) -> str:
    """The run's prefix, which is that of every node's name."""
    return node.name.partition("-")[0]


def quota_us(needs: Needs) -> int | None:
    """The CPU time that a node may use in each period of `PERIOD_US`."""
    return None if needs.cpu_limit is None else round(needs.cpu_limit * PERIOD_US / 100)


def cgroup_parent(node: Node) -> str:
    """The control group below which a run's containers have theirs."""
    return f"/{prefix_of(node)}-nodes"


def cgroups(node: Node) -> Plan:
    """What runtimes leave of a run's control groups goes: of every hierarchy, v1 and v2."""
    root = "/sys/fs/cgroup"
    mine = f"*/{prefix_of(node)}-*"
    return (
        Run(
            "control groups are there",
            ("test", "-d", root),
            undo=("find", root, "-depth", "-type", "d", "-path", mine, "-delete"),
        ),
    )


def root_folder(needs: Needs) -> str:
    """The root file system of all containers of a run."""
    return f"{needs.run_dir}/rootfs"


def root_of(needs: Needs) -> Plan:
    """Make the root file system: folders to mount on, and the links of a merged /usr."""
    root = root_folder(needs)
    return (
        Run(
            "the root of containers: folders to mount on",
            ("mkdir", "-p", *(f"{root}/{name}" for name in _FOLDERS)),
            undo=("rm", "-rf", "--one-file-system", root),
        ),
        Run("its links into /usr", ("ln", "-sfn", "-t", root, *_MERGED)),
        # Of Debian's alternatives is awk; the others are for programs that look up a name.
        Run("what programs look for in /etc", ("cp", "-a", "-t", f"{root}/etc", *_ETC), ok=(0, 1)),
    )


def mounts(needs: Needs) -> tuple[Mount, ...]:
    """What a container has of the host besides its devices; no folder twice. Hugepages need
    none: DPDK's programs here map them without a file (`--in-memory`)."""
    usr = PurePosixPath("/usr")
    programs = dict.fromkeys(
        path
        for path in map(PurePosixPath, needs.programs)
        if path.is_absolute() and usr not in (path, *path.parents)
    )
    return (
        Mount(str(usr)),
        *(Mount(str(path)) for path in programs),
        Mount(needs.run_dir, writable=True),
    )


def run_words(needs: Needs) -> tuple[str, ...]:
    """What a node may do and what it has, as options of `docker run` and `podman run`."""
    words = ["--cap-drop", "ALL"]
    for capability in sorted({_OF_BPF.get(name, name) for name in needs.capabilities}):
        words += ["--cap-add", capability]
    for device in needs.devices:
        words += ["--device", device]
    quota = quota_us(needs)
    if quota is not None:
        words += ["--cpu-period", str(PERIOD_US), "--cpu-quota", str(quota)]
    if needs.cpus:
        words += ["--cpuset-cpus", ",".join(map(str, needs.cpus))]
    for mount in mounts(needs):
        fields = [f"type=bind,{_field('source', mount.path)}", _field("target", mount.path)]
        words += ["--mount", ",".join([*fields, *([] if mount.writable else ["readonly"])])]
    return tuple(words)


def _field(name: str, value: str) -> str:
    text = f"{name}={value}"
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if "," in text or '"' in text else text


def version_of(host: Host, argv: tuple[str, ...], package: str) -> str:
    """What a runtime prints of its version. Unavailable where it is missing, or needs root."""
    hint = f"apt-get install {package}"
    try:
        done = host.run(argv)
    except Unavailable as missing:
        raise Unavailable(f"{argv[0]} is not installed", hint=hint) from missing
    text = done.stdout.decode(errors="replace").strip()
    if done.status or not text:
        raise Unavailable(f"{' '.join(argv)} does not tell its version", hint=hint)
    if privileges() != "root":
        raise Unavailable(
            "containers need root itself, not that of a user namespace", hint="run it with sudo"
        )
    return text


def cgroup_version(host: Host) -> str:
    """Which control groups the host has; hybrid is v1 with a v2 beside it."""
    if host.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "cgroup v2"
    if host.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        return "cgroup hybrid"
    return "cgroup v1"
