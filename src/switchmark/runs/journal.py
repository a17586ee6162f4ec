"""The journal of a run holds every undo, written down before the step that makes it necessary.

Its JSON lines are appended and fsynced one by one. The kernel's lock on the file says whether its
run lives, and ends with the run however it dies. This module knows undos as data; `undo` carries
them out.
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
"""A text that the kernel takes: what a disk spoilt may be JSON, and still nothing to carry out."""

_Pid = Annotated[int, Field(ge=1, lt=1 << 31)]
_Signal = Annotated[int, Field(ge=0, le=64)]  # 0: none, it ends when its stdin does
_Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


class Command(Entry):
    """This undo runs a command; `argv` is as the host runs it, with the way into its node. Those in
    a row that are `about` different things need nothing of each other."""

    kind: Literal["command"] = "command"
    host: str
    argv: Annotated[tuple[NulFree, ...], Field(min_length=1)]
    stdin: bytes | None = None
    timeout_s: _Seconds = 10.0
    about: str = ""


class Restore(Entry):
    """This undo writes the old content back, or removes the file where there was none."""

    kind: Literal["restore"] = "restore"
    host: str
    path: NulFree
    content: bytes | None


class Stop(Entry):
    """This undo ends a process; pid and start time are known once it was spawned."""

    kind: Literal["stop"] = "stop"
    host: str = "local"
    name: str
    number: _Signal
    grace_s: _Seconds
    pid: _Pid | None = None
    start: int | None = None


class Lease(Entry):
    """This undo gives the lease of a value of the whole host back; where that is a count, `added`
    is what was added to it."""

    kind: Literal["lease"] = "lease"
    host: str
    path: NulFree
    added: int | None = None


class Far(Entry):
    """This undo ends what the run has on a host that is reached by ssh; `folder` is its folder."""

    kind: Literal["far"] = "far"
    host: str
    folder: NulFree


Undo = Command | Restore | Stop | Lease | Far


_LINGER_S = 1.0


class Begin(Entry):
    """A journal begins with whose it is. Those of earlier versions name the `boot` of the host,
    too: where journals are, none outlives a boot."""

    entry: Literal["begin"] = "begin"
    run: str
    boot: str = ""
    pid: _Pid
    start: int


class Intend(Entry):
    """An undo is pending from here on."""

    entry: Literal["undo"] = "undo"
    number: int
    undo: Annotated[Undo, Field(discriminator="kind")]


class Started(Entry):
    """The process of a Stop is known from here on."""

    entry: Literal["started"] = "started"
    number: int
    pid: _Pid
    start: int


class Done(Entry):
    """An undo was carried out."""

    entry: Literal["done"] = "done"
    number: int


_Line = Begin | Intend | Started | Done
_LINE: TypeAdapter[_Line] = TypeAdapter(Annotated[_Line, Field(discriminator="entry")])


class Journal:
    """A journal is open and locked. `pending` holds the undos that are still to be carried out, by
    number, oldest first; it is what the file says, not a copy with a life of its own. `spoilt` is
    how many of its lines could not be read; `mirrors` are told each line that is written."""

    def __init__(self, descriptor: int, run: str) -> None:
        self.run = run
        self.pending: dict[int, Undo] = {}
        self.spoilt = 0
        self.mirrors: list[Callable[[Entry], None]] = []
        self._descriptor = descriptor
        self._next = 0

    @classmethod
    def create(cls, path: Path, run: str) -> Journal:
        """Make a new journal, locked until it is closed or this process ends."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        journal = cls(descriptor, run)
        pid = os.getpid()
        journal._append(Begin(run=run, pid=pid, start=start_time(pid) or 0))
        return journal

    @classmethod
    def reopen(cls, path: Path) -> Journal | None:
        """Open the journal of a dead run, now locked by the caller; None when its run lives, or
        when somebody else is cleaning up after it.

        What a death tore or a disk spoilt is skipped. FileNotFoundError when there is none,
        another OSError where something else has its name. Unavailable where another user may have
        written it: its commands would be carried out in this user's name.
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
        """Return the number that the next undo will have: a mark to unwind to."""
        return self._next

    def intend(self, undo: Undo) -> int:
        """Note an undo, before the step that it is for; return its number."""
        number = self._next
        self._append(Intend(number=number, undo=undo))
        return number

    def started(self, number: int, pid: int, start: int) -> None:
        """Note which process the Stop of that number is about."""
        self._append(Started(number=number, pid=pid, start=start))

    def done(self, number: int) -> None:
        """Note that the undo of that number was carried out."""
        self._append(Done(number=number))

    def close(self) -> None:
        """Release the lock; `clean` may take what is pending."""
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
                    known = {"pid": entry.pid, "start": entry.start}
                    self.pending[entry.number] = stop.model_copy(update=known)
            case Done():
                self.pending.pop(entry.number, None)


def _lock(descriptor: int) -> bool:
    """Lock a journal whose run is dead. A child that was between fork and exec when its run
    was killed holds the lock a moment longer, so a dead owner's is waited for."""
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


def is_locked(path: Path) -> bool:
    """Say whether somebody, this process included, holds the journal: its run lives."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
