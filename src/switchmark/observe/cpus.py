"""The CPUs of a host that a run may use, and what they share."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from switchmark.errors import UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.ssh import SshHost

_LAST_CPU = 1023  # more than any host has here: taskset leaves out those that are not there
_SYSTEM = "/sys/devices/system"
_ONLINE, _ISOLATED = f"{_SYSTEM}/cpu/online", f"{_SYSTEM}/cpu/isolated"
_NODES = f"{_SYSTEM}/node/node[0-9]*/cpulist"
_SIBLINGS = f"{_SYSTEM}/cpu/cpu[0-9]*/topology/thread_siblings_list"


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU is a logical one. `siblings` are the other CPUs of its physical core; `isolated` says
    that the kernel schedules nothing there by itself (isolcpus)."""

    id: int
    node: int = 0
    siblings: tuple[int, ...] = ()
    isolated: bool = False


def read_cpus(host: Host, allowed: Collection[int] | None = None) -> tuple[Cpu, ...]:
    """Return the CPUs of a host that are online and allowed, in order; `allowed` are by default
    those that this process may be scheduled on, or one of another host's."""
    files = host.read_all(_ONLINE, _ISOLATED, _NODES, _SIBLINGS)
    online, isolated = (_listed(files.get(path, b"")) for path in (_ONLINE, _ISOLATED))
    usable = _allowed(host, isolated) if allowed is None else frozenset(allowed)
    nodes = {
        cpu: int(path.split("/")[-2].removeprefix("node"))
        for path in files
        if path.endswith("/cpulist")
        for cpu in _listed(files[path])
    }
    return tuple(
        Cpu(
            id=cpu,
            node=nodes.get(cpu, 0),
            siblings=tuple(
                sorted(_listed(files.get(_SIBLINGS.replace("[0-9]*", str(cpu)), b"")) - {cpu})
            ),
            isolated=cpu in isolated,
        )
        for cpu in sorted((online & usable) if online else usable)
    )


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
    edges = (-1, *sorted(set(cpus)), _LAST_CPU + 1)
    gaps = [(a + 1, b - 1) for a, b in pairwise(edges) if b - a > 1]
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in gaps)


def allowed_there(host: SshHost) -> frozenset[int]:
    """Return the CPUs that a process of another host may be scheduled on, and that the user lets
    runs have of it."""
    # The kernel grants what of these there is, isolated CPUs too.
    done = host.run(("taskset", "-c", f"0-{_LAST_CPU}", "cat", "/proc/self/status"))
    listed = done.stdout.partition(b"Cpus_allowed_list:")[2].partition(b"\n")[0]
    granted = _listed(listed)
    return granted if host.cpus is None else granted & frozenset(parse_cpus(host.cpus))


def _allowed(host: Host, isolated: frozenset[int]) -> frozenset[int]:
    if isinstance(host, SshHost):
        return allowed_there(host)
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


def _listed(content: bytes) -> frozenset[int]:
    text = content.decode().strip()
    return frozenset(parse_cpus(text)) if text else frozenset()
