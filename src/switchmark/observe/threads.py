"""The processes and threads of a host, as its kernel reports them: their CPU time, their context
switches and migrations, and their owners."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from switchmark.hosts.base import Host
from switchmark.observe.taken import Reads

Switches = Mapping[int, tuple[int, int | None]]
"""The context switches and the migrations of each thread, by its number."""

_STAT = re.compile(rb"\d+ \((.*)\) (\S) (\d+) ", re.DOTALL)  # a name may hold anything
_RESIDENT = re.compile(rb"^VmRSS:\s*(\d+) kB", re.MULTILINE)
_KTHREADD = 2
_PROCESS = re.compile(r"/proc/(\d+)/ns/net")


def of_machine(host: Host, pid: int) -> frozenset[int]:
    """Return the processes of a virtual machine that `pid` started: its children, and the kernel
    threads that copy frames for them. Until Linux 6.4 such a thread is outside its owner's process;
    only its name identifies the owner."""
    stats = _stats(host, "[0-9]*")
    machine = {thread for thread, (_, _, parent) in stats.items() if parent == pid}
    names = {f"vhost-{thread}".encode() for thread in machine}
    copying = {
        thread
        for thread, (name, _, parent) in stats.items()
        if parent == _KTHREADD and name in names
    }
    return frozenset(machine | copying)


def stopped(host: Host, pids: Iterable[int]) -> frozenset[int]:
    """Return the processes that a signal or a debugger has stopped."""
    stats = _stats(host, *map(str, pids))
    return frozenset(pid for pid, (_, state, _) in stats.items() if state in (b"T", b"t"))


def resident_kib(host: Host, pids: Iterable[int]) -> int:
    """Return the resident memory of processes in KiB, without hugepages."""
    statuses = host.read_all(*(f"/proc/{pid}/status" for pid in pids))
    found = (_RESIDENT.search(status) for status in statuses.values())
    return sum(int(match[1]) for match in found if match)


def _stats(host: Host, *processes: str) -> dict[int, tuple[bytes, bytes, int]]:
    """Return name, state and parent of processes, by number."""
    stats = host.read_all(*(f"/proc/{process}/stat" for process in processes))
    matches = {path: _STAT.match(stat) for path, stat in stats.items()}
    return {
        int(path.split("/")[2]): (match[1], match[2], int(match[3]))
        for path, match in matches.items()
        if match
    }


def threads(host: Host, pids: Iterable[int]) -> frozenset[int]:
    """Return the current threads of processes."""
    return frozenset(int(path.split("/")[4]) for path in host.read_all(*_paths_of(pids, "comm")))


def cpu_ns(host: Reads, pids: Iterable[int]) -> tuple[int, int]:
    """Return the CPU time of all threads of processes, and the time that they waited for a CPU; 0
    if they have ended."""
    files = host.read_all(*cpu_time_files(pids))
    rows = [content.split() for content in files.values() if content]
    return sum(int(ran) for ran, *_ in rows), sum(int(waited) for _, waited, *_ in rows)


def cpu_time_files(pids: Iterable[int]) -> list[str]:
    """Return the files that `cpu_ns` reads."""
    return _paths_of(pids, "schedstat")


def thread_times(host: Reads, pids: Collection[int]) -> dict[str, int]:
    """Return the CPU time of each thread of processes, in ns, by name and id."""
    files = host.read_all(*thread_time_files(pids))
    times = {}
    for path, content in files.items():
        task, _, name = path.rpartition("/")
        if name == "schedstat" and (fields := content.split()):
            comm = files.get(f"{task}/comm", b"").decode(errors="replace").strip()
            times[f"{comm}/{task.rpartition('/')[2]}"] = int(fields[0])
    return times


def thread_time_files(pids: Iterable[int]) -> list[str]:
    """Return the files that `thread_times` reads."""
    return [*_paths_of(pids, "comm"), *_paths_of(pids, "schedstat")]


def thread_switches(host: Reads, pids: Collection[int]) -> Switches:
    """Return the context switches and the migrations of each thread of processes, by its number.
    Migrations are None if the kernel does not count them (without CONFIG_SCHED_DEBUG)."""
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
    """Return the files that `thread_switches` reads."""
    return [*_paths_of(pids, "status"), *_paths_of(pids, "sched")]


def switched_since(before: Switches, now: Switches) -> tuple[int, int | None]:
    """Return the context switches and the migrations of the current threads since another reading.
    Threads that have ended since do not count, because their counts are gone."""
    switches, moves = 0, 0
    complete = True
    for thread, (switched, moved) in now.items():
        switched_before, moved_before = before.get(thread, (0, 0))
        switches += switched - switched_before
        moves += (moved or 0) - (moved_before or 0)
        complete = complete and moved is not None
    return switches, moves if complete else None


def in_network(host: Host, path: str) -> frozenset[int]:
    """Return the processes in the network namespace at `path`; empty if there are none."""
    inodes = host.inodes(path, "/proc/[0-9]*/ns/net")
    there = (
        _PROCESS.fullmatch(name) for name, inode in inodes.items() if inode == inodes.get(path)
    )
    return frozenset(int(process[1]) for process in there if process)


def _paths_of(pids: Iterable[int], name: str) -> list[str]:
    """Return the files of this name for all threads of processes."""
    return [f"/proc/{pid}/task/*/{name}" for pid in pids]
