"""These tests measure real frames on a host that is reached by ssh: every frame is accounted for,
and nothing is left there."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from host_state import wait_for
from ssh_hosts import SshdHost, left_on, write_host_file
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.programs import TRAFFIC
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.runs import measuring
from switchmark.runs.own_run import OwnRun

Try = Callable[..., Record]
Cli = Callable[..., tuple[int, str, str]]

USUAL = {"hosts": "a", "rate": "2000", "duration": 0.15, "warmup": 0.05}


@pytest.fixture(scope="module")
def kept_file(ssh_host: SshdHost, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host_file(tmp_path_factory.mktemp("file") / "host.toml", [ssh_host])


@pytest.fixture
def host_file(kept_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(kept_file))
    return kept_file


@pytest.fixture(scope="module")
def kept_hosts(kept_file: Path) -> Iterator[Hosts]:
    """Return hosts whose connections stay for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(kept_file))
        with Hosts(OwnRun) as hosts:
            yield hosts


@pytest.fixture
def attempt(kept_hosts: Hosts, host_file: Path, traffic_program: str, tmp_path: Path) -> Try:
    def measure(**axes: Any) -> Record:
        with Lab(tmp_path, hosts=kept_hosts) as lab:
            record = lab.run(Test.model_validate({**USUAL, **axes}))
        assert lab.left == ()
        return record

    return measure


def assert_nothing_is_left(host: SshdHost, connection: Host) -> None:
    wait_for(lambda: left_on(host, connection) == [], "an end of all that was made there", 20)


def assert_measured_there(record: Record, host: SshdHost, folder: Path, connection: Host) -> None:
    assert record.status == "ok", record.error
    (trial,) = record.trials
    assert trial.tx_frames > 0
    assert trial.unaccounted == 0
    assert trial.latency is not None
    steps = (folder / "logs" / "steps.sh").read_text().splitlines()
    reasons = [line for line in steps if line.startswith("# ")]
    assert reasons
    assert all(line.endswith(f"(on {host.name})") for line in reasons)
    assert_nothing_is_left(host, connection)


@pytest.mark.parametrize(
    "axes",
    [
        {
            "switch": "ip-forward",
            "direction": "bi",
            "pairs": 2,
            "scenario": "loopback",
            "engine": "mmap",
        },
        {"switch": "xdp-redirect", "placement": "shared-process", "engine": "udp-mmsg"},
        # The host has a kernel and a ledger of leases of its own, as far as runs know: what another
        # lane has reserved seems to be free.
        pytest.param({"switch": "ovs-dpdk", "engine": "dpdk"}, marks=pytest.mark.alone),
        {"switch": "linux-bridge", "environment": "lxc", "switch_environment": "lxc"},
        {"switch": "tc-redirect", "environment": "docker"},
        # test_containers.py has podman on this host, and docker is reached there in the same way.
        pytest.param(
            {"switch": "linux-bridge", "environment": "podman"}, marks=pytest.mark.further
        ),
    ],
    ids=lambda axes: "-".join(str(value) for value in axes.values()),
)
def test_a_whole_test_is_measured_on_another_host(
    attempt: Try, kept_hosts: Hosts, ssh_host: SshdHost, tmp_path: Path, axes: Mapping[str, Any]
) -> None:
    assert_measured_there(attempt(**axes), ssh_host, tmp_path, kept_hosts[ssh_host.name])


_NAMED = """\
set -e
mkdir -p /run/opt/bin /run/opt/sbin
for it in "$@"; do
  name=${it##*/}
  printf '#!/bin/sh\necho %s >>/run/opt/ran\n' "$name" >"/run/opt/sbin/$name"
  if [ "$name" = ovs-vswitchd ]; then
    printf '[ "$1" != --version ] || { echo "ovs-vswitchd (Open vSwitch) 9.9.9"; exit 0; }\n'
  fi >>"/run/opt/sbin/$name"
  printf 'exec %s "$@"\n' "$it" >>"/run/opt/sbin/$name"
  chmod 755 "/run/opt/sbin/$name"
done
mv /run/opt/sbin/ovs-vsctl /run/opt/sbin/ovs-appctl /run/opt/bin
"""
"""It makes programs in the /run that the test host alone has: each notes that it ran."""

_OVS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-appctl")


@pytest.mark.parametrize("switch", [pytest.param("ovs", marks=pytest.mark.further), "ovs@9.9"])
def test_programs_that_the_host_file_names_are_those_that_run(
    ssh_host: SshdHost,
    traffic_program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    switch: str,
) -> None:
    programs = {switch: "/run/opt", "traffic": "/run/opt"}
    lines = "".join(f'"{name}" = "{path}"\n' for name, path in programs.items())
    file = write_host_file(
        tmp_path / "host.toml", [ssh_host], f"[hosts.{ssh_host.name}.programs]\n{lines}"
    )
    monkeypatch.setenv(VARIABLE, str(file))
    there = ssh_host.connect()
    try:
        tools = [shutil.which(name) for name in _OVS]
        assert all(tools), "apt-get install openvswitch-switch"
        completed = there.run(("sh", "-c", _NAMED, "sh", *map(str, tools), traffic_program))
        assert completed.status == 0, completed.stderr
        with Lab(tmp_path) as lab:
            axes = {"switch": switch, "dimension": "latency", "rate": "500"}
            record = lab.run(Test.model_validate({**USUAL, **axes}))
        assert lab.left == ()
        assert_measured_there(record, ssh_host, tmp_path, there)
        assert record.switch_version == "9.9.9"
        assert {*there.read("/run/opt/ran").decode().split()} == {*_OVS, TRAFFIC}
    finally:
        there.run(("rm", "-rf", "/run/opt"))
        there.close()


@pytest.mark.further  # test_remote.py has the command line, and test_prepare.py with one host
def test_the_command_line_measures_on_a_host_of_the_host_file(
    host_file: Path, ssh_host: SshdHost, traffic_program: str, cli: Cli, tmp_path: Path
) -> None:
    arguments = "--rate 2000 --duration 0.15 --warmup 0.05 --repeat 1 --calibrate never --hosts a"
    code, output, errors = cli("run", *arguments.split(), "--json", "--quiet", "--out", "runs")
    assert code == 0, errors
    content = json.loads(output)
    assert content["unaccounted"] == 0
    assert content["test"]["hosts"] == "a"
    (folder,) = (tmp_path / "runs").iterdir()
    assert set(json.loads((folder / "host.json").read_text())["hosts"]) == {"a"}
    assert left_on(ssh_host) == []


def test_doctor_tells_what_a_host_of_the_host_file_can_do(
    host_file: Path, ssh_host: SshdHost, traffic_program: str, cli: Cli
) -> None:
    code, output, _ = cli("doctor", "--host", "a", "--json")
    findings = {finding["name"]: finding for finding in json.loads(output)}
    assert code == 0, [finding for finding in findings.values() if not finding["ok"]]
    assert findings["linux-bridge"]["ok"]
    assert left_on(ssh_host) == []


def test_the_lock_of_another_machine_is_held_and_waited_for(
    host_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    lock.write_text("pid 7, somebody")
    monkeypatch.setattr(measuring, "_FILE", str(lock))
    monkeypatch.delenv(measuring.VARIABLE, raising=False)
    holders: list[str] = []
    with Hosts(OwnRun) as hosts, lock.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def release(holder: str) -> None:
            holders.append(holder)
            fcntl.flock(other, fcntl.LOCK_UN)

        with measuring._alone_there(hosts["a"], "this test", False, release):
            assert holders == ["pid 7, somebody (on a)"]
            assert lock.read_text() == "this test"
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with measuring._alone_there(hosts["a"], "a guest", True, release):
                assert lock.read_text() == "this test"
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert lock.read_text() == ""
