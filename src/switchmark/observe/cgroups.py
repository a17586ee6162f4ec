"""The control groups of a host: the version of its cpu controller, and whether it can limit CPU
time."""

from __future__ import annotations

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.model.cgroups import V1, V2


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
