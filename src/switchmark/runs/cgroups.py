"""CPU limits by control groups, version 1 and 2: their folder, and the steps that make a group.

This module is for processes on the host itself: a container runtime has its own control group for a
limit.
"""

from __future__ import annotations

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.model.plan import Plan, Run, Write

V1, V2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"
"""The parent folder of groups with the cpu controller, by version. On a hybrid host, version 1 has
the controller."""

PERIOD_US = 100_000
"""The period of a CPU limit: the kernel's default."""


def cpu_root(host: Host) -> str:
    """Return the folder of this host's cpu controller; that of version 2 if none is found."""
    return V1 if host.exists(f"{V1}/cpu.cfs_quota_us") or host.exists(f"{V1}/tasks") else V2


def check_cpu_limit(host: Host) -> None:
    """Raise Unavailable if this host cannot limit CPU time."""
    root = cpu_root(host)
    if root == V2:
        passed_on = f"{V2}/cgroup.subtree_control"
        controllers = host.read(passed_on).decode().split() if host.exists(passed_on) else []
        if "cpu" not in controllers:
            raise Unavailable(
                "a CPU limit needs a cgroup, and there is no cpu controller for one",
                hint=f"echo +cpu >{passed_on}",
            )
    if host.run(("test", "-w", f"{root}/cgroup.procs")).status:
        raise Unavailable(
            f"a CPU limit needs a cgroup, and {root} cannot be written", hint="run it with sudo"
        )


def limited_group(root: str, name: str, percent: float) -> tuple[str, Plan]:
    """Return the folder and the steps of a new control group whose processes together get `percent`
    of a core."""
    folder = f"{root}/{name}"
    quota_us = round(percent / 100 * PERIOD_US)
    file, content = "cpu.max", f"{quota_us} {PERIOD_US}"
    if root == V1:
        file, content = "cpu.cfs_quota_us", f"{quota_us}"
    return folder, (
        Run(
            f"the cgroup {name}",
            ("mkdir", folder),
            undo=("rmdir", folder),
        ),
        Write(f"{percent:g} % of a core for {name}", f"{folder}/{file}", content.encode()),
    )
