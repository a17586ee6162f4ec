"""This module decides what is built for a test in a run: its path on this host's cores, or why
this host cannot."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.lab.prepare import PLAN_PREFIX, prepare
from switchmark.lab.probes import Probes
from switchmark.model.plan import Plan
from switchmark.model.test import Test
from switchmark.path.assembly import vm_megabytes
from switchmark.path.background import check_capture
from switchmark.path.hosts import hosts_of
from switchmark.path.path import Path
from switchmark.path.placement import Placement
from switchmark.path.resolving import drivers_of
from switchmark.runs.anchor import privileges
from switchmark.runs.cgroups import check_cpu_limit
from switchmark.runs.workspace import Workspace

_RPS = "/sys/class/net/lo/queues/rx-0/rps_cpus"
"""Every interface has it, where the kernel has it."""


def draw(
    test: Test,
    workspace: Workspace,
    probes: Probes,
    can: Callable[[Plan], bool],
    *,
    captured: bool = False,
) -> tuple[Path, Placement]:
    """Return what is to be built for a test. Unavailable or UsageError if this host cannot. `can`
    says whether steps can be carried out, `captured` that frames are to be kept."""
    path, placement = prepared(test, workspace, probes, can)
    _refuse_what_lacks(test, path, probes)
    if captured:
        check_capture(path)
    return path, placement


def sketch(
    test: Test, probes: Probes, can: Callable[[Plan], bool] = lambda steps: True
) -> tuple[Path, Placement]:
    """Return what would be built for a test, under names that nothing has, or raise why not."""
    path, placement = _prepared(test, PLAN_PREFIX, "/run", probes, can)
    _refuse_what_lacks(test, path, probes)
    return path, placement


def prepared(
    test: Test, workspace: Workspace, probes: Probes, can: Callable[[Plan], bool]
) -> tuple[Path, Placement]:
    """Return the path of a test in a run's folder, whether or not this host can build it."""
    return _prepared(test, workspace.run, str(workspace.folder), probes, can)


def _prepared(
    test: Test, prefix: str, folder: str, probes: Probes, can: Callable[[Plan], bool]
) -> tuple[Path, Placement]:
    between = probes.hosts.between(hosts_of(test))
    mode = probes.of_switch(test).mode
    modes = {
        each.name: probes.of_environment(each, test).mode for each in drivers_of(test).environments
    }
    host, far = probes.host_of(test), probes.far_of(test)
    probed = probes.of_programs(test)
    return prepare(host, test, prefix, folder, mode, modes, can, between, far, probed)


def _refuse_what_lacks(test: Test, path: Path, probes: Probes) -> None:
    """Raise Unavailable or UsageError for what a path needs and this host has not."""
    engine = path.engine
    host = probes.host_of(test)
    if engine.privilege == "root" and privileges() != "root":
        raise Unavailable(
            f"engine {engine.name} needs root itself, not that of a user namespace",
            hint="run it with sudo",
        )
    if test.limits:
        check_cpu_limit(host)
    _refuse_missing_ports(path, probes)
    _refuse_without_memory(path, host)
    _refuse_without_rps(path, host)
    if refusal := path.refusal:  # for a reason that only this host gives, such as its memory
        raise Unavailable(refusal)


def _refuse_missing_ports(path: Path, probes: Probes) -> None:
    """Raise Unavailable where an environment cannot have such ports on this host."""
    for part in path.parts:
        if part.physical:
            continue
        missing = probes.of_environment(part.environment, path.test).missing
        for end in part.endpoints:
            if why := missing.get(end.kind):
                raise Unavailable(why[0], hint=why[1])


def _refuse_without_rps(path: Path, host: Host) -> None:
    """Unavailable where what comes in at a veth pair or a tap cannot be spread over CPUs."""
    if not path.is_spread or all(port.nic for port in path.wiring.ports):
        return
    if privileges() != "root":
        raise Unavailable(
            "frames are spread over CPUs by RPS, which takes root itself, not that of a user "
            "namespace",
            hint="run it with sudo, or with --switch-cores auto",
        )
    if not host.exists(_RPS):
        raise Unavailable(
            "this kernel has no RPS (CONFIG_RPS), by which frames are spread over CPUs behind a "
            "port that has one queue",
            hint="--switch-cores auto",
        )


def _refuse_without_memory(path: Path, host: Host) -> None:
    """Raise Unavailable where virtual machines would not fit into this host's memory."""
    needed, meminfo = vm_megabytes(path), host.read("/proc/meminfo")
    free = int(meminfo.partition(b"MemAvailable:")[2].split()[0]) // 1024
    if needed > free:
        count = len(path.in_vms)
        raise Unavailable(
            f"{count} virtual machines need {needed} MB of memory; {free} MB are available",
            hint="--pairs with a smaller number",
        )
