"""A host is where commands are run; the local one is this one. This and `remote_shell` are the only
modules that start the processes of a run.

Commands are argv tuples, never a shell's text. Each process leads a session of its own, so that the
Ctrl-C of a terminal reaches the orchestrator alone.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from switchmark.errors import CommandFailed, CommandTimedOut, Unavailable
from switchmark.machine.patterns import matching
from switchmark.machine.processes import end, start_time, wait_end
from switchmark.machine.signals import shielded

__all__ = ["Completed", "Host", "LocalHost", "LocalProcess", "Process", "last_lines"]


@dataclass(frozen=True, slots=True)
class Completed:
    """A command ended with this exit status (negative: the signal) and these outputs."""

    status: int
    stdout: bytes
    stderr: bytes


class Process(Protocol):
    """A process runs until it is stopped. Lines are JSON objects or text, without their newline.
    `started` is its start time (`processes.start_time`), which makes `pid` unmistakable."""

    pid: int
    started: int

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


class Host(Hashable, Protocol):
    """A host runs commands and keeps files. `run` kills what outlives `timeout_s` and raises
    CommandTimedOut; a program that is not there is Unavailable. `read`, `write` and `remove` raise
    OSError; `remove` of a file that is not there is no error. What the kernel tells in /proc and
    /sys is read by `read_all`, many files at once."""

    name: str

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed: ...

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> Process: ...

    def read(self, path: str) -> bytes: ...
    def write(self, path: str, content: bytes) -> None: ...
    def exists(self, path: str) -> bool: ...
    def remove(self, path: str) -> None: ...

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        """Return the content of every file that matches a shell's pattern and can be read."""
        ...

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        """Return the numbers of the files that matching paths lead to, once for each path."""
        ...


class LocalHost:
    """The local host is this one. Messages of tools are untranslated (LC_ALL=C), for drivers."""

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
        # Memory files, not pipes: the end of the command is the end of the wait, even where
        # it leaves a daemon behind that still holds its outputs.
        with _memory_file() as out, _memory_file() as err, _memory_file(stdin) as source:
            child: subprocess.Popen[bytes] | None = None
            try:
                with shielded():
                    child = _start(
                        argv,
                        env,
                        stdin=subprocess.DEVNULL if stdin is None else source,
                        stdout=out,
                        stderr=err,
                    )
                pidfd = os.pidfd_open(child.pid)
                try:
                    in_time = wait_end(pidfd, timeout_s)
                finally:
                    os.close(pidfd)
            except BaseException:
                if child is not None:
                    _kill_group(child)
                raise
            if not in_time:
                _kill_group(child)
                raise CommandTimedOut(
                    f"a command did not end within {timeout_s:g} s and was killed\n"
                    f"  on {self.name}: {shlex.join(argv)}{_evidence(_content(err))}"
                )
            return Completed(child.wait(), _content(out), _content(err))

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> LocalProcess:
        # Interrupted between the fork and the caller's variable, the process would be nobody's.
        with shielded(), Path(stderr_path).open("ab") as err:
            pipe = subprocess.PIPE
            child = _start(argv, env, stdin=pipe, stdout=pipe, stderr=err)
            return LocalProcess(child, shlex.join(argv), stderr_path)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def write(self, path: str, content: bytes) -> None:
        Path(path).write_bytes(content)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def remove(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        contents = {}
        for path in matching(patterns):
            with suppress(OSError), Path(path).open("rb", buffering=0) as file:
                contents[path] = file.readall()
        return contents

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        numbers = {}
        for path in matching(patterns):
            with suppress(OSError):
                numbers[path] = Path(path).stat().st_ino
        return numbers


class LocalProcess:
    """A local process is a child of the orchestrator with pipes. It is reaped by `stop` alone:
    until then its zombie keeps pid and process group from being given to somebody else."""

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
        except (OSError, ValueError) as error:  # ValueError: it was stopped
            raise CommandFailed(
                f"a process does not read its commands: {error}\n  {self._command}"
                f"{_evidence(self.last_words().encode())}"
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
                # So that `poll` tells the exit status of a process that is about to end.
                if self.poll() is None:
                    wait_end(self._pidfd, remaining_s)
                return None
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            if not poll.poll(remaining_s * 1000):
                return None
            self._drain()

    def poll(self) -> int | None:
        # A program that talks more than its caller listens must not block on a full pipe.
        self._drain()
        if self._child.returncode is not None:
            return self._child.returncode
        ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def wait(self, timeout_s: float) -> bool:
        """Say whether it ended within `timeout_s`."""
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
        self.hang_up()  # the end of stdin reaches where a signal may not: into a container
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


def last_lines(output: bytes, count: int = 5) -> str:
    """Return the last lines of an output that are not blank, as text."""
    lines = [line.rstrip() for line in output.decode(errors="replace").splitlines()]
    return "\n".join([line for line in lines if line][-count:])


def _evidence(stderr: bytes) -> str:
    return "".join(f"\n  {line}" for line in last_lines(stderr).splitlines())


def _start(
    argv: tuple[str, ...],
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
            env={**os.environ, "LC_ALL": "C", "PATH": _path(), **env},
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


def _path() -> str:
    # Many users' search path lacks the folders where `ip`'s kin live.
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def _kill_group(child: subprocess.Popen[bytes]) -> int:
    """End a child and what it started in its session, then reap it; in this order, as the
    group's number is only ours while its leader is not reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()


def _memory_file(content: bytes | None = None) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("switchmark"), "w+b", buffering=0)
    if content is not None:
        file.write(content)
        file.seek(0)
    return file


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
