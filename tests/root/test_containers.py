"""These tests run functions and switches in containers: frames pass, limits hold, and the host is
unchanged afterwards, even if a runtime fails."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import UDP  # GPL: tests only
from scapy.utils import rdpcap

from combinations import measured
from host_snapshot import hugepages
from host_state import COMMAND, marked, of_run, records, start, wait_for, wait_for_trials
from lanes import kept
from real_frames import (
    SINGLE_HOST,
    Measure,
    assert_every_frame_is_accounted_for,
    assert_nearly_all_arrive,
    assert_nothing_is_lost,
    measuring,
)
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import docker, inside
from switchmark.environments.base import Needs
from switchmark.environments.containers import cgroup_parent, cgroups
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.model.plan import PORTS_DIR, Check, Node, Spawn, Wait
from switchmark.model.record import TrialResult
from switchmark.model.test import Test
from switchmark.observe.threads import in_network
from switchmark.path.refusals import check
from switchmark.path.resolving import UDP_PORT
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace
from switchmark.switches import TABLE as SWITCHES

RUNTIMES = ("lxc", "docker", "podman")
QUICK = {"duration": 0.15, "warmup": 0.05, "rate": "10k"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[tuple[Workspace, Executor]]:
    """Start a run whose plan is the test's own."""
    workspace = Workspace()
    hosts = {"local": LocalHost()}
    executor = Executor(hosts, workspace, inside=inside, logs_dir=tmp_path / "logs")
    yield workspace, executor
    assert executor.unwind() == ()
    workspace.close()


def node_of(workspace: Workspace, runtime: str, name: str = "f0") -> Node:
    return Node(f"{workspace.run}-{name}", runtime, run_dir=str(workspace.folder))


def output(workspace: Workspace, node: Node, *argv: str) -> str:
    completed = LocalHost().run(inside(node, argv), env=workspace.env)
    assert completed.status == 0, completed.stderr
    return completed.stdout.decode()


@pytest.fixture(scope="module")
def users_docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a docker daemon that is not of the run that uses it."""
    workspace = Workspace()
    logs = tmp_path_factory.mktemp("daemon")
    executor = Executor({"local": LocalHost()}, workspace, inside=inside, logs_dir=logs)
    home = workspace.folder
    within = ("nsenter", "--mount=/proc/${place}/ns/mnt", "--net=/proc/${place}/ns/net")
    address = f"unix://{home}/docker.sock"
    user = Node(f"{workspace.run}-user", "docker", run_dir=str(home))
    executor.execute(
        (
            *cgroups(user),
            Spawn("a place", "place", ("unshare", "--mount", "--net", "sleep", "infinity")),
            # It sees the folders of all runs, as one that is there before them does.
            *docker._private_folders(str(workspace.base), f"{home}/own", within),
            Spawn(
                "the daemon",
                "dockerd",
                (
                    *(*within, "dockerd", "--data-root", f"{home}/data", "-H", address),
                    *("--exec-root", f"{home}/exec", "--pidfile", f"{home}/pid"),
                    *("--bridge=none", "--iptables=false", "--ip6tables=false"),
                    *("--exec-opt", "native.cgroupdriver=cgroupfs"),
                    *("--cgroup-parent", cgroup_parent(user)),
                ),
                stop=(signal.SIGTERM, 10.0),
            ),
            Wait("it answers", Check(("docker", "-H", address, "version")), unless_dead="dockerd"),
        )
    )
    with kept(workspace.run):
        yield address
        assert executor.unwind() == ()
    workspace.close()


@pytest.fixture
def measure_there(
    measure: Measure,
    users_docker: str,
    tmp_path: Path,
    traffic_program: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Measure]:
    """Return `measure` with the user's docker daemon, and storage of podman's."""
    set_engines(monkeypatch, users_docker, tmp_path)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    with measuring(tmp_path / "runs") as run:
        yield run


def set_engines(patch: pytest.MonkeyPatch, users_docker: str, folder: Path) -> None:
    """Set the user's docker daemon, and a folder for storage of podman's."""
    storage = folder / "storage.conf"
    folders = f'graphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
    storage.write_text(f'[storage]\ndriver = "vfs"\n{folders}')
    settings = folder / "containers.conf"
    settings.write_text(
        f'[engine]\nlock_type = "file"\ntmp_dir = "{folder}/podman"\n'
        f'[network]\nnetwork_config_dir = "{folder}/networks"\n'
    )
    patch.setenv("CONTAINERS_CONF", str(settings))
    patch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    patch.setenv("DOCKER_HOST", users_docker)


@pytest.mark.parametrize(
    ("environment", "switch"),
    measured(
        [(runtime, name) for name in SINGLE_HOST for runtime in RUNTIMES],
        # The other tests of this file have each runtime with each kind of port of a bare root.
        lambda combination: (),
    ),
)
def test_frames_pass_in_every_runtime_through_every_switch(
    measure_there: Measure, environment: str, switch: str
) -> None:
    kernel = set(SWITCHES[switch].port_kinds) & ENGINES["raw-mmsg"].port_kinds
    engine = "raw-mmsg" if kernel else "dpdk"
    if kernel and check(Test(switch=switch, engine=engine)):
        engine = "udp-mmsg"  # its ends are found by their addresses of IP
    record = measure_there(
        switch=switch,
        environment=environment,
        engine=engine,
        rate="2k",
        duration=0.15,
        warmup=0.05,
    )
    assert_nearly_all_arrive(record)


@pytest.mark.parametrize(
    # test_images.py has images of podman.
    "runtime",
    ["lxc", "docker", pytest.param("podman", marks=pytest.mark.further)],
)
def test_functions_live_in_an_image_of_the_users_which_stays_as_it_is(
    measure_there: Measure, lab: tuple[Workspace, Executor], runtime: str, tmp_path: Path
) -> None:
    root = tmp_path / "a root of mine"
    for folder in ("bin", "dev", "proc", "sys", "tmp"):
        (root / folder).mkdir(parents=True)
    (root / "mine").touch()
    image = str(root) if runtime == "lxc" else "localhost/mine:1"
    if runtime != "lxc":
        packed = subprocess.run(("tar", "-C", root, "-c", "."), stdout=subprocess.PIPE, check=True)
        subprocess.run(
            (runtime, "import", "-", image), input=packed.stdout, capture_output=True, check=True
        )
    before = sorted(root.rglob("*"))

    record = measure_there(environment=runtime, image=image, **QUICK)
    assert_every_frame_is_accounted_for(record)

    workspace, executor = lab
    node = replace(node_of(workspace, runtime), image=image)
    mode = ENVIRONMENTS[runtime].probe(LocalHost()).mode
    needs = Needs((str(workspace.folder / PORTS_DIR),), image=image, mode=mode)
    executor.execute(ENVIRONMENTS[runtime].create(node, needs))
    there = in_network(LocalHost(), ENVIRONMENTS[runtime].netns(node) or "")
    assert any(Path(f"/proc/{pid}/root/mine").exists() for pid in there)
    assert executor.unwind() == ()
    assert sorted(root.rglob("*")) == before
    if runtime != "lxc":
        subprocess.run((runtime, "image", "inspect", image), capture_output=True, check=True)


def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    with Lab(tmp_path) as run:
        image = str(tmp_path / "no root")
        record = run.run(Test(environment="lxc", image=image))
    assert record.status == "failed"
    assert f"test -d '{image}'" in (record.error or "")


@pytest.mark.parametrize(
    ("runtime", "switch", "chain", "function"),
    [
        ("lxc", "ovs", 1, "linux-bridge"),
        ("podman", "ovs", 1, "pcap-bridge"),
        # A forwarder is the program that sends and receives in the other tests.
        pytest.param("lxc", "linux-bridge", 2, "forwarder", marks=pytest.mark.further),
        # Below, docker has a chain past the kernel.
        pytest.param("docker", "ovs", 1, "linux-bridge", marks=pytest.mark.further),
    ],
)
def test_functions_of_a_chain_forward_in_containers(
    measure_there: Measure, runtime: str, switch: str, chain: int, function: str
) -> None:
    axes = {"environment": runtime, "switch": switch, "function": function, "chain": chain}
    quick = {"duration": 0.2, "warmup": 0.05, "rate": "1k"}
    record = measure_there(scenario="loopback", direction="bi", **axes, **quick)
    assert_every_frame_is_accounted_for(record)


@pytest.mark.further  # below, a switch in a container has such functions
@pytest.mark.parametrize(
    ("runtime", "switch", "chain", "function"),
    [
        ("lxc", "testpmd", 2, "l2fwd"),
        ("docker", "ovs-dpdk", 1, "l2fwd"),
        ("podman", "ovs-dpdk", 1, "testpmd"),
    ],
)
def test_functions_that_bypass_the_kernel_forward_in_containers(
    measure_there: Measure, runtime: str, switch: str, chain: int, function: str
) -> None:
    axes = {"environment": runtime, "switch": switch, "function": function, "chain": chain}
    quick = {"duration": 0.5, "warmup": 0.05, "rate": "1k"}
    before = hugepages()
    record = measure_there(scenario="loopback", engine="dpdk", **axes, **quick)
    assert_nothing_is_lost(record)
    assert "cores-overcommitted" in record.doubts or (os.cpu_count() or 1) > 2 + chain
    assert hugepages() == before


@pytest.mark.parametrize(
    ("runtime", "engine", "switch"),
    [
        ("lxc", "udp", "linux-bridge"),
        pytest.param("lxc", "mmap", "macvlan", marks=pytest.mark.further),  # as raw-mmsg, below
        ("lxc", "xdp-live", "linux-bridge"),
        ("docker", "xdp", "macvlan"),
        ("podman", "xdp", "macvlan"),
        *(
            pytest.param(runtime, "xdp", "linux-bridge", marks=pytest.mark.further)
            for runtime in RUNTIMES
        ),
    ],
)
def test_an_engine_has_what_it_needs_in_a_container(
    measure_there: Measure, runtime: str, engine: str, switch: str
) -> None:
    record = measure_there(environment=runtime, engine=engine, switch=switch, **QUICK)
    assert_every_frame_is_accounted_for(record)


@pytest.mark.parametrize(
    ("runtime", "driver"),
    [
        ("lxc", "af_packet"),
        ("lxc", "af_xdp"),
        # Above, the engines of the kernel have the same rights in each.
        pytest.param("docker", "af_packet", marks=pytest.mark.further),
        pytest.param("podman", "af_xdp", marks=pytest.mark.further),
    ],
)
def test_a_driver_of_dpdk_has_what_it_needs_in_a_container(
    measure_there: Measure, runtime: str, driver: str
) -> None:
    # So few frames that the rings have room for all: DPDK tells of none that it had no room for.
    axes = {"environment": runtime, "engine": "dpdk", "driver": driver, **QUICK, "rate": "2k"}
    assert_every_frame_is_accounted_for(measure_there(**axes))


@pytest.mark.parametrize(
    ("runtime", "switch", "axes"),
    [
        ("lxc", "ovs-dpdk", {}),
        ("podman", "testpmd", {}),
        ("docker", "testpmd", {"scenario": "loopback", "function": "l2fwd", "rate": "1k"}),
    ],
)
def test_the_kernel_is_bypassed_in_containers(
    measure_there: Measure, runtime: str, switch: str, axes: dict[str, str]
) -> None:
    """Switch and functions apart: sockets of the run's folder lead from one to the other."""
    before = hugepages()
    usual = {"engine": "dpdk", **QUICK, "duration": 0.4}
    where = {"environment": runtime, "switch_environment": runtime}
    record = measure_there(switch=switch, **{**usual, **where, **axes})
    trial = assert_every_frame_is_accounted_for(record)
    assert busy_cores(trial) > 0.02  # of the switch, not of `docker exec`, which sleeps
    assert hugepages() == before


@pytest.mark.parametrize(
    ("runtime", "switch"),
    [
        ("lxc", "linux-bridge"),
        ("docker", "macvlan"),
        *(
            pytest.param(runtime, switch, marks=pytest.mark.further)
            for runtime, switch in (
                ("podman", "macvlan"),
                ("lxc", "macvlan"),
                ("docker", "linux-bridge"),
                ("podman", "linux-bridge"),
            )
        ),
    ],
)
def test_frames_in_containers_are_captured(
    runtime: str,
    switch: str,
    users_docker: str,
    tmp_path: Path,
    traffic_program: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the switch's ports, or the functions' where it has none: neither sees the run's folder."""
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.setenv("DOCKER_HOST", users_docker)
    axes = {"environment": runtime, "switch": switch, "engine": "raw-mmsg"}
    inside_too = {} if switch == "macvlan" else {"switch_environment": runtime}
    with Lab(tmp_path, capture=20, gate="off") as run:
        test = Test(**axes, **inside_too, **{**QUICK, "duration": 0.5})
        record = run.run(test)
    assert record.status == "ok", record.error
    assert_every_frame_is_accounted_for(record)
    files = sorted((tmp_path / "captures").glob("*.pcap"))
    assert [file.name for file in files] == ["0001-f0.pcap", "0001-f1.pcap"]
    for file in files:
        frames = [frame for frame in rdpcap(str(file)) if frame.haslayer(UDP)]
        assert len(frames) == 20
        assert all(frame[UDP].dport == UDP_PORT for frame in frames)


@pytest.mark.further  # above, switches are in lxc and podman, and below one is in docker
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_switch_of_the_kernel_lives_in_a_container(measure_there: Measure, runtime: str) -> None:
    record = measure_there(switch_environment=runtime, engine="raw-mmsg", **QUICK)
    assert_every_frame_is_accounted_for(record)


def test_the_first_network_of_a_host_may_be_that_of_a_container(
    tmp_path: Path, traffic_program: str
) -> None:
    """It goes with the run where `ip` has made no namespace before, as after a boot."""
    fresh = 'while umount --lazy /run/netns 2>/dev/null; do :; done; exec "$@"'
    arguments = ("run", "--switch-environment", "docker", "--json", "--calibrate", "never")
    completed = subprocess.run(
        (
            *("unshare", "--mount", "--propagation", "private", "sh", "-c", fresh, "sh"),
            *(*COMMAND, *arguments, "--duration", "0.15", "--warmup", "0.05", "--rate", "10k"),
        ),
        capture_output=True,
        text=True,
        env={**os.environ, "SWITCHMARK_TRAFFIC": traffic_program},
        cwd=tmp_path,
        check=False,
    )
    (record,) = records(completed)
    assert record["status"] == "ok", record["error"]
    assert completed.returncode == 0, completed.stderr


@pytest.mark.further  # above, it is in lxc, and another switch in docker
def test_ovs_with_dpdk_lives_in_docker(measure: Measure) -> None:
    record = measure(switch="ovs-dpdk", switch_environment="docker", engine="dpdk", **QUICK)
    trial = assert_every_frame_is_accounted_for(record)
    assert busy_cores(trial) > 0.02


@pytest.mark.parametrize("switch", ["bess", "fastclick", "snabb", "t4p4s"])
@pytest.mark.parametrize("environment", [*RUNTIMES, "host"])
def test_a_program_that_users_build_is_a_switch_wherever_they_have_it(
    measure_there: Measure, environment: str, switch: str
) -> None:
    """The folder of its installation is seen in a container, at the same path."""
    axes = {"switch": switch, "switch_environment": environment, "engine": "dpdk", **QUICK}
    assert_every_frame_is_accounted_for(measure_there(**axes))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_vpp_lives_in_a_container(measure: Measure, runtime: str) -> None:
    record = measure(switch="vpp", switch_environment=runtime, engine="dpdk", **QUICK)
    assert_every_frame_is_accounted_for(record)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_has_its_limits_and_no_more_than_it_needs(
    lab: tuple[Workspace, Executor], runtime: str, tmp_path: Path
) -> None:
    workspace, executor = lab
    programs = tmp_path / "a folder, of programs"
    programs.mkdir()
    (programs / "x").write_text("read")
    needs = Needs(
        folders=(str(workspace.folder / PORTS_DIR),),
        programs=(str(programs),),
        capabilities=frozenset({"NET_RAW"}),
        cpu_limit=25,
    )
    node = node_of(workspace, runtime)
    executor.execute(ENVIRONMENTS[runtime].create(node, needs))
    second = node_of(workspace, runtime, "f1")
    executor.execute(
        tuple(
            step
            for step in ENVIRONMENTS[runtime].create(second, needs)
            if step not in ENVIRONMENTS[runtime].create(node, needs)
        )
    )

    status = output(workspace, node, "cat", "/proc/self/status", str(programs / "x"))
    assert "CapBnd:\t0000000000002000" in status
    assert status.endswith("read")
    assert output(workspace, node, "env").count(f"SWITCHMARK_RUN={workspace.run}\n") == 1
    path = workspace.folder / PORTS_DIR / f"made-{runtime}"
    output(workspace, node, "touch", str(path), "/dev/shm/of-a-program")
    assert path.exists()
    assert not Path("/dev/shm/of-a-program").exists()
    # Whoever writes the journal has `clean` carry it out, and who reaches a daemon has its rights.
    (workspace.folder / "docker.sock").touch(exist_ok=True)
    of_the_run = [("cat", f"{workspace.folder}/{name}") for name in ("journal", "docker.sock")]
    usual = (("touch", "/usr/x"), ("touch", str(programs / "y")), ("ls", "/root"))
    made = ("touch", f"{workspace.folder}/made")
    refused = "; ".join(f"{shlex.join(argv)} || echo no" for argv in (*usual, *of_the_run))
    answers = output(workspace, node, "sh", "-c", f"{{ {refused}; {shlex.join(made)} || :; }} 2>&1")
    assert answers.split("\n").count("no") == len((*usual, *of_the_run)), answers
    assert not (workspace.folder / "made").exists()
    links = json.loads(output(workspace, node, "ip", "-j", "link"))
    assert [link["ifname"] for link in links] == ["lo"]

    spawn = Spawn("a loop", f"{workspace.run}-loop", ("sha1sum", "/dev/zero"), at=node)
    executor.execute((spawn,))
    wait_for(lambda: in_node(node, "sha1sum"), "the loop")
    (pid,) = in_node(node, "sha1sum")
    used, start_s = cpu_s(pid), time.monotonic()
    time.sleep(0.5)
    share = (cpu_s(pid) - used) / (time.monotonic() - start_s)
    assert share < 0.4


def in_node(node: Node, name: str) -> list[int]:
    """Return the processes of that name in a node; the client that started one is on the host."""
    there = in_network(LocalHost(), ENVIRONMENTS[node.environment].netns(node) or "")
    return [pid for pid in marked(name) if pid in there]


def busy_cores(trial: TrialResult) -> float:
    """Return the cores that the switch kept busy."""
    return sum(part.cores or 0.0 for part in trial.parts if part.part == "switch")


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_a_docker_daemon_that_is_killed_fails_the_test_and_leaves_nothing(
    tmp_path: Path, traffic_program: str
) -> None:
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    arguments = (
        "--environment",
        "docker",
        "--duration",
        "0.5",
        "--repeat",
        "100",
        "--warmup",
        "0",
        "--rate",
        "1k",
        "--gate",
        "off",
    )
    run = start(environment, tmp_path, "run", *arguments, "--json")
    wait_for_trials(tmp_path)
    (daemon,) = of_run("dockerd", run)
    os.kill(daemon, signal.SIGKILL)
    out, err = run.communicate(timeout=60)
    (record,) = records(subprocess.CompletedProcess((), run.returncode, out, err))
    assert record["status"] == "failed"
    assert "the traffic program of f" in record["error"]


@pytest.mark.parametrize(
    ("runtime", "program"), [("lxc", "lxc-start"), ("docker", "docker"), ("podman", "podman")]
)
def test_a_runtime_that_is_missing_is_refused(
    cli: Callable[..., tuple[int, str, str]],
    runtime: str,
    program: str,
    tmp_path: Path,
    traffic_program: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for place in reversed(os.environ["PATH"].split(":")):
        for found in Path(place).glob("*"):
            (path / found.name).unlink(missing_ok=True)
            if found.name != program:
                (path / found.name).symlink_to(found)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.setenv("PATH", str(path))
    code, out, err = cli("run", "--environment", runtime, "--duration", "0.2", "--json")
    assert code == 3, err
    record = json.loads(out)
    assert record["status"] == "refused"
    assert f"hint: make setup PARTS={runtime}" in record["error"]
