"""Runs commands of switchmark on unexpected input, and detects faults: the exit code of a bug, a
traceback, death by a signal, a hang, or unbounded memory.

Each command runs in a child of this process, which has imported everything. So it takes
milliseconds, and its changes end with it. A seed always makes the same input.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn

import click

import switchmark
from switchmark.cli import main
from switchmark.errors import Exit

HANG_S = 60.0
"""The time limit of a command on a small input, even on a busy machine."""

MOST_BYTES = 2 << 30
"""The limit of its memory in addition to that of its parent. A report with pictures takes a third
of it."""

_POLL_MS = 100
_KEPT_BYTES = 1 << 16
_STATUSES = {int(status) for status in Exit} - {int(Exit.BUG)}


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command: its status (negative: the signal), or the reason why it was killed.
    `allowed` are further correct statuses."""

    argv: tuple[str, ...]
    status: int
    stderr: str = field(repr=False)
    killed: str = ""
    allowed: frozenset[int] = frozenset()

    @property
    def fault(self) -> str:
        """Return the fault in how it ended; empty if there is none."""
        if self.killed:
            return self.killed
        if self.status in self.allowed:
            return ""
        if self.status not in _STATUSES:
            return f"status {self.status}"
        if "--debug" in self.argv:  # which asks for a traceback
            return ""
        return "a traceback" if "Traceback (most recent call last)" in self.stderr else ""


Target = Callable[[random.Random, Path], Iterator[Ended]]
"""A target makes a random input in an empty folder, and yields the end of each command on it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A fault that the input of a seed found. The input is kept in a folder."""

    seed: int
    ended: Ended
    kept: Path


@dataclass(slots=True)
class Tally:
    """The numbers of seeds and commands, the statuses, and the faults."""

    seeds: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)

    @property
    def commands(self) -> int:
        return self.statuses.total()


def seeds_of(first: int, count: int | None, seconds: float) -> Iterator[int]:
    """Yield seeds from the first one, up to a number, or until the time is over."""
    end, seed = time.monotonic() + seconds, first
    while seed - first < count if count is not None else time.monotonic() < end:
        yield seed
        seed += 1


def hunt(name: str, target: Target, seeds: Iterator[int], faults_dir: Path) -> Tally:
    """Run a target with each seed. Keep the folder of each fault below `faults_dir`."""
    results = Tally()
    for seed in seeds:
        results.seeds += 1
        with tempfile.TemporaryDirectory(prefix="switchmark-fuzz-") as scratch:
            folder = Path(scratch, "case")
            folder.mkdir()
            for ended in target(random.Random(f"{name} {seed}"), folder):
                results.statuses[ended.status] += 1
                if ended.fault:
                    results.found.append(
                        Found(seed, ended, _keep(faults_dir / f"{name}-{seed}", ended))
                    )
                    with suppress(OSError):
                        shutil.copytree(
                            folder, faults_dir / f"{name}-{seed}", symlinks=True, dirs_exist_ok=True
                        )
                    break
    return results


def _keep(folder: Path, ended: Ended) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    report = f"{ended.fault}\n{list(ended.argv)!r}\n\n{ended.stderr}"
    (folder / "fault.txt").write_text(report, errors="backslashreplace")
    return folder


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of a command: this one with changes; None removes a variable."""
    merged = {**os.environ, "SWITCHMARK_HOST_FILE": os.devnull, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def command(
    *argv: str,
    folder: Path,
    env: Mapping[str, str | None] | None = None,
    before: Callable[[], object] = lambda: None,
    run: Callable[[], object] = main,
    allowed: frozenset[int] = frozenset(),
) -> Ended:
    """Run a command in a folder, in a child that calls `before` first. Return how it ended."""
    _import_all()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _child(argv, folder, environment(env or {}), before, run, (out.fileno(), err.fileno()))
        status, killed = _watched(pid)
        err.seek(0)
        stderr = err.read(_KEPT_BYTES).decode(errors="replace")
    return Ended(argv, status, stderr, killed, allowed)


def _child(
    argv: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    before: Callable[[], object],
    run: Callable[[], object],
    outputs: tuple[int, int],
) -> NoReturn:
    status = int(Exit.BUG)
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, output in enumerate(outputs, 1):
            os.dup2(output, number)
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["switchmark", *argv]
        before()
        run()
        status = 0
    except SystemExit as error:
        status = int(error.code or 0)
    except BaseException:  # noqa: BLE001 - whatever it is, it is a fault that is told
        traceback.print_exc()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


def _watched(pid: int) -> tuple[int, str]:
    """Wait for a child. Kill it if it does not end, or uses too much memory."""
    deadline, killed = time.monotonic() + HANG_S, ""
    most = _resident(os.getpid()) + MOST_BYTES
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while not poll.poll(_POLL_MS):
            if _resident(pid) > most:
                killed = f"more than {MOST_BYTES >> 20} MiB of memory"
            elif time.monotonic() > deadline:
                killed = f"no end within {HANG_S:g} s"
            if killed:
                os.killpg(pid, signal.SIGKILL)
                break
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), killed
    finally:
        os.close(pidfd)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


@cache
def _import_all() -> None:
    """Import the package and its late imports, so that no child has to: an unprivileged child may
    be unable to read them."""
    for package in (switchmark, click):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", "_winconsole")):
                with suppress(ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)
    for name in ("duckdb", "hdrh.histogram", "numpy", "vl_convert", "yaml"):
        importlib.import_module(name)
