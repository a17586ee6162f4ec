"""These tests compare what `clean` does with stored texts, for runs of which all is left that can
be: processes, frozen groups, namespaces, links, mounts and undos on several hosts. Some hosts
refuse a part of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from golden_cases import shortened
from switchmark.errors import SetupFailed, SwitchmarkError, Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.runs import clean as cleaning
from switchmark.runs import leases, workspace
from switchmark.runs.clean import clean
from switchmark.runs.journal import Command, Far, Lease, Restore, Stop
from switchmark.runs.leases import Leases
from switchmark.runs.workspace import Workspace

Golden = Callable[[str, str], None]

GROUPS = "/sys/fs/cgroup"


class Telling(RecordingHost):
    """A host that tells every request; those that begin with a word of `refuses` fail."""

    def __init__(self, text: list[str], run: str, name: str = "local") -> None:
        group = f"{GROUPS}/{run}-a"
        super().__init__(
            {
                ("ip", "netns", "list"): f"{run}-f0 (id: 1)\nother\n{run}-f1\n".encode(),
                ("ip", "-j", "link"): f'[{{"ifname":"{run}-v"}},{{"ifname":"eth0"}}]'.encode(),
                ("find",): f"{group}\n{group}/b\n".encode() + b"/\xff\n",
            },
            name=name,
            files={
                f"{group}/cgroup.procs": b"0\n43\n41\n",
                f"{group}/b/cgroup.procs": b"42\n41\n%d\n" % os.getpid(),
                "/proc/sys/a": b"1",
            },
        )
        self.text, self.refuses, self.unavailable = text, "", ""
        self.is_local = name == "local"

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        line = " ".join(argv)
        changed_options = {name: value for name, value in options.items() if value}
        self.text.append(f"  {self.name}: {line} {changed_options}")
        if self.unavailable and line.startswith(self.unavailable):
            raise Unavailable(f"there is no {argv[0]}")
        if self.refuses and line.startswith(self.refuses):
            return Completed(1, b"", b"Device or resource is taken")
        return self.answer(argv)

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        self.text.append(f"  {self.name}: end {pid}, {started} by {number} in {grace_s:g} s")
        return self.refuses != "end"

    def remove(self, path: str) -> None:
        self.text.append(f"  {self.name}: remove {path}")
        super().remove(path)

    def write(self, path: str, content: bytes) -> None:
        self.text.append(f"  {self.name}: write {path} {content!r}")
        if self.refuses == f"write {path}":
            raise PermissionError(13, "no")
        super().write(path, content)

    def undo_run(self, run: str, folder: str) -> None:
        self.text.append(f"  {self.name}: undo {run} in {folder}")


class Processes:
    """The processes of a dead run: the first two carry its mark, one of these has ended, and one
    comes back once."""

    def __init__(self, text: list[str]) -> None:
        self.text, self.back = text, 1
        self.live = {40, 41, 42}

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        return tuple((pid, 10 * pid) for pid in (39, 40) if pid == 39 or pid in self.live)

    def start_time(self, pid: int) -> int | None:
        return 10 * pid if pid in self.live else None

    def open_process(self, pid: int, start: int) -> int | None:
        assert start == 10 * pid
        return os.open(os.devnull, os.O_RDONLY) if pid in self.live else None

    def end(self, pidfd: int, number: int, grace_s: float) -> None:
        os.fstat(pidfd)
        self.text.append(f"  a process is ended by {number} in {grace_s:g} s")
        self.live = {40} if self.back else set()
        self.back = 0


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MACHINE_WIDE", tmp_path / "machine-leases")
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    numbers = (f"{number:04x}" for number in range(1, 1000))
    ids = SimpleNamespace(token_hex=lambda count: next(numbers))
    monkeypatch.setattr(workspace, "secrets", ids)
    monkeypatch.setattr(cleaning, "sweep", lambda: None)


def replaced(monkeypatch: pytest.MonkeyPatch, text: list[str]) -> None:
    """Replace what looks at the processes, mounts and groups of this host."""
    processes = Processes(text)
    for name in ("marked", "start_time", "open_process", "end"):
        monkeypatch.setattr(cleaning, name, getattr(processes, name))
    monkeypatch.setattr(
        cleaning, "thaw_all", lambda host, run: [f"{GROUPS}/{run}-a"] if processes.back else []
    )
    monkeypatch.setattr(cleaning, "mounts_below", lambda folder: [folder / "x", folder / "x/y"])
    monkeypatch.setattr(cleaning, "remove_folder", lambda folder: text.append("  remove folder"))


def left(base: Path, *, journal: bool = True) -> Workspace:
    """Return a run that died, with undos on this host and on three others."""
    run = Workspace(base)
    run.journal.intend(Far(host="far", folder="/run/far"))
    run.journal.intend(Far(host="pod", folder="/run/pod", owner=run.run))
    run.journal.intend(Far(host="lost", folder="/run/lost"))
    run.journal.intend(Command(host="lost", argv=("rm", "z")))
    run.journal.intend(Command(host="pod", argv=("rm", "w")))
    run.journal.intend(Restore(host="local", path="/proc/sys/a", content=b"0"))
    run.journal.intend(Restore(host="local", path="/run/x", content=None))
    run.journal.intend(Command(host="local", argv=("rm", "a b"), stdin=b"x", timeout_s=7.0))
    run.journal.intend(Command(host="local", argv=("ip", "del"), refusable=True))
    number = run.journal.intend(Stop(name="switch", number=15, grace_s=2.5))
    run.journal.started(number, 77, 770)
    run.journal.intend(Stop(name="early", number=15, grace_s=2.5))
    run.journal.intend(Lease(host="local", path="/proc/sys/a"))
    run.journal.close()
    if not journal:
        (run.folder / "journal").unlink()
    return run


HOSTS: tuple[tuple[str, str], ...] = (
    ("", ""),
    ("rm", ""),
    ("ip del", ""),
    ("ip netns del", ""),
    ("umount", ""),
    ("end", ""),
    ("write /proc/sys/a", ""),
    ("", "ip netns"),
    ("", "find"),
)
"""What a host refuses, and what it lacks."""


def cleanings(base: Path) -> Iterator[tuple[str, Workspace, dict[str, Any], str, str]]:
    """Yield what is cleaned and how: with or without a journal, on hosts of each kind."""
    for refuses, lacks in HOSTS:
        for options in ({"dry_run": True}, {}):
            if options and refuses:
                continue
            name = f"{options}, refused: {refuses}, missing: {lacks}"
            yield name, left(base), options, refuses, lacks
    for options in ({"dry_run": True}, {}):
        for refuses in ("", "umount"):
            run = left(base, journal=False)
            yield f"{options}, no journal, refused: {refuses}", run, options, refuses, ""
    for options in ({"dry_run": True}, {}):
        yield f"{options}, forgotten", left(base), {**options, "forget": ("lost", "pod")}, "", ""
    for refuses in ("", "write /proc/sys/a"):
        run = Workspace(base)
        host = RecordingHost(files={"/proc/sys/a": b"0"})
        host.is_local = True
        run.leases.take(run.run, host, "/proc/sys/a", b"1")
        run.leases.close()
        run.journal.close()
        yield f"a lease that no journal has, refused: {refuses}", run, {}, refuses, ""
    spoilt = left(base)
    with (spoilt.folder / "journal").open("a") as file:
        file.write("{}\n{\n")
    for options in ({"dry_run": True}, {}):
        yield f"{options}, spoilt", spoilt, options, "", ""


def test_all_that_can_be_left_is_cleaned(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text: list[str] = []
    for name, run, options, refuses, lacks in cleanings(tmp_path / "runs"):
        part: list[str] = []
        replaced(monkeypatch, part)
        hosts = {host: Telling(part, run.run, host) for host in ("local", "far")}
        hosts["local"].refuses, hosts["local"].unavailable = refuses, lacks
        for cleaned in clean(tmp_path / "runs", runs=(run.run,), hosts=hosts, **options):
            part.append(f"{cleaned.state}, out of reach: {cleaned.out_of_reach}")
            part += [f"- {action}" for action in cleaned.actions]
            part += [f"! {failure}" for failure in cleaned.failures]
        part = [line.replace(str(tmp_path), "BASE").replace(run.run, "smRUN") for line in part]
        text += [f"## {name}", *part]
    golden("cleaning/runs.txt", shortened("\n".join(text)))


def test_leases_of_the_dead_are_given_back(golden: Golden, tmp_path: Path) -> None:
    """Their runs are in another folder, or nowhere; a host may refuse the value."""
    text: list[str] = []
    for refuses in ("", "write /proc/sys/a"):
        for options in ({"dry_run": True}, {}, {"runs": ("none",)}):
            base = tmp_path / f"runs{len(text)}"
            (other := tmp_path / f"others{len(text)}").mkdir()
            base.mkdir(mode=0o700)
            host = Telling([], "sm0000")
            host.files["/proc/sys/b"] = b"5"
            for run, path in (("sm00a1", "a"), ("sm00a2", "b"), ("sm00a1", "b")):
                dead = Leases(other)
                dead.take(run, host, f"/proc/sys/{path}", b"7")
                dead.close()
            host.text, host.refuses = text, refuses
            text.append(f"## {options}, refused: {refuses}")
            try:
                text += map(str, clean(base, hosts={"local": host}, **options))
            except SwitchmarkError as error:
                text.append(f"{type(error).__name__}: {error.message}; {error.hint}")
            text.append(f"{host.files['/proc/sys/a']!r} {host.files['/proc/sys/b']!r}")
            leases.MACHINE_WIDE.unlink(missing_ok=True)
    golden("cleaning/leases.txt", shortened("\n".join([*text, ""]).replace(str(tmp_path), "BASE")))


def test_nothing_is_cleaned_where_there_are_no_runs(tmp_path: Path) -> None:
    assert clean(tmp_path / "none", hosts={"local": RecordingHost()}) == []
    with pytest.raises(SwitchmarkError, match="there is no run sm0001; there are: none"):
        clean(tmp_path / "none", runs=("sm0001",))


def test_a_folder_that_cannot_be_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stays(folder: Path) -> None:
        raise SetupFailed(f"{folder.name} cannot be removed")

    for journal in (True, False):
        run = left(tmp_path / "runs", journal=journal)
        replaced(monkeypatch, [])
        monkeypatch.setattr(cleaning, "remove_folder", stays)
        hosts = {host: Telling([], run.run, host) for host in ("local", "far", "lost")}
        (cleaned,) = clean(tmp_path / "runs", runs=(run.run,), hosts=hosts)
        assert cleaned.state == "incomplete"
        assert cleaned.failures == (f"{run.run} cannot be removed",)
