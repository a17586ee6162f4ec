"""These tests boot VMs of the host file (Debian under QEMU, with separate kernels), and measure in
one VM and between two. An emulated one on a busy host takes its time."""

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
from switchmark.hosts.base import boot_id
from switchmark.hosts.host_file import VARIABLE, MachineEntry
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.machines import MachineHost, image_of
from switchmark.hosts.processes import marked
from switchmark.hosts.qemu import qemu
from switchmark.lab.measure import Lab
from switchmark.model.cpus import Pin
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.runs.clean import clean, clean_there
from switchmark.runs.own_run import OwnRun

FILE = """
[hosts.m1]
vm = {cores = 2, memory-mb = 3072, iommu = true}
nics.uplink = {name = "up0", cable = "c"}
nics.sriov = {name = "pf0", model = "igb", cable = "s"}

[hosts.m2]
vm = {cores = 2, memory-mb = 3072}
nics.uplink = {name = "up1", cable = "c"}
nics.sriov = {name = "pf1", model = "igb", cable = "s"}
"""
WITHOUT_IGB = FILE.replace(', model = "igb"', "")
"""QEMU has that NIC since 8.0."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Return hosts with two machines in a host file; they are booted when they are used, and end
    with these tests."""
    try:
        image_of(MachineEntry())
    except Unavailable as error:
        pytest.skip(error.message)
    if os.geteuid() != 0:
        pytest.skip("a run on machines is root's here")
    path = tmp_path_factory.mktemp("machines") / "host.toml"
    output = LocalHost().run((qemu(), "-device", "igb,help")).stdout  # its status is always 0
    path.write_text(FILE if output else WITHOUT_IGB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        with Hosts(OwnRun) as hosts:
            yield hosts


pytestmark = [pytest.mark.usefixtures("hosts"), pytest.mark.timeout(1800)]


def machine(hosts: Hosts, name: str) -> MachineHost:
    host = hosts[name]
    assert isinstance(host, MachineHost)
    return host


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_machine_has_a_kernel_and_nics_of_its_own(hosts: Hosts) -> None:
    host = machine(hosts, "m1")
    assert boot_id(host) != boot_id(LocalHost())
    links = host.run(("ip", "-br", "link")).stdout.decode().split()
    assert {"lo", "ssh0", "up0"} <= set(links)
    assert host.exists("/sys/module/openvswitch")


def measured(folder: Path, host_set: Hosts, **axes: object) -> Record:
    usual = {"hosts": "m1", "rate": "200", "duration": 0.5, "warmup": 0.1}
    with Lab(folder, hosts=host_set) as lab:
        record = lab.run(Test.model_validate({**usual, **axes}))
    assert lab.left == ()
    return record


@pytest.mark.parametrize(
    ("switch", "mode"), [("linux-bridge", None), ("ip-forward", None), ("ovs", "kernel")]
)
def test_every_frame_in_a_machine_is_accounted_for(
    switch: str, mode: str | None, traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    record = measured(tmp_path, hosts, switch=switch)
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


@pytest.mark.parametrize("engine", ["raw-mmsg", "dpdk"])
def test_virtual_functions_forward_in_a_machine(
    engine: str, traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    host = machine(hosts, "m1")
    if engine == "dpdk" and not host.inodes("/usr/lib/*/dpdk/pmds-*/librte_net_e1000.so.*"):
        pytest.skip("the image of machines has no driver of DPDK for igb")
    record = measured(tmp_path, hosts, switch="sriov", engine=engine)
    if not host.exists("/sys/class/net/pf0/device/sriov_totalvfs"):
        assert record.status == "refused"
        assert "no virtual functions" in str(record.error)
        return
    assert record.status == "ok", record.error
    assert record.switch_mode == "pf0, 7 VFs, from 0000:02:10.0 by 2"
    (trial,) = record.trials
    assert trial.unaccounted == 0
    assert trial.distinct == trial.tx_frames > 0


@pytest.mark.parametrize("dimension", ["throughput", "latency"])
def test_frames_between_two_machines_are_accounted_for_on_both(
    dimension: str, traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    record = measured(tmp_path, hosts, hosts="m1,m2", locality="remote", dimension=dimension)
    assert record.status == "ok", record.error
    assert boot_id(machine(hosts, "m1")) != boot_id(machine(hosts, "m2"))
    assert record.cables == {"u0": "m1 up0, m2 up1: emulated, a socket between two QEMUs"}
    (trial,) = record.trials
    assert trial.unaccounted == 0
    assert trial.distinct == trial.tx_frames > 0
    balance = {str(place): value for place, value in trial.evidence.balance.items()}
    for place in ("inside switch m1", "cable u0", "inside switch m2"):
        assert balance[place].entered == balance[place].left >= trial.tx_frames
    assert "hosts-share-machine" in record.doubts
    for clock in trial.evidence.clocks.values():
        assert clock.unsure_ns > 0
    if dimension == "latency":
        assert trial.latency is not None
        assert trial.latency.kind == "rtt"
    else:
        assert set(trial.evidence.clocks) == {"m1", "m2"}
        assert trial.latency is not None or "clock" in record.doubts


def test_virtual_functions_of_two_machines_meet_over_their_cable(
    traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    axes = {"hosts": "m1,m2", "locality": "remote", "switch": "sriov", "pairs": 2}
    record = measured(tmp_path, hosts, **axes)
    if not machine(hosts, "m2").exists("/sys/class/net/pf1/device/sriov_totalvfs"):
        assert record.status == "refused"
        assert "no virtual functions" in str(record.error)
        return
    assert record.status == "ok", record.error
    assert record.cables == {"u0": "m1 pf0, m2 pf1: emulated, a socket between two QEMUs"}
    (trial,) = record.trials
    assert trial.unaccounted == 0
    assert trial.distinct == trial.tx_frames > 0
    for name, nic in (("m1", "pf0"), ("m2", "pf1")):
        left = machine(hosts, name).read(f"/sys/class/net/{nic}/device/sriov_numvfs")
        assert left == b"0\n"


def test_a_switch_on_dpdk_opens_the_nic_of_the_cable_by_its_driver(
    traffic_program: str, tmp_path: Path, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = machine(hosts, "m1")
    program = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    if not (host.exists(program) and host.inodes("/usr/lib/*/dpdk/pmds-*/librte_net_virtio.so.*")):
        pytest.skip("the image of machines has no OVS with DPDK and its driver of virtio")
    links = [host.run(("readlink", "-f", "/sys/class/net/up0/device"))]
    links += [machine(hosts, "m2").run(("readlink", "-f", "/sys/class/net/up1/device"))]
    addresses = [link.stdout.decode().split("/")[-2] for link in links]
    path = tmp_path / "host.toml"
    content = FILE
    for number, address in enumerate(addresses):
        by = f'cable = "c", pci = "{address}", driver = "uio_pci_generic"'
        content = content.replace(f'"up{number}", cable = "c"', f'"up{number}", {by}')
    path.write_text(content)
    monkeypatch.setenv(VARIABLE, str(path))
    axes = {"hosts": "m1,m2", "locality": "remote", "switch": "ovs-dpdk", "engine": "dpdk"}
    record = measured(tmp_path, hosts, **axes)
    assert record.status == "ok", record.error
    near, far = addresses
    assert record.cables == {"u0": f"m1 {near}, m2 {far}: emulated, a socket between two QEMUs"}
    assert {str(end) for end in record.nics} == {"m1:u0@switch", "m2:u0@switch"}
    (trial,) = record.trials
    assert trial.unaccounted == 0
    assert trial.distinct == trial.tx_frames > 0
    for name, nic in (("m1", "up0"), ("m2", "up1")):
        assert nic in machine(hosts, name).run(("ip", "-br", "link")).stdout.decode()


def test_the_kernels_ovs_spreads_flows_over_cpus(
    traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    record = measured(tmp_path, hosts, switch="ovs", semantics="static", flows=8, switch_cores=2)
    assert record.status == "ok", record.error
    assert record.switch_mode == "kernel"
    (trial,) = record.trials
    assert trial.unaccounted == 0
    assert trial.distinct == trial.tx_frames > 0
    assert record.placement is not None
    assert isinstance(record.placement.seats["switch"], Pin)
    assert len(record.placement.seats["switch"].cpus) == 2


def test_a_machine_is_prepared_and_restored(
    traffic_program: str, tmp_path: Path, hosts: Hosts
) -> None:
    host, place = machine(hosts, "m1"), "/proc/sys/kernel/randomize_va_space"
    before = host.read(place)
    record = measured(tmp_path, hosts, prepare="aslr")
    assert record.status == "ok", record.error
    assert record.prepared is not None
    assert [(value.host, value.was, value.now) for value in record.prepared] == [("m1", "2", "0")]
    assert host.read(place) == before == b"2\n"


def test_a_machine_that_ends_is_named_and_booted_anew(hosts: Hosts) -> None:
    host = machine(hosts, "m1")
    before = boot_id(host)
    _, pid = booted_at(host.address)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not host.up)
    with pytest.raises(HostLost, match="m1"):
        host.run(("true",))
    assert boot_id(host) != before


LEADER = """
from switchmark.hosts.hosts import Hosts
from switchmark.runs.own_run import OwnRun
hosts = Hosts(OwnRun)
host = hosts["m1"]
print(host.run(("uname", "-n")).stdout.decode().strip(), host.address, flush=True)
import time
time.sleep(60)
"""


def test_a_machine_ends_with_who_booted_it_however_that_dies() -> None:
    leader = subprocess.Popen((sys.executable, "-c", LEADER), stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    name, address = leader.stdout.readline().split()
    assert name == "machine"
    run, _ = booted_at(address)
    leader.kill()
    leader.wait()
    leader.stdout.close()
    until(lambda: not marked(run))
    states = {result.run: result.state for result in clean(runs=[run], hosts=Hosts(OwnRun))}
    assert states == {run: "cleaned"}
    assert not Path("/run/switchmark", run).exists()


def booted_at(address: str) -> tuple[str, int]:
    """Return the run of the machine that is reached at an address, and the process that it is."""
    (found,) = (
        (path.name, pid)
        for path in Path("/run/switchmark").glob("sm*")
        for pid, _ in marked(path.name)
        if f":{address.rpartition(':')[2]}-:22" in command_line(pid)
    )
    return found


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
