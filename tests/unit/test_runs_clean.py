"""These tests clean up after dead runs, as far as it needs no privileges: processes, files,
leases."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Completed, boot_id
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import marked, start_time
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Node, Run, Spawn, Step, Write
from switchmark.runs import leases
from switchmark.runs.clean import Cleaned, clean
from switchmark.runs.executor import Executor
from switchmark.runs.journal import Command, Far, Lease, Restore, Stop
from switchmark.runs.leases import Leases
from switchmark.runs.workspace import Workspace


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def foreign() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start processes of somebody else; end them behind the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, **env: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv or ("sleep", "60"), env={**os.environ, **env}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def die_after(base: Path, logs: Path, *steps: Step) -> None:
    """Carry the steps out in another process, which is then killed with SIGKILL."""
    pid = os.fork()
    if pid == 0:
        try:
            host = LocalHost()
            workspace = Workspace(base)
            executor = Executor({"local": host}, workspace, inside=inside, logs_dir=logs)
            executor.execute((*steps, Run("die", ("sh", "-c", "kill -9 $PPID; sleep 60"))))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_run_killed_amid_commands_side_by_side_leaves_nothing(base: Path, tmp_path: Path) -> None:
    """The leader dies with one command still running, and others not begun."""
    (tmp_path / "made").mkdir()
    names = [str(tmp_path / "made" / str(number)) for number in range(4)]
    steps = [Run("make", ("mkdir", name), undo=("rmdir", name), subject=name) for name in names]
    steps.insert(1, Run("work", ("sh", "-c", "sleep 60"), subject="work"))
    steps.insert(3, Run("die", ("sh", "-c", "kill -9 $PPID; sleep 60"), subject="die"))
    die_after(base, tmp_path / "logs", *steps)
    (cleaned,) = clean(base)
    assert cleaned.state == "cleaned"
    assert list((tmp_path / "made").iterdir()) == []
    assert marked(cleaned.run) == ()


def dead(base: Path) -> Workspace:
    """Return a run that has ended without undoing anything."""
    workspace = Workspace(base)
    workspace.journal.close()
    return workspace


@pytest.mark.parametrize("file", ["", "{run}", "{run}/journal"])
@pytest.mark.parametrize("change", ["owner", "writable", "link"])
def test_what_another_user_may_have_written_is_not_carried_out(
    base: Path, tmp_path: Path, file: str, change: str
) -> None:
    workspace = Workspace(base)
    workspace.journal.intend(Command(host="local", argv=("touch", str(tmp_path / "owned"))))
    workspace.journal.close()
    path = base / file.format(run=workspace.run)
    if change == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(path, 7001, 7001)
    elif change == "writable":
        path.chmod(path.stat().st_mode | 0o002)
    else:
        path.symlink_to(path.rename(tmp_path / "elsewhere"))
    if file:
        (cleaned,) = clean(base)
        assert cleaned.state == "incomplete"
        assert str(path) in cleaned.failures[0]
    else:
        with pytest.raises(Unavailable, match=str(path)):
            clean(base)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("length", range(6))
def test_a_run_killed_behind_any_step_leaves_nothing(
    tmp_path: Path, base: Path, length: int
) -> None:
    created = tmp_path / "made"
    created.mkdir()
    (created / "kept").write_bytes(b"kept")
    steps = (
        Run("a folder", ("mkdir", f"{created}/d"), undo=("rmdir", f"{created}/d")),
        Write("a file in it", f"{created}/d/f", b"1"),
        Write("a change", f"{created}/kept", b"2"),
        Write("a value for all", f"{created}/kept", b"3", machine_wide=True),
        Spawn("a process", "p", ("sleep", "60")),
    )
    die_after(base, tmp_path / "logs", *steps[:length])
    (cleaned,) = clean(base)
    assert cleaned.state == "cleaned"
    assert cleaned.failures == ()
    assert marked(cleaned.run) == ()
    assert [path.name for path in created.iterdir()] == ["kept"]
    assert (created / "kept").read_bytes() == b"kept"
    assert list(base.glob("sm*")) == []
    assert clean(base) == []


def test_a_process_that_no_journal_knows_is_found_by_its_mark(
    base: Path, foreign: Callable[..., subprocess.Popen[bytes]]
) -> None:
    run = dead(base)
    lost = foreign(SWITCHMARK_RUN=run.run)
    others = [foreign(SWITCHMARK_RUN=f"{run.run}0"), foreign(), foreign(SWITCHMARK_RUN="sm")]
    others.append(foreign(OTHER_SWITCHMARK_RUN=run.run))
    (cleaned,) = clean(base)
    assert cleaned == Cleaned(run.run, "cleaned", (f"end process {lost.pid} of the run",))
    assert lost.wait(5) == -signal.SIGTERM
    assert [process.poll() for process in others] == [None] * len(others)


def test_a_process_is_found_while_it_becomes_another_program(
    tmp_path: Path, foreign: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """It has no environment that can be read meanwhile."""
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o755)
    process = foreign(str(again), SWITCHMARK_RUN="sm00ff")
    found = [marked("sm00ff") for _ in range(50)]
    assert {pid for (pid, _) in sum(found, ())} == {process.pid}
    assert all(found)


def test_a_process_without_an_environment_is_not_waited_for(
    foreign: Callable[..., subprocess.Popen[bytes]],
) -> None:
    process = foreign("env", "-i", "sleep", "60")
    environ = Path(f"/proc/{process.pid}/environ")
    while environ.read_bytes():
        time.sleep(0.01)
    assert marked("sm00ff") == ()
    assert process.poll() is None


def test_a_process_that_got_a_dead_ones_number_is_not_signalled(
    base: Path, foreign: Callable[..., subprocess.Popen[bytes]]
) -> None:
    run = Workspace(base)
    other = foreign()
    number = run.journal.intend(Stop(name="p", number=signal.SIGKILL, grace_s=1.0))
    run.journal.started(number, other.pid, (start_time(other.pid) or 0) - 1)
    run.journal.close()
    (cleaned,) = clean(base)
    assert cleaned.state == "cleaned"
    time.sleep(0.05)
    assert other.poll() is None


def test_what_was_under_way_at_the_death_is_undone_once_it_is_over(
    tmp_path: Path, base: Path
) -> None:
    """A command that survives its run may do its work after the first undoing."""
    late = tmp_path / "late"
    script = f"trap '' TERM; sleep 0.3; touch {late}"
    run = Workspace(base)
    run.journal.intend(Command(host="local", argv=("rm", "-f", str(late))))
    with subprocess.Popen(["sh", "-c", script], env={**os.environ, **run.env}):
        time.sleep(0.1)
        run.journal.close()
        clean(base)
    assert not late.exists()


def test_a_live_run_is_reported_and_left_alone(tmp_path: Path, base: Path) -> None:
    with Workspace(base) as workspace:
        executor = Executor(
            {"local": LocalHost()}, workspace, inside=inside, logs_dir=tmp_path / "logs"
        )
        created = tmp_path / "made"
        executor.execute((Write("a file", str(created), b""), Spawn("a process", "p", ("cat",))))
        other = dead(base)
        found = {cleaned.run: cleaned.state for cleaned in clean(base)}
        assert found == {workspace.run: "live", other.run: "cleaned"}
        assert created.exists()
        assert executor.process("p").poll() is None
        assert executor.unwind() == ()
    assert not created.exists()


def test_a_folder_without_a_journal_is_removed(base: Path) -> None:
    run = dead(base)
    (run.folder / "journal").unlink()
    assert clean(base) == [Cleaned(run.run, "cleaned")]
    assert list(base.iterdir()) == []


def test_a_dry_run_tells_what_is_left_of_a_run_without_a_journal(
    base: Path, foreign: Callable[..., subprocess.Popen[bytes]]
) -> None:
    run = dead(base)
    (run.folder / "journal").unlink()
    lost = foreign(**run.env)
    links = json.dumps([{"ifname": f"{run.run}-v"}, {"ifname": "eth0"}]).encode()
    host = RecordingHost({("ip", "-j", "link"): links})
    ends = (f"end process {lost.pid} of the run", f"ip link del {run.run}-v")
    cleaned = clean(base, dry_run=True, hosts={"local": host})
    assert cleaned == [Cleaned(run.run, "dead", ends)]
    assert lost.poll() is None
    assert run.folder.exists()


def test_only_folders_of_runs_are_looked_at(base: Path) -> None:
    (base / "something").mkdir(parents=True)
    (base / "sm12").mkdir()
    assert clean(base) == []
    assert len(list(base.iterdir())) == 2


def test_a_dry_run_tells_and_changes_nothing(
    tmp_path: Path, base: Path, foreign: Callable[..., subprocess.Popen[bytes]]
) -> None:
    file = tmp_path / "file"
    file.touch()
    run = Workspace(base)
    run.journal.intend(Restore(host="local", path=str(file), content=None))
    run.journal.intend(Command(host="local", argv=("ip", "netns", "del", "a b")))
    run.journal.close()
    lost = foreign(**run.env)
    expected = ("ip netns del 'a b'", f"remove {file}", f"end process {lost.pid} of the run")
    for _ in range(2):
        assert clean(base, dry_run=True) == [Cleaned(run.run, "dead", expected)]
    assert file.exists()
    assert lost.poll() is None


def test_one_run_may_be_named(base: Path) -> None:
    one, two = dead(base), dead(base)
    assert [cleaned.run for cleaned in clean(base, runs=[two.run])] == [two.run]
    assert one.folder.exists()
    with pytest.raises(UsageError, match=f"no run smxxxx; there are: {one.run}"):
        clean(base, runs=["smxxxx"])


def test_an_undo_that_fails_is_told_and_tried_again(base: Path) -> None:
    run = Workspace(base)
    for name in "abc":
        run.journal.intend(Command(host="local", argv=("undo", name)))
    run.journal.close()
    host = RecordingHost({("undo", "b"): Completed(1, b"", b"busy")})
    (cleaned,) = clean(base, hosts={"local": host})
    assert cleaned.state == "incomplete"
    assert len(cleaned.failures) == 1
    assert "busy" in cleaned.failures[0]
    host = RecordingHost()
    (cleaned,) = clean(base, hosts={"local": host})
    assert cleaned.state == "cleaned"
    assert host.ran[0] == ("undo", "b")
    assert ("undo", "a") not in host.ran


def test_an_undo_that_a_program_refuses_is_told_once(base: Path) -> None:
    """Nothing is left of it: the node that it works in goes as well."""
    run = Workspace(base)
    run.journal.intend(Command(host="local", argv=("undo", "a")))
    run.journal.intend(Command(host="local", argv=("undo", "b"), refusable=True))
    run.journal.close()
    host = RecordingHost({("undo", "b"): Completed(1, b"", b"no such")})
    assert clean(base, dry_run=True, hosts={"local": host})[0].state == "dead"
    host = RecordingHost({("undo", "b"): Completed(1, b"", b"I will not")})
    (cleaned,) = clean(base, hosts={"local": host})
    assert (cleaned.state, cleaned.failures) == ("cleaned", ())
    assert "refused, and nothing is left: an undo ended with status 1: undo b" in cleaned.actions[2]
    assert "I will not" in cleaned.actions[2]
    assert ("undo", "a") in host.ran
    assert clean(base, hosts={"local": host}) == []


def spoilt_entries(base: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what may lie where a run's journal should be, with what puts it there."""

    def folder(number: int) -> Path:
        run = base / f"sm000{number}"
        run.mkdir(parents=True)
        return run / "journal"

    base.mkdir()
    yield "a file", lambda: (base / "sm0000").touch()
    yield "a folder", lambda: folder(1).mkdir()
    yield "a link to itself", lambda: (path := folder(2)).symlink_to(path)
    yield "a device", lambda: folder(3).symlink_to("/dev/zero")
    yield "a pipe", lambda: os.mkfifo(folder(4))


@pytest.mark.parametrize("kind", range(5))
def test_a_spoilt_entry_does_not_keep_others_from_being_undone(
    base: Path, tmp_path: Path, kind: int
) -> None:
    list(spoilt_entries(base))[kind][1]()
    run = Workspace(base)
    run.journal.intend(Command(host="local", argv=("rm", str(tmp_path / "made"))))
    run.journal.close()
    (tmp_path / "made").touch()
    results = {result.run: result for result in clean(base)}
    assert results.pop(run.run).state == "cleaned"
    assert not (tmp_path / "made").exists()
    (spoilt,) = results.values()
    assert spoilt.state == "incomplete"
    assert len(spoilt.failures) == 1


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path.name)])
def test_leases_that_are_no_file_are_told(
    base: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leases, "_of_this_machine", lambda leases: leases._of_runs)
    base.mkdir(mode=0o700)
    make(base / "leases")
    (result,) = clean(base)
    assert (result.run, result.state) == ("leases", "incomplete")
    assert f"{base / 'leases'}: " in result.failures[0]


@pytest.mark.parametrize(
    "undo",
    [
        {"kind": "command", "host": "local", "argv": ["true", "a\0b"]},
        {"kind": "command", "host": "local", "argv": []},
        {"kind": "command", "host": "local", "argv": ["true"], "timeout_s": 1e308},
        {"kind": "restore", "host": "local", "path": "/a\0b", "content": None},
        {"kind": "stop", "name": "a", "number": 15, "grace_s": 1, "pid": 1 << 40, "start": 1},
        {"kind": "stop", "name": "a", "number": 900, "grace_s": 1, "pid": 1, "start": 1},
    ],
    ids=["a NUL", "no argument", "no time", "a path with a NUL", "no process", "no signal"],
)
def test_an_undo_that_nothing_can_carry_out_is_passed_over_and_told(
    base: Path, tmp_path: Path, undo: dict[str, object]
) -> None:
    run = Workspace(base)
    run.journal.intend(Command(host="local", argv=("rm", str(tmp_path / "made"))))
    run.journal.close()
    line = json.dumps({"entry": "undo", "number": 7, "undo": undo})
    with (run.folder / "journal").open("a") as journal:
        journal.write(f"{line}\n")
    (tmp_path / "made").touch()
    (cleaned,) = clean(base)
    assert (cleaned.state, cleaned.failures) == ("cleaned", ())
    assert cleaned.actions[0] == "skip 1 unreadable lines of its journal"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_cannot_be_restored_is_not_read_without_end(
    base: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "endless"
    make(path)
    run = Workspace(base)
    run.journal.intend(Restore(host="local", path=str(path), content=b"old"))
    run.journal.close()
    (cleaned,) = clean(base, hosts={"local": _Unwritable()})
    assert cleaned.state == "incomplete"
    assert "cannot restore" in cleaned.failures[0]


class _Unwritable(LocalHost):
    def write(self, path: str, content: bytes) -> None:
        raise OSError(errno.EACCES, "no")


def test_a_pipe_that_nobody_reads_is_not_waited_for(base: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    run = Workspace(base)
    run.journal.intend(Restore(host="local", path=str(tmp_path / "pipe"), content=b"old"))
    run.journal.close()
    (cleaned,) = clean(base)
    assert cleaned.state == "incomplete"


def test_a_lease_of_a_count_that_holds_none_is_told(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "MACHINE_WIDE", base / "leases")
    (tmp_path / "count").write_text("words\n")
    run = Workspace(base)
    run.journal.intend(Lease(host="local", path=str(tmp_path / "count")))
    run.journal.close()
    take = {
        "entry": "take",
        "boot": boot_id(LocalHost()),
        "run": run.run,
        "host": "local",
        "added": 2,
    }
    take |= {"path": str(tmp_path / "count"), "old": "MQ==", "content": "Mw=="}
    take["root"] = f"{base.stat().st_dev}:{base.stat().st_ino}"
    (base / "leases").write_text(f"{json.dumps(take)}\n" * 2)
    (cleaned,) = clean(base)
    assert "holds no count: words" in cleaned.failures[0]


@pytest.fixture
def led_far(base: Path) -> Workspace:
    """Return a dead run that has something here, and on a host that is not known here."""
    run = Workspace(base)
    run.journal.intend(Far(host="far", folder=str(run.folder)))
    run.journal.intend(Lease(host="far", path="/proc/sys/a"))
    run.journal.intend(Command(host="local", argv=("rm", "-f", str(base / "made"))))
    (base / "made").touch()
    run.journal.close()
    return run


def test_what_is_on_a_host_that_is_not_known_is_kept_and_all_else_undone(
    base: Path, led_far: Workspace
) -> None:
    (cleaned,) = clean(base)
    message = "the host far is not known here (known: local), and what is left there is kept (2)"
    undone = (f"rm -f {base / 'made'}",)
    assert cleaned == Cleaned(led_far.run, "incomplete", undone, (message,), ("far",))
    assert not (base / "made").exists()
    (cleaned,) = clean(base)
    assert cleaned == Cleaned(led_far.run, "incomplete", (), (message,), ("far",))
    (cleaned,) = clean(base, hosts={"far": RecordingHost(name="far")})
    assert cleaned.state == "cleaned"


def test_what_is_on_a_host_that_is_gone_is_forgotten(base: Path, led_far: Workspace) -> None:
    forgotten, undone = "forget what is left on host far (2)", f"rm -f {base / 'made'}"
    (result,) = clean(base, forget=["far"], dry_run=True)
    assert result == Cleaned(led_far.run, "dead", (forgotten, undone))
    assert (base / "made").exists()
    other = dead(base)
    far = RecordingHost(name="far")
    cleaned = clean(base, forget=["far", "farther"], hosts={"far": far})
    assert {result.run: result for result in cleaned} == {
        led_far.run: Cleaned(led_far.run, "cleaned", (forgotten, undone)),
        other.run: Cleaned(other.run, "cleaned"),
    }
    assert far.ran == []
    assert not (base / "made").exists()
    assert clean(base) == []


def test_this_machine_is_not_forgotten(base: Path, led_far: Workspace) -> None:
    with pytest.raises(UsageError, match="this machine is here"):
        clean(base, forget=["local"])
    assert (base / "made").exists()


def test_a_journal_of_an_earlier_version_names_a_boot(base: Path, tmp_path: Path) -> None:
    created = tmp_path / "made"
    created.touch()
    run = Workspace(base)
    run.journal.intend(Command(host="local", argv=("rm", str(created))))
    run.journal.close()
    journal = run.folder / "journal"
    first, rest = journal.read_text().split("\n", 1)
    journal.write_text(json.dumps({**json.loads(first), "boot": "b0"}) + "\n" + rest)
    assert clean(base) == [Cleaned(run.run, "cleaned", (f"rm {created}",))]
    assert not created.exists()


def test_the_net_below_the_journal_takes_the_exact_prefix_alone(base: Path) -> None:
    run = dead(base)
    name = run.run
    links = f'[{{"ifname":"{name}-v"}},{{"ifname":"{name}0-v"}},{{"ifname":"eth0"}}]'
    host = RecordingHost(
        {
            ("ip", "netns", "list"): f"{name}-f0 (id: 1)\n{name}x\nother\n".encode(),
            ("ip", "-j", "link"): links.encode(),
        }
    )
    clean(base, hosts={"local": host})
    assert [argv for argv in host.ran if "del" in argv] == [
        ("ip", "netns", "del", f"{name}-f0"),
        ("ip", "link", "del", f"{name}-v"),
    ]
