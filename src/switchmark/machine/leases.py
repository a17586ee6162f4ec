"""This module leases values of the whole host, such as a sysctl: the first run saves, the last
restores. A count, such as that of hugepages, is raised for each lease by what that one needs.

They are in one file of JSON lines, locked while it is read and changed. A holder whose journal
nobody locks is dead and holds nothing; values of an earlier boot are gone and never restored.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from switchmark.errors import SetupFailed, Unavailable
from switchmark.machine.host import Host
from switchmark.machine.journal import NulFree, boot_id, is_locked
from switchmark.machine.jsonl import Entry, append_entry, whole_lines
from switchmark.machine.signals import shielded

__all__ = ["Leases"]


class _Take(Entry):
    """A run set `path` to `content`; `old` is what the first holder found there. Where it is
    a count, `added` is what was added to it for this lease."""

    entry: Literal["take"] = "take"
    boot: str
    run: NulFree
    host: str
    path: NulFree
    old: bytes
    content: bytes
    added: int | None = None

    @model_validator(mode="after")
    def _counts(self) -> _Take:
        for value in () if self.added is None else (self.old, self.content):
            int(value)
        return self


class _Give(Entry):
    """A run gave its latest take of `path` back; others hold it still."""

    entry: Literal["give"] = "give"
    run: str
    host: str
    path: str


class _Free(Entry):
    """`path` has its old value again: nobody holds it."""

    entry: Literal["free"] = "free"
    host: str
    path: str


_Line = _Take | _Give | _Free
_LINE: TypeAdapter[_Line] = TypeAdapter(Annotated[_Line, Field(discriminator="entry")])


class Leases:
    """This object holds the leases of all runs under `base`, the folder that holds the runs'
    folders."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def take(self, run: str, host: Host, path: str, content: bytes) -> None:
        """Set `path` for `run`. SetupFailed while a live run needs another value there."""
        with self._locked() as (descriptor, takes):
            held = _of(takes, host, path)
            for take in held:
                agreed = take.content.split() == content.split()
                if take.run != run and not agreed and self._lives(take.run):
                    raise SetupFailed(
                        f"{path} cannot be set to {_text(content)}:"
                        f" run {take.run} needs it to be {_text(take.content)}",
                        hint="run again when that run has ended",
                    )
            old = held[0].old if held else host.read(path)
            append_entry(
                descriptor,
                _Take(boot=boot_id(), run=run, host=host.name, path=path, old=old, content=content),
            )
            try:
                host.write(path, content)
            except OSError:
                append_entry(descriptor, _Give(run=run, host=host.name, path=path))
                raise

    def add(
        self, run: str, host: Host, path: str, wanted: int, *, unused: Callable[[], int]
    ) -> int:
        """Raise the count at `path`, so that `wanted` more of the things are free for `run`.

        What `unused` counts is used up first, but where a live run has a lease: it may
        be promised to that one. Returns how many of `wanted` could be had; if fewer, the count
        is as it was and there is no lease. Unavailable where the count cannot be set.
        """
        with self._locked() as (descriptor, takes):
            held = _of(takes, host, path)
            lacking = wanted
            if not any(take.run == run or self._lives(take.run) for take in held):
                # What dead runs left will be taken away by `clean`.
                left = sum(take.added or 0 for take in held)
                lacking -= min(wanted, max(0, unused() - left))
            before = host.read(path)
            raised = b"%d\n" % (_count(path, before) + lacking)
            old = held[0].old if held else before
            append_entry(
                descriptor,
                _Take(
                    boot=boot_id(),
                    run=run,
                    host=host.name,
                    path=path,
                    old=old,
                    content=raised,
                    added=lacking,
                ),
            )
            if not lacking:
                return wanted
            give = _Give(run=run, host=host.name, path=path)
            try:
                host.write(path, raised)
            except OSError as error:
                append_entry(descriptor, give)
                raise Unavailable(
                    f"{path} cannot be set to {_text(raised)}: {error.strerror or error}",
                    hint=f"echo {_text(raised)} | sudo tee {path}",
                ) from error
            missing = int(raised) - _count(path, host.read(path))
            if missing > 0:
                host.write(path, before)
                append_entry(descriptor, give)
            return max(0, wanted - max(0, missing))

    def give_back(self, run: str, host: Host, path: str) -> None:
        """End the run's latest lease of `path`; the value is restored when nobody holds it."""
        with self._locked() as (descriptor, takes):
            held = _of(takes, host, path)
            mine = [take for take in held if take.run == run]
            if not mine:
                return
            others = [take for take in held if take.run != run and self._lives(take.run)]
            if others or len(mine) > 1:
                _lower(host, path, mine[-1], held)
                append_entry(descriptor, _Give(run=run, host=host.name, path=path))
            else:
                # Who only counted on what was free changed nothing, and may not be able to.
                if any(take.added != 0 for take in held):
                    host.write(path, held[0].old)
                append_entry(descriptor, _Free(host=host.name, path=path))
                if len(held) == len(takes):
                    os.ftruncate(descriptor, 0)

    def forget(self, run: str, host: str, path: str) -> None:
        """End the run's latest lease of `path` where the value is gone, with the machine that had
        it."""
        with self._locked() as (descriptor, _):
            append_entry(descriptor, _Give(run=run, host=host, path=path))

    def held_by(self, run: str) -> list[tuple[str, str]]:
        """Return the host and path of each lease of a run, the latest first."""
        with self._locked() as (_, takes):
            return [(take.host, take.path) for take in reversed(takes) if take.run == run]

    def _lives(self, run: str) -> bool:
        return is_locked(self._base / run / "journal")

    @contextmanager
    def _locked(self) -> Iterator[tuple[int, list[_Take]]]:
        with shielded():
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
            descriptor = os.open(self._base / "leases", flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield descriptor, _takes(whole_lines(descriptor))
            finally:
                os.close(descriptor)


def _takes(lines: list[bytes]) -> list[_Take]:
    boot = boot_id()
    takes: list[_Take] = []
    for line in lines:
        try:
            entry = _LINE.validate_json(line)
        except ValidationError:
            continue
        match entry:
            case _Take():
                takes.append(entry)
            case _Give():
                given = (entry.run, entry.host, entry.path)
                places = [(take.run, take.host, take.path) for take in takes]
                if given in places:
                    del takes[len(places) - 1 - places[::-1].index(given)]
            case _Free():
                takes = [t for t in takes if (t.host, t.path) != (entry.host, entry.path)]
    return [take for take in takes if take.boot == boot]


def _of(takes: list[_Take], host: Host, path: str) -> list[_Take]:
    return [take for take in takes if (take.host, take.path) == (host.name, path)]


def _lower(host: Host, path: str, given: _Take, held: list[_Take]) -> None:
    """Take from a count what was added for `given`, but nothing that the others hold: after a
    death it may not have been added yet, or may be gone already."""
    if given.added:
        others = sum(take.added or 0 for take in held) - given.added
        now = _count(path, host.read(path))
        lowered = max(now - given.added, int(given.old) + others)
        host.write(path, b"%d\n" % lowered)


def _count(path: str, content: bytes) -> int:
    try:
        return int(content)
    except ValueError as error:
        raise SetupFailed(f"{path} holds no count: {_text(content)[:60]}") from error


def _text(content: bytes) -> str:
    return content.decode(errors="replace").strip()
