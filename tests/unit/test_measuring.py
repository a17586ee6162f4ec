"""These tests check the lock of the machine, and the doubts if a run ignores it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorded import fresh
from switchmark.campaign.sharing import SHARED_MACHINE, Doubting
from switchmark.errors import Unavailable
from switchmark.hosts.base import boot_id
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.runs import measuring
from switchmark.runs.measuring import VARIABLE, measuring_alone, measuring_alone_on, myself
from unit.test_campaign_run import FakeLab

HOLDER = """
from switchmark.runs.measuring import measuring_alone
with measuring_alone("the other\\x1b[31m one"):
    print("held", flush=True)
    input()
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lock"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.fixture
def other(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Return another process, which holds the lock."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, text=True) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == "held\n"
        yield it
        it.kill()


def test_a_holder_is_told_of_and_waited_for(lock: Path, other: subprocess.Popen[str]) -> None:
    messages = []

    def release(holder: str) -> None:
        messages.append(holder)
        assert other.stdin is not None
        other.stdin.close()  # it ends its measurement

    with measuring_alone("me", waiting=release):
        holder = f"; process {other.pid} of user {os.geteuid()}"
        assert messages == [f"the other[31m one{holder}"]  # nothing that a terminal would obey
        assert lock.read_text() == "me"  # the other one has taken its words back before


def test_what_a_holder_says_need_not_be_text(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = "1: FLOCK  ADVISORY  WRITE 9 fe:00:{inode} 0 EOF\n"
    lock.write_bytes(b"a\xff\x1b")
    inode = lock.stat().st_ino
    files = {"/proc/locks": locks.format(inode=inode).encode()}
    files["/proc/9/status"] = b"Name:\t\xff\nUid:\t7\t8\t9\t9\n"
    monkeypatch.setattr(measuring, "LocalHost", lambda: RecordingHost(files=files))
    descriptor = os.open(lock, os.O_RDWR)
    assert measuring._holder(descriptor) == "a\N{REPLACEMENT CHARACTER}; process 9 of user 7"
    files["/proc/locks"] = locks.format(inode=inode + 1).encode()
    lock.write_bytes(b"\x1b")
    assert measuring._holder(descriptor) == "another switchmark"
    os.close(descriptor)


def test_a_killed_holder_holds_nothing(other: subprocess.Popen[str]) -> None:
    other.kill()
    other.wait()
    with measuring_alone("me", waiting=pytest.fail):
        pass


def test_who_shares_waits_for_nobody(other: subprocess.Popen[str]) -> None:
    with measuring_alone("me", shared=True, waiting=pytest.fail):
        assert other.poll() is None


def test_who_shares_keeps_others_out_who_do_not(lock: Path) -> None:
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with measuring_alone(myself(lock.parent), shared=True):
        assert lock.read_text() == f"pid {os.getpid()}, {lock.parent}"
        assert lock.stat().st_mode & 0o777 == 0o666  # other users are kept out, too
        assert subprocess.run([sys.executable, "-c", code, lock], stderr=-3).returncode == 1
    assert subprocess.run([sys.executable, "-c", code, lock]).returncode == 0
    assert lock.read_text() == ""


def test_without_a_lock_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, os.devnull)
    with (
        measuring_alone("me", waiting=pytest.fail),
        measuring_alone("another", waiting=pytest.fail),
    ):
        pass


@pytest.mark.parametrize("kind", ["folder", "link", "hard link", "fifo", "nowhere"])
def test_a_lock_that_is_no_file_is_refused(
    lock: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "folder":
        lock.mkdir()
    elif kind == "link":  # in /tmp it may be anybody's, and lead anywhere
        lock.symlink_to(lock.with_name("secret"))
    elif kind == "hard link":
        lock.with_name("other").touch()
        lock.hardlink_to(lock.with_name("other"))
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        monkeypatch.setenv(VARIABLE, str(lock.parent / "none/lock"))
    refusal = pytest.raises(Unavailable, match="the lock of this machine")
    with refusal as refused, measuring_alone("me"):
        pass
    assert VARIABLE in (refused.value.hint or "")
    assert not lock.with_name("secret").exists()


@pytest.mark.parametrize("kind", ["nowhere", "somewhere"])
def test_the_shell_of_another_host_follows_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    target, lock = tmp_path / "target", tmp_path / "lock"
    lock.symlink_to(target)
    if kind == "somewhere":
        target.write_text("precious")
    monkeypatch.setattr(measuring, "_FILE", str(lock))
    refused = pytest.raises(Unavailable, match="is no file")
    with refused, measuring._alone_there(LocalHost(), "me", False, print):
        pass
    assert target.exists() == (kind == "somewhere")
    assert kind == "nowhere" or target.read_text() == "precious"


@pytest.mark.parametrize("way", ["symbolic", "hard", ""])
def test_the_shell_of_another_host_writes_to_the_file_that_it_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    target, lock = tmp_path / "target", tmp_path / "lock"
    target.write_text("precious")
    monkeypatch.setattr(measuring, "_FILE", str(lock))
    if way == "hard":
        lock.hardlink_to(target)
    with measuring._alone_there(LocalHost(), "me", False, print):
        assert lock.read_text() == ("precious" if way == "hard" else "me")
        if way == "symbolic":  # as the owner of the folder may do meanwhile
            lock.unlink()
            lock.symlink_to(target)
    assert target.read_text() == "precious"
    if not way:
        assert lock.read_text() == ""
        assert lock.stat().st_mode & 0o777 == 0o666


class _LabOfThree(FakeLab):
    """This lab finds what is stored, and the rest of three trials."""

    def visit(self, visit: Visit) -> Record | None:
        trials = fresh().trials
        for trial in trials[len(visit.stored) :]:
            visit.on_trial(trial)
        whole = (*visit.stored, *trials[len(visit.stored) :])
        return fresh(trials=whole, doubts=("short",))


def test_new_trials_beside_another_measurement_are_doubted() -> None:
    trials: list[TrialResult] = []
    stored = fresh().trials[:1]
    with Doubting(_LabOfThree(), {SHARED_MACHINE: "--share-machine"}) as lab:
        record = lab.visit(Visit(Test(), stored=stored, on_trial=trials.append))
    assert record is not None
    assert [SHARED_MACHINE in trial.doubts for trial in record.trials] == [False, True, True]
    assert record.doubts == ("short", "shared-machine")
    assert list(record.trials[1:]) == trials
    assert trials[0].evidence.doubts[SHARED_MACHINE]
    assert lab.versions(Test()) == {"switch": "1"}


def test_what_was_measured_alone_is_not_doubted() -> None:
    with Doubting(_LabOfThree(), {SHARED_MACHINE: "--share-machine"}) as lab:
        record = lab.visit(Visit(Test(), stored=fresh().trials))
    assert record is not None
    assert record.doubts == ("short",)


def test_a_lab_knows_how_its_block_ended() -> None:
    ended: list[object] = []

    class Ending(_LabOfThree):
        def __exit__(self, *how: object) -> None:
            ended.extend(how)

    with pytest.raises(KeyError) as failed, Doubting(Ending(), {}):
        raise KeyError
    assert ended[:2] == [KeyError, failed.value]
    assert ended[2] is not None


# --- several machines -------------------------------------------------------------------------


class Locking(RecordingHost):
    """A host whose shell answers like this, and ends with it or lives on."""

    def __init__(self, name: str, boot: str, *answers: str, ends: bool = False) -> None:
        super().__init__(name=name, files={"/proc/sys/kernel/random/boot_id": boot.encode()})
        self.given, self.ends = answers, ends
        self.shells: list[RecordingProcess] = []

    def spawn(self, argv: tuple[str, ...], *, stderr_path: str, **rest: Any) -> RecordingProcess:
        assert stderr_path == os.devnull
        shell = RecordingProcess(7, argv, list(self.given), status=1 if self.ends else None)
        self.shells.append(shell)
        return shell


def test_each_machine_is_locked_once_and_in_one_order(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(
        measuring, "boot_id", lambda host: "bb" if type(host) is LocalHost else boot_id(host)
    )

    class Noting(Locking):
        def spawn(self, argv: tuple[str, ...], **rest: Any) -> RecordingProcess:
            order.append(self.name)
            assert lock.exists() is (self.name == "last"), "this machine comes between them"
            return super().spawn(argv, **rest)

    hosts = [
        Noting("last", "cc", "held"),
        Noting("first", "aa", "held"),
        Noting("same", "aa", "held"),
        Noting("here", "bb"),
    ]
    with measuring_alone_on(hosts, "me", shared=True):
        assert order == ["same", "last"]
        assert lock.read_text() == "me"
        shells = [shell for host in hosts for shell in host.shells]
        assert {shell.argv[3:] for shell in shells} == {
            ("sh", "/tmp/switchmark-measuring", "me", "shared")
        }
        assert [shell.status for shell in shells] == [None, None]
    assert lock.read_text() == ""
    assert [shell.status for shell in shells] == [-15, -15]
    monkeypatch.setenv(VARIABLE, os.devnull)
    with measuring_alone_on(hosts, "me"):
        assert len(order) == 2


def test_who_measures_on_another_machine_is_told(lock: Path) -> None:
    told: list[str] = []
    host = Locking("far", "aa", "busy pid 9, /x\x1b", "held")
    with measuring_alone_on([host], "me", waiting=told.append):
        assert told == ["pid 9, /x (on far)"]
        assert host.shells[0].argv[-1] == ""


@pytest.mark.parametrize(
    ("answers", "why"), [(("no room there",), "no room there"), ((), "no shell holds it")]
)
def test_a_lock_that_cannot_be_had_on_another_machine_is_told(
    lock: Path, answers: tuple[str, ...], why: str
) -> None:
    host = Locking("far", "aa", *answers, ends=True)
    with (
        pytest.raises(Unavailable, match=f"cannot be had: /tmp/switchmark-measuring on far: {why}"),
        measuring_alone_on([host], "me"),
    ):
        pytest.fail("it is not held")
    assert host.shells[0].status == 1


def test_a_lock_that_others_make_and_remove_is_told(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        tries.append(flags & os.O_CREAT)
        raise FileExistsError if flags & os.O_CREAT else FileNotFoundError

    monkeypatch.setattr(os, "open", opened)
    with (
        pytest.raises(Unavailable, match="others make and remove it"),
        measuring_alone("me"),
    ):
        pytest.fail("it is not held")
    assert tries == [0, os.O_CREAT] * 2
