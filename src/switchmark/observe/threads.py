"""This module asks the kernel of a host about processes and their threads: the CPU time that they
used, how often they were switched, whose they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from switchmark.hosts.base import Host
from switchmark.observe.taken import Reads

Switches = Mapping[int, tuple[int, int | None]]
"""By the number of a thread: how often it was taken off a CPU, and moved to another one."""

_STAT = re.compile(rb"\d+ \((.*)\) (\S) (\d+) ", re.DOTALL)  # a name may hold anything
_KTHREADD = 2
_PROCESS = re.compile(r"/proc/(\d+)/ns/net")


def of_machine(host: Host, pid: int) -> frozenset[int]:
    """Return the processes of a virtual machine that `pid` started: its children, and the kernel's
    threads that copy frames for these. Until Linux 6.4 such a thread is none of the process that
    has it: its name says whose it is."""
    every = _stats(host, "[0-9]*")
    machine = {each for each, (_, _, parent) in every.items() if parent == pid}
    names = {f"vhost-{each}".encode() for each in machine}
    copying = {
        each for each, (name, _, parent) in every.items() if parent == _KTHREADD and name in names
    }
    return frozenset(machine | copying)


def stopped(host: Host, pids: Iterable[int]) -> frozenset[int]:
    """Return those of some processes that a signal or a debugger has stopped."""
    every = _stats(host, *map(str, pids))
    return frozenset(each for each, (_, state, _) in every.items() if state in (b"T", b"t"))


def _stats(host: Host, *processes: str) -> dict[int, tuple[bytes, bytes, int]]:
    """Return by number the name, the state and the parent of some processes."""
    stats = host.read_all(*(f"/proc/{process}/stat" for process in processes))
    told = {path: _STAT.match(stat) for path, stat in stats.items()}
    return {
        int(path.split("/")[2]): (match[1], match[2], int(match[3]))
        for path, match in told.items()
        if match
    }


def threads(host: Host, pids: Iterable[int]) -> frozenset[int]:
    """Return the threads that some processes have now."""
    return frozenset(int(path.split("/")[4]) for path in host.read_all(*_of(pids, "comm")))


def cpu_ns(host: Reads, pids: Iterable[int]) -> tuple[int, int]:
    """Return the CPU time that all threads of some processes have used, and the time that they
    were ready to run and did not; 0 once they are gone."""
    files = host.read_all(*cpu_time_files(pids))
    words = [each.split() for each in files.values() if each]
    return sum(int(ran) for ran, *_ in words), sum(int(waited) for _, waited, *_ in words)


def cpu_time_files(pids: Iterable[int]) -> list[str]:
    """Return the files in which `cpu_ns` looks."""
    return _of(pids, "schedstat")


def thread_times(host: Reads, pids: Collection[int]) -> dict[str, int]:
    """Return the CPU time, in ns, that each thread of some processes has used, by name and id."""
    files = host.read_all(*thread_time_files(pids))
    times = {}
    for path, content in files.items():
        task, _, name = path.rpartition("/")
        if name == "schedstat" and (words := content.split()):
            who = files.get(f"{task}/comm", b"").decode(errors="replace").strip()
            times[f"{who}/{task.rpartition('/')[2]}"] = int(words[0])
    return times


def thread_time_files(pids: Iterable[int]) -> list[str]:
    """Return the files in which `thread_times` looks."""
    return [*_of(pids, "comm"), *_of(pids, "schedstat")]


def thread_switches(host: Reads, pids: Collection[int]) -> Switches:
    """Return how often each thread of some processes was taken off a CPU, and moved to another one,
    by its number; None where the kernel does not tell of moves (it has no CONFIG_SCHED_DEBUG)."""
    files = host.read_all(*switch_files(pids))
    counts = {}
    for path in (path for path in files if path.endswith("/status")):
        status = [line for line in files[path].splitlines() if b"_ctxt_switches:" in line]
        sched = files.get(f"{path.removesuffix('status')}sched", b"").splitlines()
        moved = [line for line in sched if line.startswith(b"se.nr_migrations")]
        switches = sum(int(line.split()[1]) for line in status)
        moves = sum(int(line.rpartition(b":")[2]) for line in moved) if moved else None
        counts[int(path.split("/")[4])] = switches, moves
    return counts


def switch_files(pids: Collection[int]) -> list[str]:
    """Return the files in which `thread_switches` looks."""
    return [*_of(pids, "status"), *_of(pids, "sched")]


def switched_since(before: Switches, now: Switches) -> tuple[int, int | None]:
    """Return how often the threads that there are now were switched and moved since another
    reading: one that has ended since then is left out, as its counts are gone."""
    switches, moves = 0, 0
    told = True
    for thread, (switched, moved) in now.items():
        switched_before, moved_before = before.get(thread, (0, 0))
        switches += switched - switched_before
        moves += (moved or 0) - (moved_before or 0)
        told = told and moved is not None
    return switches, moves if told else None


def in_network(host: Host, path: str) -> frozenset[int]:
    """Return the processes whose network namespace is the one at `path`; none if there is none."""
    inodes = host.inodes(path, "/proc/[0-9]*/ns/net")
    there = (
        _PROCESS.fullmatch(name) for name, inode in inodes.items() if inode == inodes.get(path)
    )
    return frozenset(int(process[1]) for process in there if process)


def _of(pids: Iterable[int], name: str) -> list[str]:
    """Return the files of that name of all threads of some processes."""
    return [f"/proc/{pid}/task/*/{name}" for pid in pids]
