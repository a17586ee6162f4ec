"""These tests boot VMs of the host file, each a Debian under QEMU with a kernel of its own, and
measure in one. An emulated one on a busy host takes its time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switchmark.errors import HostLost, Unavailable
from switchmark.lab.measure import Lab
from switchmark.machine.clean import clean, clean_there
from switchmark.machine.facts import boot_id
from switchmark.machine.guest_machine import image_of
from switchmark.machine.host import LocalHost
from switchmark.machine.host_file import VARIABLE, MachineEntry
from switchmark.machine.hosts import Hosts
from switchmark.machine.machines import MachineHost, end_machines
from switchmark.machine.processes import marked
from switchmark.model.record import Record
from switchmark.model.spec import Test

FILE = """
[hosts.m1]
vm = {cores = 2, memory-mb = 1024}
nics.uplink = {name = "up0"}
"""


@pytest.fixture(scope="module")
def _machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Name two machines in a host file; they are booted when they are used, and end with these
    tests."""
    try:
        image_of(MachineEntry())
    except Unavailable as error:
        pytest.skip(error.message)
    if os.geteuid() != 0:
        pytest.skip("a run on machines is root's here")
    path = tmp_path_factory.mktemp("machines") / "host.toml"
    path.write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        yield
        end_machines()


pytestmark = [pytest.mark.usefixtures("_machines"), pytest.mark.timeout(600)]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with Hosts() as hosts:
        yield hosts


def machine(hosts: Hosts, name: str) -> MachineHost:
    host = hosts[name]
    assert isinstance(host, MachineHost)
    return host


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_machine_has_a_kernel_and_nics_of_its_own(hosts: Hosts) -> None:
    host = machine(hosts, "m1")
    assert boot_id(host) != boot_id(LocalHost())
    links = host.run(("ip", "-br", "link")).stdout.decode().split()
    assert {"lo", "ssh0", "up0"} <= set(links)
    assert host.exists("/sys/module/openvswitch")


def measured(folder: Path, **axes: object) -> Record:
    usual = {"hosts": "m1", "rate": "200", "duration": 0.5, "warmup": 0.1}
    with Lab(folder) as lab:
        record = lab.run(Test.model_validate({**usual, **axes}))
    assert lab.left == ()
    return record


@pytest.mark.parametrize(
    ("switch", "mode"), [("linux-bridge", None), ("ip-forward", None), ("ovs", "kernel")]
)
def test_every_frame_in_a_machine_is_accounted_for(
    switch: str, mode: str | None, traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    record = measured(tmp_path, switch=switch)
    assert record.status == "ok", record.error
    assert record.switch_mode == mode
    (trial,) = record.trials
    assert trial.unaccounted == 0
    assert trial.distinct == trial.tx_frames > 0
    host = machine(hosts, "m1")
    assert ("emulated" in record.doubts) == bool(host.emulated)
    links = host.run(("ip", "-br", "link")).stdout.decode()
    assert not [line for line in links.splitlines() if line.startswith("sm")]
    assert clean_there(host) == []


def test_a_machine_that_ends_is_named_and_booted_anew(hosts: Hosts) -> None:
    host = machine(hosts, "m1")
    before = boot_id(host)
    ((pid, _),) = [each for run in runs_here() for each in marked(run) if "m1" in words(each[0])]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not host.up)
    with pytest.raises(HostLost, match="m1"):
        host.run(("true",))
    assert boot_id(host) != before


LEADER = """
from switchmark.machine.hosts import Hosts
host = Hosts()["m1"]
print(host.run(("uname", "-n")).stdout.decode().strip(), flush=True)
import time
time.sleep(60)
"""


def test_a_machine_ends_with_who_booted_it_however_that_dies() -> None:
    before = set(runs_here())
    leader = subprocess.Popen((sys.executable, "-c", LEADER), stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    assert leader.stdout.readline() == "machine\n"
    (run,) = set(runs_here()) - before
    assert marked(run)
    leader.kill()
    leader.wait()
    leader.stdout.close()
    until(lambda: not marked(run))
    states = {each.run: each.state for each in clean(runs=[run], hosts=Hosts())}
    assert states == {run: "cleaned"}
    assert not Path("/run/switchmark", run).exists()


def runs_here() -> list[str]:
    return [path.name for path in Path("/run/switchmark").glob("sm*")]


def words(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
