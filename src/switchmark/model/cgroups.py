"""CPU limits by control groups, version 1 and 2: the folders of groups, and the steps that make
one.

This module is for processes on the host itself: a container runtime has its own control group for a
limit.
"""

from __future__ import annotations

from switchmark.model.plan import Plan, Run, Write

V1, V2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"
"""The parent folder of groups with the cpu controller, by version. On a hybrid host, version 1 has
the controller."""

PERIOD_US = 100_000
"""The period of a CPU limit: the kernel's default."""


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
