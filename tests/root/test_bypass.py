"""These tests send real frames past the kernel: the DPDK engine, its cables, and the switches in
user space.

Programs that poll keep all CPUs busy while a path is up, so `make test` has few paths: each shows
several facts. `make test-all` also shows each fact on a path of its own, and `make test` does so
for switches that users build.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from combinations import measured
from host_snapshot import hugepages
from real_frames import (
    Measure,
    assert_every_frame_is_accounted_for,
    assert_nearly_all_arrive,
    assert_nothing_is_lost,
    only,
    skip_refused,
)
from switchmark.lab.trial import Trials
from switchmark.metrics.cpu import cost
from switchmark.model.place import Place, PlaceKind
from switchmark.model.plan import PORTS_DIR
from switchmark.model.record import FlowCounts, Record, TrialResult
from switchmark.model.topology import PortKind, Role
from switchmark.switches import TABLE as SWITCHES
from traffic_program import ADDRESS, Program

BYPASS = [
    name
    for name, switch in SWITCHES.items()
    if name not in ("direct", "null") and PortKind.VHOST_USER in switch.port_kinds
]
LATENCY = {"dimension": "latency", "rate": "1000", "burst": 4}
VXLAN_OF_IPV6 = {"encapsulation": "vxlan6", "ip_version": "6", "frame_size": 154}
QUEUED = {"queues": 2, "flows": 5, "direction": "bi"}


def alone(*combinations: tuple[str, ...]) -> list[ParameterSet]:
    """Return the parameters of a test that shows one fact: `further`, unless users build the
    switch. `TOGETHER` has the same facts."""
    return measured(combinations, lambda _: ())


@pytest.fixture(autouse=True)
def hugepages_come_back() -> Iterator[None]:
    before = hugepages()
    yield
    assert hugepages() == before


@contextmanager
def sockets_of_before(measure: Measure) -> Iterator[None]:
    """Leave files at the paths of the sockets of ports: a socket, and one that is not."""
    folder = measure._lab.workspace.folder / PORTS_DIR
    with socket.socket(socket.AF_UNIX) as left:
        (folder / "p0.sock").unlink(missing_ok=True)  # of a test that has failed
        left.bind(str(folder / "p0.sock"))
        (folder / "p1.sock").write_text("not a socket at all")
        yield


CABLE_PATHS: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...]]] = {
    "vhost-user-of-every-size": (
        {"port": "vhost-user", "memory": "hugepages"},
        (
            *({"frame_size": size} for size in (64, 65, 1518, "imix")),
            {"frame_size": 1500, "touch": "full"},
        ),
    ),
    "vhost-user-with-queues": (
        {"port": "vhost-user", "memory": "no-huge", **QUEUED},
        ({"frame_size": 9600},),
    ),
    "memif-with-cores-of-long-frames": (
        {"port": "memif", "memory": "hugepages", "function_cores": 2, "flows": 8},
        ({"frame_size": 9600, "touch": "full"},),
    ),
    "memif-with-queues": (
        {
            **QUEUED,
            "port": "memif",
            "driver": "memif-zero-copy",
            "memory": "no-huge",
        },
        ({"frame_size": 9600},),
    ),
}
"""The axes of the path of a cable, and those of each of its trials."""


@pytest.mark.parametrize(
    ("axes", "trials"),
    [
        pytest.param(*path, marks=[pytest.mark.smoke] if name == "memif-with-queues" else [])
        for name, path in CABLE_PATHS.items()
    ],
    ids=CABLE_PATHS,
)
def test_cables(measure: Measure, axes: dict[str, Any], trials: Sequence[dict[str, Any]]) -> None:
    usual = {"switch": "direct", "engine": "dpdk", "offload": "on", "rate": "2k", **axes}
    with sockets_of_before(measure):
        records = measure.in_sequence(*({**usual, **trial} for trial in trials))
    for record in records:
        assert_a_cable_carries_all(record)


@pytest.mark.further
@pytest.mark.parametrize("size", [64, 9600])
@pytest.mark.parametrize("memory", ["hugepages", "no-huge"])
@pytest.mark.parametrize(
    ("port", "driver"),
    [("vhost-user", "auto"), ("memif", "auto"), ("memif", "memif-zero-copy")],
)
def test_each_cable_with_each_memory(
    measure: Measure, port: str, driver: str, memory: str, size: int
) -> None:
    axes = {"port": port, "driver": driver, "memory": memory, "frame_size": size}
    usual = {"switch": "direct", "engine": "dpdk", "offload": "on", "rate": "2k"}
    assert_a_cable_carries_all(measure(**usual, **axes))
    assert_a_cable_carries_all(measure(**usual, **axes, **QUEUED))


def assert_a_cable_carries_all(record: Record) -> None:
    test = record.test
    trial = assert_nothing_is_lost(record)
    assert (record.semantics, record.port, record.memory) == ("patch", test.port, test.memory)
    assert len(trial.per_flow) == int(test.flows) * (2 if test.direction == "bi" else 1)
    if isinstance(test.frame_size, int):
        assert trial.rx_bytes == test.frame_size * trial.rx_frames
    mode = record.engine_mode or ""
    assert test.memory in mode
    # Such a cable would carry frames without a checksum: it is not asked to make any.
    marks = " (the device would only mark it)" if test.port == PortKind.VHOST_USER else ""
    assert f"tx checksum by software{marks}" in mode
    assert "rx times by software" in mode


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


# --- switches: several facts on each path ------------------------------------------------------

BOTH_WAYS = {"direction": "bi", "pairs": 2}
LOADS = ({"rate": "3k"}, {"rate": "max", "duration": 0.3})
TOGETHER: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...]]] = {
    "ovs-dpdk-learns": (
        {"switch": "ovs-dpdk", "switch_environment": "host", "scenario": "p2p", **BOTH_WAYS},
        LOADS,
    ),
    "ovs-dpdk-is-static": (
        {
            **QUEUED,
            "switch": "ovs-dpdk",
            "semantics": "static",
            "scenario": "v2p",
            "switch_cores": 2,
            "rx_affinity": "fixed",
        },
        ({"rate": "5k"},),
    ),
    "ovs-dpdk-round-trips": (
        {"switch": "ovs-dpdk", "placement": "pinned", **VXLAN_OF_IPV6},
        (LATENCY,),
    ),
    "testpmd-patches": (
        {"switch": "testpmd", "switch_environment": "host", "scenario": "p2v", **BOTH_WAYS},
        LOADS,
    ),
    "testpmd-is-static": (
        {
            **QUEUED,
            "switch": "testpmd",
            "semantics": "static",
            "switch_cores": 2,
            "function_cores": 2,
            "flows": 16,
            "listen": "functions",
        },
        ({"rate": "5k"},),
    ),
    "testpmd-memif": (
        {"switch": "testpmd", "port": "memif", "placement": "pinned", **QUEUED},
        ({"rate": "5k"},),
    ),
    "testpmd-round-trips": ({"switch": "testpmd", "placement": "shared-process"}, (LATENCY,)),
    "basicfwd-patches": (
        {"switch": "basicfwd", "switch_environment": "host", "scenario": "p2p", **BOTH_WAYS},
        LOADS,
    ),
    "basicfwd-round-trips": (
        {"switch": "basicfwd", "scenario": "v2p", "listen": "functions"},
        (LATENCY,),
    ),
    "l2fwd-is-static": (
        {"switch": "l2fwd", "switch_environment": "host", "semantics": "static", **BOTH_WAYS},
        LOADS,
    ),
    "l2fwd-round-trips": (
        {"switch": "l2fwd", "listen": "functions", "ip_version": "6", "frame_size": 84},
        (LATENCY,),
    ),
}
"""The axes of the path of a switch, and those of each of its trials. A switch that polls is on the
host's own network stack once, is saturated once, and finds sockets of before in its way once."""

SHOWN_BY_OTHERS = ("basicfwd-round-trips",)
"""Paths whose facts those of the other switches show: l2fwd with the same load and ports, ovs-dpdk
in the same scenario."""


@pytest.mark.parametrize(
    ("axes", "trials"),
    [
        pytest.param(
            *together, id=name, marks=(pytest.mark.further,) if name in SHOWN_BY_OTHERS else ()
        )
        for name, together in TOGETHER.items()
    ],
)
def test_facts_together(
    measure: Measure, axes: dict[str, Any], trials: Sequence[dict[str, Any]]
) -> None:
    with sockets_of_before(measure):
        usual = {"engine": "dpdk", "duration": 0.3, **axes}
        first, *others = measure.in_sequence(*({**usual, **trial} for trial in trials))
    trial = assert_nothing_is_lost(first)
    test = first.test
    default = SWITCHES[test.switch].semantics[0]
    assert (first.semantics, first.memory) == (axes.get("semantics", default), "hugepages")
    ways = 2 if test.direction == "bi" else 1
    assert len(trial.per_flow) == ways * test.pairs * int(test.flows)
    assert first.gate is not None
    assert first.gate.headers > 0
    assert_switch_counts_frames(trial)
    if test.dimension == "latency":
        assert_polling_is_told(first)
        assert trial.latency is not None
        assert (trial.latency.kind, trial.latency.count) == ("rtt", trial.rx_frames)
    if "placement" in axes:
        assert_placed(first, axes["placement"])
    for saturated in others:
        assert_every_frame_is_accounted_for(saturated)


def assert_switch_counts_frames(trial: TrialResult) -> None:
    """Check that the switch counts all frames at each port of a trial that loses none, also frames
    that come too late for their receiver."""
    late = trial.lost_at.get(Place(PlaceKind.LATE), 0)
    for port, counted in trial.counters.at_switch.items():
        entered = sum(flow.tx for flow in trial.per_flow if ends_of(flow)[0] == port)
        left = sum(flow.rx for flow in trial.per_flow if ends_of(flow)[1] == port)
        if trial.latency is not None and trial.latency.kind == "rtt":
            entered = left = trial.tx_frames  # of the only flow, or answers
        assert counted.rx == entered
        assert counted.tx is not None
        assert left <= counted.tx <= left + late


def ends_of(flow: FlowCounts) -> list[str]:
    """Return the sender and the receiver of a flow."""
    return flow.flow.partition("#")[0].split("-")


def assert_polling_is_told(record: Record) -> None:
    """Check what two figures tell of the cores of a switch that polls with next to nothing to
    do, if it counts its busy cycles."""
    trial, found = only(record), cost(record)
    assert found is not None
    if trial.counters.busy_cycles is None or "host-busy" in trial.doubts:
        return
    by_scheduler, by_cycles = found.switch_cores, found.switch_busy_cores
    assert by_scheduler is not None
    assert by_cycles is not None
    assert by_cycles < 0.5 < by_scheduler
    assert [each for each in found.disagreements if each.part == "switch"]


def assert_placed(record: Record, placement: str) -> None:
    """Check that the cores of the functions are told if each is a process of its own."""
    assert record.placement is not None
    assert record.placement.policy == placement
    told = [part.cores is not None for part in only(record).parts if part.part != "switch"]
    assert told == [placement == "pinned"] * 2


# --- switches: one fact at a time --------------------------------------------------------------


@pytest.mark.parametrize(
    ("switch", "scenario"),
    alone(*((switch, scenario) for switch in BYPASS for scenario in ("p2p", "p2v", "v2p", "v2v"))),
)
def test_every_switch_in_every_scenario(measure: Measure, switch: str, scenario: str) -> None:
    record = measure(switch=switch, engine="dpdk", scenario=scenario)
    assert_nearly_all_arrive(record)  # on a busy host the far ring may be full
    assert record.semantics == SWITCHES[switch].semantics[0]
    assert record.memory == "hugepages"


EACH = alone(*((switch,) for switch in BYPASS))


@pytest.mark.parametrize("switch", EACH)
def test_every_switch_on_the_host_itself(measure: Measure, switch: str) -> None:
    axes = {"switch": switch, "engine": "dpdk", "switch_environment": "host"}
    skip_refused(**axes)
    assert_every_frame_is_accounted_for(measure(**axes))


@pytest.mark.parametrize("switch", EACH)
def test_switches_count_what_we_count(measure: Measure, switch: str) -> None:
    """Nobody loses a frame that is not counted somewhere, at whatever load."""
    axes = {"switch": switch, "engine": "dpdk"}
    record, saturated = measure.in_sequence(
        {**axes, "rate": "2k"}, {**axes, "rate": "max", "duration": 0.5}
    )
    assert_switch_counts_frames(assert_nothing_is_lost(record))
    assert_polling_is_told(record)
    assert_every_frame_is_accounted_for(saturated)


@pytest.mark.parametrize("switch", EACH)
def test_round_trips(measure: Measure, switch: str) -> None:
    """Each takes frames from one port to another, and their answers back."""
    record = measure(switch=switch, engine="dpdk", **LATENCY)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.latency is not None
    assert (trial.latency.kind, trial.latency.count) == ("rtt", trial.rx_frames)


@pytest.mark.parametrize("switch", EACH)
def test_pairs_in_both_directions(measure: Measure, switch: str) -> None:
    skip_refused(switch=switch, engine="dpdk", pairs=2, direction="bi")
    record = measure(switch=switch, engine="dpdk", pairs=2, direction="bi", rate="3k")
    assert len(assert_every_frame_is_accounted_for(record).per_flow) == 4


@pytest.mark.parametrize(
    ("switch", "semantics"),
    alone(*((switch, kind) for switch in BYPASS for kind in SWITCHES[switch].semantics[1:])),
)
def test_other_semantics(measure: Measure, switch: str, semantics: str) -> None:
    record = measure(switch=switch, engine="dpdk", semantics=semantics)
    assert_every_frame_is_accounted_for(record)
    assert record.semantics == semantics


@pytest.mark.further
@pytest.mark.parametrize(
    ("switch", "placement", "load"),
    [
        ("testpmd", "pinned", {}),
        ("testpmd", "shared-process", {}),
        ("ovs-dpdk", "shared-process", {}),
        ("ovs-dpdk", "shared-process", LATENCY),
    ],
)
def test_a_pair_apart_and_in_one_process(
    measure: Measure, switch: str, placement: str, load: dict[str, Any]
) -> None:
    record = measure(switch=switch, engine="dpdk", placement=placement, **load)
    assert_every_frame_is_accounted_for(record)
    assert_placed(record, placement)


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
    alone(
        ("testpmd", "vhost-user", "auto"),
        ("ovs-dpdk", "vhost-user", "auto"),
        ("fastclick", "vhost-user", "auto"),
        ("fastclick", "memif", "auto"),
        ("vpp", "vhost-user", "auto"),
        ("vpp", "memif", "auto"),
        ("bess", "vhost-user", "auto"),
        ("bess", "memif", "auto"),
        ("t4p4s", "vhost-user", "auto"),
        ("testpmd", "memif", "memif-zero-copy"),
    ),
)
def test_several_queues(measure: Measure, switch: str, port: str, driver: str) -> None:
    axes = {"switch": switch, "engine": "dpdk", "port": port, "driver": driver}
    record = measure(**axes, **QUEUED)
    assert len(assert_nothing_is_lost(record).per_flow) == 10


@pytest.mark.parametrize(
    "switch", alone(("testpmd",), ("fastclick",), ("bess",), ("t4p4s",))
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
    "switch", alone(*((name,) for name in BYPASS if "listen" in SWITCHES[name].resources))
)
def test_either_side_of_a_port_listens(measure: Measure, switch: str, side: str) -> None:
    axes = {"switch": switch, "engine": "dpdk", "port": "vhost-user", "listen": side}
    assert_every_frame_is_accounted_for(measure(**axes))


@pytest.mark.parametrize(
    "memory", [pytest.param("hugepages", marks=pytest.mark.further), "no-huge"]
)
def test_long_frames_by_packet_sockets(measure: Measure, memory: str) -> None:
    axes = {"engine": "dpdk", "port": "veth", "memory": memory, "rate": "2k"}
    trial = only(measure(switch="direct", frame_size=9600, **axes))
    assert trial.rx_bytes == 9600 * trial.rx_frames
    assert trial.lost == trial.duplicated == trial.reordered == 0
