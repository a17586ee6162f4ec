"""These tests send real frames through chains of functions: every frame is accounted for, and a
lost frame counts as lost where it was lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from real_frames import Measure, assert_nothing_is_lost, only
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.hosts.programs import program_path
from switchmark.lab.measure import Lab
from switchmark.lab.trial import Trials
from switchmark.model.addresses import Addressing
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.model.topology import Wiring
from switchmark.plugins import Table
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.linux_bridge import LinuxBridge
from truths import measured_phases

LOOPBACK: dict[str, Any] = {"scenario": "loopback", "rate": "2k", "warmup": 0.05}
"""Functions pass on the announcements of others in the warm-up, and are then counted exactly."""
NAMESPACE = "smtest-chains"


def assert_passed_on(trial: TrialResult, function: str, frames: int) -> None:
    """Check that a function passed on so many frames by both ports, and no copies. On a busy host,
    it passes on late announcements of other parts, too: two of each port at most."""
    sent = sum(trial.counters.at_parts[f"{function}.{port}"].tx or 0 for port in (0, 1))
    assert frames <= sent <= frames + 2 * len(trial.counters.at_parts)


def further(*parameters: tuple[Any, ...]) -> list[ParameterSet]:
    """Mark parameters whose facts others cover."""
    return [pytest.param(*values, marks=pytest.mark.further) for values in parameters]


@pytest.mark.parametrize(
    ("chain", "direction"), [(3, "bi"), *further((1, "bi"), (2, "uni"), (4, "bi"))]
)
def test_forwarders_behind_a_learning_switch(measure: Measure, chain: int, direction: str) -> None:
    record = measure(chain=chain, direction=direction, **LOOPBACK)
    trial = assert_nothing_is_lost(record)
    assert record.steering == "learning by rewritten MACs"
    forwarders = [part for part in trial.parts if part.roles == ("forwarder",)]
    assert [part.part for part in forwarders] == [f"f{i + 1}" for i in range(chain)]
    # Every hop carried every frame, and nothing was flooded.
    ways = 2 if direction == "bi" else 1
    for part in forwarders:
        assert_passed_on(trial, part.part, trial.tx_frames)
    assert len(trial.per_flow) == ways


# Those on two cores are with mmap and xdp, too (test_function_cores.py).
@pytest.mark.parametrize("engine", ["xdp-live", *further(("mmap",), ("xdp",))])
def test_forwarders_by_every_engine(measure: Measure, engine: str) -> None:
    assert_nothing_is_lost(measure(engine=engine, **LOOPBACK))


AT_FULL_RATE = {"rate": "max", "duration": 0.05}


def assert_what_is_lost_has_its_place(record: Record) -> None:
    trial = only(record)
    assert trial.tx_frames > trial.lost
    assert abs(trial.unaccounted) <= 0.001 * trial.tx_frames


@pytest.mark.parametrize("switch", ["ovs", *further(("direct",))])
def test_forwarders_where_ports_are_joined(measure: Measure, switch: str) -> None:
    """Then, at full rate, a lost frame has its place."""
    axes = {**LOOPBACK, "switch": switch, "chain": 2, "direction": "bi"}
    record, at_full_rate = measure.in_sequence(axes, {**axes, **AT_FULL_RATE})
    assert_nothing_is_lost(record)
    assert record.steering == "static by in-port"
    assert_what_is_lost_has_its_place(at_full_rate)


@pytest.mark.parametrize(
    ("function", "engine", "environment"),
    [
        ("linux-bridge", "raw-mmsg", "host"),
        ("pcap-bridge", "udp-mmsg", "netns"),
        *further(
            ("linux-bridge", "udp-mmsg", "netns"),
            ("pcap-bridge", "raw-mmsg", "netns"),
            ("linux-bridge", "raw-mmsg", "netns"),
        ),
    ],
)
def test_functions_that_leave_frames_as_they_are(
    measure: Measure, function: str, engine: str, environment: str
) -> None:
    """Then, at full rate, a frame that a process loses has its place."""
    axes = {
        **LOOPBACK,
        "switch": "ovs",
        "function": function,
        "engine": engine,
        "environment": environment,
        "chain": 2,
        "direction": "bi",
    }
    is_process = function == "pcap-bridge"
    record, *others = measure.in_sequence(axes, *[{**axes, **AT_FULL_RATE}] * is_process)
    trial = assert_nothing_is_lost(record)
    first, second = trial.counters.functions["f1"], trial.counters.functions["f2"]
    assert (first["f1.0"].rx or 0) + (first["f1.1"].rx or 0) == trial.tx_frames
    assert (second["f2.0"].tx or 0) + (second["f2.1"].tx or 0) == trial.tx_frames
    if is_process:  # which tells what it used
        used = {part.part: part.cores for part in trial.parts if part.roles == ("function",)}
        assert [*used] == ["f1", "f2"]
        assert all(0 < (cores or 0) < 1 for cores in used.values())
    for other in others:
        assert_what_is_lost_has_its_place(other)


@pytest.mark.parametrize(
    ("switch", "steering"),
    [
        ("linux-bridge", "learning by rewritten MACs"),
        ("ovs", "static by in-port and source MAC"),
    ],
)
def test_chains_side_by_side_share_the_load(measure: Measure, switch: str, steering: str) -> None:
    # 600 frames are as many of each of the twelve flows, if the host lets all of them be sent.
    axes = {**LOOPBACK, "chains": 2, "direction": "bi", "flows": 3, "duration": 0.15}
    record = measure(switch=switch, **axes)
    trial = assert_nothing_is_lost(record)
    assert record.steering == steering
    assert len(trial.per_flow) == 12
    for chain in ("c1f1", "c2f1"):
        of_chain = sum(flow.tx for flow in trial.per_flow if f"-{chain[:2]}-" in flow.flow)
        assert_passed_on(trial, chain, of_chain)
        assert trial.tx_unsent or of_chain == trial.tx_frames / 2


@pytest.mark.parametrize(
    ("scenario", "chain", "direction"),
    [("p2v", 3, "bi"), *further(("loopback", 1, "bi"), ("loopback", 4, "uni"))],
)
def test_forwarders_behind_a_router(
    measure: Measure, scenario: str, chain: int, direction: str
) -> None:
    axes = {**LOOPBACK, "scenario": scenario, "direction": direction}
    record = measure(switch="ip-forward", chain=chain, **axes)
    assert_nothing_is_lost(record)
    assert record.steering == "routed by in-port"


@pytest.mark.parametrize(
    ("switch", "scenario", "chain"),
    [
        ("ip-forward", "loopback", 2),
        ("linux-bridge", "p2v", 3),
        *further(("linux-bridge", "loopback", 2)),
    ],
)
def test_round_trips_pass_each_function_twice(
    measure: Measure, switch: str, scenario: str, chain: int
) -> None:
    axes = {**LOOPBACK, "scenario": scenario, "rate": "1000", "dimension": "latency"}
    trial = assert_nothing_is_lost(measure(switch=switch, chain=chain, **axes))
    assert trial.latency is not None
    assert (trial.latency.kind, trial.latency.count) == ("rtt", trial.tx_frames)
    for number in range(1, chain + (scenario == "loopback")):
        assert_passed_on(trial, f"f{number}", 2 * trial.tx_frames)


def test_a_hop_that_is_not_routed_is_found(measure: Measure) -> None:
    """The gate holds the TTL to one less for each hop: here a bridge stands for the router."""

    class Bridge(LinuxBridge):
        def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
            flat = super().addressing(wiring)
            return {name: replace(addresses, routed=1) for name, addresses in flat.items()}

    with (
        SWITCHES.replaced_by(Table({**SWITCHES, "linux-bridge": Bridge()}, {})),
        pytest.raises(AssertionError, match="TTL 64 instead of 62"),
    ):
        measure(chain=1, **LOOPBACK)


@pytest.mark.parametrize(
    ("switch", "function", "chain", "direction"),
    [
        ("direct", "forwarder", 2, "bi"),
        ("ovs", "linux-bridge", 2, "bi"),
        *further(
            ("linux-bridge", "forwarder", 2, "uni"),
            ("linux-bridge", "forwarder", 4, "bi"),
            ("ovs", "pcap-bridge", 3, "uni"),
        ),
    ],
)
def test_a_chain_that_ends_in_a_function(
    measure: Measure, switch: str, function: str, chain: int, direction: str
) -> None:
    axes = {**LOOPBACK, "scenario": "p2v", "direction": direction}
    record = measure(switch=switch, function=function, chain=chain, **axes)
    trial = assert_nothing_is_lost(record)
    assert {flow.flow for flow in trial.per_flow} == {
        f"a0-f{chain}",
        *[f"f{chain}-a0"] * (direction == "bi"),
    }
    if function == "forwarder":
        assert_passed_on(trial, "f1", trial.tx_frames)


BRIDGE = {"switch": "direct", "function": "pcap-bridge", **LOOPBACK}


@pytest.mark.parametrize(
    ("axes", "options", "number", "message"),
    [
        (BRIDGE, "-f1.counts", signal.SIGKILL, "function f1 (pcap-bridge) died during the trial"),
        (BRIDGE, "-f1.counts", signal.SIGSTOP, "function f1 (pcap-bridge) was stopped during the"),
        ({"switch": "ovs"}, "/vswitchd.pid", signal.SIGSTOP, "switch ovs was stopped during the"),
    ],
    ids=["dies", "is stopped", "switch is stopped"],
)
def test_what_dies_or_is_stopped_fails_the_test_with_its_name(
    traffic_program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    axes: dict[str, Any],
    options: str,
    number: signal.Signals,
    message: str,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("namespaces are made as root here")
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)

    def strike(trials: Trials) -> AbstractContextManager[None]:
        run = Path(trials._path.wiring.run_dir).name.encode()
        found = [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if run in (argv := _argv(process)) and options.encode() in argv
        ]
        os.kill(found[0], number)
        return nullcontext()

    measured_phases(strike)(monkeypatch)
    with Lab(tmp_path, gate="off") as lab:
        record = lab.run(Test(**{**axes, "duration": 0.2, "warmup": 0}))
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.startswith(message)


def _argv(process: Path) -> bytes:
    try:
        arguments = (process / "cmdline").read_bytes()
    except OSError:
        return b""
    return b"" if b"netns\0exec\0" in arguments else arguments  # which is about to be the program


# --- the bridge itself -----------------------------------------------------------------------


@pytest.fixture
def cable() -> Iterator[list[str]]:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a namespace")
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        add = ["link", "add", "c0", "type", "veth", "peer", "name", "c1"]
        subprocess.run(["ip", "-n", NAMESPACE, *add], check=True)
        yield ["ip", "netns", "exec", NAMESPACE, program_path("switchmark-pcap-bridge")]
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def test_the_bridge_says_what_is_wrong(cable: list[str], tmp_path: Path) -> None:
    counts = str(tmp_path / "a folder" / "counts")
    subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
    for arguments, status, reason in (
        (["c0"], 2, "usage: "),
        (["nowhere", "c0", counts], 1, "nowhere: "),
        (["c0", "c1", counts], 1, "c0: That device is not up"),
        (["lo", "lo", counts], 1, "counts: No such file or directory"),
    ):
        completed = subprocess.run([*cable, *arguments], capture_output=True, text=True, timeout=10)
        assert completed.returncode == status, completed.stderr
        assert reason in completed.stderr


def test_the_bridge_ends_when_told_and_leaves_its_counts(cable: list[str], tmp_path: Path) -> None:
    for end in ("c0", "c1"):
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", end, "up"], check=True)
    counts = tmp_path / "counts"
    with subprocess.Popen([*cable, "c0", "c1", str(counts)]) as bridge:
        until = time.monotonic() + 10
        while time.monotonic() < until and not (counts.exists() and counts.read_text()):
            time.sleep(0.01)
        bridge.terminate()
        assert bridge.wait(timeout=60) == 0
    assert set(json.loads(counts.read_text())) == {"in", "out", "missed", "failed"}


def test_functions_that_forward_tell_their_version() -> None:
    from switchmark.hosts.local import LocalHost

    for name in ("forwarder", "pcap-bridge", "linux-bridge"):
        assert FUNCTIONS[name].probe(LocalHost()).text
