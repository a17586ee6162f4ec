"""These tests measure through VALE in a VM of the host file whose image has netmap's module: every
frame is accounted for, and no port is left. An emulated VM on a busy host takes its time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import VARIABLE, MachineEntry
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.machines import MachineHost, image_of
from switchmark.hosts.ssh import SshHost
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.runs.own_run import OwnRun
from switchmark.switches import TABLE as SWITCHES

FILE = """
[hosts.m1]
vm = {cores = 2, memory-mb = 1024}
"""

FEWER_BUFFERS = "echo 65536 >/sys/module/netmap/parameters/buf_num"
"""Of interfaces in netmap mode, 4096 each: else they take a third of the VM's memory."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, traffic_program: str) -> Iterator[Hosts]:
    """Return hosts with a VM in a host file, which is booted, and ends with these tests."""
    if os.geteuid() != 0:
        pytest.skip("a run in a VM is root's here")
    try:
        image_of(MachineEntry())
    except Unavailable as error:
        pytest.skip(error.message)
    path = tmp_path_factory.mktemp("netmap") / "host.toml"
    path.write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        with Hosts(OwnRun) as hosts:
            host = hosts["m1"]
            if not host.exists("/dev/netmap"):
                pytest.skip("the image of machines has no module of netmap")
            SWITCHES["vale"].probe(host)
            ENGINES["netmap"].probe(host)
            host.run(("sh", "-c", FEWER_BUFFERS))
            yield hosts


pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def host(hosts: Hosts) -> Iterator[Host]:
    """Return the VM by a connection of its own: that of the lab is for one thread alone."""
    machine = hosts["m1"]
    assert isinstance(machine, MachineHost)
    host = SshHost("m1", machine.address, machine.options)
    yield host
    host.close()


def ports_of(host: Host) -> list[str]:
    """Return the ports of all VALE switches, and interfaces of runs, of every network."""
    there = "for n in '' $(ip netns | cut -d ' ' -f 1); do ${n:+ip netns exec $n} sh -c"
    completed = host.run(("sh", "-c", f"{there} 'vale-ctl; ip -br link'; done"))
    tokens = completed.stdout.decode().splitlines()
    return [line for line in tokens if line.startswith(("vale", "sm"))]


def measured(folder: Path, host_set: Hosts, **axes: Any) -> Record:
    usual = {"switch": "vale", "engine": "netmap", "hosts": "m1"}
    trial = {"rate": "200", "duration": 0.5, "warmup": 0.1}
    with Lab(folder, hosts=host_set) as lab:
        record = lab.run(Test.model_validate({**usual, **trial, **axes}))
    assert lab.left == ()
    return record


CASES: tuple[dict[str, Any], ...] = (
    {"scenario": "p2p"},
    {"scenario": "p2v"},
    {"scenario": "v2v", "direction": "bi"},
    {"scenario": "v2v", "pairs": 2, "frame_size": 1500},
    {"scenario": "v2v", "dimension": "latency"},
    {"scenario": "loopback", "chain": 2},
    {"scenario": "v2v", "environment": "host"},
    {"scenario": "v2v", "port": "veth"},
    {"scenario": "v2v", "port": "veth", "engine": "raw-mmsg", "direction": "bi"},
    {"scenario": "loopback", "semantics": "learning"},
    {"scenario": "loopback", "function": "vale"},
    {"scenario": "v2v", "switch": "linux-bridge", "port": "veth"},
)


@pytest.mark.parametrize("axes", CASES, ids=lambda axes: "-".join(map(str, axes.values())))
def test_every_frame_through_vale_is_accounted_for(
    axes: dict[str, Any], tmp_path: Path, hosts: Hosts, host: Host
) -> None:
    record = measured(tmp_path, hosts, **axes)
    assert record.status == "ok", record.error
    (trial,) = record.trials
    wrong = ("unaccounted", "duplicated", "reordered", "corrupted", "stray", "foreign")
    assert {name: getattr(trial, name) for name in wrong} == dict.fromkeys(wrong, 0)
    assert trial.rx_frames == trial.tx_frames > 0
    assert ports_of(host) == []


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("port", ["netmap", "veth"])
def test_a_killed_sender_fails_its_test_and_leaves_no_port(
    port: str, tmp_path: Path, hosts: Hosts, host: Host
) -> None:
    records: list[Record] = []

    def measure() -> None:
        records.append(measured(tmp_path, hosts, port=port, duration=30, warmup=0.1))

    running = threading.Thread(target=measure)
    running.start()
    until(lambda: sum(line.startswith("vale") for line in ports_of(host)) == 2)
    host.run(("sh", "-c", "kill -9 $(pgrep -f '[s]witchmark-traffic.* serve' | head -1)"))
    running.join()
    (record,) = records
    assert record.status == "failed"
    assert ports_of(host) == []
