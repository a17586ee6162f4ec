"""A host is where commands are run; the local one is this one. This and `remote_shell` are the only
modules that start the processes of a run.

Commands are argv tuples, never a shell's text. Each process leads a session of its own, so that the
Ctrl-C of a terminal reaches the orchestrator alone.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from switchmark.errors import CommandFailed, CommandTimedOut, Unavailable
from switchmark.machine.local_process import LocalProcess, evidence, kill_group, last_lines
from switchmark.machine.patterns import matching
from switchmark.machine.processes import end, open_process, wait_end
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

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        """Signal the process of this number and start time, SIGKILL it after `grace_s`; say whether
        it has ended. One that is gone has."""
        ...

    def undo_run(self, run: str, folder: str) -> None:
        """Undo what a run left here that is led from another host."""
        ...

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
                    kill_group(child)
                raise
            if not in_time:
                kill_group(child)
                raise CommandTimedOut(
                    f"a command did not end within {timeout_s:g} s and was killed\n"
                    f"  on {self.name}: {shlex.join(argv)}{evidence(_content(err))}"
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

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        if (pidfd := open_process(pid, started)) is None:
            return True
        try:
            return end(pidfd, number, grace_s)
        finally:
            os.close(pidfd)

    def undo_run(self, run: str, folder: str) -> None:
        pass  # a run here is led from here

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


def _memory_file(content: bytes | None = None) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("switchmark"), "w+b", buffering=0)
    if content is not None:
        file.write(content)
        file.seek(0)
    return file


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
