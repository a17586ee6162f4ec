"""These tests compare switches in turn, with real frames, and freeze what is not measured: it costs
nothing then, comes back whole, and nothing stays frozen however a run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from host_state import clean, marked, start, wait_for
from switchmark.campaign.load import from_options
from switchmark.campaign.run import run
from switchmark.campaign.store import RunFolder
from switchmark.environments import inside
from switchmark.errors import Interrupted, SetupFailed, Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import wait_end
from switchmark.lab import turns
from switchmark.lab.gate import Gate
from switchmark.lab.measure import Lab
from switchmark.lab.turns import Turns
from switchmark.model.plan import Spawn
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.runs.executor import Executor
from switchmark.runs.freezer import HIERARCHIES, Freezer, Hierarchy
from switchmark.runs.workspace import Workspace

HOST = LocalHost()
BUSY = Spawn("spin", "spin", ("sh", "-c", "while :; do :; done"))
AXES = {"search": "max", "repeat": "3", "duration": "0.1", "warmup": "0.02", "seed": "3"}
BYPASS = {**AXES, "switch": "testpmd,l2fwd", "engine": "dpdk"}


@pytest.fixture(autouse=True)
def nothing_stays_frozen() -> Iterator[None]:
    yield
    assert frozen_groups() == []


def frozen_groups() -> list[Path]:
    """Return the groups of runs that are frozen, of any hierarchy. A process of another lane has no
    number here, and its groups may go while this looks (`os.walk` leaves them out)."""
    return [
        Path(group)
        for hierarchy in HIERARCHIES
        if hierarchy.is_there(HOST)
        for group, _, files in os.walk(hierarchy.root)
        if Path(group).match("sm*-frozen") and hierarchy.state_file in files
        if _is_frozen(Path(group), hierarchy)
    ]


def _is_frozen(group: Path, hierarchy: Hierarchy) -> bool:
    try:
        state = (group / hierarchy.state_file).read_bytes()
        return bool(hierarchy.is_frozen.search(state)) and any(_pids(group))
    except OSError:
        return False


def ran_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


# --- the freezer ------------------------------------------------------------------------------


@pytest.fixture(params=HIERARCHIES, ids=lambda hierarchy: f"{hierarchy.name} at {hierarchy.root}")
def hierarchy(request: pytest.FixtureRequest) -> Hierarchy:
    found: Hierarchy = request.param
    if not found.is_there(HOST):
        pytest.skip(f"no {found.name} is mounted at {found.root}")
    return found


def begun(base: Path) -> tuple[Workspace, Executor]:
    workspace = Workspace(base / "runs")
    logs = base / "logs" / workspace.run
    return workspace, Executor({"local": HOST}, workspace, inside=inside, logs_dir=logs)


def test_what_is_frozen_uses_no_cpu_time_and_goes_on(hierarchy: Hierarchy, tmp_path: Path) -> None:
    workspace, executor = begun(tmp_path)
    with workspace:
        freezer = Freezer(executor, HOST, workspace.run, [hierarchy])
        executor.execute((BUSY,))
        pid = executor.process("spin").pid
        for _ in range(3):
            wait_for(lambda: _works(pid), "work")
            freezer.freeze()
            assert frozen_groups()
            before = ran_ns(pid)
            time.sleep(0.2)
            assert ran_ns(pid) == before
            freezer.thaw()
        wait_for(lambda: _works(pid), "work")
        assert executor.unwind() == ()
    assert not Path(f"/proc/{pid}").exists()


def _works(pid: int) -> bool:
    before = ran_ns(pid)
    time.sleep(0.02)
    return ran_ns(pid) > before


def test_what_is_frozen_is_thawed_before_it_is_ended(hierarchy: Hierarchy, tmp_path: Path) -> None:
    workspace, executor = begun(tmp_path)
    with workspace:
        freezer = Freezer(executor, HOST, workspace.run, [hierarchy])
        executor.execute((BUSY,))
        process = executor.process("spin")
        freezer.freeze()
        assert executor.unwind() == ()
        assert process.poll() == -signal.SIGTERM, "it did not hear of its end"


@pytest.mark.parametrize("journal", [True, False], ids=["with its journal", "without it"])
def test_clean_ends_what_a_dead_run_left_frozen(
    hierarchy: Hierarchy, tmp_path: Path, journal: bool
) -> None:
    write_end, read_end = os.pipe()
    parent = os.fork()
    if parent == 0:
        workspace, executor = begun(tmp_path)
        freezer = Freezer(executor, HOST, workspace.run, [hierarchy])
        executor.execute((BUSY,))
        freezer.freeze()
        os.write(read_end, f"{workspace.run} {executor.process('spin').pid}".encode())
        time.sleep(60)
        os._exit(1)
    name, spin = os.read(write_end, 100).decode().split()
    assert frozen_groups()
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    if not journal:
        (tmp_path / "runs" / name / "journal").unlink()
    (cleaned,) = clean(tmp_path / "runs")
    assert (cleaned.run, cleaned.state, cleaned.failures) == (name, "cleaned", ())
    wait_for(lambda: not _lives(int(spin)), "its end")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_group_of_its_own_is_frozen_where_it_is(hierarchy: Hierarchy, tmp_path: Path) -> None:
    """Such as that of a container, or one with a CPU limit: out of it the limit would end."""
    workspace, executor = begun(tmp_path)
    with workspace:
        group = Path(hierarchy.root, f"{workspace.run}-limited")
        group.mkdir()
        freezer = Freezer(executor, HOST, workspace.run, [hierarchy])
        executor.execute((BUSY,))
        pid = executor.process("spin").pid
        (group / "cgroup.procs").write_text(str(pid))
        freezer.freeze()
        before = ran_ns(pid)
        time.sleep(0.1)
        assert ran_ns(pid) == before
        assert (group / "cgroup.procs").read_text().split() == [str(pid)]
        freezer.thaw()
        assert executor.unwind() == ()
        group.rmdir()


def test_what_is_in_a_group_of_others_is_not_frozen(hierarchy: Hierarchy, tmp_path: Path) -> None:
    workspace, executor = begun(tmp_path)
    with workspace:
        others = Path(hierarchy.root, "of-somebody-else")
        others.mkdir()
        freezer = Freezer(executor, HOST, workspace.run, [hierarchy])
        executor.execute((BUSY,))
        (others / "cgroup.procs").write_text(str(executor.process("spin").pid))
        with pytest.raises(Exception, match="of-somebody-else, which others may be in too"):
            freezer.freeze()
        assert executor.unwind() == ()
        others.rmdir()


def test_without_a_freezer_it_is_not_available(tmp_path: Path) -> None:
    workspace, executor = begun(tmp_path)
    with workspace:
        with pytest.raises(Unavailable, match="no freezer of control groups"):
            Freezer(executor, HOST, workspace.run, [])
        executor.unwind()


# --- tests in turn ----------------------------------------------------------------------------


class Watching:
    """This progress notes each trial and each error, and does something once there are some
    trials."""

    def __init__(self, acts: Mapping[int, Callable[[], None]] | None = None) -> None:
        self.trials: list[TrialResult] = []
        self.errors: list[str | None] = []
        self._acts = acts or {}

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        pass

    def trial(self, result: TrialResult) -> None:
        self.trials.append(result)
        if act := self._acts.get(len(self.trials)):
            act()

    def end(self, record: Record) -> None:
        self.errors += [record.error] if record.status != "ok" else []


def measured(
    tmp_path: Path,
    options: Mapping[str, str],
    watching: Watching | None = None,
    gate: Gate = "refuse",
) -> Sequence[Record]:
    campaign = from_options(options, check)
    with RunFolder.create(tmp_path, campaign, {}) as folder:
        lab = Turns(folder.path, calibrate="never", gate=gate)
        run(folder, lab, watching or Watching())
        assert lab.left == ()
        return folder.latest


@pytest.fixture(autouse=True)
def program(traffic_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)


def test_rounds_are_interleaved_with_all_paths_up_and_go_on_in_a_resumed_run(
    tmp_path: Path,
) -> None:
    counts: list[int] = []

    def stop() -> None:
        counts.append(len(frozen_groups()))
        os.kill(os.getpid(), signal.SIGINT)

    watching = Watching({3: stop})
    with pytest.raises(Interrupted, match="resume with"):
        measured(tmp_path, BYPASS, watching)
    assert watching.errors == []
    assert counts == [1], "one of two is frozen while the other one is measured"
    assert [trial.round for trial in watching.trials] == [1, 1, 2]
    assert frozen_groups() == []
    assert marked("dpdk-testpmd") == marked("dpdk-l2fwd") == []
    (path,) = tmp_path.glob("run-*")
    watching = Watching()
    with RunFolder(path) as folder:
        run(folder, Turns(folder.path, calibrate="never"), watching)
        records = folder.latest
    assert [trial.round for trial in watching.trials] == [3, 3, 4]
    assert sorted([trial.round for trial in record.trials] for record in records) == [
        [1, 2, 3],
        [1, 3, 4],
    ]
    for record in records:
        assert record.status == "ok", record.error
        assert "short" not in record.doubts or record.test.repeat * record.test.duration < 1
        assert [trial.unaccounted for trial in record.trials] == [0, 0, 0]
        # After a rest it forwards. On a busy host it may have no CPU in the 0.1 s of a trial.
        assert any(trial.distinct for trial in record.trials[1:])
        turns = record.turns
        assert turns is not None
        assert turns.kept == "frozen"
        assert turns.freezer == "cgroup v2" or not HIERARCHIES[1].is_there(HOST)
        assert (turns.rested_s or 0) > 0.1
        assert turns.rested_cpu_s is not None
        assert turns.rested_cpu_s < 0.001
    # One of them has rested and is measured again in the resumed run.
    assert any(record.turns and record.turns.frames_after for record in records)


# A container of podman has a control group of its own, as one of docker has.
@pytest.mark.parametrize(
    "environments",
    [
        {"environment": "docker", "switch_environment": "lxc"},
        pytest.param({"environment": "podman"}, marks=pytest.mark.further),
    ],
    ids=lambda environments: "-".join(environments.values()),
)
def test_functions_in_containers_take_turns(
    environments: Mapping[str, str], tmp_path: Path
) -> None:
    """Both the switch and its functions rest: containers live in groups of their runtimes."""
    axes = {**BYPASS, "switch": "testpmd,ovs-dpdk", "repeat": "2", **environments}
    watching = Watching()
    records = measured(tmp_path, axes, watching)
    assert watching.errors == []
    assert [trial.round for trial in watching.trials] == [1, 1, 2, 2]
    for record in records:
        assert all(trial.distinct > 0 and trial.unaccounted == 0 for trial in record.trials)
        kept = record.turns
        assert kept is not None
        assert kept.kept == "frozen", kept.why
        assert kept.rested_cpu_s is not None
        assert kept.rested_cpu_s < 0.01


@pytest.mark.further  # unit/test_turns.py has the decision, and the test of no room the new set-up
def test_without_a_freezer_what_works_is_set_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> Freezer:
        raise Unavailable("this host has no freezer of control groups")

    monkeypatch.setattr(turns, "Freezer", none)
    watching = Watching()
    records = measured(tmp_path, {**BYPASS, "repeat": "2"}, watching)
    assert [trial.round for trial in watching.trials] == [1, 1, 2, 2]
    for record in records:
        assert record.status == "ok", record.error
        assert record.turns is not None
        outcome = (record.turns.kept, record.turns.why)
        assert outcome == ("set-up-again", "this host has no freezer of control groups")


def test_switches_that_die_at_rest_and_at_work_fail_their_own_tests_alone(tmp_path: Path) -> None:
    """Each trial is told of before its path is frozen: in the second round, two of three rest, and
    then one."""
    programs = {"testpmd": "dpdk-testpmd", "l2fwd": "dpdk-l2fwd", "basicfwd": "dpdk-skeleton"}
    killed: list[str] = []

    def kill(*, at_rest: bool) -> None:
        resting = {pid for group in frozen_groups() for pid in _pids(group)}
        alive = {name: marked(program) for name, program in programs.items()}
        found = {
            name: pids for name, pids in alive.items() if pids and (pids[0] in resting) is at_rest
        }
        assert len(found) == (2 if at_rest else 1)
        name, (pid,) = found.popitem()
        pidfd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert wait_end(pidfd, 10), "with all of its threads"
        os.close(pidfd)
        killed.append(name)

    acts = {4: lambda: kill(at_rest=True), 5: lambda: kill(at_rest=False)}
    axes = {**BYPASS, "switch": ",".join(programs)}
    records = measured(tmp_path, axes, Watching(acts), gate="off")
    by_switch = {record.test.switch: record for record in records}
    assert len({*killed}) == 2
    for name in killed:
        record = by_switch.pop(name)
        assert record.status == "failed"
        assert f"switch {name} died between two rounds" in (record.error or "")
    (left,) = by_switch.values()
    assert left.status == "ok", left.error


def _pids(group: Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


def test_a_path_that_finds_no_room_is_set_up_again_and_one_of_the_kernel_stays_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third finds no room while two are up, as if these had all hugepages. The first stays up,
    and costs nothing."""
    built = Lab.__dict__["_build"]
    up: set[object] = set()

    def narrow(lab: Lab, *args: object) -> object:
        others = {other for other in up if other is not lab and other.up is not None}  # type: ignore[attr-defined]
        if len(others) > 1:
            raise SetupFailed("there are no hugepages left")
        up.add(lab)
        return built(lab, *args)

    monkeypatch.setattr(Lab, "_build", narrow)
    axes = {**AXES, "repeat": "2", "switch": "linux-bridge,macvlan,ip-forward"}
    records = measured(tmp_path, {**axes, "engine": "raw-mmsg"}, gate="off")
    assert all(record.status == "ok" for record in records), [record.error for record in records]
    kept = {record.turns.kept: record.turns for record in records if record.turns}
    states = sorted(record.turns.kept for record in records if record.turns)
    assert states == ["idle", "set-up-again", "set-up-again"]
    idle = kept["idle"]
    assert idle.freezer is None
    assert idle.rested_s
    assert idle.rested_cpu_s is not None
    assert idle.rested_cpu_s < 0.01 * idle.rested_s
    whys = {record.turns.why for record in records if record.turns and record.turns.why}
    assert whys == {"no room for another path: there are no hugepages left"}


# --- runs that end otherwise --------------------------------------------------------------------


LONG = [
    *("run", "--switch", "testpmd,l2fwd", "--engine", "dpdk", "--search", "max"),
    *("--duration", "0.2", "--warmup", "0.02", "--repeat", "500", "--calibrate", "never"),
]


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


def begun_run(environment: dict[str, str], tmp_path: Path) -> subprocess.Popen[str]:
    process = start(environment, tmp_path, *LONG)
    trials = tmp_path / "runs"
    wait_for(
        lambda: process.poll() is not None or any(trials.glob("*/trials.jsonl")), "a run folder"
    )
    wait_for(
        lambda: (
            process.poll() is not None
            or (frozen_groups() and any(p.stat().st_size for p in trials.glob("*/trials.jsonl")))
        ),
        "a freeze",
        60,
    )
    assert process.poll() is None, process.communicate()[1]
    wait_for(frozen_groups, "a freeze")
    return process


@pytest.mark.further  # the interrupted run above; unit/test_hosts_signals.py has SIGTERM
def test_a_terminated_run_leaves_nothing_frozen(
    environment: dict[str, str], tmp_path: Path
) -> None:
    process = begun_run(environment, tmp_path)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "resume with" in errors
    assert marked("dpdk-testpmd") == []


def test_a_killed_run_is_cleaned_up_after(
    environment: dict[str, str], cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    process = begun_run(environment, tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert frozen_groups()
    code, _, errors = cli("clean")
    assert code == 0, errors
    wait_for(lambda: not marked("dpdk-testpmd") and not marked("switchmark-traf"), "their ends")
