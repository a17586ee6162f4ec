"""The freezer: it stops all processes of a run by their control groups, of version 1
(`freezer.state`) and 2 (`cgroup.freeze`), and resumes them.

The journal lists a group before it is frozen, so that undoing thaws first and signals then. In
version 1 a frozen process does not even die of SIGKILL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from switchmark import clock
from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Host
from switchmark.model.plan import Plan, Run, Write

_LONGEST_S = 5.0
_SELF = "/proc/self/cgroup"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A hierarchy of control groups."""

    name: str
    """The name, for messages."""
    root: str
    """The folder where it is mounted."""
    line: str
    """The start of its line in a process's list of groups, or the controller in that line."""
    file: str
    """The file of a group that freezes and resumes the group."""
    frozen: bytes
    """The content of `file` that freezes the group."""
    thawed: bytes
    """The content of `file` that resumes the group."""
    state_file: str
    """The file of a group that has its state."""
    is_frozen: re.Pattern[bytes]
    """Matches the content of `state_file` once the group is frozen."""

    def is_there(self, host: Host) -> bool:
        return host.exists(f"{self.root}/cgroup.procs")

    def group_of(self, listed: bytes) -> str | None:
        """Return the group in a process's list of groups, relative to the root of the hierarchy."""
        for line in listed.decode(errors="replace").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, group = rest.partition(":")
            if self.line in (f"{number}:{controllers}", controllers):
                return group
        return None

    def folder(self, group: str) -> str:
        return str(PurePosixPath(self.root, group.lstrip("/")))


def _v2(root: str) -> Hierarchy:
    frozen = re.compile(rb"^frozen 1$", re.MULTILINE)
    return Hierarchy("cgroup v2", root, "0:", "cgroup.freeze", b"1", b"0", "cgroup.events", frozen)


_V1 = Hierarchy(
    "cgroup v1",
    "/sys/fs/cgroup/freezer",
    "freezer",
    "freezer.state",
    b"FROZEN",
    b"THAWED",
    "freezer.state",
    re.compile(rb"^FROZEN$", re.MULTILINE),
)

HIERARCHIES = (_v2("/sys/fs/cgroup"), _v2("/sys/fs/cgroup/unified"), _V1)
"""The hierarchies that a host may have, in order of preference: version 2 can kill frozen
processes."""


class Executing(Protocol):
    """The part of an executor that a freezer needs."""

    def execute(self, plan: Plan) -> None: ...
    def mark(self) -> int: ...
    def unwind(self, to: int | None = None) -> tuple[str, ...]: ...


class Freezer:
    """The freezer of one run.

    Make it before the first process that it freezes, so that its group is removed after the last of
    them. It uses the first hierarchy that works. Raise Unavailable if this host has no freezer, or
    none that may be written.
    """

    def __init__(
        self,
        executor: Executing,
        host: Host,
        run: str,
        hierarchies: Collection[Hierarchy] = HIERARCHIES,
    ) -> None:
        self._executor, self._host, self._run = executor, host, run
        self._mark: int | None = None
        self._gathered: tuple[str, ...] = ()
        why = "this host has no freezer of control groups"
        for hierarchy in hierarchies:
            if not hierarchy.is_there(host):
                continue
            group = hierarchy.group_of(host.read(_SELF))
            if group is None or ".." in group:
                continue
            self._hierarchy, self._own = hierarchy, group
            self._folder = f"{hierarchy.folder(group)}/{run}-frozen"
            making = ("mkdir", self._folder)
            step = Run("the control group that is frozen", making, undo=("rmdir", self._folder))
            mark = executor.mark()
            try:
                executor.execute((step,))
                if host.exists(f"{self._folder}/{hierarchy.file}"):
                    return
                why = f"{hierarchy.name} of this host freezes nothing"
            except SetupFailed as error:
                why = f"no control group can be made: {str(error).splitlines()[-1].strip()}"
            executor.unwind(to=mark)
        raise Unavailable(why)

    @property
    def name(self) -> str:
        return self._hierarchy.name

    def forget(self) -> None:
        """Search for the run's processes again before the next freeze, because they have
        changed."""
        self._gathered = ()

    def freeze(self) -> None:
        """Stop all processes of the run. If a process is in a foreign group or does not stop,
        resume all of them and raise SetupFailed."""
        self._gathered = self._gathered or tuple(self._gather())
        self._mark = self._executor.mark()
        hierarchy = self._hierarchy
        why = "hold still what is not measured"
        try:
            self._executor.execute(
                tuple(
                    Write(why, f"{group}/{hierarchy.file}", hierarchy.frozen)
                    for group in self._gathered
                )
            )
        except SetupFailed:
            self.thaw()
            raise
        deadline = clock.monotonic() + _LONGEST_S
        while not all(self._is_frozen(group) for group in self._gathered):
            if clock.monotonic() > deadline:
                self.thaw()
                raise SetupFailed(f"its processes do not stop within {_LONGEST_S:g} s")
            clock.sleep(0.0005)

    def thaw(self) -> None:
        """Resume all frozen processes."""
        if self._mark is None:
            return
        mark, self._mark = self._mark, None
        if failures := self._executor.unwind(to=mark):
            raise SetupFailed("\n".join(failures))

    def _is_frozen(self, group: str) -> bool:
        path = f"{group}/{self._hierarchy.state_file}"
        return bool(self._hierarchy.is_frozen.search(self._host.read(path)))

    def _gather(self) -> Iterator[str]:
        """Yield the groups that hold only the run's processes: its own groups, and the group into
        which this moves the run's other processes."""
        pids = [pid for pid, _ in self._host.marked(self._run)]
        listed = self._host.read_all(*(f"/proc/{pid}/cgroup" for pid in pids))
        by_pid = {path.split("/")[2]: self._group_of(content) for path, content in listed.items()}
        yield self._folder
        groups = dict.fromkeys(group for group in by_pid.values() if group is not None)
        yield from (self._hierarchy.folder(group) for group in groups)
        for pid in (pid for pid, group in by_pid.items() if group is None):
            with suppress(ProcessLookupError):  # the process has ended
                self._host.write(f"{self._folder}/cgroup.procs", pid.encode())

    def _group_of(self, listed: bytes) -> str | None:
        """Return the run's group that a process is in; None if it is in this process's group."""
        group = self._hierarchy.group_of(listed)
        if group is None or group == self._own:
            return None
        parts = PurePosixPath(group).parts
        for depth, part in enumerate(parts):
            if f"{self._run}-" in part:
                path = str(PurePosixPath(*parts[: depth + 1]))
                return None if self._hierarchy.folder(path) == self._folder else path
        raise SetupFailed(f"its processes are in {group}, which others may be in too")


def thaw_all(host: Host, run: str) -> list[str]:
    """Resume all groups with the id of a run that are frozen; return their folders."""
    thawed = []
    for hierarchy in (hierarchy for hierarchy in HIERARCHIES if hierarchy.is_there(host)):
        for file in Path(hierarchy.root).glob(f"**/*{run}-*/{hierarchy.file}"):
            with suppress(OSError):
                if host.read(str(file)).strip() in (hierarchy.frozen, b"FREEZING"):
                    host.write(str(file), hierarchy.thawed)
                    thawed.append(str(file.parent))
    return thawed
