"""These tests send real frames through every switch, with every engine, and account for every
frame."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from combinations import measured
from real_frames import (
    SINGLE_HOST,
    Measure,
    assert_every_frame_is_accounted_for,
    assert_nearly_all_arrive,
    brief,
    measuring,
    only,
)
from switchmark.engines import TABLE as ENGINES
from switchmark.functions.traffic import TrafficProcess
from switchmark.hosts.local import LocalHost
from switchmark.lab import trial as trials
from switchmark.lab.meter import Window
from switchmark.lab.workers import Worker, Workers
from switchmark.metrics.latency import PERCENTILES, counts_of, merged
from switchmark.model.objects import Message
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.model.units import mean_frame_bytes
from switchmark.observe import perf
from switchmark.path.refusals import check
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import base as searches
from switchmark.switches import TABLE as SWITCHES
from truths import preferred

_STAMPED_BY = {
    **dict.fromkeys(("mmap", "mmap-gso", "xdp-live"), "kernel"),
    **dict.fromkeys(("raw", "udp"), "call"),
}
SPLIT = ("raw-gso", "mmap-gso", "udp-gso")
REAL = [name for name in SINGLE_HOST if PortKind.VETH in SWITCHES[name].port_kinds]


def further(*parameters: tuple[Any, ...]) -> list[ParameterSet]:
    """Mark parameters whose facts others cover."""
    return [pytest.param(*values, marks=pytest.mark.further) for values in parameters]


# --- every switch ----------------------------------------------------------------------------

ONE_WAY, PAIRS, ROUND_TRIPS = "one way", "pairs", "round trips"
TRAFFIC: dict[str, dict[str, Any]] = {
    ONE_WAY: {},
    PAIRS: {"pairs": 2, "direction": "bi", "rate": "3k"},
    ROUND_TRIPS: {"dimension": "latency", "rate": "500"},
}
SCENARIOS_OF = {
    ONE_WAY: sorted(SCENARIOS),
    PAIRS: ["p2p", "v2v"],
    ROUND_TRIPS: ["p2v", "v2p", "v2v"],
}


def facts_of(combination: tuple[str, str, str]) -> set[object]:
    """Return the facts that a switch adds: its plans for a chain, for two pairs and for answers (in
    scenarios of one hop they are the same with other nodes: test_plans.py), and its treatment of
    frames in a scenario. Two pairs have one way among their ways."""
    switch, scenario, traffic = combination
    facts: set[object] = {(SWITCHES[switch].semantics[0], scenario)}
    if scenario == "loopback":
        return facts | {(switch, scenario)}
    return facts if traffic == ONE_WAY else facts | {(switch, traffic)}


COMBINATIONS = measured(
    [
        (switch, scenario, traffic)
        for switch in REAL
        for traffic, scenarios in SCENARIOS_OF.items()
        for scenario in scenarios
        if not check(Test(switch=switch, scenario=scenario, **TRAFFIC[traffic]))
    ],
    facts_of,
)


def through_every_switch(traffic: str) -> list[ParameterSet]:
    return [
        pytest.param(*case.values[:2], marks=case.marks)
        for case in COMBINATIONS
        if case.values[2] == traffic
    ]


@pytest.mark.parametrize(("switch", "scenario"), through_every_switch(ONE_WAY))
def test_every_switch_in_every_scenario(measure: Measure, switch: str, scenario: str) -> None:
    record = measure(switch=switch, scenario=scenario)
    trial = assert_nearly_all_arrive(record)
    assert record.semantics
    assert trial.latency is not None
    assert trial.latency.kind == "one-way"
    assert 0 < trial.latency.min <= trial.latency.mean <= trial.latency.max
    if scenario != "loopback":
        assert_the_kernel_counted_it(trial)


@pytest.mark.parametrize(("switch", "scenario"), through_every_switch(PAIRS))
def test_pairs_in_both_directions(measure: Measure, switch: str, scenario: str) -> None:
    record = measure(switch=switch, scenario=scenario, **TRAFFIC[PAIRS])
    trial = assert_every_frame_is_accounted_for(record)
    assert len(trial.per_flow) == 4
    assert "cores-shared" in record.doubts
    assert_the_kernel_counted_it(trial)
    apart = [flow.latency for flow in trial.per_flow if flow.latency]
    assert [latency.count for latency in apart] == [flow.rx for flow in trial.per_flow]
    together, one = merged(apart), trial.latency
    assert together
    assert one
    members = {"count", "min", "max", *PERCENTILES}
    assert together.model_dump(include=members) == one.model_dump(include=members)
    assert one.kind == "one-way"
    assert 0 < one.min <= one.mean <= one.max


def assert_the_kernel_counted_it(trial: TrialResult) -> None:
    """Check the counters at both ends of each port: the name of a flow is that of its ports. The
    kernel counts frames that come too late for their receiver, too."""
    late = trial.lost_at.get(Place(PlaceKind.LATE), 0)
    for flow in trial.per_flow:
        source, sink = flow.flow.split("-")
        arrived = trial.counters.at_parts[sink].rx
        assert trial.counters.at_parts[source].tx == flow.tx
        assert arrived is not None
        assert flow.rx <= arrived <= flow.rx + late
        if source in trial.counters.at_switch:
            assert trial.counters.at_switch[source].rx == flow.tx
            assert trial.counters.at_switch[sink].tx == arrived


@pytest.mark.parametrize(("switch", "scenario"), through_every_switch(ROUND_TRIPS))
def test_round_trips_through_every_switch(measure: Measure, switch: str, scenario: str) -> None:
    """Each takes frames from one port to another, and their answers back."""
    record = measure(switch=switch, scenario=scenario, **TRAFFIC[ROUND_TRIPS])
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.latency is not None
    assert (trial.latency.kind, trial.latency.count) == ("rtt", trial.rx_frames)


# --- every engine ----------------------------------------------------------------------------

OF_THE_KERNEL = [name for name in ENGINES if name not in ("null", "memif")]
"""The engines whose ports are interfaces of the kernel."""

QUICK = ("raw-mmsg", "udp", "mmap", "xdp", "udp-gso")
"""One engine for each way into the kernel."""


@pytest.mark.parametrize(
    ("engine", "switch"),
    [
        *(
            pytest.param(name, "linux-bridge", marks=[pytest.mark.smoke] if name in QUICK else [])
            for name in OF_THE_KERNEL
        ),
        ("memif", "direct"),
        *further(
            ("memif", "testpmd"),
            # The addresses of a router, by sockets, by rings and past the kernel; and a cable.
            *((name, "ip-forward") for name in ("udp", "raw-mmsg", "mmap", "xdp", "dpdk", *SPLIT)),
            *((name, "direct") for name in ("udp-mmsg", "xdp-live")),
        ),
    ],
)
def test_every_engine(measure: Measure, engine: str, switch: str) -> None:
    """It sends frames of seven flows on one path: short ones, odd ones that are read whole, long
    ones that are not read, and a mix. Trials of DPDK and memif are long: tests/root/test_bypass.py
    has their sizes."""
    usual = {"engine": engine, "switch": switch, "flows": 7}
    odd = {"frame_size": 65, "touch": "full"}
    if engine in ("dpdk", "memif"):
        records = measure.in_sequence(usual, {**usual, **odd, "duration": 0.2})
    else:
        short = {**usual, "duration": brief(0.05)}
        long = {"frame_size": 1518, "touch": "none"}
        mixed = {"frame_size": "imix"}
        records = measure.in_sequence(usual, *({**short, **axes} for axes in (odd, long, mixed)))
    assert not any(record.reused is False for record in records[1:])
    for record in records:
        trial = assert_nearly_all_arrive(record)
        assert_sizes_are_those_of(record)
        assert (trial.latency is None) == (record.test.touch == "none")
        assert ("flows-in-runs" in trial.doubts) == (engine in SPLIT)
    record = records[0]
    trial = only(record)
    assert len(trial.per_flow) == 7
    assert sum(flow.tx for flow in trial.per_flow) == trial.tx_frames
    assert sum(flow.rx for flow in trial.per_flow) == trial.rx_frames
    (stamps,) = trial.evidence.stamps.values()
    assert stamps.by == _STAMPED_BY.get(engine, "poll")
    assert (stamps.noted > 0) == (stamps.by != "poll")
    assert stamps.max > 0
    assert trial.latency is not None
    assert trial.latency.earliest is not None
    assert sum(counts_of(trial.latency.earliest).values()) == trial.latency.count
    noted = stamps.by in ("kernel", "device") and stamps.noted == trial.latency.count
    assert (trial.latency.earliest == trial.latency.histogram) == noted
    if engine in ("mmap", "mmap-gso", "xdp", "xdp-live"):
        assert record.engine_mode


def assert_sizes_are_those_of(record: Record) -> None:
    """Check the sizes of frames. The last turn of a mix may be cut short: at the end of the trial,
    or anywhere if a busy host does not let all frames be sent and received."""
    trial, size = only(record), record.test.frame_size
    if isinstance(size, int):
        assert trial.rx_bytes == size * trial.rx_frames
    elif trial.tx_unsent or trial.lost:
        assert 64 * trial.rx_frames < trial.rx_bytes < 1518 * trial.rx_frames
    else:
        assert trial.rx_bytes == pytest.approx(mean_frame_bytes(size) * trial.rx_frames, rel=0.05)


@pytest.mark.parametrize(
    ("engine", "switch"),
    [
        *((name, "ip-forward") for name in OF_THE_KERNEL if ENGINES[name].receiver is None),
        ("memif", "testpmd"),
        *further(
            *((name, "linux-bridge") for name in OF_THE_KERNEL if ENGINES[name].receiver is None)
        ),
    ],
)
def test_round_trips(measure: Measure, engine: str, switch: str) -> None:
    """Through a router, the server's kernel makes the headers of the answers of sockets: they cross
    the router once."""
    record = measure(engine=engine, switch=switch, dimension="latency", rate="1000")
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.latency is not None
    assert trial.latency.kind == "rtt"
    assert trial.latency.count == trial.rx_frames


@pytest.mark.parametrize("engine", ["raw-mmsg", *further(("udp-mmsg",), ("mmap",), ("xdp",))])
def test_frame_sizes(measure: Measure, engine: str) -> None:
    sizes: tuple[int | str, ...] = (64, 1500, "imix:csit", "genome:aag")
    usual = {"engine": engine, "duration": brief(0.05)}
    for record in measure.in_sequence(*({**usual, "frame_size": size} for size in sizes)):
        assert_nearly_all_arrive(record)
        assert_sizes_are_those_of(record)


@pytest.mark.parametrize(
    ("engine", "switch"),
    [
        ("udp", "linux-bridge"),
        ("raw-mmsg", "tc-redirect"),
        ("udp-mmsg", "direct"),
        ("mmap", "tc-redirect"),
        ("xdp", "direct"),
        *further(("raw-mmsg", "linux-bridge"), ("xdp", "linux-bridge")),
    ],
)
def test_jumbo_frames_with_every_byte_checked(measure: Measure, engine: str, switch: str) -> None:
    axes = {"engine": engine, "switch": switch, "direction": "bi"}
    record = measure(frame_size=9600, rate="2k", touch="full", **axes)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.rx_bytes == 9600 * trial.rx_frames


@pytest.mark.parametrize(
    ("switch", "by"),
    [
        ("linux-bridge", "mac"),
        ("ip-forward", "ip"),
        *further(*(("linux-bridge", by) for by in ("ip", "port")), ("ip-forward", "port")),
        *further(("ovs", "mac")),
    ],
)
def test_flows_are_counted_apart(measure: Measure, switch: str, by: str) -> None:
    trial = assert_nearly_all_arrive(measure(switch=switch, flows=500, flows_by=by))
    assert len(trial.per_flow) == 500
    assert sum(flow.tx for flow in trial.per_flow) == trial.tx_frames
    assert sum(flow.rx for flow in trial.per_flow) == trial.rx_frames


TUNNEL = {"encapsulation": "vxlan", "frame_size": 128}
IP_6 = {"ip_version": "6", "frame_size": 128}
TAGGED = {"vlan": 42, "frame_size": 68}
# Announcements pass in the warm-up, and a busy host forwards no 20,000 long frames a second.
CHAIN = {"scenario": "loopback", "chain": 1, "warmup": 0.05, "rate": "2k"}
WHOLE = {"touch": "full", "frame_size": 512}


@pytest.mark.parametrize(
    ("engine", "axes"),
    [
        ("raw-gso", {"switch": "direct", **WHOLE, "burst": 128}),
        ("raw-gso", {"switch": "ovs", **TAGGED, "flows": 100_000, "flows_by": "ip"}),
        ("raw-gso", {"switch": "vxlan", "flows": 1000, "flow_order": "zipf", "frame_size": "imix"}),
        ("raw-gso", {**IP_6, "flows": 7, "function_cores": 2}),
        ("raw-gso", {"switch": "tc-redirect", **TUNNEL}),
        ("raw-gso", {"frame_size": 9600}),
        ("mmap-gso", {"switch": "tc-redirect", **WHOLE, "burst": 128}),
        ("mmap-gso", {"switch": "vxlan", **TAGGED}),
        ("mmap-gso", {**TUNNEL, "flows": 7, "function_cores": 2}),
        ("mmap-gso", {"switch": "ovs", **IP_6}),
        ("mmap-gso", {**CHAIN, "frame_size": 9600}),
        ("udp-gso", {"switch": "xdp-redirect", **WHOLE}),
        ("udp-gso", {"switch": "ovs"}),
        ("udp-gso", {"frame_size": 9600}),  # of which few fit into a socket of ovs
        *(
            pytest.param(engine, {"switch": switch}, marks=marks)
            for (engine, switch), marks, _ in measured(
                [
                    (engine, switch)
                    for engine in SPLIT
                    for switch in REAL
                    if switch != "cni"  # its interfaces keep their offloads, which are refused
                    and not check(Test(switch=switch, engine=engine))
                ],
                lambda pair: (),  # those above have each switch
            )
        ),
        *further(
            *((engine, {"frame_size": size}) for engine in SPLIT for size in (1518, 9600, "imix")),
            *((engine, {"flows": 7}) for engine in SPLIT),
            ("raw-gso", {"flows": 7, "function_cores": 2}),
            ("raw-gso", {"flows": 100_000, "flows_by": "ip"}),
            ("raw-gso", {"flows": 1000, "flow_order": "zipf", "frame_size": "imix"}),
            *(("raw-gso", axes) for axes in (TAGGED, IP_6, TUNNEL, CHAIN)),
            ("mmap-gso", {"flows": 7, "function_cores": 2}),
            *(("mmap-gso", axes) for axes in (TAGGED, IP_6, TUNNEL, CHAIN)),
            *((engine, {**WHOLE, "burst": 128}) for engine in ("raw-gso", "mmap-gso")),
            ("udp-gso", WHOLE),
        ),
    ],
    ids=str,
)
def test_a_packet_is_split_before_the_switch(
    measure: Measure, engine: str, axes: dict[str, Any]
) -> None:
    """The gate checks sizes, headers and the counters of every port."""
    record = measure(engine=engine, **{"rate": "20k", **axes})
    trial = assert_every_frame_is_accounted_for(record)
    assert_sizes_are_those_of(record)
    assert record.gate is not None
    assert record.gate.passed
    assert ("flows-in-runs" in trial.doubts) == ("flows" in axes)


# --- other paths -----------------------------------------------------------------------------


def test_a_pair_in_one_process(measure: Measure) -> None:
    record = measure(placement="shared-process")
    trial = assert_every_frame_is_accounted_for(record)
    assert [part.cores for part in trial.parts] == [None, None]


def facts_of_places(combination: tuple[str, str, str]) -> set[object]:
    """Return the facts of a combination: where the switch and the functions are, and where a switch
    is that makes more there than links, a child of a link or a daemon's tap."""
    switch, environment, switch_environment = combination
    facts: set[object] = {switch, (environment, switch_environment)}
    return facts | {(switch, switch_environment)} if switch in ("macvlan", "ovs") else facts


@pytest.mark.parametrize(
    ("switch", "environment", "switch_environment"),
    measured(
        [
            (switch, *places)
            for switch in ("direct", "linux-bridge", "macvlan", "ovs")
            for places in (("host", "host"), ("host", "netns"), ("netns", "host"))
        ],
        facts_of_places,
    ),
)
def test_functions_and_switches_on_the_host_itself(
    measure: Measure, switch: str, environment: str, switch_environment: str
) -> None:
    axes = {"environment": environment, "switch_environment": switch_environment}
    assert_every_frame_is_accounted_for(measure(switch=switch, **axes))


def test_open_vswitch_of_the_host_is_left_alone(measure: Measure) -> None:
    host = LocalHost()
    assert host.run(("ip", "tuntap", "add", "ovs-netdev", "mode", "tap")).status == 0
    try:
        with pytest.raises(
            AssertionError, match="(?s)unless another interface has it: .*File exists"
        ):
            measure(switch="ovs", switch_environment="host")
    finally:
        assert host.run(("ip", "link", "del", "ovs-netdev")).status == 0


def test_what_is_lost_at_saturation_has_its_place(measure: Measure) -> None:
    record = measure(rate="max", search="max", duration=0.2)
    trial = only(record)
    assert trial.rx_frames > 0
    assert abs(trial.unaccounted) <= 0.001 * trial.tx_frames
    assert record.search is not None
    (goal,) = record.search.goals
    assert goal.goal == "r+"
    assert (goal.rate_pps or 0) > 0


def test_a_switch_that_fills_a_link_is_told_by_what_was_offered(measure: Measure) -> None:
    record = measure(rate="max", search="max", line_rate="10kpps", duration=0.3)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.spec.rate_pps == 10_000
    assert trial.tx_frames + trial.tx_unsent == 3000
    assert record.search is not None
    (goal,) = record.search.goals
    assert 0 < (goal.rate_pps or 0) <= 10_500
    if trial.lost + trial.tx_unsent == 0:  # nothing held it up
        assert record.verdict == "offered-load"


@pytest.mark.alone
def test_perf_counts_what_the_kernel_counts(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Software events, which every host has, take the way of the processor's."""
    monkeypatch.setattr(perf, "EVENTS", ("task-clock", "context-switches", "cycles"))
    monkeypatch.setattr(perf, "_SOFTWARE", set())  # so that it is asked
    with preferred(), measuring(tmp_path) as counting:
        alone = only(counting(duration=0.15))
        shared = only(counting(placement="0", duration=0.1))
    assert alone.cost is not None
    assert shared.cost is not None
    parts = alone.cost.perf.parts
    assert alone.cost.perf.missing is None
    assert all(0 <= load <= 1 for load in alone.cost.load.values())
    # The sender and the receiver poll.
    assert sum(alone.cost.load.values()) > 1.0
    assert {place: part.by for place, part in parts.items()} == {
        "f0": "thread",
        "f1": "thread",
        "cpus": "cpu",
    }
    for part in alone.parts:
        counted, balance = parts[part.part], alone.cost.scheduler[part.part]
        assert abs((counted.model_extra or {})["context_switches"] - balance.context_switches) <= 5
        assert part.cores is not None
        # perf begins to count a few ms into a phase of 150: it is asked once the phase has started.
        ran_ns = part.cores * alone.cost.elapsed_ns
        assert 0.9 * ran_ns <= (counted.model_extra or {})["task_clock"] <= alone.cost.elapsed_ns
    of_both = shared.cost.perf.parts["f0+f1"]
    assert (of_both.by, of_both.cpus) == ("cpu", (0,))
    assert of_both.roles == ("sender", "receiver")
    turns = sum(part.context_switches for part in shared.cost.scheduler.values())
    assert (of_both.model_extra or {})["context_switches"] >= 0.9 * turns > 100


@pytest.mark.parametrize("engine", ["mmap", *further(("udp",))])
def test_what_a_trial_cost_is_counted_from_its_start_to_its_end(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Neither while all wait for the start, nor while the path falls quiet: a switch that sleeps
    meanwhile would seem to take less than it does."""
    happened: list[tuple[str, int]] = []
    send, begin, stop = Workers.send, Window.begin, Window.stop

    def noted(name: str, ns: int | None = None) -> None:
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        happened.append((name, now_ns if ns is None else ns))

    def sending(
        workers: Workers,
        command: str,
        members: Callable[[Worker], Message] = lambda _: {},
        **options: Any,
    ) -> list[Message]:
        if command == "start":
            start = members(next(iter(workers)))
            noted("starts", start["at_ns"])
            noted("ends", start["at_ns"] + start["duration_ns"])
        elif command == "drain":
            noted("drain")
        return send(workers, command, members, **options)

    def beginning(window: Window) -> None:
        noted("begin")
        begin(window)

    def stopping(window: Window) -> None:
        stop(window)
        noted("stop")

    monkeypatch.setattr(Workers, "send", sending)
    monkeypatch.setattr(Window, "begin", beginning)
    monkeypatch.setattr(Window, "stop", stopping)
    trial = only(measure(switch="ovs", engine=engine))
    in_turn = sorted(happened[-5:], key=lambda event: event[1])
    assert [name for name, _ in in_turn] == ["starts", "begin", "ends", "stop", "drain"]
    assert trial.cost is not None
    times = dict(in_turn)
    assert trial.cost.elapsed_ns <= times["stop"] - times["begin"]


@pytest.mark.parametrize("search", ["mlr", *further(("ndr",), ("pdr",))])
def test_searches_for_a_rate_on_a_real_path(measure: Measure, search: str) -> None:
    axes = {"search": search, "rate": "20k", "precision": 0.2, "duration": 0.05}
    record = measure(**axes)
    assert record.search is not None
    for goal in record.search.goals:
        if goal.rate_pps is not None:  # a busy machine may lose frames at any rate
            assert 0 < (goal.low_pps or 0) == goal.rate_pps <= 20_000
            assert goal.latency_ns is not None
            assert goal.latency_ns.count > 0
        if goal.high_pps is None:
            assert goal.verdict in ("offered-load", "sender")
    assert record.search.trials >= len(record.trials) > 0


def test_latency_at_shares_of_r_plus(measure: Measure) -> None:
    record = measure(
        search="latency-at-load", dimension="latency", rate="max", loads="10,50", duration=0.05
    )
    assert record.search is not None
    low, high = record.search.goals
    assert high.rate_pps == pytest.approx(5 * (low.rate_pps or 0))
    assert high.latency_ns is not None
    assert high.latency_ns.kind == "rtt"
    assert low.latency_ns is not None
    assert low.latency_ns.ipdv is not None
    assert low.latency_ns.ipdv.count > 0


def test_a_burst_on_a_real_path(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "MAX_TRIALS", 40)  # on a busy host it would have them all
    record = measure(search="back-to-back", precision="10%", rate="max", duration=0.05)
    assert record.search is not None
    (goal,) = record.search.goals
    assert (goal.burst_frames or 0) > 0
    assert all(trial.tx_frames == trial.spec.frames for trial in record.trials)


def test_the_loss_of_real_frames_by_load(measure: Measure) -> None:
    record = measure(search="frame-loss", rate="2k", duration=0.05)
    assert record.search is not None
    goals = record.search.goals
    assert [goal.rate_pps for goal in goals[:2]] == [2000, 1800]
    assert 2 <= len(goals) <= 10
    assert {trial.spec.rate_pps for trial in record.trials} == {2000}
    assert all(trial.unaccounted == 0 for trial in record.trials)


def test_a_trial_waits_for_its_last_frames_and_for_the_switch(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain, run_trial = Workers.drain, trials.Trials.measure
    drained: list[tuple[float, float]] = []
    ended: list[float] = []

    def draining(workers: Workers, quiet_ms: int) -> None:
        began = time.monotonic()
        drain(workers, quiet_ms)
        drained.append((began, time.monotonic()))

    def timed(path: trials.Trials, spec: TrialSpec, *, proving: bool = False) -> TrialResult:
        result = run_trial(path, spec, proving=proving)
        ended.append(time.monotonic())
        return result

    monkeypatch.setattr(Workers, "drain", draining)
    monkeypatch.setattr(trials.Trials, "measure", timed)
    record = measure(rate="1k", residual=0.3, settle=0.4)
    assert_every_frame_is_accounted_for(record)
    began, over = drained[-1]
    assert over - began >= 0.3
    assert ended[-1] - over >= 0.4


def test_a_late_start_is_doubted_and_floods_nobody(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts are ordered to begin 0.05 s ago: a third of the phase is over."""
    phase = trials.Trials._phase

    def late(
        path: trials.Trials, name: str, duration_s: float, *options: Any, **named: Any
    ) -> None:
        lead_ns = -50_000_000 - 2 * trials._LEAD_A_PROCESS_NS
        with pytest.MonkeyPatch.context() as patch:
            if name == "measured" and duration_s == 0.15:  # not that of the gate
                patch.setattr(trials, "_LEAD_NS", lead_ns)
                patch.setattr(path, "_away_ns", lead_ns)  # no less than that
            phase(path, name, duration_s, *options, **named)

    monkeypatch.setattr(trials.Trials, "_phase", late)
    record = measure(switch="linux-bridge", rate="20k", duration=0.15)
    trial = only(record)
    assert "started-late" in trial.doubts
    assert set(trial.evidence.started_late_ns) == {"f0", "f1"}
    assert min(trial.evidence.started_late_ns.values()) > 40_000_000
    assert trial.tx_frames + trial.tx_unsent == 3000
    assert trial.tx_unsent >= 800
    assert trial.unaccounted == 0


def test_senders_take_turns(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[dict[str, Any]] = []
    send = TrafficProcess.send

    def noting(process: TrafficProcess, command: str, **members: Any) -> None:
        commands.extend(members.get("tasks", ()))
        send(process, command, **members)

    monkeypatch.setattr(TrafficProcess, "send", noting)
    trial = only(measure(switch="linux-bridge", pairs=2, rate="1k", duration=0.15))
    senders = [task["stagger"] for task in commands if "rate_pps" in task]
    assert sorted(senders[-2:]) == [0.0, 0.5]
    assert trial.tx_frames + trial.tx_unsent == 2 * 150
