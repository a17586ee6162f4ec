"""These tests check journals, workspaces and leases: what of them survives deaths, and who may hold
them."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from host_snapshot import is_locked
from switchmark.errors import RecordFailed, SetupFailed, Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.runs.journal import Command, Journal, Restore, Stop
from switchmark.runs.leases import Leases
from switchmark.runs.workspace import Workspace, default_base, remove_folder

COMMAND = Command(host="local", argv=("ip", "netns", "del", "sm0000-a"), stdin=b"\xff\0")
RESTORE = Restore(host="local", path="/etc/x", content=None)
STOP = Stop(name="switch", number=15, grace_s=5.0)
SYSCTL = "/proc/sys/vm/nr_hugepages"


# --- journal ---------------------------------------------------------------------------------


def dead_journal(folder: Path) -> Path:
    """Write a dead run's journal: two undos pending, one done."""
    journal = Journal.create(folder / "journal", folder.name)
    journal.intend(COMMAND)
    journal.done(journal.intend(RESTORE))
    journal.started(journal.intend(STOP), 4711, 99)
    journal.close()
    return folder / "journal"


def test_a_journal_tells_what_is_pending(tmp_path: Path) -> None:
    journal = Journal.reopen(dead_journal(tmp_path))
    assert journal is not None
    started = STOP.model_copy(update={"pid": 4711, "start": 99})
    assert journal.pending == {0: COMMAND, 2: started}
    assert journal.next_number == 3
    journal.close()


@pytest.mark.parametrize("lost", range(1, 54))
def test_a_torn_last_line_loses_itself_alone(tmp_path: Path, lost: int) -> None:
    path = dead_journal(tmp_path)
    path.write_bytes(path.read_bytes()[:-lost])
    journal = Journal.reopen(path)
    assert journal is not None
    assert list(journal.pending) == [0, 2]
    journal.done(2)
    journal.close()
    again = Journal.reopen(path)
    assert again is not None
    assert list(again.pending) == [0]
    again.close()


def test_a_journal_cut_anywhere_can_be_read(tmp_path: Path) -> None:
    path = dead_journal(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        journal = Journal.reopen(path)
        assert journal is not None
        journal.close()


def test_garbage_between_lines_is_passed_over(tmp_path: Path) -> None:
    path = dead_journal(tmp_path)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"\0\xff{\n", b"[]\n", *rest]))
    journal = Journal.reopen(path)
    assert journal is not None
    assert list(journal.pending) == [0, 2]
    journal.close()


def test_a_journal_is_locked_as_long_as_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal.create(path, "sm0000")
    assert is_locked(path)
    assert Journal.reopen(path) is None
    journal.close()
    assert not is_locked(path)


def test_a_process_of_the_run_does_not_hold_the_lock(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "journal", "sm0000")
    with subprocess.Popen(["sleep", "60"]) as child:
        journal.close()
        assert not is_locked(tmp_path / "journal")
        child.kill()


def test_the_kernel_unlocks_the_journal_of_a_killed_run(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        Journal.create(tmp_path / "journal", "sm0000").intend(COMMAND)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    journal = Journal.reopen(tmp_path / "journal")
    assert journal is not None
    assert journal.pending == {0: COMMAND}
    journal.close()


def test_a_full_disk_is_an_error_before_the_step_and_tears_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal.create(path, "sm0000")
    before = path.read_bytes()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, usual[1]))
    try:
        with pytest.raises(RecordFailed, match="cannot write down what is to be undone"):
            journal.intend(COMMAND)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert path.read_bytes() == before
    assert journal.pending == {}
    journal.close()


# --- workspace -------------------------------------------------------------------------------


def test_runs_have_folders_and_ids_of_their_own(tmp_path: Path) -> None:
    runs = [Workspace(tmp_path) for _ in range(50)]
    assert len({run.run for run in runs}) == 50
    for run in runs:
        assert run.folder == tmp_path / run.run
        assert run.folder.stat().st_mode & 0o777 == 0o700
        assert run.env == {"SWITCHMARK_RUN": run.run}
        run.close()
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_something_pending_leaves_its_folder_to_clean(tmp_path: Path) -> None:
    with Workspace(tmp_path) as run:
        run.journal.intend(COMMAND)
    assert (run.folder / "journal").exists()
    assert not is_locked(run.folder / "journal")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(Unavailable, match="not a folder of this user"):
        Workspace(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="no folder for runs"):
        Workspace(tmp_path / "file")


def test_a_user_has_runs_where_the_session_keeps_its_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_base() == tmp_path / "switchmark"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert default_base() == Path("/tmp/switchmark-1234")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_base() == Path("/run/switchmark")


@pytest.mark.parametrize("name", ["", "sm", "sm0000/..", "foreign", "sm00000"])
def test_no_folder_but_that_of_a_run_is_removed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kept").touch()
    with pytest.raises(SetupFailed, match="is no folder of a run"):
        remove_folder(folder)
    assert (folder / "kept").exists()


# --- leases ----------------------------------------------------------------------------------


def test_the_first_run_saves_and_the_last_restores(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    with Workspace(tmp_path) as one, Workspace(tmp_path) as two:
        one.leases.take(one.run, host, SYSCTL, b"512")
        two.leases.take(two.run, host, SYSCTL, b"512\n")
        one.leases.give_back(one.run, host, SYSCTL)
        assert host.files[SYSCTL] == b"512\n"
        two.leases.give_back(two.run, host, SYSCTL)
        assert host.files[SYSCTL] == b"7\n"
    assert not (tmp_path / "leases").exists()


def test_giving_back_twice_changes_nothing(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, host, SYSCTL, b"512")
        run.leases.give_back(run.run, host, SYSCTL)
        host.files[SYSCTL] = b"the administrator's\n"
        run.leases.give_back(run.run, host, SYSCTL)
    assert host.files[SYSCTL] == b"the administrator's\n"


def test_a_run_may_set_a_value_again(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, host, SYSCTL, b"512")
        run.leases.take(run.run, host, SYSCTL, b"1024")
        assert run.leases.held_by(run.run) == [("local", SYSCTL)] * 2
        run.leases.give_back(run.run, host, SYSCTL)
        assert host.files[SYSCTL] == b"1024"
        run.leases.give_back(run.run, host, SYSCTL)
        assert host.files[SYSCTL] == b"7\n"


def test_a_value_that_a_live_run_needs_is_not_changed_under_it(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    with Workspace(tmp_path) as one, Workspace(tmp_path) as two:
        one.leases.take(one.run, host, SYSCTL, b"512")
        with pytest.raises(SetupFailed, match=f"run {one.run} needs it to be 512"):
            two.leases.take(two.run, host, SYSCTL, b"16")
        assert host.files[SYSCTL] == b"512"
        one.leases.give_back(one.run, host, SYSCTL)


def test_a_dead_holder_neither_blocks_nor_loses_the_old_value(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    dead = Workspace(tmp_path)
    dead.leases.take(dead.run, host, SYSCTL, b"512")
    dead.leases.close()
    dead.journal.close()
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, host, SYSCTL, b"16")
        assert host.files[SYSCTL] == b"16"
        run.leases.give_back(run.run, host, SYSCTL)
    assert host.files[SYSCTL] == b"7\n"


def test_a_dead_holders_lease_is_given_back_under_a_live_one(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    dead = Workspace(tmp_path)
    dead.leases.take(dead.run, host, SYSCTL, b"512")
    dead.leases.close()
    dead.journal.close()
    with Workspace(tmp_path) as run:
        run.leases.take(run.run, host, SYSCTL, b"16")
        run.leases.give_back(dead.run, host, SYSCTL)
        assert host.files[SYSCTL] == b"16"
        run.leases.give_back(run.run, host, SYSCTL)
        assert host.files[SYSCTL] == b"7\n"


def test_values_of_an_earlier_boot_are_never_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    leases = Leases(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr("switchmark.runs.leases.boot_id", lambda host: "earlier")
        leases.take("sm0000", host, SYSCTL, b"512")
    host.files[SYSCTL] = b"0\n"
    leases.give_back("sm0000", host, SYSCTL)
    assert host.files[SYSCTL] == b"0\n"


def test_a_torn_lease_is_passed_over(tmp_path: Path) -> None:
    host = RecordingHost(files={SYSCTL: b"7\n"})
    leases = Leases(tmp_path)
    leases.take("sm0000", host, SYSCTL, b"512")
    with (tmp_path / "leases").open("ab") as file:
        file.write(b'{"entry":"gi')
    leases.give_back("sm0000", host, SYSCTL)
    assert host.files[SYSCTL] == b"7\n"
