"""These tests inject truths: what a switch, a sender, a receiver or a host is made to do wrong is
found, counted to the frame and located. `make soak` (SWITCHMARK_SOAK=20) tries each verdict 20
times.

`tests/replay` has recordings of most faults and verdicts from a quiet host. So `make test` shows
each kind of them once with real frames, and the marker `further` leaves the others to `make
test-all` and `make soak`."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from combinations import measured
from real_frames import DISTURBED, skip_unpackaged
from switchmark.hosts.local import LocalHost
from switchmark.lab import calibration
from switchmark.lab import series as intervals
from switchmark.lab.calibration import Calibrations
from switchmark.lab.measure import Lab
from switchmark.lab.trial import Trials
from switchmark.metrics.cpu import cores_by_role
from switchmark.metrics.outage import outage_of
from switchmark.metrics.soak import first_loss_s
from switchmark.metrics.statistics import MIN_OF_INTERVAL
from switchmark.model.cpus import Pin
from switchmark.model.evidence import Balance
from switchmark.model.place import Place, PlaceKind
from switchmark.model.plan import Plan, Spawn
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import PortKind, Role, Wiring
from switchmark.observe import noise
from switchmark.observe.cpus import read_cpus
from switchmark.path import refusals
from switchmark.plugins import load_plugins
from switchmark.searches import base as searches
from switchmark.searches.base import LoadBounds, Measure
from switchmark.switches import TABLE
from switchmark.switches.base import Switch
from switchmark.switches.changes import PAUSE_S
from truths import FAULTS, found_in, hog, hogged, preferred, slow

PLUGINS = Path(__file__).parents[1] / "plugins"
PROGRAM = Path(__file__).parents[2] / "build/wheel/traffic/truth-switch"

INSIDE = Place(PlaceKind.INSIDE_SWITCH)
TIMES = int(os.environ.get("SWITCHMARK_SOAK", "1"))
WANTED = TIMES if TIMES < 20 else math.ceil(0.95 * TIMES)

BRIEF = TrialSpec(rate_pps=None, duration_s=0.15, warmup_s=0.05)
"""A trial of a calibration: half as long as usual."""

Try = Callable[..., Record]


@pytest.fixture
def attempt(traffic_program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Try]:
    """Measure the switch `truth`, or another one, by `attempt(faults, **axes)`, with the gate off
    unless it is asked for. The switch comes as a plug-in does: by its entry point."""
    if not PROGRAM.exists():
        pytest.skip("truth-switch is not built: run make setup")
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.syspath_prepend(str(PLUGINS))
    table = load_plugins("switchmark.switches", Switch, TABLE.values())  # type: ignore[type-abstract]
    truths = [table["truth"], table["truth-dpdk"]]
    for truth in truths:
        monkeypatch.setattr(truth, "program", str(PROGRAM), raising=False)

    if TIMES == 1:
        monkeypatch.setattr(calibration, "_ON_CABLE", BRIEF)
    # One calibration for all attempts: a part that is slow in a later attempt was not slow when it
    # was calibrated.
    measured_by: list[Lab] = []
    calibrations = Calibrations(
        "auto",
        lambda *those: measured_by[-1]._without_switch(*those),
        tmp_path / "cache.json",
    )

    def run(
        *faults: object,
        rerun: int = 0,
        gate: str = "off",
        calibrated: bool = True,
        expected: dict[str, object] | None = None,
        **axes: Any,
    ) -> Record:
        for truth in truths:
            monkeypatch.setattr(truth, "faults", tuple(map(str, faults)), raising=False)
            monkeypatch.setattr(truth, "expected", expected or {}, raising=False)
        test = Test(
            **{
                "switch": "truth",
                "duration": 0.2,
                "warmup": 0.05,
                "rate": "10k",
                "burst": 1,
                **axes,
            }
        )
        assert refusals.check(test) == []
        with Lab(tmp_path, gate=gate, rerun=rerun) as lab:  # type: ignore[arg-type]
            measured_by.append(lab)
            if calibrated:
                lab._calibrations = calibrations
            return lab.run(test)

    with TABLE.replaced_by(table):
        yield run


@pytest.fixture
def first_served() -> Iterator[None]:
    """Prefer a test to other programs: what is counted exactly needs frames of every flow, which
    come before the drain is over."""
    with preferred():
        yield


def only(record: Record) -> TrialResult:
    assert record.status == "ok", record.error
    (trial,) = record.trials
    assert trial.unaccounted == 0, (trial.lost, trial.lost_at)
    return trial


def names(record: Record, verdict: str, *doubts: str) -> bool:
    """Return whether a record names what limited it. If other programs took CPU time, it has to say
    that instead, by a doubt, or by the verdict `host` if the hypervisor kept the CPU. `make soak`
    needs a quiet host, and accepts the verdict alone. `tests/replay` has recordings of these
    verdicts."""
    assert record.status == "ok", record.error
    found = {*record.doubts}
    evidence = record.trials[0].evidence.verdict if record.trials else None
    kept = record.verdict == "host" and evidence is not None and (evidence.stolen or 0) > 0.05
    excused = TIMES == 1 and (kept or bool(found & DISTURBED))
    return excused or (record.verdict == verdict and found >= {*doubts})


def core_of(record: Record, part: str) -> int:
    """Return the one core that a part had to itself."""
    assert record.placement is not None
    pin = record.placement.seats[part]
    assert isinstance(pin, Pin)
    (core,) = pin.cpus
    return core


# --- what a switch does to frames ------------------------------------------------------------


def test_nothing_is_found_where_nothing_is_wrong(attempt: Try) -> None:
    record = attempt(gate="refuse")
    trial = only(record)
    assert trial.tx_unsent or record.verdict == "offered-load"
    assert record.gate is not None
    assert record.gate.passed
    assert (trial.lost, trial.duplicated, trial.reordered, trial.corrupted) == (0, 0, 0, 0)
    assert trial.evidence.balance[INSIDE] == Balance(trial.tx_frames, trial.tx_frames)


@pytest.mark.further
@pytest.mark.alone
def test_every_tenth_frame_dropped(attempt: Try) -> None:
    with preferred():
        record = attempt("--drop", 10)
    trial = only(record)
    assert trial.lost == trial.tx_frames // 10 > 0
    assert trial.lost_at == {INSIDE: trial.lost}
    assert names(record, "switch"), record.verdict


@pytest.mark.further
def test_every_tenth_frame_sent_twice(attempt: Try) -> None:
    trial = only(attempt("--duplicate", 10))
    assert trial.duplicated == trial.tx_frames // 10 > 0
    assert trial.lost == 0
    balance = trial.evidence.balance[INSIDE]
    assert balance.left - balance.entered == trial.duplicated


@pytest.mark.further
def test_every_tenth_frame_overtaken(attempt: Try) -> None:
    trial = only(attempt("--swap", 10, rate="10005"))
    assert trial.tx_frames % 10 != 0  # the last to be swapped has a successor
    assert trial.reordered == trial.tx_frames // 10 > 0
    assert trial.lost == trial.duplicated == 0


@pytest.mark.further
def test_every_tenth_frame_corrupted(attempt: Try) -> None:
    record = attempt("--corrupt", 10)
    trial = only(record)
    assert trial.corrupted == trial.lost == trial.tx_frames // 10 > 0
    assert trial.lost_at == {Place(PlaceKind.CORRUPTED): trial.lost}


def test_every_tenth_frame_at_another_port(attempt: Try) -> None:
    trial = only(attempt("--stray", 10, pairs=2, rate="3k"))
    assert trial.stray == trial.lost == sum(flow.tx // 10 for flow in trial.per_flow) > 0
    assert trial.lost_at == {Place(PlaceKind.STRAY): trial.lost}


# --- the same on several cores -----------------------------------------------------------------

TWO_CORES: dict[str, Any] = {"function_cores": 2, "flows": 8, "rate": "5k", "duration": 0.2}


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize(
    "engine",
    [
        *("xdp", "udp-mmsg"),
        pytest.param("raw", marks=pytest.mark.further),
        # The tests of flows that come to both cores have these.
        pytest.param("raw-mmsg", marks=pytest.mark.further),
        pytest.param("mmap", marks=pytest.mark.further),
    ],
)
def test_frames_that_are_lost_and_doubled_are_counted_on_two_cores(
    attempt: Try, engine: str
) -> None:
    # What is doubled hides what is lost from the counters of ports, and so from `unaccounted`.
    (trial,) = attempt("--drop", 10, "--duplicate", 7, engine=engine, **TWO_CORES).trials
    for flow in trial.per_flow:
        lost = [number for number in range(flow.tx) if number % 10 == 9]
        doubled = [n for n in range(flow.tx) if n % 7 == 6 and n not in lost]
        assert (flow.lost, flow.duplicated) == (len(lost), len(doubled))
        assert flow.tx > 0
    assert len(trial.per_flow) == 8
    assert (trial.reordered, trial.corrupted) == (0, 0)
    assert trial.latency is not None
    assert trial.latency.count == trial.rx_frames - trial.duplicated
    assert "flows-mixed" not in trial.doubts


@pytest.mark.further
@pytest.mark.usefixtures("first_served")
def test_frames_that_are_overtaken_and_corrupted_are_counted_on_two_cores(
    attempt: Try,
) -> None:
    trial = only(attempt("--swap", 7, "--corrupt", 10, engine="mmap", **TWO_CORES))
    for flow in trial.per_flow:
        swapped = range(6, flow.tx, 7)
        # Swapped frames are not corrupted; no frame overtakes the last frame.
        corrupted = [n for n in range(9, flow.tx, 10) if n not in swapped]
        held = flow.tx % 7 == 0
        assert flow.corrupted == len(corrupted)
        assert flow.lost == len(corrupted) + held
        # That a frame was overtaken by a corrupted one, whose number nobody knows, is not seen.
        unseen = [n for n in swapped if n + 1 in corrupted]
        assert flow.reordered == len(swapped) - held - len(unseen)


@pytest.mark.usefixtures("first_served")
def test_flows_that_come_to_both_cores_are_counted_exactly(attempt: Try) -> None:
    faults = ("--spread", 3, "--duplicate", 5, "--drop", 10)
    (trial,) = attempt(*faults, engine="raw-mmsg", **TWO_CORES).trials
    for flow in trial.per_flow:
        lost = [number for number in range(flow.tx) if number % 10 == 9]
        doubled = [n for n in range(flow.tx) if n % 5 == 4 and n not in lost]
        assert (flow.lost, flow.duplicated) == (len(lost), len(doubled))
    assert trial.evidence.mixed > 0
    assert trial.evidence.unfollowed == 0
    assert ("flows-mixed" in trial.doubts) == (trial.evidence.ties > 0)


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize("engine", ["mmap", pytest.param("raw-mmsg", marks=pytest.mark.further)])
def test_what_overtakes_on_another_core_is_counted(attempt: Try, engine: str) -> None:
    # Other ports bring some frames to the other core, among them such as are overtaken.
    faults = ("--spread", 3, "--swap", 7, "--drop", 10)
    (trial,) = attempt(*faults, engine=engine, **TWO_CORES).trials
    overtaken = 0
    for flow in trial.per_flow:
        swapped = [n for n in range(6, flow.tx, 7) if n % 10 != 9]
        # The last frame has nobody that overtakes it; else the next but what is dropped does.
        held = bool(swapped) and all(n % 10 == 9 for n in range(swapped[-1] + 1, flow.tx))
        lost = sum(n % 10 == 9 for n in range(flow.tx))
        assert flow.lost == lost + held
        overtaken += len(swapped) - held
        assert flow.reordered <= len(swapped) - held
    assert (trial.evidence.mixed, trial.evidence.unfollowed) == (8, 0)
    assert overtaken - trial.evidence.ties <= trial.reordered <= overtaken
    assert ("flows-mixed" in trial.doubts) == (trial.evidence.ties > 0)
    if engine == "mmap":  # the kernel's stamps are of one clock
        assert (trial.reordered, trial.evidence.ties) == (overtaken, 0)


# --- the same in frames of other kinds ---------------------------------------------------------


KINDS: tuple[dict[str, Any], ...] = (
    {
        "encapsulation": "vxlan",
        "frame_size": 594,
        "flows": "1M",
        "flows_by": "ip",
        "flow_order": "random",
        "engine": "xdp",
    },
    {
        "encapsulation": "vxlan6",
        "ip_version": "6",
        "frame_size": 154,
        "flows": 5,
        "touch": "full",
        "engine": "mmap",
    },
    {
        "ip_version": "6",
        "frame_size": 88,
        "vlan": 7,
        "arrivals": "poisson",
        "flows": "1M",
        "flow_order": "zipf",
        "function_cores": 2,
    },
)
FURTHER_KINDS: tuple[dict[str, Any], ...] = (
    {"ip_version": "6", "frame_size": 84, "flows": 5, "engine": "mmap"},
    {"flows": "1M", "flow_order": "random"},
    {"arrivals": "poisson", "engine": "raw"},
    {"encapsulation": "vxlan", "frame_size": 114, "flows": 5, "touch": "full"},
    {"encapsulation": "vxlan6", "frame_size": 134, "flows": 5, "engine": "mmap"},
    {
        "encapsulation": "vxlan6",
        "ip_version": "6",
        "frame_size": 594,
        "flows": "1M",
        "flows_by": "ip",
        "touch": "full",
    },
)


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize(
    "axes",
    [*KINDS, *(pytest.param(axes, marks=pytest.mark.further) for axes in FURTHER_KINDS)],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_faults_are_counted_in_frames_of_any_kind(attempt: Try, axes: dict[str, Any]) -> None:
    faults = itertools.chain.from_iterable(FAULTS.items())
    (trial,) = attempt(*faults, **{"rate": "5k", **axes}).trials
    for flow in trial.per_flow:
        lost, doubled, overtaken, corrupted = found_in(flow.tx)
        assert min(lost, doubled, overtaken, corrupted) > 0
        assert (flow.lost, flow.duplicated, flow.corrupted) == (lost, doubled, corrupted)
        # Sub-flows of a flow come to both cores; the engine has no stamps of the kernel.
        assert overtaken - trial.evidence.ties <= flow.reordered <= overtaken
    assert bool(trial.evidence.mixed) == ("function_cores" in axes)
    assert trial.lost == sum(flow.lost for flow in trial.per_flow)
    assert trial.duplicated == sum(flow.duplicated for flow in trial.per_flow)
    assert trial.reordered == sum(flow.reordered for flow in trial.per_flow)
    assert trial.corrupted == sum(flow.corrupted for flow in trial.per_flow)


OVER_DPDK: dict[str, Any] = {"switch": "truth-dpdk", "engine": "dpdk", "flows": 4, "duration": 0.4}


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize(
    "port",
    # The test of two queues has the other port.
    ["memif", pytest.param("vhost-user", marks=pytest.mark.further)],
)
def test_faults_are_counted_over_ports_of_dpdk(attempt: Try, port: str) -> None:
    faults = [word for fault in FAULTS.items() for word in fault]
    (trial,) = attempt(*faults, port=port, **OVER_DPDK).trials
    for flow in trial.per_flow:
        found = (flow.lost, flow.duplicated, flow.reordered, flow.corrupted)
        assert found == found_in(flow.tx)
        assert min(found) > 0
    assert len(trial.per_flow) == 4


@pytest.mark.usefixtures("first_served")
def test_faults_are_counted_over_two_queues_of_dpdk(attempt: Try) -> None:
    # Other ports bring some frames to the other queue, and so to the other core.
    faults = [word for fault in {**FAULTS, "--spread": 3}.items() for word in fault]
    (trial,) = attempt(*faults, port="vhost-user", function_cores=2, **OVER_DPDK).trials
    overtaken = 0
    for flow in trial.per_flow:
        lost, doubled, swapped, corrupted = found_in(flow.tx)
        assert (flow.lost, flow.duplicated, flow.corrupted) == (lost, doubled, corrupted)
        assert min(lost, doubled, swapped, corrupted) > 0
        overtaken += swapped
    assert (trial.evidence.mixed, trial.evidence.unfollowed) == (4, 0)
    assert overtaken - trial.evidence.ties <= trial.reordered <= overtaken


# --- outages -----------------------------------------------------------------------------------

PERIOD_S, EVENT_S = 1e-4, 0.5
BUSY_S = 5e-3
"""How much later than on a quiet host a receiver may wake up."""


@pytest.mark.alone
@pytest.mark.parametrize(
    "gap_ms", [10, *(pytest.param(gap_ms, marks=pytest.mark.further) for gap_ms in (1, 100, 1000))]
)
def test_a_gap_is_found_to_within_two_periods(attempt: Try, gap_ms: int) -> None:
    """The frames that are due in the gap are lost. It begins 5 ms after the event."""
    missed = []
    for _ in range(TIMES):
        with preferred():
            record = attempt(
                *("--gap-us", 1000 * gap_ms, "--gap-after-us", 505_000),
                dimension="outage",
                event=f"reconfigure@{EVENT_S}",
                duration=1 + gap_ms / 1e3,
            )
        (trial,) = record.trials
        outage = outage_of(trial)
        assert outage is not None
        (event,) = trial.evidence.events
        assert trial.series is not None
        assert trial.series.gaps
        longest = trial.series.gaps[0]
        assert longest.before_due_ns is not None
        assert longest.due_ns is not None
        due_s = longest.due_ns / 1e9 - PERIOD_S
        errors_s = (
            outage.by_loss_s - gap_ms / 1e3,
            due_s - gap_ms / 1e3,
            longest.before_due_ns / 1e9 - 0.505,
        )
        late_s = abs(outage.by_time_s - gap_ms / 1e3)
        unsure_s = outage.unsure_s + (PERIOD_S if TIMES > 1 else BUSY_S)
        if max(map(abs, errors_s)) > 2 * PERIOD_S or late_s > unsure_s:
            missed.append((errors_s, late_s, outage.unsure_s))
        assert event.failure is None
        assert event.began_ns >= EVENT_S * 1e9
    assert TIMES - len(missed) >= WANTED, missed


def test_a_pause_of_a_switch_is_found(attempt: Try) -> None:
    """A stopped switch loses or delays the frames of the time from SIGSTOP to SIGCONT."""
    record = attempt(dimension="outage", event="pause@0.2", duration=0.6)
    (trial,) = record.trials
    (event,), outage = trial.evidence.events, outage_of(trial)
    assert outage is not None
    assert event.restored_ns is not None
    turn_s = 0.1  # until the switch has a CPU again, on a busy host
    longest_s = (event.restored_ns - event.began_ns) / 1e9 + turn_s
    assert PAUSE_S - outage.unsure_s <= outage.by_time_s <= longest_s + outage.unsure_s


def test_a_switch_that_does_not_come_back_is_a_result(
    attempt: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process ends at once, as its options are wrong."""
    truth = load_plugins("switchmark.switches", Switch, TABLE.values())["truth"]  # type: ignore[type-abstract]
    revive = type(truth).revive

    def broken(self: Switch, wiring: Wiring) -> Plan:
        steps = revive(self, wiring)
        return tuple(
            replace(step, argv=("false",)) if isinstance(step, Spawn) else step for step in steps
        )

    monkeypatch.setattr(type(truth), "revive", broken)
    record = attempt(dimension="outage", event="kill@0.2", duration=0.6)
    assert record.status == "ok", record.error
    (trial,) = record.trials
    (event,), outage = trial.evidence.events, outage_of(trial)
    assert event.failure is not None
    assert "ended with status 1" in event.failure
    assert outage is not None
    assert not outage.is_over
    assert outage.by_loss_s == pytest.approx(0.6 - event.began_ns / 1e9, abs=0.1)


# --- what a trial shows over time ----------------------------------------------------------------


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize("frames", [40, pytest.param(1, marks=pytest.mark.further)])
def test_a_burst_of_losses_and_a_step_of_the_latency_are_found_where_they_were(
    attempt: Try, frames: int
) -> None:
    """At 10,000 frames/s, frame 4100 is due 0.41 s after the start. From 0.5 s on, each frame is
    20 ms late: more than a busy host delays the median frame."""
    faults = ("--lose", frames, "--lose-from", 4100, "--delay-us", 20_000, "--delay-from", 5000)
    trial = only(attempt(*faults, duration=0.8, interval=0.05))
    series = trial.series
    assert series is not None
    assert series.lost is not None
    assert {n: lost for n, lost in enumerate(series.lost) if lost} == {8: frames}
    assert sum(series.received) == sum(series.offered) - frames
    (gap,) = series.gaps or ()
    assert (gap.first, gap.lost) == (4100, frames)
    assert gap.due_ns == pytest.approx((frames + 1) * 100_000, abs=2000)
    assert first_loss_s(trial) == pytest.approx(0.41, abs=0.001)
    medians = [ns or 0 for ns in series.p50_ns[:16]]
    assert max(medians[:10]) < 20_000_000
    assert min(medians[11:]) >= 20_000_000


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize("leak_kib", [200, pytest.param(0, marks=pytest.mark.further)])
def test_a_leak_of_the_switch_is_named(
    attempt: Try, monkeypatch: pytest.MonkeyPatch, leak_kib: int
) -> None:
    """A trend takes ten values in each half. Memory is read 40 times a second here, not once."""
    monkeypatch.setattr(intervals, "_LOOK_NS", 25_000_000)
    (trial,) = attempt("--leak-kib", leak_kib, duration=1.2, interval=0.025).trials
    assert trial.series is not None
    assert sum(kib is not None for kib in trial.series.switch_rss_kib) >= 20
    assert ("growing" in trial.doubts) == (leak_kib > 0)
    if leak_kib:
        doubt = trial.evidence.doubts["growing"]
        first_kib, last_kib = doubt["rss_kib"]
        assert last_kib - first_kib == pytest.approx(200 * 10 * doubt["seconds"], rel=0.3)


# --- what a switch does to times -----------------------------------------------------------------


@pytest.mark.further
@pytest.mark.usefixtures("first_served")
def test_a_known_delay(attempt: Try) -> None:
    record = attempt("--delay-us", 20_000, rate="2k")
    trial = only(record)
    assert trial.latency is not None
    assert trial.latency.min >= 20_000_000
    assert trial.latency.p50 is not None
    assert trial.latency.p50 < 60_000_000 or DISTURBED & {*record.doubts}
    assert trial.lost == trial.lost_at.get(Place(PlaceKind.LATE), 0)


@pytest.mark.alone
def test_a_known_cap(attempt: Try) -> None:
    with preferred():
        record = attempt("--cap", 4000, duration=0.5)
    trial = only(record)
    assert 1900 < trial.distinct < 2100
    assert trial.lost_at == {INSIDE: trial.lost}
    assert names(record, "switch"), record.verdict


CHANGED_MAC = "source MAC 02:53:4d:00:00:01 instead of 02:53:4d:00:00:00"
LOWER_TTL = "TTL 63 instead of 64"
WRONG_SUM = "a wrong checksum of the IP header"


@pytest.mark.usefixtures("first_served")
@pytest.mark.parametrize(
    ("faults", "axes", "says"),
    [
        pytest.param(
            "--drop 10 --duplicate 11 --swap 7 --corrupt 9 --stray 13",
            {"pairs": 2},
            [
                "frames did not arrive: .*[0-9]+ inside switch",
                "[0-9]+ frames arrived more than once",
                "[0-9]+ frames arrived after a later one",
                "[0-9]+ frames arrived with other bytes",
                "[0-9]+ frames arrived at a port that they were not for",
            ],
            marks=pytest.mark.smoke,
        ),
        (
            *("--ttl 10 --mac 10 --checksum 10", {"touch": "none"}),
            [f"[0-9]+ frames of f0-f1 arrived with {CHANGED_MAC}; {LOWER_TTL}; {WRONG_SUM}$"],
        ),
        (
            *("--ttl 10 --mac 10", {"engine": "udp-mmsg"}),
            [f"[0-9]+ frames of f0-f1 arrived with {CHANGED_MAC}; {LOWER_TTL}$"],
        ),
        *(
            pytest.param(*fault, marks=pytest.mark.further)
            for fault in (
                ("--drop 10", {}, ["frames did not arrive: [0-9]+ inside switch"]),
                ("--duplicate 10", {}, ["[0-9]+ frames arrived more than once"]),
                ("--swap 10", {}, ["arrived after a later one"]),
                ("--corrupt 10", {}, ["[0-9]+ frames arrived with other bytes"]),
                ("--ttl 10", {"engine": "udp"}, [f"[0-9]+ frames .* with {LOWER_TTL}$"]),
                ("--checksum 10", {}, [f"[0-9]+ frames .* with {WRONG_SUM}$"]),
            )
        ),
    ],
)
def test_the_gate_refuses_a_broken_switch(
    attempt: Try, faults: str, axes: dict[str, Any], says: list[str]
) -> None:
    record = attempt(*faults.split(), gate="refuse", **axes)
    assert record.status == "failed"
    assert record.doubts == ("not-equivalent",)
    assert record.error is not None
    for sentence in says:
        assert re.search(sentence, record.error, re.MULTILINE)
    assert record.trials == ()


@pytest.mark.further
def test_the_gate_refuses_a_switch_that_does_not_write_what_it_says(attempt: Try) -> None:
    expected = {"routed": 1, "seen_src_mac": "02:52:4d:00:00:01"}
    record = attempt(gate="refuse", expected=expected)
    assert "TTL 64 instead of 63" in (record.error or "")
    assert "source MAC 02:53:4d:00:00:00 instead of 02:52:4d:00:00:01" in (record.error or "")


@pytest.mark.further
def test_a_broken_switch_is_measured_with_a_doubt_if_asked(attempt: Try) -> None:
    record = attempt("--drop", 10, gate="doubt")
    assert "not-equivalent" in record.doubts
    assert only(record).lost > 0


# --- who was the limit -----------------------------------------------------------------------


@contextmanager
def slowed(role: Role, delay_ns: int) -> Iterator[None]:
    """Make each frame cost that role so much more."""
    with pytest.MonkeyPatch.context() as patch:
        slow(patch, role, delay_ns)
        yield


def named(run: Callable[[], Record], verdict: str, *doubts: str) -> list[str]:
    """Return the unexpected verdicts of all attempts."""
    other = []
    for _ in range(TIMES):
        with nullcontext() if verdict == "host" else preferred():
            record = run()
        if not names(record, verdict, *doubts):
            other.append(f"{record.verdict} {record.doubts} {record.trials[0].evidence.verdict}")
    return other if len(other) > TIMES - WANTED else []


def calibrate(attempt: Try, **axes: Any) -> None:
    """Have the calibration measured before anybody is slow, and preferred as what it is for."""
    with preferred():
        attempt(**axes)


SATURATED = {"switch": "linux-bridge", "rate": "max", "burst": 32}
CHAIN = {**SATURATED, "scenario": "loopback", "chain": 2}
COPIES = {**SATURATED, "copies": 2}


ENDS: dict[Role, tuple[int, dict[str, Any]]] = {
    Role.SENDER: (20_000, {}),
    # What lies in its ring behind a warm-up would take seconds to be read.
    Role.RECEIVER: (50_000, {"warmup": 0}),
}
"""What each frame costs an end of a path more, in nanoseconds, and the axes of such a test."""


@pytest.mark.parametrize(
    ("axes", "slow"),
    [
        pytest.param(SATURATED, (Role.SENDER, Role.RECEIVER), id="bridge"),
        pytest.param(CHAIN, (Role.SENDER, Role.RECEIVER), id="chain", marks=pytest.mark.further),
        # Receivers of copies on the sender's CPU take turns with it: no frame waits for them.
        pytest.param(COPIES, (Role.SENDER,), id="copies", marks=pytest.mark.further),
    ],
)
@pytest.mark.alone
def test_throttled_ends(attempt: Try, axes: dict[str, Any], slow: tuple[Role, ...]) -> None:
    calibrate(attempt, **axes)

    def run(role: Role) -> Record:
        delay_ns, others = ENDS[role]
        with slowed(role, delay_ns):
            return attempt(**axes, **others)

    for role in slow:
        assert named(partial(run, role), role.value) == []


@pytest.mark.further
@pytest.mark.alone
def test_a_function_with_little_cpu_time(attempt: Try) -> None:
    """The limit takes nine tenths of the time: far more than other programs can take from a run
    that is preferred."""

    def run() -> Record:
        record = attempt(**CHAIN | {"chain": 1}, cpu_limit="function:10")
        doubt = record.trials[0].evidence.doubts.get("host-busy", {"taken": {}})
        assert all(share < 0.5 for share in doubt["taken"].values())
        return record

    assert named(run, "function") == []


USER_SPACE = [name for name, switch in TABLE.items() if switch.program]


def saturating(switch: str) -> dict[str, Any]:
    """Return the axes of a saturated test of a switch in user space, past the kernel if it can."""
    past_kernel = PortKind.VHOST_USER in TABLE[switch].port_kinds
    engine = "dpdk" if past_kernel else "raw-mmsg"
    # Without the gate, a trial may begin before the switch forwards: l2fwd starts up to 0.1 s late.
    return {**SATURATED, "switch": switch, "engine": engine, "warmup": 0.15}


BUILT = measured([(name,) for name in USER_SPACE], lambda combination: ())
"""The switches of `USER_SPACE`: those that users build are measured where they are. The others are
further ones: `tests/replay` has recordings, and test_axes.py limits a switch."""


@pytest.mark.parametrize("switch", BUILT)
@pytest.mark.alone
def test_who_limits_a_path_with_a_switch_in_user_space(attempt: Try, switch: str) -> None:
    """A throttled sender, or the switch with a third of a core."""
    skip_unpackaged(switch)
    axes = saturating(switch)
    calibrate(attempt, **axes)

    def with_a_slow_sender() -> Record:
        with slowed(Role.SENDER, 20_000):
            return attempt(**axes)

    assert named(with_a_slow_sender, "sender") == []
    limited = {**axes, "duration": 0.5, "cpu_limit": "switch:30"}  # five periods of its share

    def with_a_limit() -> Record:
        record = attempt(**limited)
        # As a quota of each period may be used at its beginning: that of six periods.
        assert 0 < (cores_by_role(record)["switch"] or 0) <= 0.4
        return record

    assert named(with_a_limit, "switch") == []


@pytest.mark.further
@pytest.mark.alone
def test_what_a_limit_takes_is_not_taken_by_the_host(attempt: Try) -> None:
    """The limit takes four fifths of the time: far more than other programs can take from a run
    that is preferred."""
    with preferred():
        record = attempt(**SATURATED, cpu_limit="function:20")
    doubt = record.trials[0].evidence.doubts.get("host-busy", {"taken": {}})
    assert all(share < 0.5 for share in doubt["taken"].values())
    assert record.verdict != "host" or DISTURBED & {*record.doubts}


@pytest.mark.further
@pytest.mark.alone
def test_a_switch_on_the_cpu_of_the_others(attempt: Try) -> None:
    """It takes all that comes, and the time to send more."""
    (cpu, *_) = sorted(os.sched_getaffinity(0))
    axes = {"rate": "max", "burst": 32, "placement": str(cpu)}
    assert named(lambda: attempt(**axes), "switch") == []


@pytest.mark.alone
def test_a_hog_on_the_switchs_core(attempt: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    isolated = {cpu.id for cpu in read_cpus(LocalHost()) if cpu.isolated}
    hogged("switch")(monkeypatch)

    def run() -> Record:
        record = attempt(rate="max", burst=32, duration=0.4, calibrated=False)
        assert "not-isolated" in record.doubts or core_of(record, "switch") in isolated
        return record

    assert named(run, "host", "host-busy") == []


@pytest.mark.further
@pytest.mark.alone
def test_a_hog_on_the_core_of_a_switch_with_a_cpu_limit(attempt: Try) -> None:
    axes = {"rate": "max", "burst": 32, "duration": 1, "cpu_limit": "switch:90"}
    core = core_of(attempt(**axes), "switch")

    def run() -> Record:
        with hog(core):
            return attempt(**axes)

    assert named(run, "host", "host-busy") == []


@pytest.mark.further
@pytest.mark.alone
def test_a_hog_on_a_core_that_is_shared(attempt: Try) -> None:
    (core, *_) = sorted(os.sched_getaffinity(0))
    with hog(core):
        record = attempt(**SATURATED, placement=str(core))
    assert "host-busy" in record.doubts
    assert record.verdict == "host"


@pytest.mark.parametrize("whose", ["f1", pytest.param("switch", marks=pytest.mark.further)])
@pytest.mark.alone
def test_a_trial_that_a_passing_hog_spoiled_is_run_again(
    attempt: Try, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """Also on a core whose parts yield to each other. Background load of this host may spoil
    further trials."""
    trials: list[TrialResult] = []
    measured = Trials.measure

    def disturbed(self: Trials, spec: Any, **options: Any) -> TrialResult:
        (core,) = self._path.placement.pins[whose].cpus
        with nullcontext() if trials else hog(core):
            trials.append(measured(self, spec, **options))
        return trials[-1]

    monkeypatch.setattr(Trials, "measure", disturbed)
    record = attempt(rerun=4, warmup=0)
    trial = only(record)
    assert len(record.discarded) == len(trials) - 1 >= 1
    share = record.discarded[0].partition("host-busy: ")[2]
    core = core_of(record, whose)
    assert json.JSONDecoder().raw_decode(share)[0]["taken"][str(core)] > 0.2
    assert trial.counters == trials[-1].counters
    assert len(trials) == 5 or "host-busy" not in trial.doubts
    assert "host-busy" in trials[0].doubts


@pytest.mark.alone
def test_a_sender_that_had_no_turn_is_no_fault_of_the_switch(
    attempt: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functional trial is void, and tried again."""
    phase = Trials._phase
    kept_off: list[str] = []

    def disturbed(self: Trials, name: str, *arguments: Any, **named: Any) -> None:
        (core,) = self._path.placement.pins["f0"].cpus
        if len(kept_off) == 2:
            return phase(self, name, *arguments, **named)
        kept_off.append(name)
        with hog(core, alone=True):  # not before: its process arms itself on that core
            return phase(self, name, *arguments, **named)

    monkeypatch.setattr(Trials, "_phase", disturbed)
    record = attempt(gate="refuse", switch="linux-bridge")
    assert record.status == "ok", record.error
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.starved > 0


# --- doubts ----------------------------------------------------------------------------------


def test_frames_that_nobody_here_had_sent(attempt: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = Trials._phase

    def visited(self: Trials, name: str, *arguments: Any, **named: Any) -> None:
        wiring = self._path.wiring
        ifname = self._path.endpoints["f1"].switch_ifname
        send = f"""import socket
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("{ifname}", 0))
for _ in range(3): port.send(bytes(12) + bytes.fromhex("88b5") + bytes(46))"""
        if name == "measured":  # they wait for the receiver
            there = ("ip", "netns", "exec", wiring.node.name)
            subprocess.run([*there, sys.executable, "-c", send], check=True)
        phase(self, name, *arguments, **named)

    monkeypatch.setattr(Trials, "_phase", visited)
    record = attempt()
    assert (only(record).foreign, only(record).lost) == (3, 0)
    assert {"foreign-frames", "short"} <= set(record.doubts)


@pytest.mark.further
def test_repeats_that_end_before_they_are_certain(
    attempt: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "_MAX_FACTOR", 1)
    record = attempt(**SATURATED, duration=0.05, warmup=0, until_certain="0.0001%")
    assert len(record.trials) == MIN_OF_INTERVAL
    assert "uncertain" in record.doubts


@pytest.mark.further
def test_a_rate_that_falls_from_trial_to_trial(
    attempt: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    def falling(measure: Measure, spec: TrialSpec, bounds: LoadBounds) -> tuple[TrialResult, ...]:
        rates = [bounds.rate_pps or 0.0] * 6
        loads = [rate * (1 - 0.1 * number) for number, rate in enumerate(rates)]
        return tuple(measure(spec.model_copy(update={"rate_pps": load})) for load in loads)

    monkeypatch.setattr("switchmark.searches.fixed.repeated", falling)
    record = attempt(switch="linux-bridge", rate="2000", duration=0.2, warmup=0)
    assert len(record.trials) == 6
    assert "drifting" in record.doubts


@pytest.mark.further
def test_time_that_the_hypervisor_kept(attempt: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc/stat told of a crowded host: of 200 ticks of two CPUs it kept 4, of which the first
    may be of the time before."""
    counts = ((196 * n, 0, 0, 0, 0, 0, 0, 4 * n) for n in itertools.count(1))
    parse = noise.parse_cpu_times
    monkeypatch.setattr(
        "switchmark.observe.softirq.parse_cpu_times",
        lambda *arguments: {**parse(*arguments), -1: next(counts)},
    )
    record = attempt(rerun=1)
    assert "cpu-stolen" in record.doubts
    assert "cpu-stolen" in record.discarded[0]
