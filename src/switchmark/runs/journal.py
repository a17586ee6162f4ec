"""The journal of a run: every undo, written before the step that needs it.

It is a file of JSON lines, appended and fsynced line by line. The kernel's lock on the file shows
that the run is alive; it ends with the run's process, however that dies. This module knows undos as
data; `undo` executes them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from switchmark.errors import Unavailable
from switchmark.hosts.processes import start_time
from switchmark.hosts.signals import shielded
from switchmark.runs.jsonl import Entry, append_entry, whole_lines

NulFree = Annotated[str, Field(pattern="^[^\\x00]*$")]
"""A text that the kernel takes: a damaged file may be valid JSON that nobody should execute."""

_Pid = Annotated[int, Field(ge=1, lt=1 << 31)]
_Signal = Annotated[int, Field(ge=0, le=64)]  # 0: no signal, the process ends with its stdin
_Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


class Command(Entry):
    """An undo that runs a command."""

    kind: Literal["command"] = "command"
    host: str
    """The host of the command."""
    argv: Annotated[tuple[NulFree, ...], Field(min_length=1)]
    """The command, including the way into its node."""
    stdin: bytes | None = None
    """The standard input; None for an empty one."""
    timeout_s: _Seconds = 10.0
    """The time after which the command is killed."""
    refusable: bool = False
    """Whether nothing is left if the command fails, because its node is removed anyway."""
    about: str = ""
    """The subject. Consecutive commands with different subjects are independent of each other."""


class Restore(Entry):
    """An undo that restores the old content of a file, or removes a file that did not exist."""

    kind: Literal["restore"] = "restore"
    host: str
    """The host of the file."""
    path: NulFree
    """The path of the file."""
    content: bytes | None
    """The old content; None if the file did not exist."""


class Stop(Entry):
    """An undo that ends a process."""

    kind: Literal["stop"] = "stop"
    host: str = "local"
    """The host of the process."""
    name: str
    """The name of the process, for messages."""
    number: _Signal
    """The signal; 0 if the process ends when its standard input closes."""
    grace_s: _Seconds
    """The time after which SIGKILL follows."""
    pid: _Pid | None = None
    """The process id, known after the spawn."""
    start: int | None = None
    """The start time, known after the spawn."""


class Lease(Entry):
    """An undo that releases the lease of a value of the whole host."""

    kind: Literal["lease"] = "lease"
    host: str
    """The host of the value."""
    path: NulFree
    """The file of the value."""
    added: int | None = None
    """The increase of a count; None for any other value."""


class Far(Entry):
    """An undo that ends the run on a far host; `folder` is the run's folder there."""

    kind: Literal["far"] = "far"
    host: str
    folder: NulFree
    owner: str = ""
    """The run on this host that removes the far host at its end; empty for a host that stays."""


Undo = Command | Restore | Stop | Lease | Far


_LINGER_S = 1.0


class Begin(Entry):
    """The first line of a journal."""

    entry: Literal["begin"] = "begin"
    run: str
    """The name of the run."""
    boot: str = ""
    """The id of the host's boot in journals of earlier versions; no folder of journals outlives a
    boot."""
    pid: _Pid
    """The process of the run."""
    start: int
    """The start time of that process."""


class Intend(Entry):
    """An undo that is pending from this line on."""

    entry: Literal["undo"] = "undo"
    number: int
    undo: Annotated[Undo, Field(discriminator="kind")]


class Started(Entry):
    """The process of a Stop, known from this line on."""

    entry: Literal["started"] = "started"
    number: int
    pid: _Pid
    start: int


class Done(Entry):
    """An undo that was executed."""

    entry: Literal["done"] = "done"
    number: int


_Line = Begin | Intend | Started | Done
_LINE: TypeAdapter[_Line] = TypeAdapter(Annotated[_Line, Field(discriminator="entry")])


class Journal:
    """An open and locked journal.

    `pending` holds the undos that remain, by number, oldest first; it always agrees with the file.
    `spoilt` is the number of unreadable lines. Each line that is written goes to all `mirrors`.
    """

    def __init__(self, descriptor: int, run: str) -> None:
        self.run = run
        self.pending: dict[int, Undo] = {}
        self.spoilt = 0
        self.mirrors: list[Callable[[Entry], None]] = []
        self._descriptor = descriptor
        self._next = 0

    @classmethod
    def create(cls, path: Path, run: str) -> Journal:
        """Create a journal, locked until it is closed or this process ends."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        journal = cls(descriptor, run)
        pid = os.getpid()
        journal._append(Begin(run=run, pid=pid, start=start_time(pid) or 0))
        return journal

    @classmethod
    def reopen(cls, path: Path) -> Journal | None:
        """Open and lock the journal of a dead run; return None if its run is alive or another
        clean-up holds it.

        Torn and damaged lines are skipped. Raise FileNotFoundError if there is no journal, another
        OSError if its path is not a file, and Unavailable if another user may have written it: this
        user would execute its commands.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW)
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.close(descriptor)
            raise Unavailable(f"other users can write to {path}", hint=f"remove {path.parent}")
        if not _lock(descriptor):
            os.close(descriptor)
            return None
        journal = cls(descriptor, path.parent.name)
        try:
            lines = whole_lines(descriptor)
        except OSError:
            journal.close()
            raise
        for line in lines:
            try:
                journal._apply(_LINE.validate_json(line))
            except ValidationError:
                journal.spoilt += 1
        return journal

    @property
    def next_number(self) -> int:
        """Return the number of the next undo: a mark for `unwind`."""
        return self._next

    def intend(self, undo: Undo) -> int:
        """Write an undo before its step; return its number."""
        number = self._next
        self._append(Intend(number=number, undo=undo))
        return number

    def started(self, number: int, pid: int, start: int) -> None:
        """Write the process that the Stop with this number ends."""
        self._append(Started(number=number, pid=pid, start=start))

    def done(self, number: int) -> None:
        """Write that the undo with this number was executed."""
        self._append(Done(number=number))

    def close(self) -> None:
        """Release the lock; `clean` may execute the pending undos."""
        os.close(self._descriptor)

    def _append(self, entry: _Line) -> None:
        with shielded():
            append_entry(self._descriptor, entry)
            self._apply(entry)
            for mirror in self.mirrors:
                mirror(entry)

    def _apply(self, entry: _Line) -> None:
        match entry:
            case Begin():
                pass
            case Intend():
                self.pending[entry.number] = entry.undo
                self._next = entry.number + 1
            case Started():
                stop = self.pending.get(entry.number)
                if isinstance(stop, Stop):
                    identity = {"pid": entry.pid, "start": entry.start}
                    self.pending[entry.number] = stop.model_copy(update=identity)
            case Done():
                self.pending.pop(entry.number, None)


def _lock(descriptor: int) -> bool:
    """Lock the journal of a dead run. A child between fork and exec holds the lock a moment longer
    than its killed parent, so wait for it."""
    deadline = time.monotonic() + _LINGER_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _owner_lives(descriptor) or time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        else:
            return True


def _owner_lives(descriptor: int) -> bool:
    try:
        begin = Begin.model_validate_json(os.pread(descriptor, 4096, 0).partition(b"\n")[0])
    except ValidationError:
        return False
    return start_time(begin.pid) == begin.start
