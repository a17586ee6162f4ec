"""These tests send real frames past the kernel: the DPDK engine, its cables, and the switches in
user space."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from combinations import measured
from host_snapshot import hugepages
from real_frames import (
    Measure,
    assert_every_frame_is_accounted_for,
    assert_nothing_is_lost,
    only,
    skip_refused,
)
from switchmark.lab.trial import Trials
from switchmark.metrics.cpu import cost
from switchmark.model.place import Place
from switchmark.model.topology import PortKind, Role
from switchmark.switches import TABLE as SWITCHES
from traffic_program import ADDRESS, Program

CABLES = [PortKind.VHOST_USER, PortKind.MEMIF]
BYPASS = [
    name
    for name, switch in SWITCHES.items()
    if name not in ("direct", "null") and PortKind.VHOST_USER in switch.port_kinds
]


@pytest.fixture(autouse=True)
def hugepages_come_back() -> Iterator[None]:
    before = hugepages()
    yield
    assert hugepages() == before


@pytest.mark.parametrize("memory", ["hugepages", "no-huge"])
@pytest.mark.parametrize("port", CABLES)
@pytest.mark.smoke
def test_cables(measure: Measure, port: str, memory: str) -> None:
    record = measure(switch="direct", engine="dpdk", port=port, memory=memory, offload="on")
    assert_every_frame_is_accounted_for(record)
    assert (record.semantics, record.port, record.memory) == ("patch", port, memory)
    assert record.engine_mode
    assert memory in record.engine_mode
    # Such a cable would carry frames without a checksum: it is not asked to make any.
    marks = " (the device would only mark it)" if port == PortKind.VHOST_USER else ""
    assert f"tx checksum by software{marks}" in record.engine_mode
    assert "rx times by software" in record.engine_mode


_SPOIL = """
import socket, struct, sys
ethernet = struct.pack("!12xH", 0x0800)
ip = struct.pack("!BBHHHBBHII", 0x45, 0, 46, 0, 0, 64, 17, 0, 0xC6120001, 0xC6120002)
udp = struct.pack("!HHHH", 20000, 20000, 26, 0x1234)
payload = struct.pack("!IHIQ", 7, 1 << 14, 0, 0)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
    s.bind(("smtap", 0))
    for _ in range(50):
        s.send(ethernet + ip + udp + payload)
"""


def test_a_device_makes_and_checks_sums(sanitized_traffic_program: str, tmp_path: Path) -> None:
    """Both ways between a tap of DPDK and a socket at its interface, where 50 frames come in
    besides whose checksum is wrong."""
    program = Program("unshare", "--net", sanitized_traffic_program)
    ends = [{"role": "sender"}, {"role": "receiver"}]
    tap = {"device": "net_tap0,iface=smtap", "offload": "on", "directory": str(tmp_path)}
    opened = program.ask(
        "open",
        ports=[{"engine": "dpdk", "options": tap}, {"engine": "raw-mmsg", "ifname": "smtap"}],
        threads=[{"yield": True, "tasks": [{**end, "ports": [i]} for end in ends]} for i in (0, 1)],
    )
    assert opened["ok"], opened
    assert "tx checksum by device, rx checksum by device" in opened["modes"][0]
    assert program.ask("ready")["ok"]
    load = {"frame_bytes": [64, 1518], "address": ADDRESS, "rate_pps": 2000}
    armed = program.ask("arm", run=7, longest_ns=10**9, tasks=[load, {}, load, {}])
    assert armed["ok"], armed
    assert program.ask("start", duration_ns=2 * 10**8)["ok"]
    inside = ["nsenter", f"--net=/proc/{program.process.pid}/ns/net"]
    subprocess.run([*inside, sys.executable, "-c", _SPOIL], check=True)
    assert program.ask("wait")["ok"]
    assert program.ask("drain", quiet_ms=20)["ok"]
    sent, heard, peer_sent, peer_heard = program.ask("report")["tasks"]
    program.end()
    for counts, there in ((sent["sent"], peer_heard), (peer_sent["sent"], heard)):
        assert counts["frames"] == there["received"]["frames"] > 0
        assert counts["frames"] + counts["unsent"] == 400  # on a busy host the last ones do not go
    assert (peer_heard["received"]["corrupted"], heard["received"]["corrupted"]) == (0, 50)


@pytest.mark.parametrize(
    ("switch", "scenario"),
    measured(
        [(switch, scenario) for switch in BYPASS for scenario in ("p2p", "p2v", "v2p", "v2v")],
        # The plans of all scenarios but p2p are that of p2p with other nodes (test_plans.py).
        lambda combination: {
            combination[0],
            combination[1],
            (SWITCHES[combination[0]].semantics[0], combination[1] == "p2p"),
        },
    ),
)
def test_every_switch_in_every_scenario(measure: Measure, switch: str, scenario: str) -> None:
    record = measure(switch=switch, engine="dpdk", scenario=scenario)
    assert_nothing_is_lost(record)
    assert record.semantics == SWITCHES[switch].semantics[0]
    assert record.memory == "hugepages"


@pytest.mark.parametrize("switch", BYPASS)
def test_every_switch_on_the_host_itself(measure: Measure, switch: str) -> None:
    axes = {"switch": switch, "engine": "dpdk", "switch_environment": "host"}
    skip_refused(**axes)
    assert_every_frame_is_accounted_for(measure(**axes))


@pytest.mark.parametrize("switch", BYPASS)
def test_switches_count_what_we_count(measure: Measure, switch: str) -> None:
    """Nobody loses a frame that is not counted somewhere, at whatever load."""
    axes = {"switch": switch, "engine": "dpdk"}
    record, saturated = measure.in_sequence(
        {**axes, "rate": "2k"}, {**axes, "rate": "max", "duration": 0.5}
    )
    assert_every_frame_is_accounted_for(saturated)
    trial = only(record)
    assert trial.counters.at_switch["f0"].rx == trial.tx_frames
    assert trial.counters.at_switch["f1"].tx == trial.rx_frames
    found = cost(record)
    assert found is not None
    if trial.counters.busy_cycles is not None:  # it polls with next to nothing to do
        by_scheduler, by_cycles = found.switch_cores, found.switch_busy_cores
        disagreements = [
            disagreement for disagreement in found.disagreements if disagreement.part == "switch"
        ]
        assert by_scheduler is not None
        assert by_cycles is not None
        if "host-busy" not in trial.doubts:
            assert by_cycles < 0.5 < by_scheduler
            assert disagreements


@pytest.mark.parametrize("switch", BYPASS)
def test_round_trips(measure: Measure, switch: str) -> None:
    """Each takes frames from one port to another, and their answers back."""
    record = measure(switch=switch, engine="dpdk", dimension="latency", rate="1000", burst=4)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.latency is not None
    assert (trial.latency.kind, trial.latency.count) == ("rtt", trial.rx_frames)


@pytest.mark.parametrize("switch", BYPASS)
def test_pairs_in_both_directions(measure: Measure, switch: str) -> None:
    skip_refused(switch=switch, engine="dpdk", pairs=2, direction="bi")
    record = measure(switch=switch, engine="dpdk", pairs=2, direction="bi", rate="3k")
    assert len(assert_every_frame_is_accounted_for(record).per_flow) == 4


@pytest.mark.parametrize(
    ("switch", "semantics"),
    [(switch, kind) for switch in BYPASS for kind in SWITCHES[switch].semantics[1:]],
)
def test_other_semantics(measure: Measure, switch: str, semantics: str) -> None:
    record = measure(switch=switch, engine="dpdk", semantics=semantics)
    assert_every_frame_is_accounted_for(record)
    assert record.semantics == semantics


LATENCY = {"dimension": "latency", "rate": "1000"}


@pytest.mark.parametrize(
    ("switch", "placement", "load"),
    [
        ("testpmd", "pinned", {}),
        ("testpmd", "shared-process", {}),
        ("testpmd", "shared-process", LATENCY),
        ("ovs-dpdk", "pinned", LATENCY),
        ("ovs-dpdk", "shared-process", {}),
    ],
)
def test_a_pair_apart_and_in_one_process(
    measure: Measure, switch: str, placement: str, load: dict[str, str]
) -> None:
    record = measure(switch=switch, engine="dpdk", placement=placement, **load)
    assert_every_frame_is_accounted_for(record)
    assert record.placement is not None
    assert record.placement.policy == placement
    measured_parts = [
        part.cores is not None for part in only(record).parts if part.part != "switch"
    ]
    assert measured_parts == [placement == "pinned"] * 2


def test_what_a_packet_sockets_ring_has_no_room_for_is_counted(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DPDK's driver does not report it; the kernel does. The receiver is made too slow for it."""
    load = Trials._load

    def slow(self: Trials, part: Any, job: Any, spec: Any) -> dict[str, Any]:
        options = {"delay_ns": 50_000} if job.role is Role.RECEIVER else {}
        return {**load(self, part, job, spec), **options}

    monkeypatch.setattr(Trials, "_load", slow)
    record = measure(switch="linux-bridge", engine="dpdk", rate="max", duration=0.3, warmup=0)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.lost_at == {Place.ring("f1"): trial.lost}
    assert trial.lost > 0
    assert record.verdict in ("receiver", "host")


@pytest.mark.parametrize(
    ("switch", "port", "driver"),
    [
        ("direct", "vhost-user", "auto"),
        ("testpmd", "vhost-user", "auto"),
        ("ovs-dpdk", "vhost-user", "auto"),
        ("fastclick", "vhost-user", "auto"),
        ("fastclick", "memif", "auto"),
        ("vpp", "vhost-user", "auto"),
        ("vpp", "memif", "auto"),
        ("bess", "vhost-user", "auto"),
        ("bess", "memif", "auto"),
        ("t4p4s", "vhost-user", "auto"),
        ("direct", "memif", "auto"),
        ("direct", "memif", "memif-zero-copy"),
        ("testpmd", "memif", "auto"),
        ("testpmd", "memif", "memif-zero-copy"),
    ],
)
def test_several_queues(measure: Measure, switch: str, port: str, driver: str) -> None:
    axes = {"switch": switch, "engine": "dpdk", "port": port, "driver": driver}
    record = measure(**axes, queues=2, flows=5, direction="bi")
    assert len(assert_nothing_is_lost(record).per_flow) == 10


@pytest.mark.parametrize(
    "switch", ["testpmd", "fastclick", "bess", "t4p4s"]
)  # vpp needs a third CPU
def test_two_cores_share_a_switchs_ports(measure: Measure, switch: str) -> None:
    """If there are no other CPUs, the functions share these CPUs."""
    axes = {"switch": switch, "engine": "dpdk", "switch_cores": 2, "queues": 2, "flows": 16}
    record = measure(**axes, direction="bi")
    trial = assert_nothing_is_lost(record)
    workers = next(part for part in trial.parts if part.part == "switch")
    assert workers.cores is not None
    assert workers.cores > 0


@pytest.mark.parametrize("side", ["switch", "functions"])
@pytest.mark.parametrize(
    "switch", [name for name in BYPASS if "listen" in SWITCHES[name].resources]
)
def test_either_side_of_a_port_listens(measure: Measure, switch: str, side: str) -> None:
    axes = {"switch": switch, "engine": "dpdk", "port": "vhost-user", "listen": side}
    assert_every_frame_is_accounted_for(measure(**axes))


@pytest.mark.parametrize("size", [64, 65, 1518, 9600, "imix"])
def test_frame_sizes(measure: Measure, size: int | str) -> None:
    record = measure(switch="direct", engine="dpdk", port="vhost-user", frame_size=size)
    trial = assert_every_frame_is_accounted_for(record)
    if isinstance(size, int):
        assert trial.rx_bytes == size * trial.rx_frames


@pytest.mark.parametrize(
    ("port", "driver"), [("memif", "auto"), ("memif", "memif-zero-copy"), ("veth", "auto")]
)
@pytest.mark.parametrize("memory", ["hugepages", "no-huge"])
def test_long_frames(measure: Measure, memory: str, port: str, driver: str) -> None:
    axes = {"engine": "dpdk", "port": port, "driver": driver, "memory": memory}
    trial = only(measure(switch="direct", frame_size=9600, **axes))
    assert trial.rx_bytes == 9600 * trial.rx_frames
    assert trial.lost == trial.duplicated == trial.reordered == 0


@pytest.mark.parametrize("port", CABLES)
def test_every_byte_is_checked(measure: Measure, port: str) -> None:
    record = measure(switch="direct", engine="dpdk", port=port, touch="full", frame_size=1500)
    assert_every_frame_is_accounted_for(record)


def test_receive_queues_that_stay_with_their_cpus(measure: Measure) -> None:
    axes = {"switch_cores": 2, "queues": 2, "flows": 2, "rx_affinity": "fixed"}
    assert_every_frame_is_accounted_for(measure(switch="ovs-dpdk", engine="dpdk", **axes))
