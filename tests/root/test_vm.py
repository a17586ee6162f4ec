"""These tests run virtual machines: real frames in real guests, and guests that do not come up."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from real_frames import (
    Measure,
    assert_every_frame_is_accounted_for,
    assert_nothing_is_lost,
    measuring,
)
from switchmark.environments import vm
from switchmark.errors import Unavailable
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.path.refusals import check
from switchmark.runs.own_run import OwnRun
from switchmark.switches import TABLE as SWITCHES
from truths import killed, measured_phases

QEMU = "qemu-system-x86"
"""The part of its name that the kernel keeps."""


@pytest.fixture(autouse=True)
def _usable() -> None:
    try:
        vm.ENVIRONMENT.probe(LocalHost())
    except Unavailable as missing:
        pytest.skip(missing.message)


def machines(**axes: Any) -> Test:
    quick = {"environment": "vm", "rate": "500", "duration": 0.6, "warmup": 0.2}
    return Test(**{**quick, **axes})


def run_in(folder: Path, test: Test) -> Record:
    assert check(test) == []
    with Lab(folder) as lab:
        return lab.run(test)


# --- frames ----------------------------------------------------------------------------------


def test_frames_pass_from_machine_to_machine(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    with measuring(tmp_path) as measure:
        record = measure(environment="vm", engine="xdp", rate="1k", duration=0.3)
    trial = assert_nothing_is_lost(record)
    assert record.port == "tap"
    # No clock is common to both ends; that of an emulated processor cannot be told well enough.
    unsure_ns = trial.evidence.unsure_ns
    assert unsure_ns is not None
    assert (trial.latency is None) == (unsure_ns > 5_000_000)
    assert trial.latency is not None or "clock" in record.doubts
    assert sum(trial.intervals) == trial.rx_frames
    assert trial.counters.at_parts["f0"].tx == trial.counters.at_switch["f1"].tx == trial.tx_frames
    emulated = "emulated" in (vm.ENVIRONMENT.probe(LocalHost()).mode or "")
    assert ("emulated" in record.doubts) == emulated
    # What the machine takes of this host, which is not what its guest sees.
    cores = [part.cores for part in trial.parts if part.part in ("f0", "f1")]
    assert all(taken is not None and 0.02 < taken < 4 for taken in cores)


def test_a_round_trip_needs_one_clock_only(measure: Measure) -> None:
    """Of frames that a guest sends past its kernel."""
    axes = {"engine": "dpdk", "dimension": "latency", "frame_size": 9000, "scenario": "v2p"}
    record = measure(environment="vm", rate="400", duration=0.3, **axes)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.tx_frames + trial.tx_unsent == 120
    assert trial.counters.at_switch["f0"].rx == trial.counters.at_switch["b0"].tx == trial.tx_frames
    (mode,) = (part.engine_mode for part in trial.parts if part.part == "f0")
    assert "net_virtio, hugepages" in mode
    assert trial.latency is not None
    assert trial.latency.kind == "rtt"
    assert trial.latency.count == trial.rx_frames > 0
    assert "clock" not in record.doubts


def test_a_burst_is_lost_where_somebody_counts_it_and_a_machine_that_is_killed_fails_its_test(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    axes = {"switch": "ip-forward", "scenario": "p2v", "duration": 0.15, "warmup": 0.05}
    burst, slow = machines(**axes, rate="max"), machines(**axes)
    with Lab(tmp_path) as lab:
        record = lab.run(burst, then=slow)
        trial = assert_every_frame_is_accounted_for(record)
        assert trial.tx_frames > 1000
        assert record.port == "tap, veth"
        measured_phases(lambda trials: killed(trials, QEMU, signal.SIGKILL))(monkeypatch)
        failed = lab.run(slow)
    assert failed.status == "failed"
    assert failed.error is not None
    assert "f0" in failed.error
    assert "the virtual machine at" in failed.error
    assert lab.left == ()


@pytest.mark.further  # the next test has a function in a machine, which is a program, too
@pytest.mark.parametrize("function", ["linux-bridge", "pcap-bridge"])
def test_a_function_in_a_machine_forwards(measure: Measure, function: str) -> None:
    record = measure(
        environment="vm",
        switch="ovs",
        scenario="loopback",
        function=function,
        rate="1k",
        duration=0.3,
    )
    trial = assert_nothing_is_lost(record)
    assert record.steering == "static by in-port"
    assert trial.counters.at_parts["f1.0"].rx == trial.tx_frames
    assert trial.tx_frames + trial.tx_unsent == 300


def test_dpdks_test_program_writes_macs_in_a_machine(measure: Measure) -> None:
    axes = {"scenario": "loopback", "function": "testpmd", "function_semantics": "mac"}
    record = measure(environment="vm", switch="ovs", rate="500", duration=0.3, **axes)
    trial = assert_nothing_is_lost(record)
    assert record.test.function_semantics == "mac"
    assert record.steering == "static by in-port"
    function = trial.counters.functions["f1"]
    assert function["f1.0"].rx == function["f1.1"].tx == trial.tx_frames


@pytest.mark.parametrize(
    ("switch", "axes"),
    [
        ("testpmd", {"scenario": "v2p"}),
        # The switch connects: QEMU starts nothing before.
        ("ovs-dpdk", {"direction": "bi"}),
    ],
)
def test_a_switch_shares_the_memory_of_a_machine(
    measure: Measure, tmp_path: Path, switch: str, axes: dict[str, Any]
) -> None:
    try:
        SWITCHES[switch].probe(LocalHost())
    except Unavailable as none:
        pytest.skip(none.message)
    if missing := vm.ENVIRONMENT.probe(LocalHost()).missing:
        record = run_in(tmp_path, machines(switch=switch, **axes))
        assert record.status == "refused"
        assert missing[PortKind.VHOST_USER][0] in (record.error or "")
        return
    record = measure(environment="vm", switch=switch, rate="500", duration=0.6, **axes)
    assert_nothing_is_lost(record)
    assert record.port == "vhost-user"


# --- machines that do not come up ------------------------------------------------------------


def test_a_kernel_that_does_not_boot_shows_its_last_lines(tmp_path: Path) -> None:
    """The real kernel with an image that holds no first process: it panics."""
    empty = tmp_path / "initramfs"
    empty.write_bytes(
        subprocess.run(("cpio", "-o", "-H", "newc"), input=b"", capture_output=True).stdout
    )
    kernel = Path(sys.prefix, "share/switchmark/guest/kernel")
    record = run_in(tmp_path / "run", machines(scenario="p2v", image=f"{kernel}:{empty}"))
    assert record.status == "failed"
    assert record.error is not None
    assert re.search(r"the virtual machine sm\w+-f0 is up", record.error)
    assert "Kernel panic - not syncing" in record.error


def test_a_machine_that_hangs_ends_at_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "kernel"
    kernel.write_bytes(b"\0" * 4096)  # QEMU would refuse it: what runs is a program that waits
    hang = tmp_path / "qemu"
    hang.write_text("#!/bin/sh\necho the last line of the console\nexec sleep 60\n")
    hang.chmod(0o755)
    monkeypatch.setattr(vm, "BOOT_S", 1.0)
    monkeypatch.setattr(vm, "_machine", lambda *args, **options: (str(hang),))
    before = time.monotonic()
    record = run_in(tmp_path / "run", machines(scenario="p2v"))
    assert time.monotonic() - before < 50  # it would be 60
    assert record.status == "failed"
    assert record.error is not None
    assert "did not end within" in record.error
    assert "the last line of the console" in record.error


def test_machines_that_do_not_fit_are_refused_beforehand(tmp_path: Path) -> None:
    class Full(LocalHost):
        def read(self, path: str) -> bytes:
            if path == "/proc/meminfo":
                return b"MemTotal: 999999 kB\nMemAvailable:  409600 kB\n"
            return super().read(path)

    with Lab(tmp_path, hosts=Hosts(OwnRun, {"local": Full()})) as lab:
        record = lab.run(machines())
    assert record.status == "refused"
    assert record.error is not None
    assert "2 virtual machines need 512 MB of memory; 400 MB are available" in record.error


def test_combinations_that_cannot_work_are_refused_with_the_reason() -> None:
    (reason,) = check(machines(placement="shared-process"))
    assert "they have separate kernels" in str(reason)
    past_kernel = machines(engine="dpdk", switch="testpmd", queues=2, flows=16, driver="vfio-pci")
    reasons = "\n".join(map(str, check(past_kernel)))
    assert "has one pair of queues" in reasons
    assert "no IOMMU" in reasons
    assert check(machines(engine="dpdk", switch="testpmd", driver="uio_pci_generic")) == []
