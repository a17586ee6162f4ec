"""A workspace is a run's lifetime on this host: its id, its folder of sockets and its journal.

Everything that a run makes begins with its id (`sm3f2a-...`); every process carries it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.processes import MARK
from switchmark.hosts.signals import shielded
from switchmark.model.plan import OWN_DIR, PORTS_DIR
from switchmark.runs.far_run import FarRun
from switchmark.runs.journal import Far, Journal
from switchmark.runs.leases import Leases

RUN = re.compile("sm[0-9a-f]{4}")
"""The id of a run."""


class Workspace:
    """A workspace belongs to one run. `run` is its id and the prefix of all names; `folder` is
    short enough for the 107 bytes that the path of a socket may have; `env` goes to every process.

    As a context manager it is closed at the end of the block, not unwound: that is the executor's.
    """

    def __init__(self, base: Path | None = None) -> None:
        """Start a run under `base`, by default `default_base()`."""
        self.base = _prepared(base or default_base())
        with shielded(), claims(self.base):
            self.folder = _new_folder(self.base)
            for name in (PORTS_DIR, OWN_DIR):
                (self.folder / name).mkdir(mode=0o700)
            self.run = self.folder.name
            self.journal = Journal.create(self.folder / "journal", self.run)
        self.leases = Leases(self.base)
        self._far: dict[str, FarRun] = {}
        self.env: Mapping[str, str] = {MARK: self.run}

    def close(self) -> None:
        """End the run: its folder goes if all is undone. What is still to be undone, because an
        undo failed or because it is to be kept, is left to `clean`."""
        with shielded(), claims(self.base):
            try:
                for far in self._far.values():
                    far.keep()
                if not self.journal.pending:
                    remove_folder(self.folder)
            finally:
                self.leases.close()
                self.journal.close()

    def reach(self, host: Host) -> None:
        """Let the run have something on a host: one that is reached by ssh gets its folder and its
        journal there, again where its connection was lost."""
        if not host.is_far:
            return
        if host.name not in self._far:
            self.journal.intend(Far(host=host.name, folder=str(self.folder)))
            self._far[host.name] = FarRun(host, self.run, str(self.folder))
            self.journal.mirrors.append(self._far[host.name].note)
        self._far[host.name].hold()

    def let_go(self, host: str) -> None:
        """End the run on a host that is reached by ssh: nothing of it is there any more."""
        if (far := self._far.pop(host, None)) is not None:
            self.journal.mirrors.remove(far.note)
            far.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def default_base() -> Path:
    """Return the folder of all runs of this user."""
    if os.geteuid() == 0:
        return Path("/run/switchmark")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime, "switchmark")
    return Path(f"/tmp/switchmark-{os.geteuid()}")


@contextmanager
def claims(base: Path) -> Iterator[None]:
    """Hold the one lock under which a journal gets its first owner, or `clean` for its next: a
    folder whose journal is not yet locked is never taken for a dead run's."""
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def mounts_below(folder: Path) -> list[Path]:
    """Return what is mounted on a folder or below it, in the order in which it was."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4]) for line in lines]
    return [point for point in points if folder in point.parents or point == folder]


def remove_folder(folder: Path) -> None:
    """Remove a run's folder; SetupFailed for any other, and while something is mounted below it, as
    that would remove the files of whatever is mounted."""
    if not RUN.fullmatch(folder.name):
        raise SetupFailed(f"{folder} is no folder of a run")
    for point in mounts_below(folder):
        raise SetupFailed(f"{point} is still mounted", hint=f"umount {point}")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise SetupFailed(f"{folder} cannot be removed", hint=f"ls -laR {folder}")


def require_own(folder: Path) -> None:
    """Raise Unavailable for a folder that another user made or can write to: what it says would be
    carried out in this user's name, and in /tmp anybody may have made it."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise Unavailable(f"{folder} is not a folder of this user", hint=f"remove {folder}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unavailable(f"other users can write to {folder}", hint=f"remove {folder}")


def _prepared(base: Path) -> Path:
    """Make the folder of all runs if need be. Somebody else's is Unavailable."""
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own(base)
    except OSError as error:
        raise Unavailable(f"no folder for runs can be made at {base}: {error.strerror}") from error
    return base


def _new_folder(base: Path) -> Path:
    while True:
        folder = base / f"sm{secrets.token_hex(2)}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
