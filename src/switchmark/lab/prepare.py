"""The assignment of CPUs and memory to the path of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from switchmark.hosts.base import Host
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Plan, Reserve
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.observe.cgroups import cpu_root
from switchmark.observe.cpus import read_cpus
from switchmark.path.assembly import construct
from switchmark.path.path import Path
from switchmark.path.placement import AUTO, Placement, place
from switchmark.path.refusals import may_share_process
from switchmark.path.resolving import resolve
from switchmark.runs.nics import numa_nodes

PLAN_PREFIX = "smPLAN"
"""The prefix for names in plans that are not carried out."""


def prepare(
    host: Host,
    test: Test,
    found: Findings,
    *,
    prefix: str,
    run_dir: str,
    can: Callable[[Plan], bool],
    far: Host | None = None,
) -> Path:
    """Return the path with its parts on CPUs by the placement.

    `can` returns whether steps can be carried out: with memory `auto`, the path uses hugepages if
    all of them are available. `far` is the second of two machines.
    """
    path = resolve(test, prefix=prefix, run_dir=run_dir, found=found)
    ports = [port for switch in path.switches for port in switch.wiring.ports]
    nodes = [numa_nodes(machine, ports) if machine else {} for machine in (host, far)]
    placed = partial(
        resolve,
        test,
        prefix=prefix,
        run_dir=run_dir,
        found=found,
        placement=place_parts(path, read_cpus(host), read_cpus(far) if far else (), nodes),
        cgroups=cpu_root(host),
    )
    path = placed(memory="hugepages")
    pages = tuple(step for step in construct(path) if isinstance(step, Reserve))
    if test.memory == "auto" and pages and not can(pages):
        path = placed(memory="no-huge")
    return path


def place_parts(
    path: Path,
    cpus: Sequence[Cpu],
    theirs: Sequence[Cpu] = (),
    nodes: Sequence[Mapping[str, int]] = ({}, {}),
) -> Placement:
    """Return the placement of a test on the CPUs of its host. With two machines, `theirs` are the
    CPUs of the second. `nodes` maps the NICs of each machine to NUMA nodes."""
    test, users = path.test, path.cpu_users
    if not theirs:
        may_share = test.placement == AUTO and may_share_process(test)
        placed = place(users, cpus, test.placement, may_share=may_share, nodes=nodes[0])
    else:
        far = path.switches[1]
        there = {far.id, *(part.id for part in path.parts if part.switch is far)}
        near_users = [user for user in users if user.id not in there]
        others = [user for user in users if user.id in there]
        other = place(others, theirs, test.placement, nodes=nodes[1])
        placed = place(near_users, cpus, test.placement, nodes=nodes[0]).beside(other)
    return replace(placed, doubts=(*placed.doubts, *path.found.between.doubts))


def followed(host: Host, test: Test, mode: str | None, far: Host | None = None) -> str:
    """Return the placement policy that a host uses for a test. `mode` is the mode of the switch."""
    path = resolve(test, prefix=PLAN_PREFIX, run_dir="/run", found=Findings(mode))
    return place_parts(path, read_cpus(host), read_cpus(far) if far else ()).policy
