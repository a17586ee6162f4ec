"""These tests run campaigns on labs of two Dask workers of this host, with real frames: killed,
restarted, interrupted. A run is in the process of the tests, unless a signal ends it or its ports
are listed."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

import host_state
from host_state import wait_for
from slurm import missing, slurm
from ssh_hosts import SshdHost

pytest.importorskip("distributed", reason="the extra switchmark[lab] is not installed")
import psutil

from switchmark.campaign.load import load
from switchmark.campaign.store import key
from switchmark.cluster.description import Tls
from switchmark.cluster.start import worker_command
from switchmark.lab.measure import Lab as LocalLab

CAMPAIGN = """
name: lab
switch: linux-bridge
frame-size: [64, 128, 256, 512]
rate: 1k
duration: 0.2s
warmup: 0s
repeat: 2
"""
HELD = """
name: held
switch: linux-bridge
rate: 1k
warmup: 0s
repeat: 1
tests:
- {frame-size: 64, duration: 0.2s}
- {frame-size: 128, duration: 60s}
"""
"""A campaign with one result, which lasts until it is interrupted."""

OPTIONS = "--calibrate never --gate off --share-machine --quiet --json".split()


def certificates(folder: Path) -> Tls:
    """Make an authority and a certificate of it."""
    names = {name: folder / name for name in ("ca.pem", "ca.key", "lab.csr", "lab.pem", "lab.key")}
    new = "openssl req -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1".split()
    ca = [*new, "-x509", "-subj", "/CN=ca", "-keyout", names["ca.key"], "-out", names["ca.pem"]]
    request = [*new, "-subj", "/CN=lab", "-keyout", names["lab.key"], "-out", names["lab.csr"]]
    signed = ["openssl", "x509", "-req", "-in", names["lab.csr"], "-CA", names["ca.pem"]]
    signed += ["-CAkey", names["ca.key"], "-CAcreateserial", "-out", names["lab.pem"]]
    for command in (ca, request, signed):
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
    paths = (str(names[name]) for name in ("ca.pem", "lab.pem", "lab.key"))
    return Tls(**dict(zip(("ca", "cert", "key"), paths, strict=True)))


def tls_section(tls: Tls) -> str:
    """Return the section on certificates of a lab's file."""
    return f'[tls]\nca = "{tls.ca}"\ncert = "{tls.cert}"\nkey = "{tls.key}"\n'


class Lab:
    """This lab has a scheduler on this host, and two workers; `lab.toml` says how to reach it."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment, self.folder = environment, folder
        self.tls = certificates(folder)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._added: Counter[str] = Counter()
        self._scheduler = self.start_scheduler(0)
        (folder / "lab.toml").write_text(f'address = "{self.address}"\n{tls_section(self.tls)}')

    def start_scheduler(self, port: int) -> subprocess.Popen[bytes]:
        log = self.folder / "scheduler.log"
        log.unlink(missing_ok=True)
        arguments = (
            f"-m distributed.cli.dask_scheduler --host 127.0.0.1 --port {port} --no-dashboard"
        )
        arguments += " --dashboard-address 127.0.0.1:0"
        arguments += (
            f" --tls-ca-file {self.tls.ca} --tls-cert {self.tls.cert} --tls-key {self.tls.key}"
        )
        scheduler = self._start(*arguments.split(), log_path=log)
        found = wait_for(
            lambda: re.search(r"Scheduler at: +(tls://\S+)", log.read_text()), "a scheduler"
        )
        self.address = found[1]
        self._added.clear()
        return scheduler

    def add(self, name: str) -> None:
        command = worker_command("python", self.address, name, self.tls, again=False)
        self.workers[name] = self._start(*command[1:], log_path=self.folder / f"{name}.log")
        self._added[name] += 1

    def repair(self) -> None:
        """Start each worker that has ended, and wait until the scheduler has both."""
        for name in ("a", "b"):
            if name not in self.workers or self.workers[name].poll() is not None:
                self.add(name)
        wait_for(lambda: self._came() == self._added, "two workers")

    def _came(self) -> Counter[str]:
        text = (self.folder / "scheduler.log").read_text()
        return Counter(re.findall(r"Register worker .* name: (\w+)", text))

    def kill(self, name: str) -> None:
        self.workers[name].kill()
        self.workers[name].wait()

    def restart_scheduler(self) -> None:
        self._scheduler.kill()
        self._scheduler.wait()
        for name in self.workers:  # who loses its scheduler ends
            self.workers[name].wait(timeout=60)
        self._scheduler = self.start_scheduler(int(self.address.rpartition(":")[2]))

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        return [*self.workers.values(), self._scheduler]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(timeout=60)

    def _start(self, *arguments: str, log_path: Path) -> subprocess.Popen[bytes]:
        with log_path.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                stdout=log,
                stderr=log,
                env={**self._environment, "DASK_TEMPORARY_DIRECTORY": str(self.folder)},
                cwd=self.folder,
            )


RUNS: list[subprocess.Popen[str]] = []


def start(environment: dict[str, str], cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    RUNS.append(host_state.start(environment, cwd, *arguments))
    return RUNS[-1]


@pytest.fixture(autouse=True)
def _no_run_outlives_a_test_that_failed() -> Iterator[None]:
    yield
    while RUNS:
        run = RUNS.pop()
        if run.poll() is None:
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


@pytest.fixture(autouse=True)
def _program(traffic_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)


@pytest.fixture(scope="module")
def lab_of_all(traffic_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    found = Lab(environment, tmp_path_factory.mktemp("lab"))
    try:
        found.repair()
        yield found
    finally:
        found.close()


@pytest.fixture
def lab(lab_of_all: Lab, tmp_path: Path) -> Lab:
    """Return the lab of all tests. A test may end its parts."""
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "lab.toml").write_text((lab_of_all.folder / "lab.toml").read_text())
    lab_of_all.repair()
    return lab_of_all


Cli = Callable[..., tuple[int, str, str]]


def done(cli: Cli, *arguments: str) -> str:
    """Run a command in this process, and return its output."""
    code, output, errors = cli(*arguments)
    assert code == 0, errors
    return output


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread while a run goes on in this one."""
    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        yield
        acting.result()


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    path = run / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keys(run: Path) -> Counter[str]:
    return Counter(line["record"]["key"] for line in lines(run, "records.jsonl"))


def assert_nothing_is_lost(trials: list[dict[str, Any]]) -> None:
    """Check that all frames arrive: on a busy host some of them behind the drain."""
    for trial in trials:
        assert trial["tx_frames"] == trial["rx_frames"] + trial["lost_at"].get("late", 0)


ON_THE_LAB = ("run", "campaign.yaml", *OPTIONS, "--cluster", "lab.toml", "--name")


@pytest.mark.alone  # the value is that of all lanes
def test_repeats_of_an_experiment_are_spread_over_testbeds_that_are_prepared_and_restored(
    lab: Lab, cli: Cli, tmp_path: Path
) -> None:
    """The experiment is one of the literature."""
    place = Path("/proc/sys/kernel/randomize_va_space")
    before = place.read_text()
    axes = "--switch linux-bridge --semantics learning --frame-size 64,128 --search fixed --rate 1k"
    axes += " --duration 0.2 --warmup 0 --repeat 2 --cluster lab.toml --spread --prepare aslr"
    arguments = ["paper", "emmerich-2014/text-bytes", "--quick", *axes.split(), *OPTIONS]
    *objects, content = [json.loads(line) for line in done(cli, *arguments).splitlines()]
    assert content["experiment"] == "emmerich-2014/text-bytes"
    assert [result["status"] for result in objects] == ["ok"] * 2
    assert {value["now"] for result in objects for value in result["prepared"]} == {"0"}
    assert place.read_text() == before
    (folder,) = (tmp_path / "runs").iterdir()
    records = [line["record"] for line in lines(folder, "records.jsonl")]
    assert len(records) == 2
    for record in records:
        assert {trial["evidence"]["testbed"] for trial in record["trials"]} == {"a", "b"}
        assert_nothing_is_lost(record["trials"])
    assert json.loads((folder / "testbeds.json").read_text())["testbeds"].keys() == {"a", "b"}


def test_an_interrupted_run_leaves_nothing_on_the_workers_which_answer_members_alone(
    lab: Lab, environment: dict[str, str], cli: Cli, tmp_path: Path
) -> None:
    """Another user of the host gets nothing without a certificate of the lab."""
    axes = ("--duration", "60", "--repeat", "1")
    run = start(environment, tmp_path, *ON_THE_LAB, "stopped", *axes)
    folder = tmp_path / "runs/stopped"
    wait_for(lambda: (folder / "testbeds.json").exists() and of_a_lab(), "both measure")
    ends = {end for process in lab.processes for end in listening(psutil.Process(process.pid))}
    answers = answered(ends, user=7001, tls=lab.tls)
    errors = interrupted(run)
    assert len(ends) == 6  # of the scheduler and two workers, each with a page that is empty
    assert {end.rpartition(":")[0] for end in ends} == {"127.0.0.1"}
    assert answers == {"member Scheduler", "member Worker"}
    assert "kept are 0 of 4 tests" in errors
    assert "switchmark resume runs/stopped --cluster lab.toml" in errors
    assert not of_a_lab()
    code, _, errors = cli("resume", "runs/stopped")
    assert code == 2
    assert "--cluster" in errors


def of_a_lab() -> list[str]:
    """Return the namespaces of all runs, where two paths are up."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    names = re.findall(r"^sm[0-9a-f]{4}-\S+", listed, re.MULTILINE)
    return names if len({name.partition("-")[0] for name in names}) == 2 else []


def test_killed_workers_tests_run_elsewhere_a_restarted_scheduler_is_found_and_each_lands_once(
    lab: Lab, cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "runs/killed"

    def kill_and_restart() -> None:
        wait_for(lambda: lines(folder, "trials.jsonl"), "some trials")
        lab.kill("b")
        before = len(lines(folder, "records.jsonl"))
        wait_for(lambda: len(lines(folder, "records.jsonl")) > before, "a record of the other one")
        lab.restart_scheduler()
        lab.add("a")

    with meanwhile(kill_and_restart):
        objects = [json.loads(line) for line in done(cli, *ON_THE_LAB, "killed").splitlines()]
    assert [result["status"] for result in objects] == ["ok"] * 4
    # Until b was killed, both measured on one machine: in any of the tests, on a busy host.
    assert any("shared-machine" in result["doubts"] for result in objects)
    tests = load(tmp_path / "campaign.yaml", {}, lambda test: []).tests
    with LocalLab(tmp_path) as here:  # the keys of a local run, each once
        assert keys(folder) == Counter(key(test, here.versions(test)) for test in tests)
    assert json.loads((folder / "testbeds.json").read_text())["testbeds"].keys() == {"a", "b"}
    for line in lines(folder, "records.jsonl"):
        trials = line["record"]["trials"]
        assert len(trials) == 2
        assert len({trial["evidence"]["testbed"] for trial in trials}) == 1  # not of two hosts
        assert_nothing_is_lost(trials)


# --- labs that are started -------------------------------------------------------------------


def one_test(cli: Cli, folder: Path, *arguments: str) -> dict[str, Any]:
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    axes = ["--frame-size", "64", "--repeat", "1", "--cluster", "lab.toml", *OPTIONS]
    output = done(cli, "run", "campaign.yaml", *axes, *arguments)
    (content,) = (json.loads(line) for line in output.splitlines())
    assert content["status"] == "ok"
    return dict(content)


def of_ssh(environment: dict[str, str], host: SshdHost, folder: Path, script: str = "") -> str:
    """Describe a lab of that host; return the address that its scheduler will have."""
    python = folder / "python"  # what another host would have in its own environment
    exports = [f"export {name}={environment[name]}" for name in environment if "SWITCHMARK" in name]
    python.write_text("\n".join(["#!/bin/sh", *exports, f'exec {sys.executable} "$@"\n']))
    python.chmod(0o755)
    near = str(IPv4Address(host.address) - 1)  # this end of the cable to it
    (folder / "lab.toml").write_text(
        f'[ssh]\nhosts = ["root@{host.address}"]\nlisten = "{near}"\n'
        f'python = "{python}"\noptions = {json.dumps(host.options)}\n{script}'
    )
    return near


def test_testbeds_on_this_host_are_one_unless_they_may_share_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "lab.toml").write_text("[local]\ntestbeds = 2\n")
    options = [word for word in OPTIONS if word != "--share-machine"]
    axes = "--frame-size 64 --repeat 1 --cluster lab.toml".split()
    code, output, errors = cli("run", "campaign.yaml", *axes, *options)
    assert code == 0, errors
    message = r"is left out: it is on the same machine as testbed-[12] \(one boot id\)"
    assert re.search(message, errors)  # whichever came first stays
    content = json.loads(output)
    assert content["status"] == "ok"
    assert "shared-machine" not in content["doubts"]


@pytest.mark.further  # the lab by ssh below, and the certificates of the lab of all tests
def test_testbeds_are_reached_by_ssh_and_tls(
    environment: dict[str, str], ssh_host: SshdHost, cli: Cli, tmp_path: Path
) -> None:
    near = of_ssh(environment, ssh_host, tmp_path, tls_section(certificates(tmp_path)))
    content = one_test(cli, tmp_path)
    assert content["evidence"][0]["testbed"] == ssh_host.address
    assert f"{near}:" not in ssh_host.exec("ps", "-eo", "args")  # its worker has ended


def test_a_scheduler_listens_only_where_this_host_has_an_address(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text('[local]\ntestbeds = 1\nlisten = "192.0.2.1"\n')
    code, _, errors = cli(*"run --rate 1k --cluster lab.toml".split(), *OPTIONS)
    assert code == 3, errors
    assert "no scheduler starts at 192.0.2.1" in errors
    assert "hint: listen: an address of this host" in errors


@pytest.fixture(scope="module")
def slurm_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Start a Slurm for all tests of it, and return the environment for its commands."""
    if lacking := missing():
        pytest.skip(f"not installed: {', '.join(lacking)}: make setup PARTS=labs")
    with slurm(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture
def of_slurm(
    slurm_here: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Set the environment for the commands of Slurm. A job removes its semaphores after it has left
    the queue."""
    before = {*Path("/dev/shm").glob("sem.*")}
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm_here[name])
    yield
    subprocess.run(("scancel", "--user=root"), check=True, timeout=20)
    wait_for(lambda: {*Path("/dev/shm").glob("sem.*")} <= before, "an end of the job")
    gc.collect()  # it has files in the folder of the test


def test_a_job_that_slurm_does_not_take_ends_the_run_with_its_words(
    of_slurm: None, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "lab.toml").write_text('[slurm]\nqueue = "no-such-queue"\n')
    code, _, errors = cli(*"run --rate 1k --cluster lab.toml".split(), *OPTIONS)
    assert code == 3, errors
    assert "error: Slurm takes no job" in errors
    assert "sbatch: error" in errors
    assert "Traceback" not in errors


def test_testbeds_are_jobs_of_slurm(of_slurm: None, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text('[slurm]\ntestbeds = 1\nmemory = "100MB"\n')
    content = one_test(cli, tmp_path)
    assert "SLURMCluster" in content["evidence"][0]["testbed"]


# --- who may connect -------------------------------------------------------------------------

_ASK = """
import asyncio, os, sys
from distributed.core import rpc
from distributed.security import Security
from switchmark.cluster.certificates import made_for_a_run
from switchmark.cluster.description import Tls

async def ask(who, address, arguments, limit_s):
    try:
        async with rpc(address, timeout=limit_s, connection_args=arguments) as peer:
            print(who, (await asyncio.wait_for(peer.identity(), limit_s))["type"])
    except Exception as error:
        print(repr(error), file=sys.stderr)

def of(tls):
    own = Security(tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key)
    return own.get_connection_args("client")

async def main(user, given, *ends):
    ways = [("stranger", "tls", of(made_for_a_run()))]
    ways += [("stranger", "tcp", Security().get_connection_args("client"))]
    if given:
        ways += [("member", "tls", of(Tls.model_validate_json(given)))]
    for _, kind, own in ways:  # imports all that the user may not be able to read
        await ask("nobody", f"{kind}://127.0.0.1:1", own, 0.1)
    if user != "0":
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    asked = [(who, f"{kind}://{end}", own, 3) for who, kind, own in ways for end in ends]
    await asyncio.gather(*(ask(*one) for one in asked))

asyncio.run(main(*sys.argv[1:]))
"""


def answered(ends: Collection[str], *enter: str, user: int = 0, tls: Tls | None = None) -> set[str]:
    """Ask whatever listens at these ends who it is, as a user, from where `enter` leads: as a
    stranger without TLS and with self-made certificates, and as a member with these certificates.
    Return whom something has answered, and what it is."""
    credentials = tls.model_dump_json() if tls else ""
    completed = subprocess.run(
        [*enter, sys.executable, "-c", _ASK, str(user), credentials, *ends],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert completed.returncode == 0, completed.stderr
    assert "PermissionError" not in completed.stderr
    assert "ModuleNotFoundError" not in completed.stderr
    return {*completed.stdout.splitlines()}


def listening(process: psutil.Process) -> set[str]:
    """Return where a process and those that it started listen."""
    found = set()
    for child in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            for end in child.net_connections("inet"):
                if end.status == psutil.CONN_LISTEN:
                    found.add(f"{end.laddr.ip}:{end.laddr.port}")
    return found


def held(environment: dict[str, str], folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run that lasts until it is interrupted, and wait until it has a result."""
    (folder / "held.yaml").write_text(HELD)
    arguments = ("run", "held.yaml", "--cluster", "lab.toml", "--name", "held", *options)
    run = start(environment, folder, *arguments)
    wait_for(lambda: lines(folder / "runs/held", "records.jsonl"), "a result", 100)
    return run


def interrupted(run: subprocess.Popen[str]) -> str:
    """End a run, and return what it says."""
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    return errors


def test_who_is_on_the_network_of_a_lab_or_another_user_of_its_host_gets_nothing_from_it(
    environment: dict[str, str], ssh_host: SshdHost, tmp_path: Path
) -> None:
    near, far = of_ssh(environment, ssh_host, tmp_path), ssh_host.address
    run = held(environment, tmp_path, *OPTIONS)
    here = listening(psutil.Process(run.pid))
    sockets = ssh_host.exec("ss", "--no-header", "--listening", "--tcp", "--numeric")
    there = {line.split()[3] for line in sockets.splitlines()} - {f"{far}:22"}
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(answered, there), pool.submit(answered, here, *ssh_host.enter)]
        asked += [pool.submit(answered, here, user=7001)]
        strangers = [asking.result() for asking in asked]
    interrupted(run)
    assert {end.rpartition(":")[0] for end in here} == {near, "127.0.0.1"}
    assert {end.rpartition(":")[0] for end in there} == {far, "127.0.0.1"}
    assert len([end for end in there if end.startswith(far)]) == 2  # the worker, and who watches it
    assert strangers == [set()] * 3
    (result,) = lines(tmp_path / "runs/held", "records.jsonl")
    assert [trial["evidence"]["testbed"] for trial in result["record"]["trials"]] == [far]
    assert f"{near}:" not in ssh_host.exec("ps", "-eo", "args")  # its worker has ended
