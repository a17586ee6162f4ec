"""These tests run campaigns on labs of two Dask workers of this host, with real frames: killed,
restarted, interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

import host_state
from host_state import COMMAND, wait_for
from slurm import missing, slurm
from ssh_hosts import SshdHost

pytest.importorskip("distributed", reason="the extra switchmark[lab] is not installed")
import psutil

from switchmark.cluster.description import Tls
from switchmark.cluster.start import worker_command

CAMPAIGN = """
name: lab
switch: linux-bridge
frame-size: [64, 128, 256, 512]
rate: 1k
duration: 0.2s
warmup: 0s
repeat: 2
"""
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
    """This lab has a scheduler on this host, and workers; `lab.toml` says how to reach it."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment, self.folder = environment, folder
        self.tls = certificates(folder)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
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
        return scheduler

    def add(self, name: str) -> None:
        command = worker_command("python", self.address, name, self.tls, again=False)
        self.workers[name] = self._start(*command[1:], log_path=self.folder / f"{name}.log")

    def kill(self, name: str) -> None:
        self.workers[name].kill()

    def restart_scheduler(self) -> None:
        self._scheduler.kill()
        self._scheduler.wait()
        for name in self.workers:  # who loses its scheduler ends
            self.workers[name].wait(timeout=60)
        self._scheduler = self.start_scheduler(int(self.address.rpartition(":")[2]))

    def close(self) -> None:
        for process in (*self.workers.values(), self._scheduler):
            process.kill()
        for process in (*self.workers.values(), self._scheduler):
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


@contextmanager
def two_workers(environment: dict[str, str], folder: Path) -> Iterator[Lab]:
    found = Lab(environment, folder)
    try:
        for name in ("a", "b"):
            found.add(name)
        yield found
    finally:
        found.close()


@pytest.fixture
def lab(environment: dict[str, str], tmp_path: Path) -> Iterator[Lab]:
    """Make a lab for one test, which may end its parts."""
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    with two_workers(environment, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def lab_of_all(traffic_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    with two_workers(environment, tmp_path_factory.mktemp("lab")) as found:
        yield found


@pytest.fixture
def kept_lab(lab_of_all: Lab, tmp_path: Path) -> Lab:
    """Return the lab of all tests that leave it as it is."""
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "lab.toml").write_text((lab_of_all.folder / "lab.toml").read_text())
    return lab_of_all


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    path = run / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ended(run: subprocess.Popen[str]) -> str:
    output, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    return output


def keys(run: Path) -> Counter[str]:
    return Counter(line["record"]["key"] for line in lines(run, "records.jsonl"))


def assert_nothing_is_lost(trials: list[dict[str, Any]]) -> None:
    """Check that all frames arrive: on a busy host some of them behind the drain."""
    for trial in trials:
        assert trial["tx_frames"] == trial["rx_frames"] + trial["lost_at"].get("late", 0)


def test_a_killed_workers_test_runs_elsewhere_and_each_lands_once(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["run", "campaign.yaml", *OPTIONS]
    run = start(environment, tmp_path, *arguments, "--cluster", "lab.toml", "--name", "killed")
    folder = tmp_path / "runs/killed"
    wait_for(lambda: len(lines(folder, "trials.jsonl")) >= 3, "some trials", 60)
    lab.kill("b")
    objects = [json.loads(line) for line in ended(run).splitlines()]
    assert [result["status"] for result in objects] == ["ok"] * 4
    assert "shared-machine" in objects[0]["doubts"]

    alone = start(environment, tmp_path, *arguments, "--name", "local")
    ended(alone)
    assert keys(folder) == keys(tmp_path / "runs/local")  # the same, and each once
    assert set(keys(folder).values()) == {1}
    assert json.loads((folder / "testbeds.json").read_text())["testbeds"].keys() == {"a", "b"}
    for line in lines(folder, "records.jsonl"):
        trials = line["record"]["trials"]
        assert len(trials) == 2
        assert len({trial["evidence"]["testbed"] for trial in trials}) == 1  # not of two hosts
        assert_nothing_is_lost(trials)


def test_repeats_are_spread_where_that_is_asked_for(
    kept_lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["run", "campaign.yaml", "--frame-size", "64,128", *OPTIONS, "--spread"]
    ended(start(environment, tmp_path, *arguments, "--cluster", "lab.toml", "--name", "spread"))
    for line in lines(tmp_path / "runs/spread", "records.jsonl"):
        trials = line["record"]["trials"]
        assert {trial["evidence"]["testbed"] for trial in trials} == {"a", "b"}


def test_an_experiment_of_the_literature_runs_on_a_lab(
    kept_lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    axes = "--switch linux-bridge --semantics learning --frame-size 64,65,128,127 --search fixed"
    axes += " --rate 1k --duration 0.2 --warmup 0 --repeat 1 --cluster lab.toml"
    arguments = ["paper", "emmerich-2014/text-bytes", "--quick", *axes.split(), *OPTIONS]
    output = ended(start(environment, tmp_path, *arguments))
    content = json.loads(output.splitlines()[-1])  # behind the records
    assert content["experiment"] == "emmerich-2014/text-bytes"
    (folder,) = (tmp_path / "runs").iterdir()
    records = [line["record"] for line in lines(folder, "records.jsonl")]
    assert [record["status"] for record in records] == ["ok"] * 4
    trials = [trial for record in records for trial in record["trials"]]
    assert_nothing_is_lost(trials)
    assert {trial["evidence"]["testbed"] for trial in trials} <= {"a", "b"}
    assert json.loads((folder / "testbeds.json").read_text())["testbeds"].keys() == {"a", "b"}


@pytest.mark.alone  # the value is that of all lanes
def test_the_testbeds_of_a_lab_are_prepared_and_restored(
    kept_lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    place = Path("/proc/sys/kernel/randomize_va_space")
    before = place.read_text()
    arguments = ["run", "campaign.yaml", "--prepare", "aslr", *OPTIONS, "--cluster", "lab.toml"]
    objects = [
        json.loads(line) for line in ended(start(environment, tmp_path, *arguments)).splitlines()
    ]
    assert [result["status"] for result in objects] == ["ok"] * len(objects)
    assert {value["now"] for result in objects for value in result["prepared"]} == {"0"}
    assert place.read_text() == before


def test_a_restarted_scheduler_is_found_again(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["run", "campaign.yaml", *OPTIONS, "--cluster", "lab.toml", "--name", "again"]
    run = start(environment, tmp_path, *arguments)
    folder = tmp_path / "runs/again"
    wait_for(lambda: len(lines(folder, "trials.jsonl")) >= 2, "some trials", 60)
    lab.restart_scheduler()
    lab.add("a")
    assert ended(run).count('"status": "ok"') == 4
    assert set(keys(folder).values()) == {1}
    assert len(keys(folder)) == 4


def test_an_interrupted_run_leaves_nothing_on_the_workers_and_goes_on(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["run", "campaign.yaml", *OPTIONS, "--cluster", "lab.toml", "--name", "stopped"]
    run = start(environment, tmp_path, *arguments, "--duration", "60", "--repeat", "1")
    folder = tmp_path / "runs/stopped"
    wait_for(lambda: (folder / "testbeds.json").exists() and of_a_lab(), "both measure", 60)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "kept are 0 of 4 tests" in errors
    assert "switchmark resume runs/stopped --cluster lab.toml" in errors
    assert not of_a_lab()
    refused = subprocess.run(
        [*COMMAND, "resume", "runs/stopped"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert refused.returncode == 2
    assert "--cluster" in refused.stderr


def of_a_lab() -> list[str]:
    """Return the namespaces of all runs, where two paths are up."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    names = re.findall(r"^sm[0-9a-f]{4}-\S+", listed, re.MULTILINE)
    return names if len({name.partition("-")[0] for name in names}) == 2 else []


# --- labs that are started -------------------------------------------------------------------


def one_test(environment: dict[str, str], folder: Path, *arguments: str) -> dict[str, Any]:
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    axes = ["--frame-size", "64", "--repeat", "1", "--cluster", "lab.toml", *OPTIONS]
    run = start(environment, folder, "run", "campaign.yaml", *axes, *arguments)
    (content,) = (json.loads(line) for line in ended(run).splitlines())
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


def test_testbeds_are_reached_by_ssh_and_tls(
    environment: dict[str, str], ssh_host: SshdHost, tmp_path: Path
) -> None:
    near = of_ssh(environment, ssh_host, tmp_path, tls_section(certificates(tmp_path)))
    content = one_test(environment, tmp_path)
    assert content["evidence"][0]["testbed"] == ssh_host.address
    assert f"{near}:" not in ssh_host.exec("ps", "-eo", "args")  # its worker has ended


def test_a_scheduler_listens_only_where_this_host_has_an_address(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "lab.toml").write_text('[local]\ntestbeds = 1\nlisten = "192.0.2.1"\n')
    arguments = [*"run --rate 1k --cluster lab.toml".split(), *OPTIONS]
    run = start(environment, tmp_path, *arguments)
    _, errors = run.communicate(timeout=100)
    assert run.returncode == 3, errors
    assert "no scheduler starts at 192.0.2.1" in errors
    assert "hint: listen: an address of this host" in errors


def test_testbeds_are_jobs_of_slurm(environment: dict[str, str], tmp_path: Path) -> None:
    if lacking := missing():
        pytest.skip(f"not installed: {', '.join(lacking)}: make setup PARTS=labs")
    (tmp_path / "slurm").mkdir()
    (tmp_path / "lab.toml").write_text('[slurm]\ntestbeds = 1\nmemory = "100MB"\n')
    with slurm(tmp_path / "slurm") as variables:
        content = one_test({**environment, **variables}, tmp_path)
    assert "SLURMCluster" in content["evidence"][0]["testbed"]


_NO_CONTROLLER = """\
ClusterName=none
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
NodeName=none
PartitionName=none Nodes=none Default=YES
"""
"""A configuration of Slurm whose controller refuses connections, so that sbatch fails at once: it
waits a minute for a configuration that does not exist."""


def test_a_job_that_slurm_does_not_take_ends_the_run_with_its_words(
    environment: dict[str, str], tmp_path: Path
) -> None:
    if lacking := missing():
        pytest.skip(f"not installed: {', '.join(lacking)}: make setup PARTS=labs")
    (tmp_path / "lab.toml").write_text("[slurm]\n")
    (tmp_path / "slurm.conf").write_text(_NO_CONTROLLER)
    surroundings = {**environment, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    options = [*"run --rate 1k --cluster lab.toml".split(), *OPTIONS]
    _, errors = (run := start(surroundings, tmp_path, *options)).communicate(timeout=100)
    assert run.returncode == 3, errors
    assert "error: Slurm takes no job" in errors
    assert "sbatch: error" in errors
    assert "Traceback" not in errors


def test_two_workers_of_one_host_are_refused(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text("[local]\ntestbeds = 2\n")
    options = [word for word in OPTIONS if word != "--share-machine"]
    options += "--rate 1k --duration 0.2 --repeat 1 --cluster lab.toml".split()
    run = start(environment, tmp_path, "run", *options)
    output, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    message = r"is left out: it is on the same machine as testbed-[12] \(one boot id\)"
    assert re.search(message, errors)  # whichever came first stays
    assert '"shared-machine"' not in output


# --- who may connect -------------------------------------------------------------------------

_ASK = """
import asyncio, os, sys
from distributed.core import rpc
from distributed.security import Security
from switchmark.cluster.certificates import made_for_a_run
from switchmark.cluster.description import Tls

async def ask(address, security):
    try:
        arguments = security.get_connection_args("client")
        async with rpc(address, timeout=5, connection_args=arguments) as peer:
            print(address, (await asyncio.wait_for(peer.identity(), 5))["type"])
    except Exception as error:
        print(repr(error), file=sys.stderr)

async def main(user, given, *ends):
    made = made_for_a_run()
    own = Security(tls_ca_file=made.ca, tls_client_cert=made.cert, tls_client_key=made.key)
    for kind in ("tls", "tcp"):  # imports all that the user may not be able to read
        await ask(f"{kind}://127.0.0.1:1", own if kind == "tls" else Security())
    if user != "0":
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    tls = Tls.model_validate_json(given) if given else made_for_a_run()
    own = Security(tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key)
    asked = [ask(f"tls://{end}", own) for end in ends]
    await asyncio.gather(*asked, *(ask(f"tcp://{end}", Security()) for end in ends))

asyncio.run(main(*sys.argv[1:]))
"""


def answered(ends: Collection[str], *enter: str, user: int = 0, tls: Tls | None = None) -> set[str]:
    """Ask whatever listens at these ends who it is, as a user, from where `enter` leads: without
    TLS, and with these certificates or self-made ones. Return who has answered."""
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
    return {line.split()[1] for line in completed.stdout.splitlines()}


def listening(process: psutil.Process) -> set[str]:
    """Return where a process and those that it started listen."""
    found = set()
    for child in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            for end in child.net_connections("inet"):
                if end.status == psutil.CONN_LISTEN:
                    found.add(f"{end.laddr.ip}:{end.laddr.port}")
    return found


def test_another_user_of_the_host_gets_nothing_from_a_lab_on_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "lab.toml").write_text("[local]\n")
    arguments = "run --switch linux-bridge --rate 1k --duration 60 --cluster lab.toml --name held"
    run = start(environment, tmp_path, *arguments.split(), *OPTIONS)
    wait_for((tmp_path / "runs/held/testbeds.json").exists, "a lab", 100)
    ends = listening(psutil.Process(run.pid))
    strangers = answered(ends, user=7001)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert len(ends) == 4  # of the scheduler and the worker, each with a page that is empty
    assert {end.rpartition(":")[0] for end in ends} == {"127.0.0.1"}
    assert not strangers


def test_who_has_no_certificate_of_it_gets_nothing_from_a_lab_of_ones_own(
    kept_lab: Lab, tmp_path: Path
) -> None:
    wait_for(lambda: len(listening(psutil.Process())) >= 6, "two workers", 60)
    ends = listening(psutil.Process())
    assert {end.rpartition(":")[0] for end in ends} == {"127.0.0.1"}
    assert answered(ends, tls=kept_lab.tls) == {"Scheduler", "Worker"}
    assert not answered(ends)
    assert not answered(ends, user=7001)


def test_who_is_on_the_network_of_a_lab_gets_nothing_from_it(
    environment: dict[str, str], ssh_host: SshdHost, tmp_path: Path
) -> None:
    near, far = of_ssh(environment, ssh_host, tmp_path), ssh_host.address
    arguments = "run --switch linux-bridge --rate 1k --duration 60 --cluster lab.toml --name held"
    run = start(environment, tmp_path, *arguments.split(), *OPTIONS)
    wait_for((tmp_path / "runs/held/testbeds.json").exists, "a lab", 100)
    here = listening(psutil.Process(run.pid))
    sockets = ssh_host.exec("ss", "--no-header", "--listening", "--tcp", "--numeric")
    there = {line.split()[3] for line in sockets.splitlines()} - {f"{far}:22"}
    strangers = answered(there) | answered(here, *ssh_host.enter)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert {end.rpartition(":")[0] for end in here} == {near, "127.0.0.1"}
    assert {end.rpartition(":")[0] for end in there} == {far, "127.0.0.1"}
    assert len([end for end in there if end.startswith(far)]) == 2  # the worker, and who watches it
    assert not strangers
