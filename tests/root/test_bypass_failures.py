"""These tests run bypass switches that cannot start or that end unexpectedly: without hugepages,
without DPDK, with a part that dies or hangs, at the same time as another run. After each the host
is as it was."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from combinations import measured
from host_snapshot import hugepages
from host_state import (
    COMMAND,
    clean,
    marked,
    records,
    start,
    traffic_processes,
    wait_for,
    wait_for_trials,
)
from real_frames import skip_unpackaged
from switchmark.hosts.base import Completed
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.model.plan import PORTS_DIR
from switchmark.model.record import Record
from switchmark.model.test import Test
from traffic_program import ADDRESS, Program

QUICK = ["--engine", "dpdk", "--duration", "0.15", "--warmup", "0.05", "--rate", "5k", "--json"]
LONG = [
    *("--engine", "dpdk", "--duration", "0.5", "--repeat", "100", "--warmup", "0", "--rate", "5k"),
    *("--json", "--calibrate", "never", "--gate", "off"),
    *("--placement", "pinned"),  # each part is a process of its own, on few cores too
]
DAEMONS = {
    "testpmd": "dpdk-testpmd",
    "ovs-dpdk": "ovs-vswitchd-dp",
    "snabb": "snabb",
    "fastclick": "click",
    "vpp": "vpp_main",
    "bess": "bessd",
    "t4p4s": "t4p4s",
}

Run = Callable[..., subprocess.CompletedProcess[str]]
Cli = Callable[..., tuple[int, str, str]]

_MAP_HUGETLB = 0x40000
"""What Python's module has no name for: reserved when it is mapped."""


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


@pytest.fixture
def switchmark(environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: str, before: tuple[str, ...] = (), **env: str) -> Any:
        return subprocess.run(
            [*before, *COMMAND, *arguments],
            capture_output=True,
            text=True,
            env={**environment, **env},
            cwd=tmp_path,
            timeout=60,
        )

    return run


def run_in(lab: Lab, **axes: Any) -> Record:
    usual = {"engine": "dpdk", "duration": 0.2, "warmup": 0.0, "rate": "5k", "placement": "pinned"}
    test = Test(**{**usual, **axes})
    return lab.run(test)


def path_without(folder: Path, *missing: str) -> str:
    """Return a search path with every program of this one's but those."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(":")):
        for program in Path(place).glob("*"):
            link = folder / program.name
            link.unlink(missing_ok=True)
            if program.name not in missing:
                link.symlink_to(program)
    return str(folder)


# --- what is not there -----------------------------------------------------------------------


def test_a_switch_that_needs_hugepages_refuses_to_do_without(cli: Cli) -> None:
    code, _, err = cli("run", "--switch", "ovs-dpdk", "--memory", "no-huge", *QUICK)
    assert code == 2
    assert "ovs-dpdk needs hugepages: its pool of frames takes 800 MB" in err
    assert "hint: --memory hugepages" in err


@pytest.fixture
def no_free_hugepages() -> Iterator[None]:
    """Take all hugepages that are free, 40 of them or more, for as long as a test runs: mapped and
    not touched, so that the kernel still calls them free."""
    files = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
    total = files / "nr_hugepages"
    before = int(total.read_text())
    total.write_text(str(before + 40))
    try:
        free, mapped = (
            int((files / name).read_text()) for name in ("free_hugepages", "resv_hugepages")
        )
        size = (free - mapped) << 21
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_HUGETLB):
            yield
    finally:
        total.write_text(str(before))


@pytest.mark.alone  # a run in another lane would find none, too
@pytest.mark.usefixtures("no_free_hugepages")
def test_hugepages_that_cannot_be_had_are_counted_and_given_back(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that finds 110 MB and no more, as one with little memory or all in pieces: enough
    for the switch, which runs by then, and not for both functions."""
    before = hugepages()
    write, counts = LocalHost.write, []

    def scarce(host: LocalHost, path: str, content: bytes) -> None:
        if path.endswith("/nr_hugepages"):
            counts.append(int(host.read(path)))
            content = b"%d" % min(int(content), counts[0] + 55)
        write(host, path, content)

    monkeypatch.setattr(LocalHost, "write", scarce)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    with Lab(tmp_path) as lab:
        record = run_in(lab, switch="testpmd", memory="hugepages")
        assert record.status == "failed"
        assert record.error is not None
        assert "of 48 MB of hugepages can be had on NUMA node" in record.error
        assert "hint: switchmark clean; sysctl -w vm.compact_memory=1;" in record.error
        assert max(counts) > counts[0]
        assert hugepages() == before
        # Where the choice is ours there is another one.
        record = run_in(lab, switch="testpmd")
        assert (record.status, record.memory) == ("ok", "no-huge"), record.error
        assert "no-hugepages" in record.doubts
        assert hugepages() == before
        record = run_in(lab, switch="ovs-dpdk")
        assert record.status == "refused"
        assert "hint: --memory hugepages" in (record.error or "")


@pytest.mark.parametrize(
    ("switch", "program", "hint"),
    [
        ("testpmd", "dpdk-testpmd", "apt-get install dpdk-dev"),
        ("ovs-dpdk", "ovs-vsctl", "apt-get install openvswitch-switch"),
    ],
)
def test_a_program_that_is_missing_is_named(
    cli: Cli,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    switch: str,
    program: str,
    hint: str,
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", environment["SWITCHMARK_TRAFFIC"])
    monkeypatch.setenv("PATH", path_without(tmp_path / "bin", program))
    code, out, err = cli("run", "--switch", switch, *QUICK)
    assert code == 3, err
    record = json.loads(out)
    assert record["status"] == "refused"
    assert program in record["error"]
    assert "is not installed" in record["error"]
    assert f"hint: {hint}" in record["error"]


def test_a_daemon_that_is_missing_is_named(switchmark: Run) -> None:
    folder = "/usr/lib/openvswitch-switch-dpdk"
    hidden = f'mount -t tmpfs none {folder} && exec "$@"'
    before = ("unshare", "--mount", "sh", "-c", hidden, "sh")
    completed = switchmark("run", "--switch", "ovs-dpdk", *QUICK, before=before)
    assert completed.returncode == 3, completed.stderr
    (record,) = records(completed)
    assert record["status"] == "refused"
    assert f"{folder}/ovs-vswitchd-dpdk is not installed" in record["error"]
    assert "hint: apt-get install openvswitch-switch-dpdk" in record["error"]


def test_a_traffic_program_built_without_dpdk_has_all_but_that(
    cli: Cli, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its build stays in the checkout: the next time, only what has changed is built."""
    beside = Path(sys.executable).with_name("meson")
    meson = str(beside) if beside.exists() else shutil.which("meson")
    if meson is None:
        pytest.skip("meson is not installed")
    build = repository / "build/without-dpdk"
    setup = [meson, "setup", "-Ddpdk=disabled", "-Dxdp=disabled", "-Dbuildtype=debug", str(build)]
    make = ["ninja", "-C", str(build), "traffic/switchmark-traffic"]
    made = (build / "build.ninja").exists()
    for argv in [make] if made else [[*setup, str(repository)], make]:
        completed = subprocess.run(argv, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stdout
    assert "HAVE_DPDK" not in (build / "compile_commands.json").read_text()
    built = str(build / "traffic/switchmark-traffic")
    listed = json.loads(subprocess.run([built, "engines"], capture_output=True).stdout)
    names = {engine["name"] for engine in listed["engines"]}
    assert "raw-mmsg" in names
    assert "dpdk" not in names
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", built)
    code, out, err = cli("run", "--switch", "direct", *QUICK, "--engine", "raw-mmsg,dpdk")
    by_engine = {record["test"]["engine"]: record for record in map(json.loads, out.splitlines())}
    assert by_engine["raw-mmsg"]["status"] == "ok", err
    assert by_engine["dpdk"]["status"] == "refused"
    assert code == 1
    assert "this build of switchmark-traffic has no engine dpdk" in by_engine["dpdk"]["error"]
    assert "hint: make setup" in by_engine["dpdk"]["error"]


# --- what is in the way ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switch", "port"),
    measured(
        [
            ("direct", "vhost-user"),
            ("direct", "memif"),
            ("testpmd", "vhost-user"),
            ("ovs-dpdk", "vhost-user"),
            ("snabb", "vhost-user"),
            ("fastclick", "vhost-user"),
            ("fastclick", "memif"),
            ("vpp", "vhost-user"),
            ("vpp", "memif"),
            ("bess", "vhost-user"),
            ("bess", "memif"),
            ("t4p4s", "vhost-user"),
            ("t4p4s", "memif"),
        ],
        lambda combination: (),  # the paths of test_bypass.py have such sockets in their way
    ),
)
def test_sockets_of_before_are_in_nobodys_way(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch, switch: str, port: str
) -> None:
    skip_unpackaged(switch)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.chdir("/")
    with Lab(tmp_path) as lab, socket.socket(socket.AF_UNIX) as left:
        folder = lab._workspace.folder / PORTS_DIR
        left.bind(str(folder / "p0.sock"))
        (folder / "p1.sock").write_text("not a socket at all")
        record = run_in(lab, switch=switch, port=port)
        assert record.status == "ok", record.error
        assert record.trials[0].rx_frames == record.trials[0].tx_frames > 0


# --- parts that die --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "switch",
    # In `make test`, testpmd is killed in a warm-up, below, and ovs-dpdk beside another run.
    measured([(switch,) for switch in DAEMONS], lambda combination: ()),
)
def test_a_switch_that_is_killed_fails_its_test(
    environment: dict[str, str], tmp_path: Path, switch: str
) -> None:
    skip_unpackaged(switch)
    run = start(environment, tmp_path, "run", "--switch", switch, *LONG)
    wait_for_trials(tmp_path)
    (daemon,) = marked(DAEMONS[switch], run)
    os.kill(daemon, signal.SIGKILL)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    record = json.loads(output)
    assert record["status"] == "failed"
    assert f"switch {switch} died during the trial" in record["error"]


def test_a_switch_that_is_killed_in_the_warm_up_fails_its_test_alone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["TMPDIR"] = str(tmp_path)  # a bug's traceback goes there
    arguments = ["--warmup", "0.7", "--duration", "0.1"]
    run = start(environment, tmp_path, "run", "--switch", "testpmd", *LONG, *arguments)
    wait_for_trials(tmp_path)
    (daemon,) = marked(DAEMONS["testpmd"], run)
    os.kill(daemon, signal.SIGKILL)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    record = json.loads(output)
    assert record["status"] == "failed"
    assert "switch testpmd died" in record["error"]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        pytest.param("f0", "--switch testpmd", marks=pytest.mark.further),
        pytest.param("f1", "--switch ovs-dpdk", marks=pytest.mark.further),
        # The first is the server of the cable, the second its client.
        ("f0", "--switch direct --port memif"),
        ("f1", "--switch direct --port memif"),
    ],
)
def test_a_traffic_process_that_is_killed_fails_its_test(
    environment: dict[str, str], tmp_path: Path, part: str, message: str
) -> None:
    run = start(environment, tmp_path, "run", *message.split(), *LONG)
    wait_for_trials(tmp_path)
    os.kill(traffic_processes(run)[int(part[1])], signal.SIGKILL)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    record = json.loads(output)
    assert record["status"] == "failed"
    assert record["error"] == f"the traffic program of {part} was killed by signal 9"


@pytest.mark.parametrize("switch", ["vpp", "bess", "snabb", "fastclick", "t4p4s"])
def test_a_killed_run_is_cleaned_up(
    environment: dict[str, str], tmp_path: Path, switch: str
) -> None:
    skip_unpackaged(switch)
    before, left = hugepages(), left_behind()
    run = start(environment, tmp_path, "run", "--switch", switch, *LONG)
    wait_for_trials(tmp_path)
    kill_and_clean_up(run, switch)
    assert hugepages() == before
    assert left_behind() <= left


def kill_and_clean_up(run: subprocess.Popen[str], switch: str) -> None:
    """Kill a run, whose processes go on, and check that another process ends them."""
    (daemon,) = marked(DAEMONS[switch], run)
    functions = traffic_processes(run)
    run.kill()
    run.communicate(timeout=60)
    assert Path(f"/proc/{daemon}").exists()
    cleaned = [result for result in clean() if result.state != "live"]
    assert "cleaned" in {result.state for result in cleaned}
    assert [result.failures for result in cleaned if result.failures] == []
    assert daemon not in marked(DAEMONS[switch])
    assert not {*functions} & {*traffic_processes()}


def left_behind() -> set[Path]:
    """Return what programs leave outside of a run's folder: shared memory, and snabb's caches."""
    snabb = (*Path("/tmp").glob("vhost_features_*"), *Path("/var/run/snabb").glob("*"))
    return {*Path("/dev/shm").iterdir(), *snabb}


def test_a_command_that_hangs_ends_the_test(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the seconds that its step gives it, here no more than 3."""
    hanging = tmp_path / "bin" / "ovs-vsctl"
    hanging.parent.mkdir()
    hanging.write_text("#!/bin/sh\nsleep 60\n")
    hanging.chmod(0o755)
    run = LocalHost.run

    def impatient(host: LocalHost, argv: tuple[str, ...], **options: Any) -> Completed:
        return run(host, argv, **{**options, "timeout_s": min(3.0, options.get("timeout_s", 3.0))})

    with Lab(tmp_path) as lab:
        lab.versions(Test(switch="ovs-dpdk", engine="dpdk"))
        monkeypatch.setattr(LocalHost, "run", impatient)
        monkeypatch.setenv("PATH", f"{hanging.parent}:{os.environ['PATH']}")
        before = time.monotonic()
        record = run_in(lab, switch="ovs-dpdk")
        assert time.monotonic() - before < 50  # it would be 60
    assert record.status == "failed"
    assert record.error is not None
    assert "a command did not end within 3 s and was killed" in record.error
    assert "on local: ovs-vsctl --timeout=10" in record.error


# --- peers that come back --------------------------------------------------------------------


class Ends:
    """This object has the two ends of a cable in a folder, as programs that the tests speak to."""

    def __init__(self, program: str, folder: Path, kind: str) -> None:
        self._program, self._folder, self._kind = program, folder, kind
        self.socket = folder / "p0.sock"
        self._number = count()
        self._started: list[Program] = []

    def open(self, role: str, *, server: bool) -> Program:
        program = Program(self._program)
        self._started.append(program)
        answer = program.ask(
            "open",
            ports=[{"engine": "dpdk", "options": self._options(server)}],
            threads=[{"yield": True, "tasks": [{"role": role, "ports": [0]}]}],
        )
        assert answer["ok"], answer
        return program

    def _options(self, server: bool) -> dict[str, Any]:
        path = self.socket
        if self._kind == "memif":
            role = "server" if server else "client"
            device = f"net_memif0,role={role},id=0,socket={path},socket-abstract=no"
        elif server:
            device = f"net_vhost0,iface={path},queues=1,client=0"
        else:
            device = f"net_virtio_user0,path={path},queues=1,queue_size=1024,server=0"
        return {
            "device": device,
            "descriptors": 1024,
            "memory": "no-huge",
            "prefix": f"smtest{next(self._number)}",
            "directory": str(self._folder),
        }

    def close(self) -> None:
        for program in self._started:
            program.process.kill()
            program.process.wait()


@pytest.fixture
def ends(request: pytest.FixtureRequest, traffic_program: str, tmp_path: Path) -> Iterator[Ends]:
    ends = Ends(traffic_program, tmp_path, request.param)
    yield ends
    ends.close()


def begin(sender: Program, receiver: Program, *, rate_pps: int, duration_s: float) -> None:
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": rate_pps}
    for program, task in ((receiver, {"latency": True}), (sender, load)):
        assert program.ask("ready", timeout_ms=5000)["ok"]
        assert program.ask("arm", run=7, longest_ns=10**9, tasks=[task])["ok"]
    for program in (receiver, sender):
        assert program.ask("start", duration_ns=round(duration_s * 1e9))["ok"]


def finish(program: Program) -> dict[str, Any]:
    """Return the report of the only task of a program."""
    assert program.ask("wait")["ok"]
    assert program.ask("drain", quiet_ms=20, timeout_ms=2000)["ok"]
    report = program.ask("report")
    assert report["ok"], report
    assert report["failure"] is None
    task: dict[str, Any] = report["tasks"][0]
    return task


def assert_frames_flow(sender: Program, receiver: Program) -> None:
    begin(sender, receiver, rate_pps=10_000, duration_s=0.1)
    sent = finish(sender)["sent"]["frames"]
    received = finish(receiver)["received"]
    assert received["frames"] == sent > 0  # on a busy host the last ones do not go
    assert received["corrupted"] == received["foreign"] == received["duplicated"] == 0


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, "end of stdin"], ids=str)
def test_a_server_that_nobody_comes_to_ends_and_leaves_no_socket(
    traffic_program: str, tmp_path: Path, ending: signal.Signals | str
) -> None:
    """DPDK waits for the client of a virtio-user device for ever."""
    program, path = Program(traffic_program), tmp_path / "p0.sock"
    device = f"net_virtio_user0,path={path},server=1"
    options = {"device": device, "memory": "no-huge", "directory": str(tmp_path)}
    command = {
        "cmd": "open",
        "ports": [{"engine": "dpdk", "options": options}],
        "threads": [{"tasks": [{"role": "sender", "ports": [0]}]}],
    }
    program.stdin.write(json.dumps(command).encode() + b"\n")
    program.stdin.flush()
    wait_for(path.exists, "the socket of the server")
    if isinstance(ending, signal.Signals):
        program.process.send_signal(ending)
        assert program.process.wait(10) == 0
    program.end()
    assert not path.exists()


@pytest.mark.parametrize("ends", ["vhost-user"], indirect=True)
def test_threads_that_dpdk_starts_have_no_privileges(ends: Ends) -> None:
    """The thread `vhost-events` parses what the other end says. Nobody but the thread that opens
    ports may take privileges up again."""
    program = ends.open("receiver", server=True)

    def privileges() -> dict[str, tuple[int, int]]:
        """Return what each thread may take up and what it has; the main thread is `main`."""
        found = {}
        for task in Path(f"/proc/{program.process.pid}/task").iterdir():
            lines = (task / "status").read_text().splitlines()
            status = dict(line.split(":\t", 1) for line in lines)
            name = "main" if task.name == str(program.process.pid) else status["Name"]
            found[name] = (int(status["CapPrm"], 16), int(status["CapEff"], 16))
        return found

    assert {"main", "vhost-events", "eal-intr-thread"} < privileges().keys()
    assert privileges()["main"] > (0, 0)
    # The main thread lays its own down after its answer, one that moves frames as it begins.
    wait_for(
        lambda: all(
            has == 0 and (may == 0 or name == "main") for name, (may, has) in privileges().items()
        ),
        "no other thread to have privileges",
    )
    program.end()


@pytest.mark.parametrize("ends", ["vhost-user", "memif"], indirect=True)
def test_a_client_that_comes_back_is_served_again(ends: Ends) -> None:
    receiver = ends.open("receiver", server=True)
    for ending in ("ends well", "is killed", "ends well"):
        sender = ends.open("sender", server=False)
        assert_frames_flow(sender, receiver)
        if ending == "ends well":
            sender.end()
        else:
            sender.process.kill()
            sender.process.wait()
        assert receiver.process.poll() is None
    receiver.end()


def kill_the_client_under_load(ends: Ends) -> Program:
    """Return the server of a cable whose client, which received at full rate, was killed."""
    sender = ends.open("sender", server=True)
    receiver = ends.open("receiver", server=False)
    begin(sender, receiver, rate_pps=0, duration_s=0.5)
    time.sleep(0.2)
    receiver.process.kill()
    receiver.process.wait()
    return sender


@pytest.mark.parametrize("ends", ["vhost-user"], indirect=True)
def test_a_client_that_is_killed_under_load_does_not_take_its_server_along(ends: Ends) -> None:
    sender = kill_the_client_under_load(ends)
    assert finish(sender)["sent"]["frames"] > 0
    assert_frames_flow(sender, ends.open("receiver", server=False))
    sender.end()


@pytest.mark.parametrize("ends", ["memif"], indirect=True)
def test_a_memif_server_counts_on_or_is_seen_to_die(ends: Ends) -> None:
    """DPDK's server frees what its data path may be reading when its client is gone
    (docs/guide/kernel-bypass.md): it goes on, or ends by SIGSEGV, and never silently stops."""
    sender = kill_the_client_under_load(ends)
    try:
        assert finish(sender)["sent"]["frames"] > 0
    except (BrokenPipeError, ValueError):  # no answer, as there is nobody
        assert sender.process.wait(timeout=60) == -signal.SIGSEGV
        ends.socket.unlink(missing_ok=True)
        sender = ends.open("sender", server=True)
    assert_frames_flow(sender, ends.open("receiver", server=False))


# --- two at once -----------------------------------------------------------------------------


def test_two_runs_at_once_do_not_collide_and_end_each_alone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The switch of the first is killed, which only its own test fails of. Then the second is
    killed, and another process cleans up after it."""
    before, left = hugepages(), left_behind()
    load = LONG[: LONG.index("--placement")]  # few processes poll, and each has a turn
    folders = [tmp_path / "first", tmp_path / "second"]
    first, second = (
        start(environment, tmp_path, "run", "--switch", "ovs-dpdk", *load, "--out", str(folder))
        for folder in folders
    )
    try:
        for folder in folders:
            wait_for_trials(folder)
        (daemon,) = marked(DAEMONS["ovs-dpdk"], first)
        os.kill(daemon, signal.SIGKILL)
        output, errors = first.communicate(timeout=60)
        assert first.returncode == 1, errors
        record = json.loads(output)
        assert record["status"] == "failed"
        assert "switch ovs-dpdk died during the trial" in record["error"]

        so_far = len(trials_below(folders[1]))
        wait_for_trials(folders[1], so_far + 2)  # one that began after the end of the first run
        for trial in [trial for folder in folders for trial in trials_below(folder)]:
            assert trial["rx_frames"] > 0
            assert trial["foreign"] == trial["corrupted"] == 0
        kill_and_clean_up(second, "ovs-dpdk")
    finally:
        for run in (first, second):
            run.kill()
            run.communicate()
    assert hugepages() == before
    assert left_behind() <= left


def trials_below(folder: Path) -> list[dict[str, Any]]:
    """Return the trials that runs below a folder have stored."""
    (file,) = folder.rglob("trials.jsonl")
    return [json.loads(line)["trial"] for line in file.read_text().split("\n")[:-1]]


# --- a host that is busy ---------------------------------------------------------------------


@pytest.mark.parametrize("switch", ["testpmd", pytest.param("ovs-dpdk", marks=pytest.mark.further)])
def test_a_switch_that_does_not_get_its_core_is_doubted(
    environment: dict[str, str], switch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", environment["SWITCHMARK_TRAFFIC"])
    with Lab(tmp_path) as lab:
        path = lab._drawn(lab._probes.locate(Test(switch=switch, engine="dpdk")))
        (cpu,) = path.placement.pins["switch"].cpus
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            os.sched_setaffinity(hog.pid, {cpu})
            record = run_in(lab, switch=switch, duration=0.5)
        finally:
            hog.kill()
            hog.wait()
    assert record.status == "ok", record.error
    assert "host-busy" in record.doubts
    (part,) = (part for part in record.trials[0].parts if part.part == "switch")
    assert part.cores is not None
    assert part.cores < 0.8
