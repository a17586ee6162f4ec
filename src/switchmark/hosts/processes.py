"""The processes of this host, by number: their identity, their run, and their end.

A pid is never trusted alone: it comes with its start time, and signals go through a pidfd.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

MARK = "SWITCHMARK_RUN"
"""The environment variable with the run's id that every process of a run carries."""

_KILL_WAIT_S = 5.0
_EXEC_S = 1.0
_TRIES = 3


def start_time(pid: int) -> int | None:
    """Return the clock ticks from boot to the start of `pid`; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name, in parentheses, may hold anything; field 22 counts from its closing parenthesis.
    return int(stat.rpartition(b")")[2].split()[19])


def open_process(pid: int, start: int) -> int | None:
    """Return a pidfd of the process with this pid and start time; None if it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    if start_time(pid) == start:
        return pidfd
    os.close(pidfd)
    return None


def marked(run: str) -> tuple[tuple[int, int], ...]:
    """Return pid and start time of every other process whose environment carries the mark of
    `run`."""
    mark = f"{MARK}={run}".encode()
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        start = start_time(pid)
        try:
            environ = _environ(entry)
        except OSError:
            continue
        if start is not None and mark in environ.split(b"\0"):
            processes.append((pid, start))
    return tuple(processes)


def _environ(process: Path) -> bytes:
    """Return the environment of a process. During an exec the environment is empty for some
    milliseconds on a busy host, so read it again."""
    deadline = time.monotonic() + _EXEC_S
    tries = _TRIES
    while not (environ := (process / "environ").read_bytes()):
        if not tries or time.monotonic() > deadline or not (process / "exe").exists():
            break  # the process has no environment or no program: a kernel thread or a zombie
        if _becomes_another(process):
            time.sleep(0.001)
        else:
            tries -= 1
    return environ


def _becomes_another(process: Path) -> bool:
    """Return whether a process is in the middle of an exec and has no environment yet."""
    stat = (process / "stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[48]) == 0  # field 51, the end of the environment


def wait_end(pidfd: int, timeout_s: float) -> bool:
    """Return whether the process ended within `timeout_s`; a zombie has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def end(pidfd: int, number: int, grace_s: float) -> bool:
    """Send the signal, wait for `grace_s`, then send SIGKILL; return whether the process has
    ended. A process that was stopped goes on, as it would not receive the signal otherwise."""
    try:
        signal.pidfd_send_signal(pidfd, number)
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
        if wait_end(pidfd, grace_s):
            return True
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return wait_end(pidfd, _KILL_WAIT_S)
