"""Common parts of the container runtimes: a root file system, mounts and a network stack.

A container runs the programs of this host: its root is empty except for read-only bind mounts of
`/usr` and of the node's needs. A container from the user's image has these programs next to the
image, started by the host's loader with the host's libraries; system commands run from outside. The
container's network namespace has the node's name, so the `netns` driver sets up its interfaces from
the host, and the container needs no privileges for that.
"""

from __future__ import annotations

import platform
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from switchmark.environments.base import Attachment, Environment, Needs
from switchmark.environments.netns import ENVIRONMENT as NETNS
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.processes import MARK
from switchmark.hosts.programs import probe_version
from switchmark.model.cgroups import PERIOD_US
from switchmark.model.plan import Node, Plan, Run
from switchmark.runs.anchor import privileges

ASLEEP = ("/usr/bin/sleep", "infinity")
"""The first process of a container, which keeps the container alive."""

_OF_BPF = {"BPF": "SYS_ADMIN", "PERFMON": "SYS_ADMIN"}
"""docker 20.10 knows neither of these capabilities, and the seccomp filters of podman 4.3 and of
docker allow bpf() only with SYS_ADMIN."""

_USR = "/.switchmark/usr"
"""The mount point of this host's /usr in a container from the user's image."""

_MACHINE = platform.machine()
_LIBRARIES = f"/usr/lib/{_MACHINE}-linux-gnu"
_LOADER = {
    "x86_64": "ld-linux-x86-64.so.2",
    "aarch64": "ld-linux-aarch64.so.1",
}.get(_MACHINE, "ld.so")
_DRIVERS = f"{_LIBRARIES}/dpdk"  # DPDK searches the folder of its package

_HOSTS_LIBRARIES = _LIBRARIES.replace("/usr", _USR, 1)
LOADED = (f"{_HOSTS_LIBRARIES}/{_LOADER}", "--library-path", _HOSTS_LIBRARIES)
"""The command prefix that starts a program of this host in a container from the user's image."""

_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var")
_MERGED = ("usr/bin", "usr/sbin", "usr/lib", "usr/lib32", "usr/lib64", "usr/libx32")
_ETC = ("/etc/group", "/etc/ld.so.cache", "/etc/passwd")


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host that is mounted in a container."""

    path: str
    """The path on the host."""
    writable: bool = False
    """Whether the container may write to it."""
    file: bool = False
    """Whether it is a file, not a folder."""
    target: str = ""
    """The path in the container; empty for the same path."""

    @property
    def place(self) -> str:
        """Return the mount point in the container."""
        return self.target or self.path


class Container(Environment):
    """The base class of the container runtimes."""

    images = True

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        return NETNS.attach(network(node), attachments)

    def netns(self, node: Node) -> str | None:
        return NETNS.netns(network(node))


class OfClient(Container):
    """A runtime with docker's `run` and `exec` commands. A driver defines the client and the
    additional options of `run`."""

    @abstractmethod
    def client(self, node: Node) -> tuple[str, ...]:
        """Return the argv of the client, for the node's daemon or storage."""

    def run(
        self,
        node: Node,
        needs: Needs,
        root: tuple[str, ...],
        *,
        network: str,
        options: tuple[str, ...],
        undo: tuple[str, ...] | None,
    ) -> Run:
        """Start the container; its first process sleeps. `root` is its root file system if the user
        names no image; `undo` are arguments for the client."""
        started = (*root, *ASLEEP) if needs.image is None else _image_arguments(node, needs.image)
        return Run(
            f"the container {node.name}",
            (
                *(*self.client(node), "run", "--detach", "--name", node.name),
                *("--network", network, "--hostname", node.name),
                *("--read-only", "--log-driver", "none", *options),
                *_run_arguments(needs),
                *started,
            ),
            undo=None if undo is None else (*self.client(node), *undo),
            timeout_s=30.0,
        )

    @abstractmethod
    def hold(self, node: Node, folders: Sequence[str], mode: str | None) -> Plan:
        """Return the steps that keep the files of the node's image mounted, in a container that
        sleeps: `/proc/${NODE-pid}/root` is their root. /dev and `folders` in it are the host's.
        `mode` is that of the engine's Version, if it was probed."""

    def holding(
        self, node: Node, folders: Sequence[str], *, options: tuple[str, ...], undo: tuple[str, ...]
    ) -> Plan:
        """Return the steps that start a container for `hold`, and find its first process."""
        assert node.image is not None
        mounts = (
            Mount("/usr", target=_USR),
            Mount("/dev", writable=True),
            *(Mount(folder, writable=True) for folder in folders),
        )
        return (
            Run(
                f"a container that sleeps, with the files of the image {node.image}",
                (
                    *(*self.client(node), "run", "--detach", "--name", node.name),
                    *("--network", "none", "--ipc", "host", "--log-driver", "none"),
                    *("--cap-drop", "ALL", *options, *_mount_arguments(mounts)),
                    *_image_arguments(node, node.image),
                ),
                undo=(*self.client(node), *undo),
                timeout_s=60.0,
            ),
            Run(
                "its first process",
                (*self.client(node), "inspect", "--format", "{{.State.Pid}}", node.name),
                save=f"{node.name}-pid",
            ),
        )

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        # `exec` forwards only the run's mark from the caller's environment.
        arguments = ("exec", "-i", "-e", MARK, node.name, *program_argv(node, argv))
        return outside(node, argv) or (*self.client(node), *arguments)


def network(node: Node) -> Node:
    """Return the network namespace of a container, as a node of the host."""
    return replace(node, environment=NETNS.name)


def outside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the argv that runs a system command from outside, because an image may lack it; None
    if the command runs inside."""
    if node.image is None or argv[0].startswith("/"):
        return None
    return NETNS.inside(network(node), argv)


def program_argv(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the argv that starts a program of this host in the container."""
    if node.image is None:
        return argv
    program = argv[0].replace("/usr", _USR, 1) if argv[0].startswith("/usr/") else argv[0]
    return (*LOADED, program, *argv[1:])


def _image_arguments(node: Node, image: str) -> tuple[str, ...]:
    """Return the arguments with which `docker run` and `podman run` start our first process in the
    user's image."""
    first, *arguments = program_argv(node, ASLEEP)
    return ("--pull", "never", "--entrypoint", first, "--user", "0", image, *arguments)


def configures_network(needs: Needs) -> bool:
    """Return whether the node configures its own network stack and sysctls, as a switch's node
    does."""
    return "NET_ADMIN" in needs.capabilities


def prefix_of(node: Node) -> str:
    """Return the run's prefix, with which the name of every node begins."""
    return node.name.rpartition("-")[0]


def quota_us(needs: Needs) -> int | None:
    """Return the CPU time that a node may use per `PERIOD_US`."""
    return None if needs.cpu_limit is None else round(needs.cpu_limit * PERIOD_US / 100)


def cgroup_parent(node: Node) -> str:
    """Return the control group that contains those of the run's containers."""
    return f"/{prefix_of(node)}-nodes"


def cgroups(node: Node) -> Plan:
    """Remove the control groups that runtimes leave behind, in every hierarchy of v1 and v2."""
    root = "/sys/fs/cgroup"
    mine = f"*/{prefix_of(node)}-*"
    return (
        Run(
            "control groups are there",
            ("test", "-d", root),
            undo=("find", root, "-depth", "-type", "d", "-path", mine, "-delete"),
        ),
    )


def root_folder(node: Node) -> str:
    """Return the root file system that all containers of a run share."""
    return f"{node.run_dir}/rootfs"


def root_of(node: Node) -> Plan:
    """Create the root file system: mount points, and the links of a merged /usr."""
    root = root_folder(node)
    return (
        Run(
            "the root of containers: mount points",
            ("mkdir", "-p", *(f"{root}/{name}" for name in _FOLDERS)),
            undo=("rm", "-rf", "--one-file-system", root),
        ),
        Run("its links into /usr", ("ln", "-sfn", "-t", root, *_MERGED)),
    )


def mounts(needs: Needs) -> tuple[Mount, ...]:
    """Return the mounts of a container except devices, without duplicates. Hugepages need no mount:
    the DPDK programs map them without files (`--in-memory`). The run's main folder is not mounted:
    a process that writes its journal, or reaches a daemon's socket there, is root on the host."""
    shared = (
        # awk is one of Debian's alternatives; the other files serve programs that look up names.
        (Mount("/usr"), Mount("/etc/alternatives"), *(Mount(path, file=True) for path in _ETC))
        if needs.image is None
        else (Mount("/usr", target=_USR), Mount(_DRIVERS))
    )
    usr = PurePosixPath("/usr")
    programs = dict.fromkeys(
        path
        for path in map(PurePosixPath, needs.programs)
        if path.is_absolute() and usr not in (path, *path.parents)
    )
    return (
        *shared,
        *(Mount(str(path)) for path in programs),
        *(Mount(path, writable=True) for path in needs.folders),
    )


def _run_arguments(needs: Needs) -> tuple[str, ...]:
    """Return a node's limits, capabilities and mounts as options of `docker run` and `podman
    run`."""
    arguments = ["--cap-drop", "ALL"]
    for capability in sorted({_OF_BPF.get(name, name) for name in needs.capabilities}):
        arguments += ["--cap-add", capability]
    for device in needs.devices:
        arguments += ["--device", device]
    quota = quota_us(needs)
    if quota is not None:
        arguments += ["--cpu-period", str(PERIOD_US), "--cpu-quota", str(quota)]
    if needs.cpus:
        arguments += ["--cpuset-cpus", ",".join(map(str, needs.cpus))]
    return (*arguments, *_mount_arguments(mounts(needs)))


def _mount_arguments(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """Return mounts as options of `docker run` and `podman run`."""
    arguments: list[str] = []
    for mount in mounts:
        fields = [f"type=bind,{_field('source', mount.path)}", _field("target", mount.place)]
        arguments += ["--mount", ",".join([*fields, *([] if mount.writable else ["readonly"])])]
    return tuple(arguments)


def _field(name: str, value: str) -> str:
    text = f"{name}={value}"
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if "," in text or '"' in text else text


def version_of(host: Host, argv: tuple[str, ...], name: str) -> str:
    """Return the version text of a runtime. Unavailable if the runtime is missing or needs root.
    `name` is the name of the environment and of its part of the set-up."""
    text, *_ = probe_version(host, argv, r"^\s*(.*\S)", hint=f"make setup PARTS={name}")
    if privileges() != "root":
        raise Unavailable(
            "containers need real root, not root in a user namespace", hint="run it with sudo"
        )
    return text


def cgroup_version(host: Host) -> str:
    """Return the version of the host's control groups; hybrid is v1 with an additional v2
    hierarchy."""
    if host.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "cgroup v2"
    if host.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        return "cgroup hybrid"
    return "cgroup v1"
