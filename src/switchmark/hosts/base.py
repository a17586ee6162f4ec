"""A host is where commands are run: what every kind of host has, and the local one.
This and `agent` are the only modules that start the processes of a run.

Commands are argv tuples, never a shell's text. Each process leads a session of its own, so that the
Ctrl-C of a terminal reaches the orchestrator alone.
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
"""Programs are read, too: what a build is known by is the hash of its file."""

_KEPT = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG TZ TMPDIR XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME "
    "STORAGE_DRIVER STORAGE_OPTS ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS".split()
)
_KEPT_BEGINNINGS = ("LC_", "SWITCHMARK_", "CONTAINERS_")
"""A process that is spawned gets these of the user's variables and no others: a switch needs
neither the tokens of a shell nor its LD_PRELOAD. CONTAINERS_* and STORAGE_* say where a container's
client finds the user's images."""

_ISOLATED = "/sys/devices/system/cpu/isolated"

_UP_TO_LAST_STAR = re.compile(r"(.*\*[^/]*)(.*)")

_AT_ONCE = min(8, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class Completed:
    """A command ended with this exit status (negative: the signal) and these outputs."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """A call is a command to be run with others. `ok` are the exit statuses after which the next
    one is run; any without them. Calls in a row that are `about` different things need nothing of
    each other; what one that is about nothing needs is not known."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    ok: tuple[int, ...] | None = None
    about: str = ""


class Process(Protocol):
    """A process runs until it is stopped. Lines are JSON objects or text, without their newline.
    `started` is its start time (`processes.start_time`), which makes `pid` unmistakable."""

    pid: int
    started: int

    @property
    def patience(self) -> float:
        """Return how many times as long as usual it may take (see `Host`)."""
        ...

    def send(self, line: str) -> None:
        """Write a line to its stdin; CommandFailed when it no longer reads."""
        ...

    def receive(self, timeout_s: float) -> str | None:
        """Return its next line of stdout; None when none came, or none will ever come."""
        ...

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal), or None while it runs."""
        ...

    def last_words(self, count: int = 5) -> str:
        """Return the last lines that it wrote to stderr, `count` of them."""
        ...

    def hang_up(self) -> None:
        """Close its stdin."""
        ...

    def stop(self, number: int, grace_s: float) -> int:
        """Stop it: signal it, SIGKILL it after `grace_s`, reap it; return the exit status."""
        ...


class Held(Protocol):
    """A far host holds the undos of a run in `folder`, and carries out what is left of them when
    the connection ends. `boot` names its boot, `pid` and `started` are of the process that holds
    them. Nothing of this is waited for: what is asked of the host after it comes after it."""

    folder: str
    boot: str
    pid: int
    started: int

    def lives(self) -> bool:
        """Say whether they are held still, as far as this side knows."""
        ...

    def journal(self, line: str) -> None:
        """Add a line to the run's journal there."""
        ...

    def command(self, number: int, argv: Sequence[str], stdin: bytes | None) -> None:
        """Hold an undo that runs a command, by the number that it has in the journal."""
        ...

    def restore(self, number: int, path: str, content: bytes | None) -> None:
        """Hold an undo that writes a file, or removes it."""
        ...

    def stop(self, number: int, pid: int, started: int, by: int, grace_s: float) -> None:
        """Hold an undo that ends a process."""
        ...

    def lease(self, number: int, path: str, added: int | None) -> None:
        """Hold an undo that writes back what a file has now, or lowers its count by what is added
        from now on, but by no more than `added`."""
        ...

    def done(self, number: int) -> None:
        """Hold the undo of that number no longer."""
        ...

    def end(self, *, kept: bool = False) -> None:
        """Hold none any longer: the folder goes, or is kept for `clean`."""
        ...


class Host(ABC):
    """A host runs commands and keeps files. This is all that a run needs of one: a new kind of
    host is a class of its own, which implements the abstract methods and changes what does not
    fit of the rest.

    `run` kills what outlives `timeout_s` and raises CommandTimedOut; a program that is not there is
    Unavailable. `read`, `write` and `remove` raise OSError; `remove` of a file that is not there is
    no error. Files of the kernel, in /proc and /sys, are read by `read_all`, many at once.
    """

    name: str

    is_local = False
    """Whether switchmark itself runs there: its Python, its network namespace, its affinity."""

    is_far = False
    """Whether the connection to the host can be lost. A run then has a folder, a journal and
    its undos there too: what is left of them is carried out there when the connection ends."""

    is_machine = False
    """Whether it is a virtual machine of the local host."""

    in_order = True
    """Whether `run_all` begins a command only when the one before it has ended as it may: after a
    failure nothing of those behind it was done."""

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
        """Run commands; yield how each ended, in order. After one that ends with none of the
        statuses that are fine, or in an error, which is raised in its turn, none is begun."""
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
        """Signal the process of this number and start time, SIGKILL it after `grace_s`; say whether
        it has ended. One that is gone has."""

    def path_of(self, program: str) -> str:
        """Return where a program of the local host is on this one, which has it afterwards."""
        return program

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs that runs may use, isolated ones too."""
        # The kernel grants what of these there is.
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
        """Return the content of every file that matches a shell's pattern and can be read."""

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]:
        """Begin to read what matches patterns, where that is done elsewhere; return what gives it,
        which is called before anything else is asked."""
        return partial(self.read_all, *patterns)

    @abstractmethod
    def inodes(self, *patterns: str) -> Mapping[str, int]:
        """Return the numbers of the files that matching paths lead to, once for each path."""

    # --- the connection, and what a run has there ------------------------------------------------

    @property
    def up(self) -> bool:
        """Say whether anything can be on the host: not on a machine that is not booted."""
        return True

    @property
    def emulated(self) -> str:
        """Return what emulates its processor, if anything does."""
        return ""

    def begin(self) -> None:  # noqa: B027
        """Begin to bring it up: others can be brought up meanwhile."""

    def lives(self) -> bool:
        """Say whether the connection is up, as far as this side knows."""
        return True

    def hold(self, run: str, folder: str, names: Sequence[str]) -> Held:
        """Make the run's folder on a far host, with folders of these names in it, and have its
        undos held there. SetupFailed where that fails."""
        raise NotImplementedError(f"{self.name} is not far away")

    def runs_there(self) -> Sequence[tuple[str, str, bool]]:
        """Return the id and the folder of each run that was led from another host and has something
        on this one, and whether it is dead."""
        return ()

    def undo_run(self, run: str, folder: str) -> None:  # noqa: B027
        """Undo what a run left there that is led from another host. SetupFailed where it fails."""

    def close(self) -> None:  # noqa: B027
        """End the connection, and all that goes through it."""


class LocalHost(Host):
    """The local host is this one. Messages of tools are untranslated (LC_ALL=C), for drivers."""

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
        """Run commands in order, those that are about different things side by side, as many as
        there are CPUs; yield how each ended. Once one ends with none of the statuses that are fine,
        or in an error, which is raised in its turn, none behind it is begun; what runs ends."""
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
        # Interrupted between the fork and the caller's variable, the process would be nobody's.
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
        """Return the CPUs that this process may be scheduled on, and those that are isolated."""
        usual = os.sched_getaffinity(0)
        isolated = listed_cpus(b"".join(self.read_all(_ISOLATED).values()))
        if isolated <= usual:
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

    def read(self, path: str) -> bytes:
        return read_regular(path, _MOST_BYTES)

    def write(self, path: str, content: bytes) -> None:
        # A pipe that nobody reads would be waited for.
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
    """A command runs until it ends, or is killed. Its outputs are memory files, not pipes: the end
    of the command is the end of the wait, even where it leaves a daemon behind that still holds
    them."""

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
        """Return how it ended; CommandTimedOut, and it is killed, where it has not."""
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
        """Kill it, with all that it started."""
        with self._files:
            kill_group(self._child)


def _ready(calls: Sequence[Call], waiting: Sequence[int], running: Iterable[int]) -> int | None:
    """Return the first command that needs nothing of those before it that have not ended."""
    before = {calls[number].about for number in running}
    for number in waiting:
        about = calls[number].about
        if not before or (about and not before & {"", about}):
            return number
        before.add(about)
    return None


def _some_ended(running: dict[int, _Command]) -> dict[int, Completed | SwitchmarkError]:
    """Wait until commands have ended, or their time is over; return how, without them left."""
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
    # Many users' search path lacks the folders where `ip`'s kin live.
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
    """Yield paths in the order of their patterns. What follows the last star of one is not looked
    for, which is half of the time where there are many: who opens it sees whether it is there."""
    for pattern in patterns:
        if stem := _UP_TO_LAST_STAR.fullmatch(pattern):
            # Path.glob takes longer, and this is asked around each trial.
            yield from (f"{path}{stem[2]}" for path in sorted(glob(stem[1])))  # noqa: PTH207
        else:
            yield pattern


def boot_id(host: Host) -> str:
    """Return the name that the kernel of a host gave itself when it was booted."""
    return host.read("/proc/sys/kernel/random/boot_id").decode().strip()
