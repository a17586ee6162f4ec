"""A recording host: it executes nothing, records every request and returns scripted answers.

It serves tests, and as a tutorial for a new kind of host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from switchmark.errors import CommandFailed
from switchmark.hosts.base import Completed, Host


@dataclass(eq=False)
class RecordingProcess:
    """A simulated process that runs until it is stopped."""

    pid: int
    """The simulated process id."""
    argv: tuple[str, ...]
    """The command and its arguments."""
    answers: list[str] = field(default_factory=list)
    """The lines that it will print, in order."""
    sent: list[str] = field(default_factory=list)
    """The lines that it received."""
    status: int | None = None
    """The exit status; None while it runs."""
    last_output: str = ""
    """The end of its standard error."""
    # No real process starts at tick 0, so no real process is ever mistaken for this one.
    started: int = 0
    patience: float = 1.0
    """How many times as long as usual it may take."""

    def send(self, line: str) -> None:
        self.sent.append(line)

    def receive(self, timeout_s: float) -> str | None:
        return self.answers.pop(0) if self.answers else None

    def poll(self) -> int | None:
        return self.status

    def last_words(self, count: int = 5) -> str:
        return self.last_output

    def hang_up(self) -> None:
        pass

    def stop(self, number: int, grace_s: float) -> int:
        self.status = -number if self.status is None else self.status
        return self.status


class RecordingHost(Host):
    """A simulated host. `ran` holds every argv, of commands and processes alike, in order; `files`
    is its disk.

    `answers` maps the beginning of an argv to the command's output or result; the longest match
    wins. Other commands print nothing and succeed. `fault` is the number, from 0, of the action
    that fails (commands, processes and writes count).
    """

    def __init__(
        self,
        answers: Mapping[tuple[str, ...], bytes | Completed] | None = None,
        *,
        name: str = "local",
        files: Mapping[str, bytes] | None = None,
        fault: int | None = None,
    ) -> None:
        self.name = name
        self.answers = dict(answers or {})
        self.files = dict(files or {})
        self.fault = fault
        self.ran: list[tuple[str, ...]] = []
        self.stdins: list[bytes | None] = []
        self.processes: list[RecordingProcess] = []
        self._actions = 0

    def answer(self, argv: tuple[str, ...]) -> Completed:
        """Return the result of a command; a simulated host overrides this."""
        for length in range(len(argv), -1, -1):
            answer = self.answers.get(argv[:length])
            if answer is not None:
                return answer if isinstance(answer, Completed) else Completed(0, answer, b"")
        return Completed(0, b"", b"")

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        self.ran.append(argv)
        self.stdins.append(stdin)
        if self._at_fault():
            return Completed(1, b"", b"injected fault")
        return self.answer(argv)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> RecordingProcess:
        self.ran.append(argv)
        if self._at_fault():
            raise CommandFailed("injected fault")
        process = RecordingProcess(1000 + len(self.processes), argv)
        self.processes.append(process)
        return process

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        return True  # a recorded process is never a real one

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs of this process."""
        return frozenset(os.sched_getaffinity(0))

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def write(self, path: str, content: bytes) -> None:
        if self._at_fault():
            raise OSError("injected fault")
        self.files[path] = content

    def exists(self, path: str) -> bool:
        return path in self.files

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        return {path: self.files[path] for path in self._matching(patterns)}

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        """Return the same number for files with the same content."""
        return {path: hash(self.files[path]) for path in self._matching(patterns)}

    def _matching(self, patterns: tuple[str, ...]) -> list[str]:
        return [
            path for pattern in patterns for path in self.files if PurePath(path).match(pattern)
        ]

    def _at_fault(self) -> bool:
        self._actions += 1
        return self._actions - 1 == self.fault
