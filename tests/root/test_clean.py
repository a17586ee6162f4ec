"""These tests kill runs with real namespaces, links, processes and sysctls: nothing may be left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_state import clean
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import marked
from switchmark.model.plan import HOST, Check, Node, Plan, Run, Spawn, Wait, Write
from switchmark.runs.clean import clean as clean_all_runs
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace


def inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv if node == HOST else ("ip", "netns", "exec", node.name, *argv)


def run_ip(*argv: str) -> str:
    return subprocess.run(["ip", *argv], check=True, capture_output=True, text=True).stdout


def spaces() -> set[str]:
    return {line.split()[0] for line in run_ip("netns", "list").splitlines()}


def links() -> set[str]:
    return {link["ifname"] for link in json.loads(run_ip("-j", "link"))}


def named(prefix: str) -> set[str]:
    """Return what bears a run's name on this host."""
    return {name for name in spaces() | links() if name.startswith(prefix)}


def topology(run: str, folder: Path) -> Plan:
    """Return two nodes on a bridge in a third node, an additional link, daemons, files and a
    sysctl."""
    switch, f0, f1 = (Node(f"{run}-{name}", "netns") for name in ("sw", "f0", "f1"))
    plan: list[Run | Spawn | Write | Wait] = [
        Run(
            f"{node.name}",
            ("ip", "netns", "add", node.name),
            undo=("ip", "netns", "del", node.name),
        )
        for node in (switch, f0, f1)
    ]
    plan += [
        Run(
            "a link of the machine",
            ("ip", "link", "add", f"{run}-a", "type", "veth", "peer", f"{run}-b"),
            undo=("ip", "link", "del", f"{run}-a"),
        ),
        Run("a bridge", ("ip", "link", "add", "br0", "type", "bridge"), at=switch),
        Write("no filter", "/proc/sys/net/ipv4/ip_forward", b"1\n", at=switch),
        Write("a value for all", str(folder / "shared"), b"2\n", machine_wide=True),
        Write("a file", str(folder / f"made-by-{run}"), b""),
        Spawn("a daemon", "daemon", ("sleep", "300"), at=switch),
    ]
    for number, node in enumerate((f0, f1)):
        peer = ("peer", "name", "eth1", "netns", node.name)
        plan += [
            Run("a port", ("ip", "link", "add", f"p{number}", "type", "veth", *peer), at=switch),
            Run(
                "on the bridge",
                ("ip", "link", "set", f"p{number}", "master", "br0", "up"),
                at=switch,
            ),
            Run("up", ("ip", "link", "set", "eth1", "up"), at=node),
            Spawn("a part", f"f{number}", ("cat",), at=node),
        ]
    plan.append(Wait("link", Check(("ip", "link", "show", "p0"), at=switch, pattern="state UP")))
    return tuple(plan)


LENGTH = len(topology("sm0000", Path("/")))


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a test's runs. Beside it is what they share, instead of a real sysctl:
    another suite on this host would have other leases on that."""
    (tmp_path / "shared").write_text("1\n")
    yield tmp_path / "runs"
    clean(tmp_path / "runs")
    assert (tmp_path / "shared").read_text() == "1\n"
    assert list(tmp_path.glob("made-by-*")) == []


def started(base: Path) -> tuple[Workspace, Executor]:
    workspace = Workspace(base)
    logs = base.parent / "logs" / workspace.run
    return workspace, Executor({"local": LocalHost()}, workspace, inside=inside, logs_dir=logs)


def fork_run(base: Path, steps: int = LENGTH) -> tuple[int, int]:
    """Set a topology up in another process, as far as `steps`; return its pid, and a pipe that ends
    when it is done or dead."""
    end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            workspace, executor = started(base)
            executor.execute(topology(workspace.run, base.parent)[:steps])
            os.close(write_end)
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(write_end)
    return pid, end


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("steps", range(LENGTH + 1))
def test_a_run_killed_behind_any_step_leaves_nothing(base: Path, steps: int) -> None:
    pid, end = fork_run(base, steps)
    os.read(end, 1)
    kill(pid)
    (cleaned,) = clean(base)
    assert cleaned.state == "cleaned"
    assert named(cleaned.run) == set()
    assert marked(cleaned.run) == ()
    assert list(base.glob("sm*")) == []
    assert clean(base) == []


@pytest.mark.smoke
def test_a_run_killed_at_any_moment_leaves_nothing(base: Path) -> None:
    chance = random.Random(1)
    for _ in range(15):
        pid, end = fork_run(base)
        time.sleep(chance.uniform(0, 0.15))
        kill(pid)
        os.close(end)
        for cleaned in clean(base):
            assert cleaned.state == "cleaned"
            assert named(cleaned.run) == set()
            assert marked(cleaned.run) == ()
        assert list(base.glob("sm*")) == []


def test_a_clean_that_is_killed_is_finished_by_the_next(base: Path) -> None:
    for delay_s in (0.0, 0.02, 0.05, 0.1):
        run_pid, end = fork_run(base)
        os.read(end, 1)
        kill(run_pid)
        pid = os.fork()
        if pid == 0:
            clean(base)
            os._exit(0)
        time.sleep(delay_s)
        kill(pid)
        for cleaned in clean(base):
            assert cleaned.state == "cleaned"
            assert named(cleaned.run) == set()
        assert list(base.glob("sm*")) == []


def test_a_run_that_ends_well_leaves_nothing(base: Path) -> None:
    workspace, executor = started(base)
    executor.execute(topology(workspace.run, base.parent))
    assert named(workspace.run) == {
        f"{workspace.run}-{name}" for name in ("sw", "f0", "f1", "a", "b")
    }
    assert executor.unwind() == ()
    workspace.close()
    assert named(workspace.run) == set()
    assert marked(workspace.run) == ()


def test_two_runs_at_once_do_not_collide(base: Path) -> None:
    runs = [fork_run(base) for _ in range(2)]
    for _, end in runs:
        os.read(end, 1)
    names = sorted(path.name for path in base.glob("sm*"))
    assert [len(named(name)) for name in names] == [5, 5]
    assert (base.parent / "shared").read_text() == "2\n"
    kill(runs[0][0])
    states = sorted(cleaned.state for cleaned in clean(base))
    assert states == ["cleaned", "live"]
    assert (base.parent / "shared").read_text() == "2\n"
    (left,) = base.glob("sm*")
    assert len(named(left.name)) == 5
    kill(runs[1][0])
    assert [cleaned.state for cleaned in clean(base)] == ["cleaned"]


def test_a_live_run_is_left_alone(base: Path) -> None:
    workspace, executor = started(base)
    executor.execute(topology(workspace.run, base.parent))
    before = named(workspace.run)
    pid, end = fork_run(base)
    os.read(end, 1)
    kill(pid)
    states = {cleaned.run: cleaned.state for cleaned in clean(base)}
    assert states.pop(workspace.run) == "live"
    assert list(states.values()) == ["cleaned"]
    assert named(workspace.run) == before
    executor.process("f0").send("still there")
    assert executor.process("f0").receive(5) == "still there"
    assert executor.unwind() == ()
    workspace.close()


def test_what_is_foreign_is_untouched_however_like_its_name_is(base: Path) -> None:
    workspace, executor = started(base)
    executor.execute(topology(workspace.run, base.parent))
    run = workspace.run
    foreign = (f"{run}0-br", f"{run}x", f"x{run}-a")
    for name in foreign:
        run_ip("link", "add", name, "type", "bridge")
        run_ip("netns", "add", name)
    try:
        workspace.journal.close()
        (cleaned,) = clean(base)
        assert cleaned.state == "cleaned"
        assert named(f"{run}-") == set()
        assert links() >= set(foreign)
        assert spaces() >= set(foreign)
    finally:
        for name in foreign:
            run_ip("link", "del", name)
            run_ip("netns", "del", name)
        executor.unwind()


def test_what_the_journal_missed_is_found_by_its_prefix(base: Path) -> None:
    workspace, _ = started(base)
    workspace.journal.close()
    run_ip("netns", "add", f"{workspace.run}-f9")
    run_ip("link", "add", f"{workspace.run}-v", "type", "veth", "peer", f"{workspace.run}-w")
    (cleaned,) = clean(base)
    assert cleaned.state == "cleaned"
    assert named(workspace.run) == set()


def test_what_is_mounted_in_a_folder_is_left_as_it_is(base: Path) -> None:
    """It is unmounted; a mount in use keeps the folder."""
    workspace, _ = started(base)
    workspace.journal.close()
    point = workspace.folder / "root"
    point.mkdir()
    subprocess.run(["mount", "--bind", str(base.parent), str(point)], check=True)
    with (point / "shared").open():
        (cleaned,) = clean(base)
        assert cleaned.state == "incomplete"
        assert "is busy" in cleaned.failures[0]
        assert (base.parent / "shared").exists()
        assert workspace.folder.exists()
    assert [cleaned.state for cleaned in clean(base)] == ["cleaned"]
    assert (base.parent / "shared").exists()


def test_a_sysctl_is_restored_after_a_death(base: Path) -> None:
    path = Path("/proc/sys/vm/stat_interval")
    before = path.read_bytes()
    pid = os.fork()
    if pid == 0:
        try:
            _, executor = started(base)
            value = str(int(before) + 1).encode()
            executor.execute((Write("rarer statistics", str(path), value, machine_wide=True),))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert path.read_bytes() != before
    (cleaned,) = clean(base)
    assert cleaned.actions == (f"give back {path}",)
    assert path.read_bytes() == before


def died(base: Path, tmp_path: Path) -> str:
    """Return a run that was killed with all that it had made."""
    pid = os.fork()
    if pid == 0:
        try:
            workspace = Workspace(base)
            executor = Executor(
                {"local": LocalHost()}, workspace, inside=inside, logs_dir=tmp_path / "logs"
            )
            executor.execute(topology(workspace.run, tmp_path))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    (folder,) = base.glob("sm*")
    return folder.name


@pytest.mark.alone  # it gives back what dead runs of all lanes hold
def test_what_bears_the_name_of_a_run_without_a_journal_is_removed(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("1\n")
    base = tmp_path / "runs"
    run = died(base, tmp_path)
    assert named(f"{run}-")
    assert marked(run)
    (base / run / "journal").unlink()
    (result,) = clean(base, dry_run=True)
    assert f"ip netns del {run}-f0" in result.actions
    cleaned = [result.state for result in clean_all_runs(base) if result.run == run]
    assert cleaned == ["cleaned"] * len(cleaned) != []
    assert (named(f"{run}-"), marked(run)) == (set(), ())
    assert not (base / run).exists()
    assert (tmp_path / "shared").read_text() == "1\n"


def test_a_process_without_a_mark_is_ended_by_its_control_group(tmp_path: Path) -> None:
    """As the first one of a container, and what is mounted below the run's folder goes with it."""
    (tmp_path / "shared").write_text("1\n")
    base = tmp_path / "runs"
    run = died(base, tmp_path)
    hierarchy = min(Path("/sys/fs/cgroup").rglob("cgroup.procs"), key=lambda path: len(path.parts))
    groups = [hierarchy.parent / f"{run}-nodes", hierarchy.parent / f"{run}-nodes/one"]
    foreign = hierarchy.parent / "foreign"
    for group in (*groups, foreign):
        group.mkdir()
    place = base / run / "place"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=True)
    inner, outer = (subprocess.Popen(["sleep", "300"], env={}) for _ in range(2))
    try:
        (groups[1] / "cgroup.procs").write_text(str(inner.pid))
        (foreign / "cgroup.procs").write_text(str(outer.pid))
        (cleaned,) = clean(base)
        assert (cleaned.state, cleaned.failures) == ("cleaned", ())
        assert inner.wait(5) == -signal.SIGTERM
        assert outer.poll() is None
        assert not any(group.exists() for group in groups)
        assert foreign.exists()
        assert not (base / run).exists()
    finally:
        outer.kill()
        outer.wait()
        foreign.rmdir()
