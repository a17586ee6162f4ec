"""These tests send frames between two test hosts, which are network namespaces with an sshd. All
frames are accounted for on both hosts, and nothing is left there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from host_state import wait_for
from ssh_hosts import SshdHost, left_on, write_host_file
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.ssh import SshHost
from switchmark.lab.measure import Lab
from switchmark.lab.trial import Trials
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.runs.clean import clean
from switchmark.runs.own_run import OwnRun

Try = Callable[..., Record]
Cli = Callable[..., tuple[int, str, str]]
Pair = tuple[SshdHost, SshdHost]
Connected = Mapping[str, SshHost]

USUAL = {"locality": "remote", "hosts": "a,b", "rate": "2000", "duration": 0.2, "warmup": 0.05}


@pytest.fixture(scope="module")
def connected(ssh_hosts: Pair) -> Iterator[Connected]:
    """Connect the test hosts for all tests; a connection that a test ends is made again."""
    hosts = {host.name: host.connect() for host in ssh_hosts}
    yield hosts
    for host in hosts.values():
        host.close()


@pytest.fixture
def attempt(connected: Connected, traffic_program: str, tmp_path: Path) -> Try:
    def measure(**axes: Any) -> Record:
        record, is_undone = measured(connected, tmp_path, **axes)
        assert is_undone
        return record

    return measure


def measured(hosts: Connected, folder: Path, **axes: Any) -> tuple[Record, bool]:
    """Measure between hosts; return the record, and whether everything was undone."""
    with Lab(folder, hosts=Hosts(OwnRun, hosts)) as lab:
        record = lab.run(Test.model_validate({**USUAL, **axes}))
    return record, lab.left == ()


def assert_nothing_is_left(hosts: Pair, connected: Connected) -> None:
    def is_clean() -> bool:
        return not any(left_on(host, connected[host.name]) for host in hosts)

    wait_for(is_clean, "an end of all that was made there", 20)


def assert_accounted(record: Record) -> None:
    """Check that every frame that was sent arrived or was counted where it was lost, and that what
    left a host came in at the other."""
    assert record.status == "ok", record.error
    (trial,) = record.trials
    assert trial.tx_frames > 0
    assert trial.unaccounted == 0
    balance = {str(place): value for place, value in trial.evidence.balance.items()}
    cables = [value for place, value in balance.items() if place.startswith("cable ")]
    assert cables
    assert all(cable.entered == cable.left for cable in cables)
    assert sum(cable.entered for cable in cables) >= trial.distinct
    assert set(record.cables or ()) == {place.removeprefix("cable ") for place in balance} & {
        f"u{number}" for number in range(8)
    }


def assert_each_switch_is_crossed_twice(record: Record) -> None:
    """Check that the frames of a round trip cross the switches and the cable there and back."""
    (trial,) = record.trials
    assert trial.latency is not None
    assert trial.latency.kind == "rtt"
    assert trial.latency.count == trial.distinct > 0
    balance = {str(place): value for place, value in trial.evidence.balance.items()}
    for place in ("inside switch a", "inside switch b", "cable u0"):
        assert balance[place].left >= 2 * trial.distinct


@pytest.mark.parametrize(
    "axes",
    [
        {"switch": "ip-forward", "pairs": 2, "direction": "bi"},
        {"switch": "macvlan"},
        # Its paths between two hosts are those of the router and of p2p.
        pytest.param(
            {"switch": "linux-bridge", "pairs": 2, "direction": "bi"}, marks=pytest.mark.further
        ),
        # OVS is between two hosts over a cable of the host file below.
        pytest.param({"switch": "ovs"}, marks=pytest.mark.further),
        {"switch": "linux-bridge", "scenario": "p2p", "engine": "udp"},
    ],
    ids=lambda axes: "-".join(str(value) for value in axes.values()),
)
def test_accounts_for_every_frame_between_two_hosts(
    attempt: Try, ssh_hosts: Pair, connected: Connected, axes: Mapping[str, Any]
) -> None:
    record = attempt(**axes)
    assert_accounted(record)
    assert "hosts-share-machine" in record.doubts
    assert all("emulated" in cable for cable in (record.cables or {}).values())
    assert_nothing_is_left(ssh_hosts, connected)


@pytest.fixture
def cabled(
    ssh_hosts: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mapping[str, str]]:
    """Connect the test hosts by NICs that the host file names, and return the NICs."""
    nics = {"a": "cableda0", "b": "cabledb0"}
    a, b = ssh_hosts
    ends = ("type", "veth", "peer", "name", nics["b"], "netns", b.netns)
    subprocess.run(("ip", "-n", a.netns, "link", "add", nics["a"], *ends), check=True)
    extra = "".join(
        f'[hosts.{name}.nics]\nuplink = {{name = "{nic}", cable = "a-b"}}\n\n'
        for name, nic in nics.items()
    )
    file = write_host_file(tmp_path / "cabled.toml", ssh_hosts, extra)
    monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(file))
    yield nics
    a.exec("ip", "link", "del", nics["a"])


# On one host, test_command lends NICs to the bridge and the router, too.
@pytest.mark.parametrize(
    "switch",
    [
        pytest.param("linux-bridge", marks=pytest.mark.further),
        pytest.param("ip-forward", marks=pytest.mark.further),
        "ovs",
        "direct",
    ],
)
def test_nics_that_the_host_file_cables_are_borrowed_and_given_back(
    attempt: Try, ssh_hosts: Pair, connected: Connected, cabled: Mapping[str, str], switch: str
) -> None:
    def links() -> list[str]:
        outputs = [host.exec("ip", "-br", "link", "show", cabled[host.name]) for host in ssh_hosts]
        return [re.sub("@if[0-9]+", "", line) for line in outputs]  # numbers change where NICs go

    before = links()
    if switch == "direct":  # the functions open the cable itself
        record = attempt(switch=switch)
        assert record.status == "ok", record.error
        assert record.trials[0].unaccounted == 0 < record.trials[0].distinct
    else:
        record = attempt(switch=switch, dimension="latency", rate="500")
        assert_accounted(record)
        assert_each_switch_is_crossed_twice(record)
    assert not any("emulated" in cable for cable in (record.cables or {}).values())
    assert links() == before
    assert_nothing_is_left(ssh_hosts, connected)


def test_a_cabled_nic_in_use_is_refused(
    attempt: Try, ssh_hosts: Pair, cabled: Mapping[str, str]
) -> None:
    ssh_hosts[1].exec("ip", "addr", "add", "192.0.2.1/24", "dev", cabled["b"])
    record = attempt()
    assert record.status != "ok"
    assert f"the NIC {cabled['b']} is in use: it has the address 192.0.2.1" in (record.error or "")


def test_the_command_line_measures_between_hosts_of_the_host_file(
    ssh_hosts: Pair,
    connected: Connected,
    traffic_program: str,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = write_host_file(tmp_path / "host.toml", ssh_hosts)
    monkeypatch.setenv(VARIABLE, os.devnull)  # the command sets it
    arguments = "--locality remote --hosts a,b --rate 2000 --duration 0.2 --warmup 0.05 --repeat 1"
    options = ("--json", "--quiet", "--calibrate", "never", "--host-file", file, "--out", "runs")
    code, output, errors = cli("run", *arguments.split(), *options)
    assert code == 0, errors
    content = json.loads(output)
    assert content["unaccounted"] == 0
    assert content["test"]["hosts"] == "a,b"
    assert list(content["cables"]) == ["u0"]
    (folder,) = (tmp_path / "runs").iterdir()
    facts = json.loads((folder / "host.json").read_text())
    assert set(facts["hosts"]) == {"a", "b"}
    assert_nothing_is_left(ssh_hosts, connected)


def test_a_connection_that_drops_in_a_trial_names_its_host_and_leaves_nothing(
    ssh_hosts: Pair, connected: Connected, attempt: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    phase, dropped = Trials._phase, ssh_hosts[1]

    def cut(self: Trials, name: str, *arguments: Any, **named: Any) -> None:
        dropped.drop_connections()
        phase(self, name, *arguments, **named)

    monkeypatch.setattr(Trials, "_phase", cut)
    record = attempt()
    assert record.status == "failed"
    assert re.search(r"\b(host|on) b\b", record.error or ""), record.error
    assert_nothing_is_left(ssh_hosts, connected)


# The connection that drops above is that of b.
@pytest.mark.parametrize("lost", ["a", pytest.param("b", marks=pytest.mark.further)])
def test_a_host_that_is_lost_is_named_and_cleaned_when_it_is_back(
    ssh_hosts: Pair,
    traffic_program: str,
    tmp_path: Path,
    lost: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The changes on the other host are undone at once."""
    phase = Trials._phase
    gone, stays = sorted(ssh_hosts, key=lambda host: host.name != lost)

    def cut(self: Trials, name: str, *arguments: Any, **named: Any) -> None:
        gone.die()
        phase(self, name, *arguments, **named)

    monkeypatch.setattr(Trials, "_phase", cut)
    with ExitStack() as stack:
        hosts = {host.name: host.connect() for host in ssh_hosts}
        for host in hosts.values():
            stack.callback(host.close)
        record, is_undone = measured(hosts, tmp_path)
        assert not is_undone
        assert record.status == "failed"
        assert re.search(rf"\b(host|on) {lost}\b", record.error or ""), record.error
        assert left_on(stays) == []
    gone.boot()
    back = gone.connect()
    try:
        states = [result.state for result in clean(hosts={lost: back})]
    finally:
        back.close()
    assert [state for state in states if state != "live"] == ["cleaned"]
    assert left_on(gone) == []
