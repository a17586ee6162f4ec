"""The local host: its commands, its processes and its files.

This module and `agent` are the only ones that start the processes of a run. Each process leads its
own session, so Ctrl-C in a terminal reaches only the orchestrator.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from glob import glob
from pathlib import Path
from typing import IO

from switchmark.errors import CommandFailed, CommandTimedOut, SwitchmarkError, Unavailable
from switchmark.hosts.base import Call, Completed, Host
from switchmark.hosts.processes import end, marked, open_process, start_time, wait_end
from switchmark.hosts.signals import shielded
from switchmark.model.cpus import listed_cpus
from switchmark.model.printable import evidence, last_lines
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

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        return marked(run)

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
            _kill_group(self._child)
            raise CommandTimedOut(
                f"a command did not end within {self._call.timeout_s:g} s and was killed\n"
                f"  on {self._host}: {shlex.join(self._call.argv)}{evidence(_content(self._err))}"
            )

    def kill(self) -> None:
        """Kill the command and everything that it started."""
        with self._files:
            _kill_group(self._child)


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
    return not (isinstance(outcome, Completed) and call.allows(outcome.status))


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


class LocalProcess:
    """A child of the orchestrator with pipes. Only `stop` reaps it: until then its zombie keeps the
    kernel from reusing its pid and process group."""

    patience = 1.0

    def __init__(self, child: subprocess.Popen[bytes], command: str, stderr_path: str) -> None:
        assert child.stdin is not None and child.stdout is not None
        self.pid = child.pid
        self.started = start_time(child.pid) or 0
        self._child = child
        self._command = command
        self._stderr_path = stderr_path
        self._pidfd = os.pidfd_open(child.pid)
        self._stdin = child.stdin
        self._stdout = child.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._unread = bytearray()
        self._open = True

    def send(self, line: str) -> None:
        try:
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: the process was stopped
            raise CommandFailed(
                f"a process does not read its commands: {error}\n  {self._command}"
                f"{evidence(self.last_words().encode())}"
            ) from error

    def receive(self, timeout_s: float) -> str | None:
        deadline = time.monotonic() + timeout_s
        while True:
            if (newline := self._unread.find(b"\n")) >= 0:
                return self._take(newline)
            remaining_s = max(0.0, deadline - time.monotonic())
            if not self._open:
                if self._unread:
                    return self._take(len(self._unread))
                # Wait for a process that is about to end, so that `poll` returns its exit status.
                if self.poll() is None:
                    wait_end(self._pidfd, remaining_s)
                return None
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            if not poll.poll(remaining_s * 1000):
                return None
            self._drain()

    def poll(self) -> int | None:
        # A program that writes more than its caller reads must not block on a full pipe.
        self._drain()
        if self._child.returncode is not None:
            return self._child.returncode
        ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ended within `timeout_s`."""
        return self._child.returncode is not None or wait_end(self._pidfd, timeout_s)

    def last_words(self, count: int = 5) -> str:
        try:
            with Path(self._stderr_path).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
                return last_lines(log.read(), count)
        except OSError:
            return ""

    def hang_up(self) -> None:
        with suppress(OSError):
            self._stdin.close()

    def stop(self, number: int, grace_s: float) -> int:
        if self._child.returncode is not None:
            return self._child.returncode
        self.hang_up()  # stdin's end reaches a process in a container; a signal may not
        if not end(self._pidfd, number, grace_s):
            raise CommandTimedOut(f"process {self.pid} survives SIGKILL\n  {self._command}")
        status = _kill_group(self._child)
        self._drain()
        self._open = False
        self._stdout.close()
        os.close(self._pidfd)
        return status

    def _take(self, length: int) -> str:
        line = self._unread[:length].decode(errors="replace")
        del self._unread[: length + 1]
        return line

    def _drain(self) -> None:
        while self._open:
            try:
                chunk = os.read(self._stdout.fileno(), 65536)
            except BlockingIOError:
                return
            self._unread += chunk
            self._open = bool(chunk)


def _kill_group(child: subprocess.Popen[bytes]) -> int:
    """Kill a child and its session, then reap it. The order matters: the group's number belongs to
    this process only until its leader is reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()
