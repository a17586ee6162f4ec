"""The path to build for a test on its hosts, or the reason why the hosts cannot build it."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.lab.prepare import PLAN_PREFIX, prepare
from switchmark.lab.probes import Location
from switchmark.model.plan import Plan
from switchmark.observe.cgroups import check_cpu_limit
from switchmark.path.assembly import vm_megabytes
from switchmark.path.background import check_capture
from switchmark.path.path import Path
from switchmark.runs.anchor import privileges
from switchmark.runs.workspace import Workspace

_RPS = "/sys/class/net/lo/queues/rx-0/rps_cpus"
"""Every interface has this file if the kernel supports RPS."""


def draw(
    location: Location, workspace: Workspace, can: Callable[[Plan], bool], *, captured: bool = False
) -> Path:
    """Return the path to build for a test. Raise Unavailable or UsageError if its hosts cannot
    build it.

    `can` returns whether steps can be carried out. `captured` is true if the run captures frames.
    """
    path = prepared(location, workspace, can)
    _refuse_what_lacks(location, path)
    if captured:
        check_capture(path)
    return path


def sketch(location: Location, can: Callable[[Plan], bool] = lambda steps: True) -> Path:
    """Return the path for a test under placeholder names. Raise an error if its hosts cannot build
    it."""
    path = _prepared(location, PLAN_PREFIX, "/run", can)
    _refuse_what_lacks(location, path)
    return path


def prepared(location: Location, workspace: Workspace, can: Callable[[Plan], bool]) -> Path:
    """Return the path of a test in the folder of a run, without checking its hosts."""
    return _prepared(location, workspace.run, str(workspace.folder), can)


def _prepared(location: Location, prefix: str, folder: str, can: Callable[[Plan], bool]) -> Path:
    found, far = location.findings, location.far
    return prepare(
        location.host, location.test, found, prefix=prefix, run_dir=folder, can=can, far=far
    )


def _refuse_what_lacks(location: Location, path: Path) -> None:
    """Raise Unavailable or UsageError if the hosts lack something that a path needs."""
    engine, host = path.engine, location.host
    if engine.privilege == "root" and privileges() != "root":
        raise Unavailable(
            f"engine {engine.name} needs real root, not root in a user namespace",
            hint="run it with sudo",
        )
    if path.test.limits:
        check_cpu_limit(host)
    _refuse_missing_ports(location, path)
    _refuse_without_memory(path, host)
    _refuse_without_rps(path, host)
    if refusal := path.refusal:  # for a reason that only this host gives, such as its memory
        raise Unavailable(refusal)


def _refuse_missing_ports(location: Location, path: Path) -> None:
    """Raise Unavailable if an environment on its host does not support the ports."""
    for part in path.parts:
        if part.physical:
            continue
        missing = location.environment(part.environment).missing
        for end in part.endpoints:
            if why := missing.get(end.kind):
                raise Unavailable(why[0], hint=why[1])


def _refuse_without_rps(path: Path, host: Host) -> None:
    """Raise Unavailable if frames from a veth pair or a tap cannot be spread over CPUs."""
    if not path.is_spread or all(port.nic for port in path.wiring.ports):
        return
    if privileges() != "root":
        raise Unavailable(
            "spreading frames over CPUs (RPS) needs real root, not root in a user namespace",
            hint="run it with sudo, or with --switch-cores auto",
        )
    if not host.exists(_RPS):
        raise Unavailable(
            "this kernel has no RPS (CONFIG_RPS), by which frames are spread over CPUs behind a "
            "port that has one queue",
            hint="--switch-cores auto",
        )


def _refuse_without_memory(path: Path, host: Host) -> None:
    """Raise Unavailable if virtual machines need more memory than this host has available."""
    needed, meminfo = vm_megabytes(path), host.read("/proc/meminfo")
    free = int(meminfo.partition(b"MemAvailable:")[2].split()[0]) // 1024
    if needed > free:
        count = len(path.in_vms)
        raise Unavailable(
            f"{count} virtual machines need {needed} MB of memory; {free} MB are available",
            hint="--pairs with a smaller number",
        )
