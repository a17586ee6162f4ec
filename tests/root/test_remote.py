"""These tests send frames between two test hosts, each a network namespace with an sshd of its own:
all of them are accounted for on both hosts, and nothing is left there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ssh_hosts import SshdHost, write_host_file
from switchmark.lab.measure import Lab
from switchmark.machine.ssh import SshHost
from switchmark.model.record import Record
from switchmark.model.spec import Test

Try = Callable[..., Record]
Pair = tuple[SshdHost, SshdHost]

USUAL = {"locality": "remote", "hosts": "a,b", "rate": "2000", "duration": 0.2, "warmup": 0.05}


def left_on(host: SshdHost) -> list[str]:
    """Return what of a run is on a test host: namespaces, interfaces, files and processes."""
    shown = host.exec("ip", "-o", "link")
    links = [line for line in shown.splitlines() if ": sm" in line]
    ssh = host.connect()
    try:
        spaces = ssh.run(("ip", "netns", "list")).stdout.decode().split()
        files = ssh.run(("find", "/run/switchmark", "-mindepth", "2")).stdout.decode().split()
        ended = ssh.run(("pgrep", "-f", "switchmark-traffic serve")).stdout.decode().split()
        return [*links, *spaces, *files, *ended]
    finally:
        ssh.close()


@pytest.fixture
def connected(ssh_hosts: Pair) -> Iterator[Mapping[str, SshHost]]:
    hosts = {host.name: host.connect() for host in ssh_hosts}
    yield hosts
    for host in hosts.values():
        host.close()


@pytest.fixture
def attempt(connected: Mapping[str, SshHost], traffic_program: str, tmp_path: Path) -> Try:
    def measure(**axes: Any) -> Record:
        with Lab(tmp_path, hosts=connected) as lab:
            record = lab.run(Test.model_validate({**USUAL, **axes}))
        assert lab.left == ()
        return record

    return measure


def assert_accounted(record: Record) -> None:
    """Check that every frame that was sent arrived or was counted where it was lost, and that what
    left a host came in at the other."""
    assert record.status == "ok", record.error
    (trial,) = record.trials
    assert trial.tx_frames > 0
    assert trial.unaccounted == 0
    balance = {str(place): each for place, each in trial.evidence.balance.items()}
    cables = [each for place, each in balance.items() if place.startswith("cable ")]
    assert cables
    assert all(each.entered == each.left for each in cables)
    assert sum(each.entered for each in cables) >= trial.distinct
    assert set(record.cables or ()) == {place.removeprefix("cable ") for place in balance} & {
        f"u{number}" for number in range(8)
    }


@pytest.mark.parametrize(
    "axes",
    [
        {"switch": "linux-bridge"},
        {"switch": "linux-bridge", "pairs": 2, "direction": "bi"},
        {"switch": "ip-forward", "pairs": 2},
        {"switch": "macvlan"},
        {"switch": "ovs"},
        {"switch": "linux-bridge", "scenario": "p2p", "engine": "udp"},
    ],
    ids=lambda axes: "-".join(str(value) for value in axes.values()),
)
def test_accounts_for_every_frame_between_two_hosts(
    attempt: Try, ssh_hosts: Pair, axes: Mapping[str, Any]
) -> None:
    record = attempt(**axes)
    assert_accounted(record)
    assert "hosts-share-machine" in record.doubts
    assert all("emulated" in told for told in (record.cables or {}).values())
    for host in ssh_hosts:
        assert left_on(host) == []


def test_a_round_trip_crosses_both_switches_twice(attempt: Try) -> None:
    record = attempt(dimension="latency", rate="500")
    assert record.status == "ok", record.error
    (trial,) = record.trials
    assert trial.latency is not None
    assert trial.latency.kind == "rtt"
    assert trial.latency.count == trial.distinct > 0
    balance = {str(place): each for place, each in trial.evidence.balance.items()}
    for place in ("inside switch a", "inside switch b", "cable u0"):
        assert balance[place].left >= 2 * trial.distinct


def test_the_command_line_measures_between_hosts_of_the_host_file(
    ssh_hosts: Pair, traffic_program: str, tmp_path: Path
) -> None:
    file = write_host_file(tmp_path / "host.toml", ssh_hosts)
    words = "--locality remote --hosts a,b --rate 2000 --duration 0.2 --warmup 0.05 --repeat 1"
    done = subprocess.run(
        (
            *(sys.executable, "-m", "switchmark", "run", *words.split(), "--json", "--quiet"),
            *("--calibrate", "never", "--host-file", str(file), "--out", str(tmp_path / "runs")),
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["unaccounted"] == 0
    assert told["test"]["hosts"] == "a,b"
    assert list(told["cables"]) == ["u0"]
    (folder,) = (tmp_path / "runs").iterdir()
    facts = json.loads((folder / "host.json").read_text())
    assert set(facts["hosts"]) == {"a", "b"}
    for host in ssh_hosts:
        assert left_on(host) == []
