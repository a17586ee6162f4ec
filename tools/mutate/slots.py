"""This module runs work in forked processes, a few at a time, each as a separate user. A mutant
that ends processes or removes files can reach only those of its user.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIRST_USER, LAST_USER = 59800, 59999
"""The users of slots; Debian leaves these numbers to the administrator."""

_PR_SET_PDEATHSIG = 1
_STOPPED_S = 5.0
"""Longer between two looks at the processes means that all of this was stopped in between, such as
by a debugger or a freezer. That time counts for no limit."""

_PROCESSES = 300
_FILE_BYTES = 2**30
_MEMORY_BYTES = 6 * 2**30

Answer = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """Work for a process of its own."""

    about: Any
    work: Callable[[], Answer]
    """Returns an answer that JSON can hold."""
    cpu_s: float
    wall_s: float
    """The time that it may run or sleep; time in which it waits for a CPU does not count."""


@dataclass
class _Process:
    job: Job
    pid: int
    pipe: int
    slot: int
    started: float
    content: bytes = b""


class Slots:
    """Places for so many processes at a time."""

    def __init__(self, count: int) -> None:
        self._users, self._holds = zip(*(_free_user() for _ in range(count)), strict=True)
        self._free = list(range(count))
        self._folder = Path(tempfile.mkdtemp(prefix="sm-mutate-"))
        self._folder.chmod(0o711)
        self._running: dict[int, _Process] = {}
        self._looked = 0.0

    @property
    def users(self) -> tuple[int, ...]:
        """Return the user of each slot. No other command on this machine has it."""
        return self._users

    def close(self) -> None:
        """Remove what the processes wrote, and let the users go."""
        for hold in self._holds:
            hold.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, Answer, float]]:
        """Run all jobs; yield each with its answer and seconds as it ends."""
        waiting = True
        while waiting or self._running:
            while waiting and self._free:
                job = next(jobs, None)
                waiting = job is not None
                if job is not None:
                    self._start(job)
            if self._running:
                yield from self._ended()

    def _start(self, job: Job) -> None:
        slot = self._free.pop()
        home = self._folder / str(slot)
        shutil.rmtree(home, ignore_errors=True)
        user = self._users[slot]
        for folder in (home, home / "tmp", home / "run"):
            folder.mkdir(mode=0o700)
            os.chown(folder, user, user)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _work(job, writing, user, home)
        os.close(writing)
        self._running[reading] = _Process(job, pid, reading, slot, time.monotonic())

    def _ended(self) -> Iterator[tuple[Job, Answer, float]]:
        readable, _, _ = select.select(list(self._running), [], [], 0.5)
        for pipe in readable:
            process = self._running[pipe]
            part = os.read(pipe, 1 << 20)
            process.content += part
            if not part:
                yield self._end(process)
        now = time.monotonic()
        if (gap := now - self._looked) > _STOPPED_S:
            for process in self._running.values():
                process.started = min(process.started + gap, now)
        self._looked = now
        for process in list(self._running.values()):
            lasted_s = now - process.started
            if lasted_s > process.job.wall_s and lasted_s - _waited_s(process.pid) > (
                process.job.wall_s
            ):
                yield self._end(process)

    def _end(self, process: _Process) -> tuple[Job, Answer, float]:
        seconds = time.monotonic() - process.started
        user = self._users[process.slot]
        # All that the user has: processes that the tests left, too.
        subprocess.run(
            ["kill", "-KILL", "-1"], user=user, group=user, extra_groups=[], capture_output=True
        )
        os.waitpid(process.pid, 0)
        os.close(process.pipe)
        del self._running[process.pipe]
        self._free.append(process.slot)
        try:
            answer = json.loads(process.content)
        except ValueError:
            answer = {"result": "time"}
        return process.job, answer, seconds


def _free_user() -> tuple[int, socket.socket]:
    """Return a user that no command has, with the socket that holds it. All processes of a user end
    with its slot, so two commands with one user would end each other's."""
    for user in range(FIRST_USER, LAST_USER + 1):
        hold = socket.socket(socket.AF_UNIX)
        try:
            hold.bind(f"\0switchmark-mutate-{user}")
        except OSError:
            hold.close()
            continue
        return user, hold
    raise RuntimeError(f"the users from {FIRST_USER} to {LAST_USER} are all taken")


def _waited_s(pid: int) -> float:
    """Return the time for which a process was ready to run and had no CPU."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _work(job: Job, pipe: int, user: int, home: Path) -> None:
    """Do the work of a job in the new process, and end it."""
    status = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        cpu = int(job.cpu_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_NPROC, (_PROCESSES, _PROCESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.environ.update(
            HOME=str(home),
            TMPDIR=str(home / "tmp"),
            XDG_RUNTIME_DIR=str(home / "run"),
            USER="mutant",
            LOGNAME="mutant",
            PYTHONDONTWRITEBYTECODE="1",
        )
        tempfile.tempdir = None
        answer = job.work()
        status = 0
    except BaseException:  # noqa: BLE001 (the parent prints it)
        answer = {"result": "error", "why": traceback.format_exc()}
    content = memoryview(json.dumps(answer).encode())
    while content:
        content = content[os.write(pipe, content) :]
    os._exit(status)
