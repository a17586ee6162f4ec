"""The interface of a host that runs commands, and its implementation for the local host.

This module and `agent` are the only ones that start the processes of a run. Commands are argv
tuples, never shell text. Each process leads its own session, so Ctrl-C in a terminal reaches only
the orchestrator.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from glob import glob
from pathlib import Path
from typing import IO, Protocol

from switchmark.errors import CommandFailed, CommandTimedOut, SwitchmarkError, Unavailable
from switchmark.hosts.local_process import LocalProcess, evidence, kill_group
from switchmark.hosts.processes import end, open_process, wait_end
from switchmark.hosts.signals import shielded
from switchmark.model.cpus import LAST_CPU, listed_cpus
from switchmark.regular_file import MIB, read_regular

_MOST_BYTES = 1024 * MIB
"""The largest file that is read, programs included: a build is identified by the hash of its
file."""

_KEPT = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG TZ TMPDIR XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME "
    "STORAGE_DRIVER STORAGE_OPTS ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS".split()
)
_KEPT_BEGINNINGS = ("LC_", "SWITCHMARK_", "CONTAINERS_")
"""The user's variables that spawned processes inherit; they inherit no others. A switch needs
neither the tokens in a shell's environment nor its LD_PRELOAD. CONTAINERS_* and STORAGE_* locate
the user's container images."""

_ISOLATED = "/sys/devices/system/cpu/isolated"

_UP_TO_LAST_STAR = re.compile(r"(.*\*[^/]*)(.*)")

_AT_ONCE = min(8, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Completed:
    """The exit status (negative: the signal) and the outputs of a command that ended."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """A command to run with others.

    `ok` are the exit statuses after which the next command may run; None allows all. Consecutive
    calls with different `subject` are independent of each other. A call with an empty `subject` may
    depend on any other call.
    """

    argv: tuple[str, ...]
    stdin: bytes | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    ok: tuple[int, ...] | None = None
    subject: str = ""


class Process(Protocol):
    """A running process. Lines are JSON objects or text, without their newline.

    `started` is its start time (`processes.start_time`), which makes `pid` unambiguous.
    """

    pid: int
    started: int

    @property
    def patience(self) -> float:
        """Return how many times as long as usual the process may take (see `Host`)."""
        ...

    def send(self, line: str) -> None:
        """Write a line to its stdin; raise CommandFailed if the process no longer reads."""
        ...

    def receive(self, timeout_s: float) -> str | None:
        """Return its next line of stdout; None if no line came in time or the output has ended."""
        ...

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal), or None while it runs."""
        ...

    def last_words(self, count: int = 5) -> str:
        """Return the last `count` lines that it wrote to stderr."""
        ...

    def hang_up(self) -> None:
        """Close its stdin."""
        ...

    def stop(self, number: int, grace_s: float) -> int:
        """Signal the process, send SIGKILL after `grace_s`, reap it; return the exit status."""
        ...


class Held(Protocol):
    """The undos of a run that a far host holds in `folder` and executes when the connection ends.

    `boot` identifies the boot of that host; `pid` and `started` identify the process that holds the
    undos. No method waits for an answer, but later requests to the host come after these.
    """

    folder: str
    boot: str
    pid: int
    started: int

    def lives(self) -> bool:
        """Return whether the host still holds the undos, as far as this side knows."""
        ...

    def journal(self, line: str) -> None:
        """Append a line to the run's journal on that host."""
        ...

    def command(self, number: int, argv: Sequence[str], stdin: bytes | None) -> None:
        """Register an undo that runs a command, under its number in the journal."""
        ...

    def restore(self, number: int, path: str, content: bytes | None) -> None:
        """Register an undo that writes a file or removes it."""
        ...

    def stop(self, number: int, pid: int, started: int, by: int, grace_s: float) -> None:
        """Register an undo that ends a process."""
        ...

    def lease(self, number: int, path: str, added: int | None) -> None:
        """Register an undo that restores the file's current content, or that lowers its count by
        the increase from now on, at most by `added`."""
        ...

    def done(self, number: int) -> None:
        """Drop the undo with this number."""
        ...

    def end(self, *, kept: bool = False) -> None:
        """Drop all undos: the host removes the folder, or keeps it for `clean`."""
        ...


class Host(ABC):
    """A host: it runs commands and stores files. This is the whole interface that a run needs.

    A new kind of host is a subclass that implements the abstract methods and overrides the defaults
    that do not fit. `run` kills a command after `timeout_s` and raises CommandTimedOut; a missing
    program raises Unavailable. `read`, `write` and `remove` raise OSError; `remove` of a missing
    file is no error. `read_all` reads kernel files in /proc and /sys, many at once.
    """

    name: str

    is_local = False
    """Whether switchmark itself runs there: its Python, its network namespace, its CPU affinity."""

    is_far = False
    """Whether the connection to the host can be lost. A run then keeps a folder, a journal and its
    undos there too, and the host executes the remaining undos when the connection ends."""

    is_machine = False
    """Whether it is a virtual machine of the local host."""

    in_order = True
    """Whether `run_all` starts a command only after the previous one succeeded: after a failure, no
    later command has run."""

    patience: float = 1.0
    """How many times as long as usual everything may take there."""

    # --- commands and processes ---------------------------------------------------------------

    @abstractmethod
    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed: ...

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        """Run commands; yield each result, in order. A status that the call does not allow ends the
        batch; so does an error, which is raised in its turn."""
        for call in calls:
            completed = self.run(
                call.argv, stdin=call.stdin, env=call.env, timeout_s=call.timeout_s
            )
            yield completed
            if _is_failure(call, completed):
                return

    @abstractmethod
    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> Process:
        """Start a process. It gets `env` and the few variables that every program may see, not the
        environment of the user's shell."""

    @abstractmethod
    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        """Signal the process with this number and start time, and send SIGKILL after `grace_s`;
        return whether it has ended. A process that is already gone has ended."""

    def path_of(self, program: str) -> str:
        """Return the path on this host of a program of the local host; copy the program there if
        necessary."""
        return program

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs that runs may use, including isolated CPUs."""
        # The kernel grants those of the range that exist.
        done = self.run(("taskset", "-c", f"0-{LAST_CPU}", "cat", "/proc/self/status"))
        return listed_cpus(done.stdout.partition(b"Cpus_allowed_list:")[2].partition(b"\n")[0])

    # --- files --------------------------------------------------------------------------------

    @abstractmethod
    def read(self, path: str) -> bytes: ...

    @abstractmethod
    def write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def remove(self, path: str) -> None: ...

    @abstractmethod
    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        """Return the content of every readable file that matches a shell pattern."""

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]:
        """Start reading the files that match patterns, if the host can do so in the background;
        return a function that returns their contents. Call it before the next request."""
        return partial(self.read_all, *patterns)

    @abstractmethod
    def inodes(self, *patterns: str) -> Mapping[str, int]:
        """Return the inode numbers of the files behind matching paths, once for each path."""

    # --- the connection, and the runs on the host -------------------------------------------------

    @property
    def up(self) -> bool:
        """Return whether the host is running: False for a virtual machine that is not booted."""
        return True

    @property
    def emulated(self) -> str:
        """Return the emulator of its processor; empty for a real processor."""
        return ""

    def begin(self) -> None:  # noqa: B027
        """Start to boot the host, so that several hosts boot at the same time."""

    def lives(self) -> bool:
        """Return whether the connection is up, as far as this side knows."""
        return True

    def hold(self, run: str, folder: str, names: Sequence[str]) -> Held:
        """Create the run's folder on a far host, with subfolders of these names, and let the host
        hold the run's undos. Raise SetupFailed if that fails."""
        raise NotImplementedError(f"{self.name} is not far away")

    def runs_there(self) -> Sequence[tuple[str, str, bool]]:
        """Return the id, the folder and the state (dead or not) of each run that another host leads
        and that left something on this one."""
        return ()

    def undo_run(self, run: str, folder: str) -> None:  # noqa: B027
        """Undo what a run that another host leads left there. Raise SetupFailed if that fails."""

    def close(self) -> None:  # noqa: B027
        """End the connection and every process on it."""


class LocalHost(Host):
    """The local host. Tools print untranslated messages (LC_ALL=C), which drivers parse."""

    is_local = True
    in_order = False

    def __init__(self, name: str = "local") -> None:
        self.name = name

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        outcomes = list(self.run_all([Call(argv, stdin, env, timeout_s)]))
        return outcomes[0]

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        """Run commands in order, but calls with different subjects in parallel, at most as many as
        there are CPUs; yield each result. After a status that the call does not allow, or an error,
        which is raised in its turn, no later command starts; running commands end."""
        waiting, running = list(range(len(calls))), dict[int, _Command]()
        ended: dict[int, Completed | SwitchmarkError] = {}
        try:
            for number, call in enumerate(calls):
                while number not in ended:
                    while len(running) < _AT_ONCE:
                        if (ready := _ready(calls, waiting, running)) is None:
                            break
                        waiting.remove(ready)
                        try:
                            with shielded():
                                running[ready] = _Command(self.name, calls[ready])
                        except SwitchmarkError as error:
                            ended[ready] = error
                            break
                    if number not in ended:
                        ended |= _some_ended(running)
                    bad = [n for n, outcome in ended.items() if _is_failure(calls[n], outcome)]
                    waiting = [n for n in waiting if n < min(bad, default=len(calls))]
                outcome = ended.pop(number)
                while running and _is_failure(call, outcome):
                    _some_ended(running)
                if isinstance(outcome, SwitchmarkError):
                    raise outcome
                yield outcome
                if _is_failure(call, outcome):
                    return
        finally:
            for command in running.values():
                command.kill()

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> LocalProcess:
        # An interruption between the fork and the caller's assignment would orphan the process.
        with shielded(), Path(stderr_path).open("ab") as err:
            pipe = subprocess.PIPE
            child = _start(argv, _kept(), env, stdin=pipe, stdout=pipe, stderr=err)
            return LocalProcess(child, shlex.join(argv), stderr_path)

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        if (pidfd := open_process(pid, started)) is None:
            return True
        try:
            return end(pidfd, number, grace_s)
        finally:
            os.close(pidfd)

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs that this process may be scheduled on, and the isolated CPUs."""
        usual = os.sched_getaffinity(0)
        isolated = listed_cpus(b"".join(self.read_all(_ISOLATED).values()))
        if isolated <= usual:
            return frozenset(usual)
        # Isolated CPUs are in no process's affinity by default; the kernel grants those of the
        # cpuset on request.
        try:
            os.sched_setaffinity(0, usual | isolated)
            return frozenset(os.sched_getaffinity(0))
        except OSError:
            return frozenset(usual)
        finally:
            os.sched_setaffinity(0, usual)

    def read(self, path: str) -> bytes:
        return read_regular(path, _MOST_BYTES)

    def write(self, path: str, content: bytes) -> None:
        # Without O_NONBLOCK, opening a pipe that nobody reads would block.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
            file.write(content)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def remove(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        contents = {}
        for path in _matching(patterns):
            with suppress(OSError), Path(path).open("rb", buffering=0) as file:
                contents[path] = file.readall()
        return contents

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        numbers = {}
        for path in _matching(patterns):
            with suppress(OSError):
                numbers[path] = Path(path).stat().st_ino
        return numbers


class _Command:
    """A command that runs until it ends or is killed.

    Its outputs are memory files, not pipes: the wait ends with the command, even if a daemon that
    it started still holds them.
    """

    def __init__(self, host: str, call: Call) -> None:
        self._host, self._call = host, call
        with ExitStack() as files:
            self._out, self._err = (files.enter_context(_memory_file()) for _ in range(2))
            source: int | IO[bytes] = subprocess.DEVNULL
            if call.stdin is not None:
                source = files.enter_context(_memory_file(call.stdin))
            self._child = _start(
                call.argv,
                os.environ,
                call.env,
                stdin=source,
                stdout=self._out,
                stderr=self._err,
            )
            self.pidfd = os.pidfd_open(self._child.pid)
            files.callback(os.close, self.pidfd)
            self._files = files.pop_all()
        self.deadline = time.monotonic() + call.timeout_s

    def ended(self) -> Completed:
        """Return the result; kill the command and raise CommandTimedOut if it still runs."""
        in_time = wait_end(self.pidfd, 0)
        with self._files:
            if in_time:
                return Completed(self._child.wait(), _content(self._out), _content(self._err))
            kill_group(self._child)
            raise CommandTimedOut(
                f"a command did not end within {self._call.timeout_s:g} s and was killed\n"
                f"  on {self._host}: {shlex.join(self._call.argv)}{evidence(_content(self._err))}"
            )

    def kill(self) -> None:
        """Kill the command and everything that it started."""
        with self._files:
            kill_group(self._child)


def _ready(calls: Sequence[Call], waiting: Sequence[int], running: Iterable[int]) -> int | None:
    """Return the first command that depends on no unfinished command before it."""
    before = {calls[number].subject for number in running}
    for number in waiting:
        subject = calls[number].subject
        if not before or (subject and not before & {"", subject}):
            return number
        before.add(subject)
    return None


def _some_ended(running: dict[int, _Command]) -> dict[int, Completed | SwitchmarkError]:
    """Wait until commands end or time out; return their results and remove them from `running`."""
    if not running:
        return {}
    poll = select.poll()
    numbers = {command.pidfd: number for number, command in running.items()}
    for pidfd in numbers:
        poll.register(pidfd, select.POLLIN)
    left_s = min(command.deadline for command in running.values()) - time.monotonic()
    over = {numbers[pidfd] for pidfd, _ in poll.poll(max(0.0, left_s) * 1000)}
    now = time.monotonic()
    over |= {number for number, command in running.items() if command.deadline <= now}
    ended: dict[int, Completed | SwitchmarkError] = {}
    for number in sorted(over):
        try:
            ended[number] = running[number].ended()
        except CommandTimedOut as error:
            ended[number] = error
        del running[number]
    return ended


def _is_failure(call: Call, outcome: Completed | SwitchmarkError) -> bool:
    if isinstance(outcome, Completed):
        return call.ok is not None and outcome.status not in call.ok
    return True


def _start(
    argv: tuple[str, ...],
    inherited: Mapping[str, str],
    env: Mapping[str, str],
    *,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            bufsize=0,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**inherited, "LC_ALL": "C", "PATH": _path(), **env},
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Unavailable(
            f"the program '{argv[0]}' is not installed", hint="switchmark doctor"
        ) from error
    except PermissionError as error:
        raise Unavailable(f"the program '{argv[0]}' may not be executed by this user") from error
    except OSError as error:
        raise CommandFailed(f"cannot start a command: {error}\n  {shlex.join(argv)}") from error


def _kept() -> Mapping[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
    }


def _path() -> str:
    # Many users' PATH lacks the folders of `ip` and similar tools.
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def _memory_file(content: bytes | None = None) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("switchmark"), "w+b", buffering=0)
    if content is not None:
        file.write(content)
        file.seek(0)
    return file


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _matching(patterns: Iterable[str]) -> Iterator[str]:
    """Yield paths in the order of their patterns. Do not check the part behind a pattern's last
    star: the check takes half of the time for many files, and opening the file shows whether it
    exists."""
    for pattern in patterns:
        if stem := _UP_TO_LAST_STAR.fullmatch(pattern):
            # Path.glob is slower, and this runs around each trial.
            yield from (f"{path}{stem[2]}" for path in sorted(glob(stem[1])))  # noqa: PTH207
        else:
            yield pattern


def boot_id(host: Host) -> str:
    """Return the id that the kernel of a host generated at boot."""
    return host.read("/proc/sys/kernel/random/boot_id").decode().strip()
