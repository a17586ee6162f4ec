"""These tests compare how runs open, lock, cut and remove their files with a stored text: those of
the journal, of the ledgers of leases, of the lock of the machine and of the folders."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import SwitchmarkError
from switchmark.hosts.recording import RecordingHost
from switchmark.runs import journal, leases, measuring, workspace
from switchmark.runs.journal import Command, Journal
from switchmark.runs.jsonl import append_line, whole_lines
from switchmark.runs.leases import Leases
from switchmark.runs.measuring import measuring_alone
from switchmark.runs.workspace import Workspace, remove_folder, require_own

Golden = Callable[[str, str], None]

FLAGS = ("WRONLY", "RDWR", "CREAT", "EXCL", "APPEND", "NONBLOCK", "NOFOLLOW", "DIRECTORY", "TRUNC")
LOCKS = {fcntl.LOCK_EX: "alone", fcntl.LOCK_EX | fcntl.LOCK_NB: "alone, at once"}


class Watched:
    """The system calls about files, which are noted and then made. The open of what is in `fails`
    fails, with the errors in turn."""

    def __init__(self, folder: Path, text: list[str]) -> None:
        self.folder, self.text = folder, text
        self.names: dict[int, str] = {}
        self.fails: dict[str, list[int]] = {}
        self.locked: set[str] = set()
        self.always: set[str] = set()
        self.really = SimpleNamespace(
            open=os.open, ftruncate=os.ftruncate, fchmod=os.fchmod, flock=fcntl.flock
        )

    def short(self, path: object) -> str:
        return str(path).replace(str(self.folder), "BASE")

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        name = self.short(path)
        if options or str(self.folder) not in str(path):
            descriptor: int = self.really.open(path, flags, mode, **options)
            return descriptor
        words = "|".join(word for word in FLAGS if flags & getattr(os, f"O_{word}"))
        made = f", {mode:o}" if flags & os.O_CREAT else ""
        self.text.append(f"open {name}: {words or 'RDONLY'}{made}")
        if self.fails.get(name):
            number = self.fails[name].pop(0)
            raise OSError(number, os.strerror(number), str(path))
        found: int = self.really.open(path, flags, mode)
        self.names[found] = name
        return found

    def flock(self, descriptor: int, how: int) -> None:
        name = self.names.get(descriptor, "?")
        self.text.append(f"lock {name} {LOCKS.get(how, how)}")
        if name in self.always:
            raise BlockingIOError
        if name in self.locked:
            self.locked.discard(name)
            if how & fcntl.LOCK_NB:
                raise BlockingIOError
        self.really.flock(descriptor, how)

    def ftruncate(self, descriptor: int, length: int) -> None:
        name = self.names.get(descriptor, "?")
        # The first line of a journal has a process, whose number may be longer or shorter.
        self.text.append(f"cut {name}{f' to {length}' * (not name.endswith('journal'))}")
        self.really.ftruncate(descriptor, length)

    def fchmod(self, descriptor: int, mode: int) -> None:
        self.text.append(f"mode of {self.names.get(descriptor, '?')} {mode:o}")
        self.really.fchmod(descriptor, mode)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    text: list[str] = []
    made = Watched(tmp_path, text)
    for name in ("open", "ftruncate", "fchmod"):
        monkeypatch.setattr(os, name, getattr(made, name))
    monkeypatch.setattr(fcntl, "flock", made.flock)
    monkeypatch.setattr(os, "fdatasync", lambda fd: text.append(f"flush {made.names[fd]}"))
    mkdir, unlink, rmtree = Path.mkdir, Path.unlink, shutil.rmtree

    def making(
        path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False
    ) -> None:
        text.append(f"make {made.short(path)}, {mode:o}{', parents' * parents}")
        mkdir(path, mode, parents, exist_ok)

    def removing(path: Path, missing_ok: bool = False) -> None:
        text.append(f"remove {made.short(path)}")
        unlink(path, missing_ok)

    def clearing(path: Path, **options: Any) -> None:
        text.append(f"remove all of {made.short(path)} {options}")
        rmtree(path, **options)

    monkeypatch.setattr(Path, "mkdir", making)
    monkeypatch.setattr(Path, "unlink", removing)
    monkeypatch.setattr(shutil, "rmtree", clearing)
    monkeypatch.setattr(leases, "MACHINE_WIDE", tmp_path / "machine")
    monkeypatch.setattr(measuring, "_process", lambda inode: "; process 7")
    numbers = (f"{number:04x}" for number in (1, 1, 2, 3))
    monkeypatch.setattr(workspace, "secrets", SimpleNamespace(token_hex=lambda n: next(numbers)))
    return made


def note_calls(text: list[str], name: str, action: Callable[[], object]) -> None:
    """Tell what an action returns, or its error."""
    text.append(f"# {name}")
    try:
        found = action()
        text.append(f"= {found}" if isinstance(found, (bool, int, str, list)) else "done")
    except (SwitchmarkError, OSError) as error:
        hint = getattr(error, "hint", None)
        text.append(f"{type(error).__name__}: {error}; {hint}")


def test_the_files_of_a_run(
    watched: Watched, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, base = watched.text, tmp_path / "runs"
    runs: list[Workspace] = []
    for name in ("the first", "another, whose name is taken at first"):
        note_calls(text, f"a run: {name}", lambda: runs.append(Workspace(base)))
    one, other = runs
    begin = json.loads((one.folder / "journal").read_text().splitlines()[0])
    assert begin.pop("pid") == os.getpid()
    assert begin.pop("start") > 0
    text.append(f"first line {begin}")
    note_calls(text, "an undo", lambda: one.journal.intend(Command(host="local", argv=("a",))))
    note_calls(
        text, "a journal of a live run", lambda: Journal.reopen(one.folder / "journal") is None
    )
    note_calls(text, "the end of a run", other.close)
    note_calls(text, "the end with something left", one.close)

    def reopened() -> str:
        opened = Journal.reopen(one.folder / "journal")
        if opened is None:
            return "it lives"
        opened.close()
        return f"{len(opened.pending)} undos, {opened.spoilt} spoilt, next {opened.next_number}"

    note_calls(text, "a journal of a dead run", reopened)
    watched.locked.add("BASE/runs/sm0001/journal")
    note_calls(text, "a journal that is held by its run", reopened)
    monkeypatch.setattr(journal, "start_time", lambda pid: 1)
    watched.locked.add("BASE/runs/sm0001/journal")
    note_calls(text, "a journal that is held a moment longer", reopened)
    times = chain((0.0, 1.0, 1.001), count(2.0))
    monkeypatch.setattr(
        journal,
        "time",
        SimpleNamespace(
            monotonic=lambda: next(times), sleep=lambda s: text.append(f"pause of {s} s")
        ),
    )
    watched.always.add("BASE/runs/sm0001/journal")
    note_calls(text, "a journal that is held for more than a second", reopened)
    watched.always.clear()
    with (one.folder / "journal").open("a") as file:
        file.write("x\n{\n\ny")
    note_calls(text, "a journal with other lines", reopened)
    (one.folder / "journal").chmod(0o620)
    note_calls(text, "a journal that others can write", reopened)
    (one.folder / "journal").rename(one.folder / "elsewhere")
    (one.folder / "journal").symlink_to(one.folder / "elsewhere")
    note_calls(text, "a journal that is a link", reopened)
    golden("files/runs.txt", "\n".join([*replaced(text, tmp_path), ""]))


def replaced(lines: list[str], folder: Path) -> Iterator[str]:
    """Yield lines without what differs from run to run."""
    for line in lines:
        yield line.replace(str(folder), "BASE")


def test_the_files_of_leases_and_locks(
    watched: Watched, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, base = watched.text, tmp_path / "runs"
    base.mkdir()
    values = {"/proc/sys/a": b"0\n", "/proc/sys/b": b"0\n"}
    host, far = RecordingHost(files=values), RecordingHost(name="far", files=values)
    host.is_local = True
    mine = Leases(base)
    note_calls(text, "a lease", lambda: mine.take("sm0001", host, "/proc/sys/a", b"1"))
    note_calls(text, "another one", lambda: mine.take("sm0001", host, "/proc/sys/b", b"1"))
    note_calls(text, "a lease of a folder", lambda: mine.take("sm0001", host, "/run/a/", b""))
    note_calls(text, "a lease on a far host", lambda: mine.take("sm0001", far, "/proc/sys/a", b"1"))
    note_calls(text, "those of a run", lambda: len(mine.held_by("sm0001")))
    note_calls(text, "the way back", lambda: mine.give_back("sm0001", host, "/proc/sys/a"))
    note_calls(
        text, "one of a host that is gone", lambda: mine.forget("sm0001", "far", "/proc/sys/a")
    )
    note_calls(text, "the end", mine.close)
    watched.fails["BASE/machine"] = [errno.EACCES]
    note_calls(text, "without /dev", lambda: mine.take("sm0002", host, "/proc/sys/b", b"1"))
    mine.close()

    lock = tmp_path / "lock"
    monkeypatch.setenv(measuring.VARIABLE, str(lock))

    def held(**options: Any) -> str:
        with measuring_alone("me", waiting=text.append, **options):
            return lock.read_text()

    note_calls(text, "the lock of the machine", held)
    note_calls(text, "the lock again", held)
    watched.locked.add("BASE/lock")
    note_calls(text, "a lock that another one has", held)
    watched.locked.add("BASE/lock")
    note_calls(text, "a lock that is shared", lambda: held(shared=True))
    for number in (errno.EACCES, errno.ELOOP, errno.ENOENT):
        watched.fails["BASE/lock"] = [number]
        note_calls(text, f"a lock that has {errno.errorcode[number]}", held)
    lock.chmod(0o600)
    watched.fails["BASE/lock"] = [errno.ENOENT, errno.EROFS]
    note_calls(text, "a lock that cannot be made", held)
    golden("files/leases.txt", "\n".join([*replaced(text, tmp_path), ""]))


def test_folders_that_are_not_those_of_a_run(
    watched: Watched, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = watched.text
    for name in ("sm0001", "sm00011", "xsm0001", "sm000g"):
        (tmp_path / name).mkdir()
        note_calls(text, f"remove {name}", partial(remove_folder, tmp_path / name))
    mounts = [tmp_path / "sm0002", tmp_path / "sm0002/a"]
    monkeypatch.setattr(workspace, "mounts_below", lambda folder: mounts)
    note_calls(text, "remove what is mounted", lambda: remove_folder(tmp_path / "sm0002"))
    mounts.clear()
    monkeypatch.setattr(shutil, "rmtree", lambda folder, **options: None)
    (tmp_path / "sm0003").mkdir()
    note_calls(text, "remove what stays", lambda: remove_folder(tmp_path / "sm0003"))
    for mode in (0o700, 0o755, 0o720, 0o702, 0o777):
        (tmp_path / "sm0003").chmod(mode)
        note_calls(text, f"a folder of mode {mode:o}", lambda: require_own(tmp_path / "sm0003"))
    (tmp_path / "file").touch()
    note_calls(text, "a file", lambda: require_own(tmp_path / "file"))
    own = os.geteuid()
    (tmp_path / "sm0003").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    note_calls(text, "a folder of another user", lambda: require_own(tmp_path / "sm0003"))
    note_calls(text, "no folder for runs", lambda: Workspace(tmp_path / "file"))
    golden("files/others.txt", "\n".join([*replaced(text, tmp_path), ""]))


def test_lines_are_appended_and_read(watched: Watched, golden: Golden, tmp_path: Path) -> None:
    text = watched.text
    path = tmp_path / "lines"
    for content in (b"", b"a\nb\n", b"a\nb", b"\n", b"torn"):
        path.write_bytes(content)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        note_calls(text, f"{content!r}", partial(whole_lines, descriptor))
        append_line(descriptor, "c")
        text.append(repr(path.read_bytes()))
        os.close(descriptor)
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    note_calls(text, "a pipe", lambda: whole_lines(descriptor))
    with suppress(OSError):
        append_line(descriptor, "c")
    os.close(descriptor)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    golden("files/lines.txt", "\n".join([*replaced(text, tmp_path), ""]))
