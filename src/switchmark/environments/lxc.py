"""LXC containers, from a configuration in the run's folder. LXC knows only their names, and the
undo does not use `lxc-destroy`, which would also remove the root file system."""

from __future__ import annotations

from switchmark.environments.base import Needs
from switchmark.environments.containers import (
    ASLEEP,
    Container,
    Mount,
    cgroup_version,
    cgroups,
    mounts,
    network,
    outside,
    program_argv,
    quota_us,
    root_folder,
    root_of,
    version_of,
)
from switchmark.environments.netns import ENVIRONMENT as NETNS
from switchmark.errors import UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.programs import require_programs
from switchmark.model.cgroups import PERIOD_US
from switchmark.model.plan import Folder, Node, Plan, Run, Write
from switchmark.model.version import Version

# null, zero, full, random, urandom, tty, console, ptmx, pts: the devices that LXC creates in /dev.
_DEVICES = ("1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:1", "5:2", "136:*")
_CONTAINERS = "/var/lib/lxc"
_LOCKS = f"/run/lxc/lock{_CONTAINERS}"
_NUMBERS = {"/dev/net/tun": "10:200"}
"""Fixed device numbers. With any other device, the container may open every device that is
mounted."""


class Lxc(Container):
    """`lxc-start` starts a container in the network namespace of the node."""

    name = "lxc"

    def probe(self, host: Host) -> Version:
        """Return the version of LXC; the mode is the version of the host's control groups."""
        text = version_of(host, ("lxc-start", "--version"), self.name)
        require_programs(host, dict.fromkeys(("lxc-attach", "lxc-stop"), "lxc"))
        return Version(text, mode=cgroup_version(host), verified="verified")

    def create(self, node: Node, needs: Needs) -> Plan:
        if needs.image and set(":,") & set(needs.image):
            raise UsageError(
                f"the path of the root {needs.image} contains a colon or a comma, which lxc "
                "and overlay use as separators",
                hint="use a symbolic link to it",
            )
        path = f"{node.run_dir}/{node.name}.conf"
        return (
            *NETNS.create(network(node), needs),
            *cgroups(node),
            *(root_of(node) if needs.image is None else _layer(node, needs.image)),
            Folder("the folder in which LXC locks containers", _LOCKS),
            Write(f"the configuration of {node.name}", path, _configuration(node, needs).encode()),
            Run(
                f"the container {node.name}",
                (
                    *("lxc-start", "-n", node.name, "-f", path),
                    *("-o", "/dev/stderr", "-l", "ERROR", "--", *program_argv(node, ASLEEP)),
                ),
                undo=("lxc-stop", "-n", node.name, "-k"),
            ),
        )

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        attach = ("lxc-attach", "-n", node.name, "--", *program_argv(node, argv))
        return outside(node, argv) or attach


def _layer(node: Node, image: str) -> Plan:
    """Create an overlay that takes all writes, so that the user's root file system stays
    unchanged."""
    folder = _layer_folder(node)
    return (
        Run("the root file system is there", ("test", "-d", _image_root(image))),
        Run(
            f"an overlay for the writes of {node.name}",
            ("mkdir", "-p", f"{folder}/delta"),
            undo=("rm", "-rf", "--one-file-system", folder),
        ),
    )


def _layer_folder(node: Node) -> str:
    return f"{node.run_dir}/{node.name}-layer"


def _image_root(image: str) -> str:
    """Return the root file system of an image: a folder, or the root of a container of LXC."""
    return image if image.startswith("/") else f"{_CONTAINERS}/{image}/rootfs"


def _root(node: Node, needs: Needs) -> str:
    if needs.image is None:
        return f"dir:{root_folder(node)}"
    return f"overlay:{_image_root(needs.image)}:{_layer_folder(node)}/delta"


def _configuration(node: Node, needs: Needs) -> str:
    """Return the container's configuration. It has settings for both versions of control groups;
    LXC skips those of the missing version."""
    keep = " ".join(sorted(map(str.lower, needs.capabilities))) or "none"
    lines = [
        f"lxc.uts.name = {node.name}",
        f"lxc.rootfs.path = {_root(node, needs)}",
        f"lxc.namespace.share.net = {NETNS.netns(node)}",
        f"lxc.cgroup.dir = {node.name}",
        f"lxc.cap.keep = {keep}",
        # LXC's AppArmor profile needs features that some hosts with AppArmor have not loaded or
        # mounted.
        "lxc.apparmor.profile = unconfined",
        "lxc.mount.auto = proc:mixed sys:ro",
        "lxc.mount.entry = tmpfs tmp tmpfs rw,create=dir 0 0",
        # POSIX shared memory, as in the other runtimes.
        "lxc.mount.entry = tmpfs dev/shm tmpfs rw,nosuid,nodev,noexec,create=dir 0 0",
        *(_entry(mount) for mount in mounts(needs)),
        *(_entry(Mount(device, writable=True, file=True)) for device in needs.devices),
        "lxc.tty.max = 0",
        *_limits(needs),
        *_allowed(needs),
    ]
    return "\n".join(lines) + "\n"


def _entry(mount: Mount) -> str:
    """Return a mount in the syntax of fstab."""
    paths = f"{_escaped(mount.path)} {_escaped(mount.place).lstrip('/')}"
    access, kind = "rw" if mount.writable else "ro", "file" if mount.file else "dir"
    return f"lxc.mount.entry = {paths} none bind,{access},create={kind} 0 0"


def _escaped(path: str) -> str:
    """Return a path with fstab's escapes for whitespace."""
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")


def _limits(needs: Needs) -> list[str]:
    lines = []
    quota = quota_us(needs)
    if quota is not None:
        lines += [
            f"lxc.cgroup.cpu.cfs_period_us = {PERIOD_US}",
            f"lxc.cgroup.cpu.cfs_quota_us = {quota}",
            f"lxc.cgroup2.cpu.max = {quota} {PERIOD_US}",
        ]
    if needs.cpus:
        cpus = ",".join(map(str, needs.cpus))
        lines += [f"lxc.cgroup.cpuset.cpus = {cpus}", f"lxc.cgroup2.cpuset.cpus = {cpus}"]
    return lines


def _allowed(needs: Needs) -> list[str]:
    if not set(needs.devices) <= set(_NUMBERS):
        return []
    numbers = (*_DEVICES, *(_NUMBERS[device] for device in needs.devices))
    return [
        line
        for group in ("cgroup", "cgroup2")
        for line in (
            f"lxc.{group}.devices.deny = a",
            *(f"lxc.{group}.devices.allow = c {number} rwm" for number in numbers),
        )
    ]


ENVIRONMENT = Lxc()
