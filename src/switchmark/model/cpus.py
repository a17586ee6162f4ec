"""A CPU of a host, where a part runs, and sets of CPU numbers as text, as the kernel and its tools
write them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from switchmark.errors import UsageError

LAST_CPU = 1023
"""More than any host has: the kernel and `taskset` leave out those that are not there."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """A logical CPU."""

    id: int
    """Its number."""
    node: int = 0
    """Its NUMA node."""
    siblings: tuple[int, ...] = ()
    """The other CPUs of its physical core."""
    isolated: bool = False
    """The kernel schedules nothing there by itself (isolcpus)."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a part runs."""

    cpus: tuple[int, ...] = ()
    """Its CPUs; none: the kernel chooses."""

    yield_: bool = False
    """It must yield, as it shares them with another part."""


def parse_cpus(text: str) -> tuple[int, ...]:
    """Read CPU numbers as the kernel writes them: `0,2-5`."""
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
    """Write CPU numbers as `parse_cpus` reads them."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def cpu_mask(cpus: Collection[int]) -> str:
    """Return a set of CPUs as the kernel reads it where it takes no list: hexadecimal digits, with
    a comma between every eight of them."""
    digits = f"{sum(1 << cpu for cpu in set(cpus)):x}"
    padded = digits.rjust(-(-len(digits) // 8) * 8, "0")
    words = [padded[start : start + 8] for start in range(0, len(padded), 8)]
    return ",".join(words)


def all_but(cpus: Collection[int]) -> str:
    """Return all CPUs that there may be but these, as `taskset` takes them, whatever the host
    has."""
    edges = (-1, *sorted(set(cpus)), LAST_CPU + 1)
    gaps = [(a + 1, b - 1) for a, b in pairwise(edges) if b - a > 1]
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in gaps)


def listed_cpus(content: bytes) -> frozenset[int]:
    """Return the CPUs that a file of the kernel lists, which may be none."""
    text = content.decode().strip()
    return frozenset(parse_cpus(text)) if text else frozenset()
