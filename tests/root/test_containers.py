"""Functions and switches in containers: frames pass, limits hold, and whatever happens to a
runtime the host is left as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_state import COMMAND, left_as_it_was, marked, of_run, records, start, wait_for
from real_frames import Measure, assert_every_frame_is_accounted_for
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.environments.base import Needs
from switchmark.machine.clean import clean
from switchmark.machine.executor import Executor
from switchmark.machine.host import LocalHost
from switchmark.machine.processes import in_network
from switchmark.machine.workspace import Workspace
from switchmark.model.plan import Node, Spawn
from switchmark.model.record import TrialResult

RUNTIMES = ("lxc", "docker", "podman")
STARTED_S = {"lxc": 0.5, "docker": 1.0, "podman": 0.5}
QUICK = {"duration": 0.3, "warmup": 0.1, "rate": "10k"}


@pytest.fixture(autouse=True)
def host_is_left_as_it_was() -> Iterator[None]:
    with left_as_it_was():
        yield


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[tuple[Workspace, Executor]]:
    """A run whose plan is the test's own."""
    workspace = Workspace()
    hosts = {"local": LocalHost()}
    executor = Executor(hosts, workspace, inside=inside, logs_dir=tmp_path / "logs")
    yield workspace, executor
    assert executor.unwind() == ()
    workspace.close()


def node_of(workspace: Workspace, runtime: str, name: str = "f0") -> Node:
    return Node(f"{workspace.run}-{name}", runtime, run_dir=str(workspace.folder))


def output(workspace: Workspace, node: Node, *argv: str) -> str:
    done = LocalHost().run(inside(node, argv), env=workspace.env)
    assert done.status == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_frames_pass_between_containers(measure: Measure, runtime: str) -> None:
    record = measure(environment=runtime, engine="raw-mmsg", direction="bi", **QUICK)
    assert_every_frame_is_accounted_for(record)


@pytest.mark.parametrize(
    ("runtime", "engine"),
    [("lxc", "udp"), ("lxc", "mmap"), *((runtime, "xdp") for runtime in RUNTIMES)],
)
def test_an_engine_has_what_it_needs_in_a_container(
    measure: Measure, runtime: str, engine: str
) -> None:
    record = measure(environment=runtime, engine=engine, **QUICK)
    assert_every_frame_is_accounted_for(record)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_kernel_is_bypassed_in_containers(measure: Measure, runtime: str) -> None:
    """Switch and functions apart: sockets of the run's folder lead from one to the other."""
    record = measure(
        switch="testpmd",
        environment=runtime,
        switch_environment=runtime,
        engine="dpdk",
        **QUICK,
    )
    trial = assert_every_frame_is_accounted_for(record)
    assert busy_cores(trial) > 0.02  # of the switch, not of `docker exec`, which sleeps


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_switch_of_the_kernel_lives_in_a_container(measure: Measure, runtime: str) -> None:
    record = measure(switch_environment=runtime, engine="raw-mmsg", **QUICK)
    assert_every_frame_is_accounted_for(record)


def test_ovs_with_dpdk_lives_in_docker(measure: Measure) -> None:
    record = measure(switch="ovs-dpdk", switch_environment="docker", engine="dpdk", **QUICK)
    trial = assert_every_frame_is_accounted_for(record)
    assert busy_cores(trial) > 0.02


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_has_its_limits_and_no_more_than_it_needs(
    lab: tuple[Workspace, Executor], runtime: str, tmp_path: Path
) -> None:
    workspace, executor = lab
    programs = tmp_path / "a folder, of programs"
    programs.mkdir()
    (programs / "x").write_text("read")
    needs = Needs(
        run_dir=str(workspace.folder),
        programs=(str(programs),),
        capabilities=frozenset({"NET_RAW"}),
        cpu_limit=25,
    )
    node = node_of(workspace, runtime)
    executor.execute(ENVIRONMENTS[runtime].create(node, needs))
    second = node_of(workspace, runtime, "f1")
    before = time.monotonic()
    executor.execute(
        tuple(
            step
            for step in ENVIRONMENTS[runtime].create(second, needs)
            if step not in ENVIRONMENTS[runtime].create(node, needs)
        )
    )
    assert time.monotonic() - before < 4 * STARTED_S[runtime]  # the figure itself is a benchmark's

    assert "CapBnd:\t0000000000002000" in output(workspace, node, "cat", "/proc/self/status")
    assert output(workspace, node, "cat", str(programs / "x")) == "read"
    assert output(workspace, node, "env").count(f"SWITCHMARK_RUN={workspace.run}\n") == 1
    made = workspace.folder / f"made-{runtime}"
    output(workspace, node, "touch", str(made))
    assert made.exists()
    for argv in (("touch", "/usr/x"), ("touch", str(programs / "y")), ("ls", "/root")):
        assert LocalHost().run(inside(node, argv), env=workspace.env).status != 0
    links = json.loads(output(workspace, node, "ip", "-j", "link"))
    assert [link["ifname"] for link in links] == ["lo"]

    spawn = Spawn("a loop", f"{workspace.run}-loop", ("sha1sum", "/dev/zero"), at=node)
    executor.execute((spawn,))
    wait_for(lambda: in_node(node, "sha1sum"), "the loop")
    (pid,) = in_node(node, "sha1sum")
    used, then = cpu_s(pid), time.monotonic()
    time.sleep(0.8)
    share = (cpu_s(pid) - used) / (time.monotonic() - then)
    assert share < 0.4


def in_node(node: Node, name: str) -> list[int]:
    """Processes of that name in a node; the client that started one is on the host."""
    there = in_network(ENVIRONMENTS[node.environment].netns(node) or "")
    return [pid for pid in marked(name) if pid in there]


def busy_cores(trial: TrialResult) -> float:
    """The cores that the switch kept busy."""
    return sum(part.cores or 0.0 for part in trial.parts if part.part == "switch")


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_run_that_is_killed_leaves_nothing(
    runtime: str, tmp_path: Path, traffic_program: str
) -> None:
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    words = ("--environment", runtime, "--switch-environment", runtime)
    run = start(environment, tmp_path, "run", *words, "--duration", "30", "--rate", "1k")
    wait_for(lambda: len(of_run("switchmark-traf", run)) == 2, "two traffic programs", 20)
    run.send_signal(signal.SIGKILL)
    run.wait()
    # Of the runs that are dead, this is one; others beside it are their own business.
    assert [each.failures for each in clean() if each.state == "incomplete"] == []


def test_a_docker_daemon_that_is_killed_fails_the_test_and_leaves_nothing(
    tmp_path: Path, traffic_program: str
) -> None:
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    words = (
        "--environment",
        "docker",
        "--duration",
        "2",
        "--warmup",
        "0",
        "--rate",
        "1k",
        "--gate",
        "off",
    )
    run = start(environment, tmp_path, "run", *words, "--json")
    wait_for(lambda: len(of_run("switchmark-traf", run)) == 2, "two traffic programs", 20)
    time.sleep(0.5)
    (daemon,) = of_run("dockerd", run)
    os.kill(daemon, signal.SIGKILL)
    out, err = run.communicate(timeout=30)
    (record,) = records(subprocess.CompletedProcess((), run.returncode, out, err))
    assert record["status"] == "failed"
    assert "the traffic program of f" in record["error"]


@pytest.mark.parametrize(
    ("runtime", "program"), [("lxc", "lxc-start"), ("docker", "docker"), ("podman", "podman")]
)
def test_a_runtime_that_is_missing_is_refused(
    runtime: str, program: str, tmp_path: Path, traffic_program: str
) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for place in reversed(os.environ["PATH"].split(":")):
        for found in Path(place).glob("*"):
            (path / found.name).unlink(missing_ok=True)
            if found.name != program:
                (path / found.name).symlink_to(found)
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program, "PATH": str(path)}
    words = ("run", "--environment", runtime, "--duration", "0.2", "--json")
    done = subprocess.run(
        (*COMMAND, *words),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    (record,) = records(done)
    assert record["status"] == "refused"
    assert f"hint: apt-get install {runtime}" in record["error"]
