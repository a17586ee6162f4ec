"""CPUs of a host, the CPUs of a part, and lists of CPU numbers in the notation of the kernel."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from switchmark.errors import UsageError

LAST_CPU = 1023
"""A number above that of any host: the kernel and `taskset` ignore CPUs that do not exist."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """A logical CPU."""

    id: int
    """The number of the CPU."""
    node: int = 0
    """The NUMA node of the CPU."""
    siblings: tuple[int, ...] = ()
    """The other CPUs of its physical core."""
    isolated: bool = False
    """Whether the kernel keeps other work off this CPU (isolcpus)."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The CPUs of a part."""

    cpus: tuple[int, ...] = ()
    """The CPUs; empty if the kernel chooses."""

    yield_: bool = False
    """Whether it must yield, because it shares the CPUs with another part."""


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parse CPU numbers in the notation of the kernel: `0,2-5`."""
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
    """Format CPU numbers for `parse_cpus`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def cpu_mask(cpus: Collection[int]) -> str:
    """Return a CPU mask for kernel files that take no list: hexadecimal digits with a comma after
    every eight digits."""
    digits = f"{sum(1 << cpu for cpu in set(cpus)):x}"
    padded = digits.rjust(-(-len(digits) // 8) * 8, "0")
    groups = [padded[start : start + 8] for start in range(0, len(padded), 8)]
    return ",".join(groups)


def all_but(cpus: Collection[int]) -> str:
    """Return a list for `taskset` with all possible CPUs except these, whatever the host has."""
    edges = (-1, *sorted(set(cpus)), LAST_CPU + 1)
    gaps = [(a + 1, b - 1) for a, b in pairwise(edges) if b - a > 1]
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in gaps)


def listed_cpus(content: bytes) -> frozenset[int]:
    """Return the CPUs in a kernel file, which may be empty."""
    text = content.decode().strip()
    return frozenset(parse_cpus(text)) if text else frozenset()
