"""These tests measure one-way latency between two hosts with separate clocks: `b` is a test host in
a time namespace, which shows 1000 s more, and each says that it was booted by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ssh_hosts
from ssh_hosts import SshdHost, write_host_file
from switchmark.cli.steps import plan
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.ssh import SshHost
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.runs.own_run import OwnRun

AHEAD_S = 1000
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Machine(SshHost):
    """A host that claims to be a separate machine."""

    def read(self, path: str) -> bytes:
        return self.name.encode() if path == _BOOT_ID else super().read(path)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SshdHost, SshdHost]]:
    ssh_hosts.require()
    with ssh_hosts.two_hosts(tmp_path_factory.mktemp("hosts"), AHEAD_S) as hosts:
        yield hosts


@pytest.fixture
def cabled(
    machines: tuple[SshdHost, SshdHost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mapping[str, Machine]]:
    a, b = machines
    ends = ("type", "veth", "peer", "name", "cabledb1", "netns", b.netns)
    subprocess.run(("ip", "-n", a.netns, "link", "add", "cableda1", *ends), check=True)
    extra = "".join(
        f'[hosts.{name}.nics]\nuplink = {{name = "cabled{name}1", cable = "a-b"}}\n\n'
        for name in "ab"
    )
    file = write_host_file(tmp_path / "cabled.toml", machines, extra)
    monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(file))
    reached = {
        host.name: Machine(host.name, f"root@{host.address}", host.options) for host in machines
    }
    yield reached
    for host in reached.values():
        host.close()
    a.exec("ip", "link", "del", "cableda1")


def measured(reached: Mapping[str, Machine], folder: Path, hosts: str) -> Record:
    axes = {"locality": "remote", "rate": "2000", "duration": 0.3, "warmup": 0.05, "hosts": hosts}
    with Lab(folder, hosts=Hosts(OwnRun, reached)) as lab:
        record = lab.run(Test.model_validate(axes))
    assert lab.left == ()
    assert record.status == "ok", record.error
    return record


@pytest.mark.parametrize(
    "hosts",
    # Without the correction, and with one of the wrong sign, either has 1000 s or more.
    ["a,b", pytest.param("b,a", marks=pytest.mark.further)],
)
def test_one_way_latency_is_told_between_two_clocks(
    cabled: Mapping[str, Machine], traffic_program: str, tmp_path: Path, hosts: str
) -> None:
    for number in range(5):
        (trial,) = measured(cabled, tmp_path / str(number), hosts).trials
        if trial.latency is not None:
            break
        # On a busy host the clocks are so unsure that each frame may seem to arrive before it went.
        assert trial.evidence.early > 0
        assert "clock" in trial.doubts
    assert trial.unaccounted == 0
    assert set(trial.evidence.clocks) == {"a", "b"}
    unsure = sum(clock.unsure_ns for clock in trial.evidence.clocks.values())
    assert trial.latency is not None
    assert trial.latency.kind == "one-way"
    assert trial.latency.count == trial.distinct > 0
    assert trial.evidence.unsure_ns == unsure > 0
    # By one clock it is some tens of us; without the correction it would be 1000 s, or below 0.
    assert trial.latency.min < 10**9
    assert trial.latency.mean < 10**9
    doubted = trial.evidence.early > 0 or 2 * unsure > trial.latency.mean
    assert ("clock" in trial.doubts) == doubted


def test_the_plan_shows_the_loan_of_the_nics_of_other_hosts(
    cabled: Mapping[str, Machine], tmp_path: Path
) -> None:
    lines = plan(Test.model_validate({"locality": "remote", "hosts": "a,b"}))
    loans = [number for number, line in enumerate(lines) if "for this run (on " in line]
    assert [lines[number] for number in loans] == [
        f"# the MAC of cabled{name}1 for this run (on {name})" for name in "ab"
    ]
    for number, name in zip(loans, "ab", strict=True):
        assert f"# undo: ip link set cabled{name}1 address" in lines[number + 1]
