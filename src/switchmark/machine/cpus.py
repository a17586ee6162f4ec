"""The CPUs of this machine that a run may use, and what they share. Reads /sys and /proc."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import UsageError

__all__ = ["Cpu", "format_cpus", "parse_cpus", "read_cpus"]


@dataclass(frozen=True, slots=True)
class Cpu:
    """A logical CPU. `siblings` are the other CPUs of its physical core; `isolated` says that
    the kernel schedules nothing there by itself (isolcpus)."""

    id: int
    node: int = 0
    siblings: tuple[int, ...] = ()
    isolated: bool = False


def read_cpus(root: Path = Path("/"), allowed: Collection[int] | None = None) -> tuple[Cpu, ...]:
    """The CPUs that are online and allowed, in order; `root` is another machine's for tests,
    `allowed` by default what this process may be scheduled on."""
    system = root / "sys/devices/system"
    isolated = _listed(system / "cpu/isolated")
    usable = _allowed(isolated) if allowed is None else frozenset(allowed)
    nodes = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in (system / "node").glob("node[0-9]*")
        for cpu in _listed(folder / "cpulist")
    }
    online = _listed(system / "cpu/online")
    return tuple(
        Cpu(
            id=cpu,
            node=nodes.get(cpu, 0),
            siblings=tuple(
                sorted(_listed(system / f"cpu/cpu{cpu}/topology/thread_siblings_list") - {cpu})
            ),
            isolated=cpu in isolated,
        )
        for cpu in sorted((online & usable) if online else usable)
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers as the kernel writes them: `0,2-5`."""
    cpus: set[int] = set()
    for item in text.strip().split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"'{text}' is no list of CPUs", hint="write it as 0,2-5")
        item_cpus = range(int(first), int(last or first) + 1)
        if not item_cpus:
            raise UsageError(f"'{text}' counts backwards", hint="write it as 0,2-5")
        cpus.update(item_cpus)
    return tuple(sorted(cpus))


def format_cpus(cpus: Collection[int]) -> str:
    """The inverse of `parse_cpus`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _allowed(isolated: frozenset[int]) -> frozenset[int]:
    usual = os.sched_getaffinity(0)
    if not isolated or isolated <= usual:
        return frozenset(usual)
    # Isolated CPUs are in nobody's affinity until they are asked for; the kernel then grants
    # those of them that the cpuset holds.
    try:
        os.sched_setaffinity(0, usual | isolated)
        return frozenset(os.sched_getaffinity(0))
    except OSError:
        return frozenset(usual)
    finally:
        os.sched_setaffinity(0, usual)


def _listed(path: Path) -> frozenset[int]:
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset()
    return frozenset(parse_cpus(text)) if text else frozenset()
