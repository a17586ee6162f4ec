"""Leases of values of the whole host, such as a sysctl: the first run saves the value, the last run
restores it. A count, such as that of hugepages, is raised for each lease by what the run needs, and
lowered by the same amount. The value of a folder (its path ends with `/`) is the list of folders on
its path that do not exist: the first run creates them, the last run removes those that are empty.

A ledger is a file of JSON lines, locked during each read and change, and removed when it is empty.
The ledger of this host's values is in /dev: root processes that share a kernel may have separate
/run folders, but they share the file system in /dev. If /dev does not work, and for other hosts,
the ledger is in the folder of runs. The ledger lists a change before it happens and marks it
afterwards. The next process that finds an unmarked change settles it first. A live run locks one
byte of the ledger. Values from an earlier boot are gone and are never restored.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.local import LocalHost
from switchmark.hosts.signals import shielded
from switchmark.model.choice import chosen
from switchmark.runs.journal import NulFree
from switchmark.runs.jsonl import Entry, append_entry, whole_lines

MACHINE_WIDE = Path("/dev/switchmark-leases")
"""The ledger of this host's own values."""

_OF_A_NETWORK = "/proc/sys/net/"
_LENGTH = 1 << 62


class _About(Entry):
    """A line about a value. Runs of a later version share the ledger and may add keys."""

    model_config = ConfigDict(extra="ignore")

    host: str
    """The host of the value."""
    path: NulFree
    """The file of the value."""
    space: str = ""
    """The network namespace of the value; empty for a value of the whole host."""

    @property
    def value(self) -> tuple[str, str, str]:
        return (self.host, self.path, self.space)


class _Take(_About):
    """A run is about to set a value."""

    entry: Literal["take"] = "take"
    boot: str
    """The id of the host's boot."""
    run: NulFree
    """The name of the run."""
    old: bytes
    """The value that the first holder found; for a count, the value just before this lease."""
    content: bytes
    """The value that the run sets."""
    added: int | None = None
    """The increase of a count for this lease; None for any other value."""
    root: str = ""
    """The folder of runs with the run's folder."""
    byte: int = Field(default=-1, ge=-1, lt=_LENGTH)
    """The byte of the lock file that the run holds locked; -1 in lines of earlier versions."""

    @model_validator(mode="after")
    def _counts(self) -> _Take:
        for value in () if self.added is None else (self.old, self.content):
            int(value)
        return self


class _Give(_About):
    """A run releases its latest lease of a value; other runs may still hold it."""

    entry: Literal["give"] = "give"
    run: str
    """The name of the run."""
    root: str = ""
    """The folder of runs with the run's folder."""
    target: int | None = None
    """The count to which the value is about to be lowered; None for a value that is no count."""


class _Done(_About):
    """The change in the line before about `path` happened; `content` is the value read
    afterwards."""

    entry: Literal["done"] = "done"
    content: bytes


class _Free(_About):
    """`path` has its old value again: nobody holds it."""

    entry: Literal["free"] = "free"


_Line = _Take | _Give | _Done | _Free
_LINE: TypeAdapter[_Line] = TypeAdapter(Annotated[_Line, Field(discriminator="entry")])


@dataclass
class _Ledger:
    """An open and locked ledger."""

    descriptor: int
    """The descriptor of the locked file."""
    takes: list[_Take] = field(default_factory=list)
    """The leases."""
    unmade: dict[tuple[str, str, str], _Take | _Give] = field(default_factory=dict)
    """The changes that may not have happened, by value."""
    contents: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    """The contents after changes that happened, by value."""
    unread: int = 0
    """The number of lines that this version cannot read."""

    def append(self, line: _Line) -> None:
        append_entry(self.descriptor, line)
        self.apply(line)
        if not (self.takes or self.unmade or self.unread):
            os.ftruncate(self.descriptor, 0)

    def apply(self, line: _Line) -> None:
        self.unmade.pop(line.value, None)
        match line:
            case _Take():
                self.takes.append(line)
                self.contents.pop(line.value, None)
                self.unmade[line.value] = line
            case _Give():
                mine = [take for take in self.of(line) if _owner(take) == _owner(line)]
                if mine:
                    self.takes = [take for take in self.takes if take is not mine[-1]]
                if line.target is not None:
                    self.unmade[line.value] = line
            case _Done():
                self.contents[line.value] = line.content
            case _Free():
                self.takes = [take for take in self.takes if take.value != line.value]

    def of(self, value: _About) -> list[_Take]:
        return [take for take in self.takes if take.value == value.value]

    def lives(self, take: _Take) -> bool:
        """Return whether the run that took the lease is alive: it locks its byte."""
        request = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, take.byte, 1, 0)
        if take.byte < 0:
            return False
        answer = fcntl.fcntl(self.descriptor, fcntl.F_OFD_GETLK, request)
        return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)


class Leases:
    """The leases of all runs under `base`, the folder of runs. The object acts as one run, which is
    alive until `close` or the end of its process."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._bytes: dict[Path, tuple[int, int]] = {}

    def close(self) -> None:
        """Unlock its bytes; leases that it still holds then belong to a dead run."""
        while self._bytes:
            _, (descriptor, _) = self._bytes.popitem()
            os.close(descriptor)

    def take(self, run: str, host: Host, path: str, content: bytes) -> None:
        """Set `path` for `run`. Raise SetupFailed while a live run needs another value there."""
        with self._ledger_of(host, path) as (ledger, byte):
            value = _About(host=host.name, path=path, space=_space(host, path))
            held = ledger.of(value)
            for take in held:
                agreed = take.content.split() == content.split()
                if _owner(take) != (self._root, run) and not agreed and ledger.lives(take):
                    raise SetupFailed(
                        f"{path} cannot be set to {_text(content)}:"
                        f" run {take.run} needs it to be {_text(take.content)}",
                        hint="run again when that run has ended",
                    )
            old = held[0].old if held else _writable(_read(host, path))
            owner = {"run": run, "root": self._root}
            ledger.append(
                _Take(
                    **dict(value),
                    **owner,
                    boot=boot_id(LocalHost()),
                    old=old,
                    content=content,
                    byte=byte(),
                )
            )
            try:
                _write(host, path, content)
            except (OSError, SetupFailed):
                ledger.append(_Give(**dict(value), **owner))
                raise
            ledger.append(_Done(**dict(value), content=_read(host, path)))

    def add(
        self,
        run: str,
        host: Host,
        path: str,
        count: int,
        *,
        unused: Callable[[], int],
        intend: Callable[[int], object] = lambda added: None,
    ) -> int:
        """Raise the count at `path`, so that `run` has `count` free units.

        Use the free units that `unused` counts first, unless a live run holds a lease and may rely
        on them. `intend` receives the increase before it happens. Return how many of the `count`
        units are available; if they are too few, the count is unchanged and there is no lease.
        Raise Unavailable if the count is not writable.
        """
        with self._ledger_of(host) as (ledger, byte):
            value = _About(host=host.name, path=path, space=_space(host, path))
            _settle(ledger, host, value)
            held = ledger.of(value)
            lacking = count
            owner = (self._root, run)
            if not any(_owner(take) == owner or ledger.lives(take) for take in held):
                # `clean` will take back what dead runs added.
                left = sum(take.added or 0 for take in held)
                lacking -= min(count, max(0, unused() - left))
            before = _count(host, path)
            raised = b"%d\n" % (before + lacking)
            intend(lacking)
            ledger.append(
                _Take(
                    **dict(value),
                    boot=boot_id(LocalHost()),
                    run=run,
                    root=self._root,
                    old=b"%d\n" % before,
                    content=raised,
                    added=lacking,
                    byte=byte(),
                )
            )
            give = _Give(**dict(value), run=run, root=self._root)
            try:
                if lacking:
                    host.write(path, raised)
            except OSError as error:
                ledger.append(give)
                raise Unavailable(
                    f"{path} cannot be set to {_text(raised)}: {error.strerror or error}",
                    hint=f"echo {_text(raised)} | sudo tee {path}",
                ) from error
            missing = int(raised) - _count(host, path)
            if lacking and missing > 0:
                host.write(path, b"%d\n" % before)
                ledger.append(give)
                return max(0, count - missing)
            ledger.append(_Done(**dict(value), content=raised))
            return count

    def give_back(self, run: str, host: Host, path: str) -> None:
        """Release the run's latest lease of `path`. Lower a count by the lease's increase; restore
        another value when nobody holds it, unless somebody else has changed it since."""
        self._give_back((self._root, run), host, path)

    def left_by_the_dead(self, host: Host) -> list[tuple[str, str]]:
        """Return run and path of each lease that a dead run holds on a value of this host and whose
        folder is not here: it is in another folder of runs, or it is gone."""
        with self._ledger_of(host) as (ledger, _):
            return [(take.run, take.path) for take in self._orphans(ledger, host)]

    def give_back_of_the_dead(self, host: Host) -> None:
        """Release the leases that `left_by_the_dead` returns."""
        with self._ledger_of(host) as (ledger, _):
            orphans = self._orphans(ledger, host)
        for take in reversed(orphans):
            self._give_back(_owner(take), host, take.path)

    def forget(self, run: str, host: str, path: str) -> None:
        """Release the run's latest lease of `path` on a virtual machine that has ended; its value
        is gone."""
        with self._opened(self._of_runs) as ledger:
            ledger.append(_Give(run=run, root=self._root, host=host, path=path))

    def held_by(self, run: str) -> list[tuple[str, str]]:
        """Return host and path of each lease of a run, the latest first."""
        takes: list[_Take] = []
        for file in dict.fromkeys((self._of_runs, self._of_this_machine())):
            with self._opened(file) as ledger:
                takes += ledger.takes
        mine = [take for take in takes if _owner(take) == (self._root, run)]
        return [(take.host, take.path) for take in reversed(mine)]

    def added(self, host: Host, path: str) -> int:
        """Return the sum of the increases that leases hold of the count at `path`."""
        with self._ledger_of(host) as (ledger, _):
            value = _About(host=host.name, path=path, space=_space(host, path))
            return sum(take.added or 0 for take in ledger.of(value))

    def _give_back(self, owner: tuple[str, str], host: Host, path: str) -> None:
        root, run = owner
        with self._ledger_of(host, path) as (ledger, _):
            here = _About(host=host.name, path=path, space=_space(host, path))
            _settle(ledger, host, here)
            places = [take for take in ledger.takes if take.value[:2] == here.value[:2]]
            mine = [take for take in places if _owner(take) == owner]
            if not mine:
                return
            lease = mine[-1]
            value = _About(host=lease.host, path=lease.path, space=lease.space)
            give = _Give(**dict(value), run=run, root=root)
            held = ledger.of(value)
            if lease.space != here.space and (pid := _process_in(lease.space, host)):
                raise SetupFailed(
                    f"{path} was set in another network namespace",
                    hint=f"nsenter --net=/proc/{pid}/ns/net switchmark clean",
                )
            if lease.space != here.space or self._ended_there(host, run):
                ledger.append(give)
            elif lease.added is not None:
                _lower(ledger, host, lease, give)
            elif len([take for take in held if _owner(take) == owner]) > 1 or any(
                ledger.lives(take) for take in held if _owner(take) != owner
            ):
                ledger.append(give)
            else:
                with suppress(FileNotFoundError):  # it went with its kernel module
                    if value.value not in ledger.contents or (
                        _read(host, path) == ledger.contents[value.value]
                    ):
                        _restore(host, path, held[0].old)
                ledger.append(_Free(**dict(value)))

    def _ended_there(self, host: Host, run: str) -> bool:
        """Return whether the far host undid the run's changes when the connection ended."""
        folder = f"{self._base}/{run}"
        return host.is_far and not any(
            host.exists(f"{place}/undo") for place in (folder, f"{folder}/far-{host.name}")
        )

    def _orphans(self, ledger: _Ledger, host: Host) -> list[_Take]:
        return [
            take
            for take in ledger.takes
            if take.host == host.name
            and not ledger.lives(take)
            and (take.root != self._root or not (self._base / take.run).exists())
        ]

    @property
    def _root(self) -> str:
        """Return the id of this folder of runs: its device and inode number."""
        status = self._base.stat()
        return f"{status.st_dev}:{status.st_ino}"

    @property
    def _of_runs(self) -> Path:
        return self._base / "leases"

    def _of_this_machine(self) -> Path:
        try:
            os.close(os.open(MACHINE_WIDE, _FLAGS, 0o600))
        except OSError:  # not root, or a read-only /dev
            return self._of_runs
        return MACHINE_WIDE

    @contextmanager
    def _ledger_of(self, host: Host, path: str = "") -> Iterator[tuple[_Ledger, Callable[[], int]]]:
        """Yield the locked ledger of a host's values, and a function that locks this run's byte of
        it. Folders are listed with the runs: another /run has other folders of the same name."""
        of_kernel = host.is_local and not path.endswith("/")
        file = self._of_this_machine() if of_kernel else self._of_runs
        with self._opened(file) as ledger:
            yield ledger, lambda: self._byte_of(file)

    @contextmanager
    def _opened(self, file: Path) -> Iterator[_Ledger]:
        with shielded():
            descriptor = _locked(file)
            try:
                yield _parsed(descriptor)
            finally:
                if os.fstat(descriptor).st_size == 0:
                    file.unlink()
                os.close(descriptor)

    def _byte_of(self, file: Path) -> int:
        """Return the number of the ledger's byte that this run locks while it is alive. The caller
        holds the ledger's lock; the ledger may have been removed and created again since the last
        call."""
        if file in self._bytes and not _is_at(self._bytes[file][0], file):
            os.close(self._bytes.pop(file)[0])
        if file not in self._bytes:
            byte = secrets.randbelow(_LENGTH)
            descriptor = os.open(file, _FLAGS, 0o600)
            lock = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
            self._bytes[file] = (descriptor, byte)
        return self._bytes[file][1]


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


def _locked(file: Path) -> int:
    """Open a ledger and lock it. The lock's holder removes an empty ledger, so if the file was
    removed in the meantime, open its successor."""
    while True:
        descriptor = os.open(file, _FLAGS, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, file):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except FileNotFoundError:
        return False


def _read(host: Host, path: str) -> bytes:
    if not path.endswith("/"):
        return host.read(path)
    folders = (PurePosixPath(path), *PurePosixPath(path).parents)
    return "\n".join(str(folder) for folder in folders if not host.exists(str(folder))).encode()


def _write(host: Host, path: str, content: bytes) -> None:
    if not path.endswith("/"):
        host.write(path, content)
        return
    removed = content.decode().split("\n") if content else []
    removing = ("rmdir", "--ignore-fail-on-non-empty", "--", *removed)
    argv = removing if removed else ("mkdir", "-p", "--", path)
    done = host.run(argv)
    if done.status != 0:
        raise SetupFailed(f"{' '.join(argv)}: {_text(done.stderr)}")


def _restore(host: Host, path: str, old: bytes) -> None:
    """Write the old value. If a run died when the kernel had refused its change, the kernel refuses
    this, too, and nothing is left to restore."""
    try:
        _write(host, path, old)
    except OSError:
        if _writable(_read(host, path)) != old:
            raise


def _parsed(descriptor: int) -> _Ledger:
    ledger, boot = _Ledger(descriptor), boot_id(LocalHost())
    for line in whole_lines(descriptor):
        try:
            entry = _LINE.validate_json(line)
        except ValidationError:
            ledger.unread += 1
            continue
        if not isinstance(entry, _Take) or entry.boot == boot:
            ledger.apply(entry)
    return ledger


def _owner(line: _Take | _Give) -> tuple[str, str]:
    return line.root, line.run


def _count(host: Host, path: str) -> int:
    """Return a count without surplus pages: released pages that a program still uses, and that go
    with it."""
    surplus = path.replace("/nr_", "/surplus_")
    counts = [path, *([surplus] if surplus != path and host.exists(surplus) else [])]
    count = 0
    for file in reversed(counts):
        content = host.read(file)
        try:
            count = int(content) - count
        except ValueError as error:
            raise SetupFailed(f"{file} holds no count: {_text(content)[:60]}") from error
    return count


def _settle(ledger: _Ledger, host: Host, value: _About) -> None:
    """Settle the change of a count by a run that died during it. It was the last change, so the
    count shows how far it got. Take back an increase and its lease; complete a decrease."""
    match ledger.unmade.get(value.value):
        case _Take(added=int(added)) as take:
            increase = min(max(0, _count(host, take.path) - int(take.old)), added)
            if increase:
                host.write(take.path, b"%d\n" % (_count(host, take.path) - increase))
            ledger.append(_Give(**dict(value), run=take.run, root=take.root))
        case _Give(target=int(target)):
            if _count(host, value.path) > target:
                host.write(value.path, b"%d\n" % target)
            ledger.append(_Done(**dict(value), content=b"%d\n" % target))


def _lower(ledger: _Ledger, host: Host, lease: _Take, give: _Give) -> None:
    """Lower a count by the increase for `lease`, but keep the units of other leases: the
    administrator may have lowered the count."""
    count, added = _count(host, lease.path), lease.added or 0
    others = sum(take.added or 0 for take in ledger.of(lease)) - added
    target = max(count - added, min(count, others))
    if target == count:  # a run that only uses free units may lack the permission to set the count
        ledger.append(give)
        return
    ledger.append(give.model_copy(update={"target": target}))
    host.write(lease.path, b"%d\n" % target)
    ledger.append(_Done(host=give.host, path=give.path, space=give.space, content=b"%d\n" % target))


def _space(host: Host, path: str) -> str:
    """Return the network namespace of a value; empty for a value of the whole host."""
    if not host.is_local or not path.startswith(_OF_A_NETWORK):
        return ""
    return str(host.inodes("/proc/self/ns/net")["/proc/self/ns/net"])


def _process_in(space: str, host: Host) -> str:
    """Return a process in a network namespace; empty if there is none."""
    inodes = host.inodes("/proc/[0-9]*/ns/net").items()
    return next((path.split("/")[2] for path, inode in inodes if str(inode) == space), "")


def _writable(content: bytes) -> bytes:
    """Return what to write into a file to give it back its content."""
    return chosen(content) or content


def _text(content: bytes) -> str:
    return content.decode(errors="replace").strip()
