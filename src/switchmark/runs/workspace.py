"""The workspace of a run on this host: its id, its folder of sockets, and its journal.

The names of all objects of a run begin with its id (`sm3f2a-...`), and every process carries it.
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
from switchmark.model.plan import PORTS_DIR, SWITCH_DIR
from switchmark.runs.far_run import FarRun
from switchmark.runs.journal import Far, Journal
from switchmark.runs.leases import Leases

RUN = re.compile("sm[0-9a-f]{4}")
"""The id of a run."""


class Workspace:
    """The workspace of one run.

    `run` is its id and the prefix of all names. `folder` is short enough for the 107 bytes of a
    socket path. `env` goes to every process. The end of a `with` block closes the workspace but
    does not unwind it; that is the executor's job.
    """

    def __init__(self, base: Path | None = None) -> None:
        """Start a run under `base`, by default `default_base()`."""
        self.base = _prepared(base or default_base())
        with shielded(), claims(self.base):
            self.folder = _new_folder(self.base)
            for name in (PORTS_DIR, SWITCH_DIR):
                (self.folder / name).mkdir(mode=0o700)
            self.run = self.folder.name
            self.journal = Journal.create(self.folder / "journal", self.run)
        self.leases = Leases(self.base)
        self._far: dict[str, FarRun] = {}
        self.env: Mapping[str, str] = {MARK: self.run}

    def close(self) -> None:
        """End the run, and remove its folder if nothing is left to undo. `clean` executes undos
        that failed or were kept."""
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
        """Let the run use a host. A far host gets the run's folder and journal, again after a lost
        connection."""
        if not host.is_far:
            return
        if host.name not in self._far:
            far = Far(host=host.name, folder=str(self.folder), owner=host.owner)
            self.journal.intend(far)
            self._far[host.name] = FarRun(host, self.run, str(self.folder))
            self.journal.mirrors.append(self._far[host.name].note)
        self._far[host.name].hold()

    def let_go(self, host: str) -> None:
        """End the run on a far host and remove everything of it there."""
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
    """Hold the lock under which a new journal is created and a dead run's journal is opened, so
    that a folder whose journal is not yet locked never counts as a dead run's."""
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def mounts_below(folder: Path) -> list[Path]:
    """Return the mounts on a folder or below it, in mount order."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [Path(line.split()[4]) for line in lines]
    return [point for point in points if folder in point.parents or point == folder]


def remove_folder(folder: Path) -> None:
    """Remove a run's folder. Raise SetupFailed for any other folder, and while something is mounted
    below it, because its files would be removed as well."""
    if not RUN.fullmatch(folder.name):
        raise SetupFailed(f"{folder} is no folder of a run")
    for point in mounts_below(folder):
        raise SetupFailed(f"{point} is still mounted", hint=f"umount {point}")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise SetupFailed(f"{folder} cannot be removed", hint=f"ls -laR {folder}")


def require_own(folder: Path) -> None:
    """Raise Unavailable for a folder that another user made or can write to: this user would
    execute its content, and anybody can make a folder in /tmp."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise Unavailable(f"{folder} is not a folder of this user", hint=f"remove {folder}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unavailable(f"other users can write to {folder}", hint=f"remove {folder}")


def _prepared(base: Path) -> Path:
    """Create the folder of all runs if necessary. Raise Unavailable for another user's folder."""
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
