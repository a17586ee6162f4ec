"""These tests hold standards: their clauses are whole, and each clause finds the record that
deviates from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
from pydantic import ValidationError

from switchmark.campaign.conforming import tests_of as standard_tests
from switchmark.errors import UsageError
from switchmark.model.cable import Calibration
from switchmark.model.event import EventResult
from switchmark.model.evidence import Evidence
from switchmark.model.latency import LatencyFigures, Stamps
from switchmark.model.record import (
    FlowCounts,
    GateResult,
    Origin,
    PartReport,
    PlacementRecord,
    Record,
    TrialResult,
    TrialSpec,
)
from switchmark.model.search import Goal, SearchResult
from switchmark.model.series import Gap, TimeSeries
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.report.conform import lines_of, markdown_of, object_of, page_of_conform, verdict
from switchmark.standards.judging import ClauseAnswer, Judgement, judge
from switchmark.standards.predicates import PREDICATES
from switchmark.standards.standard import Clause, Standard, names, read

DATA = Path(__file__).parent / "data"
SIZES = (64, 128, 256, 512, 1024, 1280, 1518)
PROPER: dict[str, Any] = {
    "duration": 120,
    "warmup": 2,
    "residual": 2,
    "settle": 5,
    "verification": "none",
    "finals": 20,
    "engine": "raw-mmsg",
}
LATENCY = LatencyFigures(kind="one-way", count=100, min=1, mean=2.0, p50=2, p90=3, p99=3, max=3)

CALIBRATION = Calibration(switch="direct", rate_pps=(3e6, 3e6, 3e6), sent_pps=3e6)
STAMPS = {"by": "poll", "noted": 0, "p50": 1, "p99": 1, "max": 1}
FACTS: dict[str, Any] = {
    "bios": {"vendor": "V", "version": "1.2", "date": "01/02/2024"},
    "power": {"idle_driver": "intel_idle", "idle_states": ["C1"], "frequency_driver": None},
    "governor": "performance",
    "microcode": "0x1",
    "cores_online": "0-3",
    "cores_isolated": None,
    "memory_kib": 1 << 24,
    "memory_modules": [{"slot": "A1", "type": "DDR4", "size_mib": 16384}],
    "nics": [{"maker": "0x8086", "driver": "ice", "firmware": "4.2", "slot": "3"}],
    "distribution": "Debian",
    "kernel": "6.1",
    "kernel_parameters": [],
    "numa_nodes": "0",
    "virtual": False,
    "hugepages": {"size_kib": 2048},
    "versions": {"switchmark": "0.1"},
}

Changed = Callable[[Record], Record]


# --- records that conform ------------------------------------------------------------------------


def trial(test: Test) -> TrialResult:
    return TrialResult(
        spec=TrialSpec(rate_pps=1000, duration_s=test.duration, warmup_s=test.warmup),
        elapsed_ns=10**9,
        tx_frames=1000,
        tx_unsent=0,
        rx_frames=1000,
        rx_bytes=1000 * int(test.frame_size),
        lost=0,
        lost_at={},
        parts=(PartReport(part="switch", roles=("switch",), cpu=1, cores=0.9),),
        evidence=Evidence(stamps={"f0-f1": Stamps.model_validate(STAMPS)}),
    )


def record(goals: Sequence[Goal], trials: int = 20, **axes: Any) -> Record:
    test = Test(**{**PROPER, **axes})
    return Record(
        key="k",
        number=1,
        status="ok",
        error=None,
        test=test,
        semantics="learning",
        port="veth",
        switch_version="6.1",
        verdict="switch",
        gate=GateResult(passed=True, tries=1, frames=100, headers=100),
        trials=(trial(test),) * trials,
        search=SearchResult(name=test.search, trials=40, goals=tuple(goals)),
        origin=Origin(run="r", host={}, facts=FACTS, versions={}),
        placement=PlacementRecord(policy="pinned", seats={"f0": (0,), "switch": (1,)}),
        calibration=CALIBRATION,
    )


def throughput(**axes: Any) -> Record:
    goal = Goal(
        goal="ndr",
        loss_ratio=0.0,
        rate_pps=1e6,
        low_pps=1e6,
        high_pps=1.01e6,
        latency_ns=LATENCY,
        verdict="switch",
    )
    return record([goal], search="ndr", **axes)


def frame_loss(**axes: Any) -> Record:
    goals = [
        Goal(goal=f"{percent} %", loss_ratio=max(0, percent - 80) / 100, rate_pps=percent * 1e4)
        for percent in (100, 90, 80, 70)
    ]
    return record(goals, 1, search="frame-loss", **axes)


def both_goals(**axes: Any) -> Record:
    goals = [
        Goal(
            goal=name,
            loss_ratio=loss_ratio,
            rate_pps=1e6,
            low_pps=1e6,
            high_pps=1.004e6,
            regular=True,
            conditional_pps=1e6,
            exceed_ratio=0.5,
            width=0.005,
            initial_trial_s=1.0,
            final_trial_s=1.0,
            duration_sum_s=21.0,
        )
        for name, loss_ratio in (("ndr", 0.0), ("pdr", 0.005))
    ]
    return record(goals, 1, search="mlr:csit", **axes)


def back_to_back(**axes: Any) -> Record:
    goal = Goal(
        goal="back-to-back",
        loss_ratio=0.0,
        rate_pps=2e6,
        verdict="switch",
        burst_frames=1010.0,
        bursts=50,
        burst_low=1000,
        burst_high=1030,
        burst_max=1020,
        burst_stdev=3.0,
        burst_each=(1010,) * 50,
        burst_step=5,
        burst_limit=10**6,
        buffer_s=5e-4,
        throughput_pps=1e6,
        corrected_buffer_s=2.5e-4,
    )
    return record([goal], 50, search="back-to-back", **axes)


def recovery(**axes: Any) -> Record:
    goal = Goal(
        goal="recovery",
        loss_ratio=0.01,
        rate_pps=1e6,
        recovery_s=0.002,
        resolution_s=6e-5,
        overload_pps=1.1e6,
        overload_s=60.0,
    )
    return record([goal], 1, search="recovery", **{"duration": 10, **axes})


def outage(event: str, **axes: Any) -> Record:
    """Return a record of three trials with an event and a gap of 0.1 seconds after it."""
    rows = {"dimension": "outage", "event": event, "rate": "100%", "frame_size": 64, "duration": 30}
    kind, began_ns = event.split("@")[0], 15 * 10**9
    gap = Gap(
        flow="f0-f1",
        first=15_000_000,
        lost=100_000,
        before_due_ns=began_ns,
        before_ns=began_ns + 1000,
        after_due_ns=began_ns + 10**8,
        after_ns=began_ns + 10**8 + 1000,
    )
    took_place = EventResult(
        kind=kind,
        due_ns=began_ns,
        began_ns=began_ns,
        disturbed_ns=began_ns + 10**6,
        restored_ns=began_ns + 10**7,
        settled_ns=began_ns + 10**7,
        proof=("process 7 is gone",),
    )
    empty = (None,) * 4
    one = record([], 1, **{**rows, **axes})
    each = one.trials[0].model_copy(
        update={
            "spec": TrialSpec(rate_pps=10**6, duration_s=30, warmup_s=2),
            "elapsed_ns": 30 * 10**9,
            "tx_frames": 30 * 10**6,
            "rx_frames": 30 * 10**6 - 10**5,
            "rx_bytes": 64 * (30 * 10**6 - 10**5),
            "lost": 10**5,
            "per_flow": (
                FlowCounts(
                    flow="f0-f1",
                    tx=30 * 10**6,
                    rx=30 * 10**6 - 10**5,
                    lost=10**5,
                ),
            ),
            "evidence": Evidence(events=(took_place,)),
            "series": TimeSeries(
                interval_ns=10**10,
                offered=(10**7, 10**7, 10**7, 0),
                lost=(0, 10**5, 0, 0),
                received=(10**7, 10**7 - 10**5, 10**7, 0),
                duplicated=(0,) * 4,
                reordered=(0,) * 4,
                p50_ns=empty,
                p99_ns=empty,
                p999_ns=empty,
                max_ns=empty,
                gaps=(gap,),
                silences=(gap.model_copy(update={"lost": 0}),),
            ),
        }
    )
    return one.model_copy(update={"search": None, "trials": (each,) * 3, "r_plus_pps": 10.0**6})


def conforming() -> list[Record]:
    """Return the records of a full run of both RFCs."""
    return [
        *(throughput(frame_size=size) for size in SIZES),
        *(throughput(frame_size=size, direction="bi") for size in SIZES),
        *(throughput(burst=burst) for burst in (16, 64, 256, 1024)),
        *(frame_loss(frame_size=size) for size in SIZES),
        *(back_to_back(frame_size=size) for size in SIZES),
        *(both_goals(frame_size=size) for size in (64, 1518)),
    ]


FLOWS = tuple(1000 * 2**number for number in range(7))


def virtual_switch() -> list[Record]:
    """Return the records of a full run of RFC 8204."""
    return [
        *(throughput(scenario="p2p", frame_size=size) for size in SIZES),
        *(throughput(scenario="p2p", frame_size=size, noise="cpu") for size in SIZES),
        *(throughput(scenario="p2p", flows=flows) for flows in FLOWS),
        *(throughput(scenario="loopback", chain=chain) for chain in (1, 2, 3)),
        frame_loss(scenario="p2p"),
        back_to_back(scenario="p2p"),
        outage("restart", scenario="p2p"),
    ]


def conforming_to(name: str) -> list[Record]:
    """Return the records of a full run of a standard."""
    if name == "rfc2544":
        return [*conforming(), *(recovery(frame_size=size) for size in SIZES), outage("restart")]
    if name == "rfc8204":
        return virtual_switch()
    if name == "rfc2889":
        return [
            *(throughput(frame_size=size, direction="bi") for size in SIZES),
            *(frame_loss(frame_size=size, direction="bi") for size in SIZES),
            *(frame_loss(frame_size=size) for size in SIZES),
        ]
    if name == "rfc6201":
        return [outage("restart@15"), outage("kill@15")]
    if name == "tst009":
        rule = {"verification": "tst009:2:50%", "precision": 0.01}
        return [throughput(frame_size=size, **rule) for size in SIZES]
    if name == "containerized":
        return [throughput(frame_size=size, environment="lxc") for size in SIZES]
    return conforming()


def answers(name: str, records: Sequence[Record]) -> dict[str, ClauseAnswer]:
    (judgement,) = judge(read(name), records)
    return {answer.clause.id: answer for answer in judgement.answers}


# --- what a record can have wrong ----------------------------------------------------------------


def of(search: str, change: Changed) -> Changed:
    return lambda one: change(one) if one.test.search == search else one


def of_outage(change: Changed) -> Changed:
    return lambda one: change(one) if one.test.dimension == "outage" else one


def axes(**values: Any) -> Changed:
    return lambda one: one.model_copy(update={"test": one.test.model_copy(update=values)})


def member(**values: Any) -> Changed:
    return lambda one: one.model_copy(update=values)


def goal(**values: Any) -> Changed:
    def change(one: Record) -> Record:
        assert one.search is not None
        goals = tuple(each.model_copy(update=values) for each in one.search.goals)
        return one.model_copy(update={"search": one.search.model_copy(update={"goals": goals})})

    return change


def trials(**values: Any) -> Changed:
    def change(one: Record) -> Record:
        changed = tuple(each.model_copy(update=values) for each in one.trials)
        return one.model_copy(update={"trials": changed})

    return change


def event(**values: Any) -> Changed:
    """Change the event of each trial."""

    def change(one: Record) -> Record:
        changed = []
        for each in one.trials:
            events = tuple(one.model_copy(update=values) for one in each.evidence.events)
            evidence = each.evidence.model_copy(update={"events": events})
            changed.append(each.model_copy(update={"evidence": evidence}))
        return one.model_copy(update={"trials": tuple(changed)})

    return change


def silence(**values: Any) -> Changed:
    """Change the time without an arrival of each trial."""

    def change(one: Record) -> Record:
        changed = []
        for each in one.trials:
            series = each.series
            if series is not None:
                gaps = tuple(gap.model_copy(update=values) for gap in series.silences or ())
                series = series.model_copy(update={"gaps": gaps, "silences": gaps})
            changed.append(each.model_copy(update={"series": series}))
        return one.model_copy(update={"trials": tuple(changed)})

    return change


SLOW = TrialSpec(rate_pps=5e5, duration_s=30, warmup_s=2)


def first(number: int) -> Changed:
    """Keep so many trials of each test."""
    return lambda one: one.model_copy(update={"trials": one.trials[:number]})


def loads(*percents: int, lossless: bool = True) -> Changed:
    """Change the loads of a loss curve; the last two lose nothing unless said otherwise."""
    goals = tuple(
        Goal(
            goal=f"{percent} %",
            loss_ratio=0.0 if lossless and percent in percents[-2:] else 0.1,
            rate_pps=percent * 1e4,
        )
        for percent in percents
    )
    return lambda one: one.model_copy(
        update={"search": SearchResult(name="frame-loss", trials=9, goals=goals)}
    )


def lossy(direction: str, change: Changed) -> Changed:
    """Change the loss curves in one direction, or in both at once (`bi`)."""
    return of("frame-loss", lambda one: change(one) if one.test.direction == direction else one)


def no_goals(one: Record) -> Record:
    return one.model_copy(update={"search": SearchResult(name="frame-loss", trials=9, goals=())})


def facts(**values: Any) -> Changed:
    def change(one: Record) -> Record:
        assert one.origin is not None
        origin = one.origin.model_copy(update={"facts": {**one.origin.facts, **values}})
        return one.model_copy(update={"origin": origin})

    return change


def no_fact(name: str) -> Changed:
    """Leave out a fact, as in a run of an earlier version."""

    def change(one: Record) -> Record:
        assert one.origin is not None
        left = {key: value for key, value in one.origin.facts.items() if key != name}
        origin = one.origin.model_copy(update={"facts": left})
        return one.model_copy(update={"origin": origin})

    return change


def both(*changes: Changed) -> Changed:
    return lambda one: reduce(lambda changed, change: change(changed), changes, one)


LATE = Evidence(started_late_ns={"f0": 1_300_000_000})
UNSEEN = GateResult(passed=True, tries=1, frames=9, unseen="no root")


def _last_goal(one: Record, **values: Any) -> Record:
    """Change the last goal of a search."""
    assert one.search is not None
    *others, last = one.search.goals
    goals = (*others, last.model_copy(update=values))
    return one.model_copy(update={"search": one.search.model_copy(update={"goals": goals})})


def only(name: str, *values: Any) -> Changed:
    """Leave out the tests with other values of an axis."""
    return lambda one: one if getattr(one.test, name) in values else GONE


GONE = record([], 1, search="fixed", frame_size=9600)
"""Stands for a record that is left out."""

Gate = GateResult(passed=False, tries=1, frames=100, headers=100)

WRONG: dict[str, list[tuple[str, Changed, set[str]]]] = {
    "rfc2544": [
        ("6", member(gate=Gate), set()),
        ("7a", lambda one: member(switch_version=f"6.{one.test.frame_size}")(one), set()),
        ("7c", member(switch_version=None), set()),
        ("8b", member(gate=GateResult(passed=True, tries=1, frames=9, unseen="no root")), set()),
        ("9a", of("ndr", only("frame_size", 128, 256, 512, 1024, 1280)), {"9.1", "21"}),
        ("9b", of("ndr", only("frame_size", 64, 1518)), {"9.1"}),
        ("9.1", of("ndr", only("frame_size", 64, 128, 256, 512, 1024, 1518)), set()),
        ("10a", of("frame-loss", axes(touch="none")), {"10c"}),
        ("10b", trials(rx_bytes=1), set()),
        ("10c", of("frame-loss", axes(touch="none")), {"10a"}),
        ("12a", of("ndr", axes(flows=2)), set()),
        ("14", of("ndr", axes(direction="uni")), set()),
        ("15", of("ndr", axes(pairs=2)), set()),
        ("18", of("frame-loss", axes(frame_size="genome:aaafg")), set()),
        ("20", of("frame-loss", axes(nic="a0=eth1:eth2")), {"26.3d"}),
        ("21", of("ndr", only("burst", 16, 32, 64, 1024)), set()),
        ("23b", axes(warmup=1.9), set()),
        ("23c", of("ndr", axes(residual=1.9)), set()),
        ("23d", axes(settle=4.9), set()),
        ("24", of("frame-loss", axes(duration=59)), set()),
        ("26.1a", of("ndr", axes(verification="tst009")), set()),
        ("26.1a", of("ndr", goal(loss_ratio=0.005)), set()),
        ("26.1a", of("ndr", goal(rate_pps=None, low_pps=None)), {"26.2a"}),
        ("26.1b", of("ndr", goal(verdict="sender")), set()),
        ("26.1c", of("ndr", only("frame_size", 64)), {"9a", "9b", "9.1", "26.2g"}),
        ("26.1d", of("ndr", axes(nic="a0=eth1:eth2")), {"20"}),
        ("26.2a", of("ndr", goal(latency_ns=None)), set()),
        ("26.2b", of("ndr", axes(duration=119)), set()),
        ("26.2c", of("ndr", axes(touch="none")), {"10a", "10c"}),
        ("26.2d", lambda one: member(trials=one.trials[:19])(one), set()),
        ("26.2f", of("ndr", trials(evidence=Evidence())), set()),
        ("26.2g", of("ndr", only("frame_size", 64)), {"9a", "9b", "9.1", "26.1c"}),
        ("26.3a", of("frame-loss", axes(rate="1M")), set()),
        ("26.3b", of("frame-loss", loads(100, 90, 80, lossless=False)), set()),
        ("26.3c", of("frame-loss", loads(100, 85, 75)), set()),
        ("26.3d", of("frame-loss", axes(nic="a0=eth1:eth2")), {"20"}),
        ("26.4a", of("back-to-back", goal(burst_frames=None)), set()),
        ("26.4a", of("back-to-back", goal(burst_max=950, burst_limit=1000)), set()),
        ("26.4a", of("back-to-back", axes(frame_size="imix")), {"18", "26.4d"}),
        ("26.4b", of("back-to-back", axes(residual=1.9)), {"23c"}),
        ("26.4c", of("back-to-back", goal(bursts=49)), set()),
        ("26.4d", of("back-to-back", only("frame_size", 64)), set()),
        ("26.4e", of("back-to-back", goal(burst_stdev=None)), set()),
        ("26.5", of("recovery", goal(recovery_s=None)), set()),
        ("26.5", of("recovery", goal(overload_s=59.0)), set()),
        ("26.6", of_outage(axes(rate="50%")), set()),
        ("26.6", of_outage(trials(tx_unsent=10**6)), set()),
    ],
    "rfc9004": [
        ("3a", axes(frame_size="imix"), {"5d"}),
        ("5a", member(gate=Gate), set()),
        ("5b", axes(settle=4.9), set()),
        ("5d", only("frame_size", 64, 128, 256, 512, 1024, 1280), set()),
        ("5e", goal(throughput_pps=None), {"5d", "6.1", "6.4c"}),
        ("5f", goal(buffer_s=None), {"6.4b"}),
        ("5g", member(doubts=("cpu-stolen",)), set()),
        ("6.1", goal(throughput_pps=2e6), set()),
        ("6.2a", axes(residual=1.9), set()),
        ("6.2b", goal(buffer_s=2.1), set()),
        ("6.2c", goal(burst_limit=1100), set()),
        ("6.2d", axes(verification="majority"), set()),
        ("6.2e", goal(burst_step=None), set()),
        ("6.3a", goal(bursts=49, burst_each=(1010,) * 49), set()),
        ("6.3b", goal(burst_each=()), set()),
        ("6.4a", goal(burst_max=None), {"6.2c", "7c"}),
        ("6.4b", goal(corrected_buffer_s=None), {"7d"}),
        ("6.4c", goal(rate_pps=None), {"6.1"}),
        ("7a", goal(burst_frames=None), {"5f", "6.4a"}),
        ("7b", goal(bursts=None), {"6.3a", "6.3b"}),
        ("7c", goal(burst_low=None), {"6.4a"}),
        ("7d", goal(corrected_buffer_s=None), {"6.4b"}),
        ("7e", goal(burst_limit=None), {"6.2c"}),
        ("8a", axes(nic="a0=eth1:eth2"), set()),
    ],
    "mlrsearch": [
        ("4.2.1", goal(exceed_ratio=None), {"4.6.4a", "4.6.4b", "4.6.7", "4.9.3b"}),
        ("4.4.3a", axes(residual=1.9), set()),
        ("4.5.1", axes(duration=1e-4), set()),
        ("4.5.2a", axes(arrivals="on-off"), set()),
        ("4.5.4", member(gate=None), set()),
        ("4.5.5", goal(loss_ratio=-0.1), {"4.6.3"}),
        ("4.5.7", goal(conditional_pps=None), {"4.8.3"}),
        ("4.6.1a", goal(final_trial_s=0.0), set()),
        ("4.6.1b", lambda one: _last_goal(one, final_trial_s=2.0), set()),
        ("4.6.2a", goal(duration_sum_s=0.0), {"4.6.2b"}),
        ("4.6.2b", goal(duration_sum_s=0.5), set()),
        ("4.6.3", goal(loss_ratio=1.0), {"4.5.5", "4.6.5c"}),
        ("4.6.4a", goal(exceed_ratio=1.0), {"4.6.4b"}),
        ("4.6.4b", goal(exceed_ratio=0.0), set()),
        ("4.6.5a", goal(width=0.0), {"4.6.5c", "4.8.4.1a"}),
        ("4.6.5b", goal(width=None), {"4.6.5a", "4.6.5c", "4.6.8", "4.8.4.1a", "4.9.3b"}),
        ("4.6.5c", lambda one: _last_goal(one, loss_ratio=0.006), set()),
        ("4.6.6", goal(initial_trial_s=0.0), set()),
        (
            "4.6.7",
            goal(duration_sum_s=None),
            {"4.6.2a", "4.6.2b", "4.9.3b"},
        ),
        ("4.6.8", goal(width=None), {"4.6.5a", "4.6.5b", "4.6.5c", "4.8.4.1a", "4.9.3b"}),
        ("4.6.8.1", axes(line_rate="900k"), set()),
        ("4.6.8.2", goal(rate_pps=0.0), set()),
        ("4.8.1", goal(high_pps=None, regular=False), {"4.8.4.1b"}),
        ("4.8.2", goal(low_pps=None, regular=False), {"4.8.4.1b"}),
        ("4.8.3", goal(conditional_pps=None), {"4.5.7"}),
        ("4.8.4.1a", goal(high_pps=1.006e6), set()),
        ("4.8.4.1b", goal(regular=False), set()),
        ("4.8.4.2", goal(regular=None), {"4.2.1", "4.8.4.1b", "4.8.4.3", "4.8.5"}),
        ("4.8.4.3", goal(regular=None), {"4.2.1", "4.8.4.1b", "4.8.4.2", "4.8.5"}),
        ("4.8.5", goal(regular=None), {"4.2.1", "4.8.4.1b", "4.8.4.2", "4.8.4.3"}),
        ("4.9.1", member(calibration=None), set()),
        ("4.9.3a", member(port=None), set()),
        ("4.9.3b", goal(initial_trial_s=None), {"4.6.6"}),
    ],
    "rfc2889": [
        ("3a", trials(stray=1), {"5.1.3f", "5.6.3.1b"}),
        ("3b", member(gate=Gate), {"3a"}),
        ("4a", axes(touch="none"), {"5.1.4c", "5.6.4c"}),
        ("4d", of("ndr", only("frame_size", 64, 128, 256, 1024, 1280, 1518)), {"5.1.2a"}),
        ("5.1.2a", of("ndr", only("frame_size", 64, 128, 256, 1024, 1280, 1518)), {"4d"}),
        ("5.1.2c", of("ndr", axes(burst=931)), set()),
        ("5.1.2d", of("ndr", axes(flows=3)), set()),
        ("5.1.2e", of("ndr", axes(duration=301)), set()),
        ("5.1.3b", of("ndr", trials(evidence=LATE)), set()),
        ("5.1.3c", of("ndr", axes(direction="uni")), set()),
        ("5.1.3f", of("ndr", trials(stray=1)), {"3a"}),
        ("5.1.4b", of("ndr", member(gate=UNSEEN)), set()),
        ("5.1.4c", of("ndr", axes(touch="none")), {"4a"}),
        ("5.1.4e", lossy("bi", no_goals), {"5.1.4.2a", "5.1.4.2c"}),
        ("5.1.4.1", of("ndr", goal(loss_ratio=0.005)), set()),
        ("5.1.4.2a", lossy("bi", no_goals), {"5.1.4e", "5.1.4.2c"}),
        ("5.1.4.2b", lossy("bi", axes(rate="1M")), set()),
        ("5.1.4.2c", lossy("bi", loads(100, 85, 75)), set()),
        ("5.1.5a", of("ndr", only("frame_size", 64)), {"4d", "5.1.2a"}),
        ("5.1.5b", of("ndr", axes(nic="a0=eth1:eth2")), set()),
        ("5.6.2a", lossy("uni", loads(100, 85, 75)), {"5.6.5b"}),
        ("5.6.2b", lossy("uni", axes(duration=301)), set()),
        ("5.6.3.1b", lossy("uni", trials(stray=1)), {"3a"}),
        ("5.6.3.1c", lossy("uni", loads(100, 90, 80, lossless=False)), set()),
        ("5.6.4b", lossy("uni", member(gate=UNSEEN)), set()),
        ("5.6.4c", lossy("uni", axes(touch="none")), {"4a"}),
        ("5.6.5a", lossy("uni", no_goals), {"5.6.2a", "5.6.3.1c", "5.6.5b"}),
        ("5.6.5b", lossy("uni", loads(100, 85, 75)), {"5.6.2a"}),
    ],
    "rfc6201": [
        ("1.2", silence(after_ns=None), set()),
        ("1.3a", trials(series=None), {"1.2", "1.3b", "1.4a", "1.4b"}),
        ("1.3b", trials(series=None), {"1.2", "1.3a", "1.4a", "1.4b"}),
        ("1.4a", trials(series=None), {"1.2", "1.3a", "1.3b", "1.4b"}),
        ("1.4b", member(r_plus_pps=None), set()),
        ("1.4e", member(port=None), {"1.4b"}),
        ("1.4f", first(1), {"1.4g"}),
        ("1.4g", first(2), set()),
        ("3c", lambda one: member(switch_version=one.test.event)(one), set()),
        ("3d", event(proof=()), {"4.2.2d"}),
        ("4.2.2a", lambda one: GONE if one.test.event == "kill@15" else one, set()),
        ("4.2.2b", event(began_ns=10**9), set()),
        ("4.2.2c", axes(rate="50%"), set()),
        ("4.2.2c", both(axes(rate="500k"), trials(spec=SLOW)), set()),
        ("4.2.2c", both(axes(rate="1M"), member(r_plus_pps=None)), {"1.4b"}),
        ("4.2.2d", event(proof=()), {"3d"}),
        (
            "4.2.2d",
            trials(evidence=Evidence()),
            {"1.2", "1.3a", "1.3b", "1.4a", "1.4b", "3d", "4.2.2b"},
        ),
        ("5a", axes(nic="a0=eth1:eth2"), set()),
    ],
    "rfc8204": [
        ("3.1a", trials(parts=()), {"4f"}),
        ("3.3a", facts(bios={"version": "1.2", "date": None}), set()),
        ("3.3c", facts(power={"idle_driver": None, "idle_states": ["C1"]}), set()),
        ("3.3d", facts(microcode=None), set()),
        ("3.3e", facts(cores_online=None), set()),
        ("3.3f", member(placement=None), {"3.3s"}),
        ("3.3g", facts(memory_kib=None), set()),
        ("3.3h", facts(memory_modules=None), set()),
        ("3.3i", both(axes(nic="a0=eth1:eth2"), facts(nics=[])), {"6a"}),
        ("3.3m", facts(distribution=None), set()),
        ("3.3n", no_fact("kernel_parameters"), set()),
        ("3.3p", member(switch_version=None), set()),
        ("3.3s", facts(numa_nodes=None), set()),
        ("3.3t", facts(versions={}), set()),
        ("3.3v", member(port=None), set()),
        ("3.3w", no_fact("cores_isolated"), set()),
        ("4a", of("ndr", goal(rate_pps=None)), {"5.5a"}),
        ("4b", of("ndr", goal(latency_ns=None)), set()),
        ("4c", of("ndr", only("flows", 1, *FLOWS[:-1])), {"5.8a"}),
        ("4f", trials(parts=()), {"3.1a"}),
        ("4h", of("ndr", only("scenario", "p2p")), {"5.8d"}),
        ("5.5a", of("ndr", axes(duration=59)), set()),
        ("5.5b", of("ndr", only("noise", None)), set()),
        ("5.5d", of("back-to-back", goal(bursts=49)), set()),
        ("5.5e", of("frame-loss", loads(100, 90, 80, lossless=False)), set()),
        ("5.3b", silence(after_ns=None), set()),
        ("5.8a", of("ndr", only("flows", 1, 1000, *FLOWS[2:])), set()),
        ("5.8d", of("ndr", only("chain", 1, 3)), set()),
        ("6a", axes(nic="a0=eth1:eth2"), set()),
    ],
    "tst009": [
        ("12.3.2a", goal(low_pps=None), {"12.3.2b"}),
        ("12.3.2b", goal(high_pps=1.02e6), set()),
        ("12.3.3a", axes(verification="none"), {"12.3.3b"}),
        ("12.3.3a", axes(verification="majority"), {"12.3.3b"}),
        ("12.3.3b", axes(verification="tst009:2"), set()),
        ("12.3.3c", goal(loss_ratio=0.005), set()),
    ],
    "containerized": [
        ("5.1a", axes(environment="netns"), {"5.1.1"}),
        ("5.1.1", axes(environment="netns"), {"5.1a"}),
        ("5.1.2.1", both(axes(environment="vm"), member(port="vhost-user")), {"5.1a"}),
        (
            "5.1.2.2",
            both(axes(environment="netns", engine="xdp"), member(engine_mode="copy")),
            {"5.1a", "5.1.1"},
        ),
        ("5.1.2.3", both(axes(environment="netns"), member(port="vf")), {"5.1a"}),
        ("5.2.1a", facts(virtual=None), set()),
        ("5.2.2a", no_fact("cores_isolated"), set()),
        ("5.2.2b", facts(numa_nodes=None), set()),
        ("5.2.3", facts(hugepages={}), set()),
        ("5.2.4a", member(placement=None), {"5.2.2b"}),
        ("5.2.5a", axes(engine="xdp"), set()),
        (
            "5.2.5b",
            both(axes(engine="xdp"), member(engine_mode="copy", placement=None)),
            {"5.2.2b", "5.2.4a"},
        ),
        ("7a", axes(nic="a0=eth1:eth2"), set()),
    ],
}
"""For each clause of a standard: a change that makes it deviate, and the clauses that rest on the
same attribute."""

TABLE = [(name, *row) for name, rows in WRONG.items() for row in rows]


@pytest.mark.parametrize(
    ("name", "clause", "change", "kin"), TABLE, ids=[f"{row[0]}-{row[1]}" for row in TABLE]
)
def test_one_wrong_attribute_makes_its_clause_deviate(
    name: str, clause: str, change: Changed, kin: set[str]
) -> None:
    proper = conforming_to(name)
    records = [changed for each in proper if (changed := change(each)) is not GONE]
    found = answers(name, records)
    assert found[clause].word == "deviates", found[clause]
    assert found[clause].why
    deviating = {clause_id for clause_id, one in found.items() if one.word == "deviates"}
    assert deviating == {clause, *kin}


@pytest.mark.parametrize("name", WRONG)
def test_no_clause_deviates_in_a_proper_run(name: str) -> None:
    found = answers(name, conforming_to(name))
    assert not {clause_id for clause_id, one in found.items() if one.word == "deviates"}


def test_every_clause_with_checks_has_a_wrong_record() -> None:
    for name in names():
        checked = {clause.id for clause in read(name).clauses if clause.checks}
        assert checked == {row[0] for row in WRONG[name]}


def test_every_predicate_is_used() -> None:
    used = {check.name for name in names() for one in read(name).clauses for check in one.checks}
    assert used == set(PREDICATES)


# --- the files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_the_numbers_of_clauses_have_no_gaps(name: str) -> None:
    standard = read(name)
    sections = list(dict.fromkeys(clause.section for clause in standard.clauses))
    numbers = [tuple(map(int, section.split("."))) for section in sections]
    assert sections[0] == standard.sections[0]
    # The last section ends where its last subsection does.
    assert sections[-1] == standard.sections[1]
    assert numbers == sorted(numbers)
    for one, following in pairwise(numbers):
        allowed = _next_sections(one)
        for number in (tuple(map(int, section.split("."))) for section in standard.skipped):
            allowed += _next_sections(number) if number in allowed else []
        assert following in allowed, f"{one} is followed by {following}"
    for section in sections:
        letters = [c.id.removeprefix(section) for c in standard.clauses if c.section == section]
        assert letters == ([""] if len(letters) == 1 else list(ascii_lowercase[: len(letters)]))


def _next_sections(number: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the numbers that can follow a section: its first subsection, or the next section."""
    following: list[tuple[int, ...]] = [(*number, 1)]
    for level in range(len(number)):
        following.append((*number[:level], number[level] + 1))
        # A section whose text is in its subsections alone begins with the first.
        following.append((*number[:level], number[level] + 1, 1))
    return following


@pytest.mark.parametrize("name", names())
def test_no_clause_says_certified(name: str) -> None:
    judgements = judge(read(name), conforming())
    texts = [*lines_of(judgements[0]), markdown_of(judgements, conforming())]
    assert not re.search("certif", "\n".join(texts), re.IGNORECASE)


def test_a_clause_needs_one_answer() -> None:
    row = {"id": "1", "obligation": "MUST", "asks": "x", "source": "read"}
    wrongs: list[dict[str, Any]] = [
        {},
        {"checks": {"gate-passed": {}}, "untested": "why"},
        {"checks": {"no-such-predicate": {}}},
        {"untested": "why", "not-applicable": {"why": "x"}},
        {"untested": "why", "not-applicable": {"why": "x", "unless": "no-such-condition"}},
        {"not-applicable": {"unless": "routed"}, "untested": "why"},
    ]
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            Clause.model_validate({**row, **wrong})


def test_an_unknown_standard_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no standard named 'rfc2545'") as refusal:
        read("rfc2545")
    assert refusal.value.hint == "switchmark conform rfc2544"


# --- the verdict ---------------------------------------------------------------------------------


def test_nothing_measured_meets_nothing() -> None:
    for name in names():
        (judgement,) = judge(read(name), [])
        assert not [answer for answer in judgement.answers if answer.word == "met"]
        assert not judgement.is_met
        assert verdict(judgement).startswith("PARTIAL")


def test_a_failed_test_keeps_its_clauses_open() -> None:
    failed = back_to_back(frame_size=64).model_copy(
        update={"status": "failed", "error": "the switch died\nat once", "trials": ()}
    )
    alone = answers("rfc9004", [failed])
    assert (alone["6.3a"].word, alone["6.3a"].why) == ("not tested", "the switch died")
    among = answers("rfc9004", [*conforming(), failed])
    assert among["6.3a"].word == "deviates"
    assert among["6.3a"].why == "1 of its tests failed: the switch died"


def test_a_routed_switch_has_open_clauses_of_routing() -> None:
    routed = [member(semantics="routed")(one) for one in conforming()]
    found = answers("rfc2544", routed)
    assert found["13a"].word == "not tested"
    assert found["23b"].word == "not applicable"
    (judgement,) = judge(read("rfc2544"), routed)
    assert not judgement.is_met


@pytest.mark.parametrize(("name", "clauses"), [("bios", {"3.3a"}), ("power", {"3.3c"})])
def test_what_a_host_does_not_tell_does_not_apply(name: str, clauses: set[str]) -> None:
    proper = conforming_to("rfc8204")
    silent = answers("rfc8204", [facts(**{name: None})(one) for one in proper])
    unknown = answers("rfc8204", [no_fact(name)(one) for one in proper])
    assert {silent[clause].word for clause in clauses} == {"not applicable"}
    # A run of an earlier version has not asked the host.
    assert {unknown[clause].word for clause in clauses} == {"deviates"}


def test_a_link_needs_its_theoretical_rate() -> None:
    linked = [axes(line_rate="1M")(one) for one in conforming()]
    found = answers("rfc2544", linked)
    assert (found["20"].word, found["26.1d"].word, found["26.3d"].word) == ("met",) * 3
    slower = answers("rfc2544", [axes(line_rate="2M")(one) for one in conforming()])
    assert slower["26.3d"].why.startswith("the highest load is 50.0% of the link's rate")


def test_every_must_met_is_not_full_while_a_should_is_open() -> None:
    (judgement,) = judge(read("rfc2544"), conforming())
    assert judgement.is_met
    assert not judgement.is_full
    assert verdict(judgement).startswith("PARTIAL: RFC 2544 (March 1999): MUST: 16 met, 6 not app")


def shortened(**changes: Any) -> Judgement:
    """Return the judgement of a standard of which one clause is left."""
    standard = read("rfc9004")
    clause = next(one for one in standard.clauses if one.id == "6.3b")
    small = standard.model_copy(update={"clauses": (clause.model_copy(update=changes),)})
    (judgement,) = judge(small, conforming())
    return judgement


def test_full_needs_clauses_that_were_read_and_no_quick_run() -> None:
    assert verdict(shortened()).startswith("FULL: RFC 9004 (May 2021): MUST: 1 met")
    second_hand = shortened(source="second-hand")
    assert verdict(second_hand).startswith("PARTIAL (clauses second-hand): ")
    quick = shortened()
    assert verdict(Judgement(quick.standard, "", quick.answers, quick=True)).startswith(
        "PARTIAL (quick run): "
    )


def test_a_standard_with_clauses_left_out_is_never_full() -> None:
    standard = shortened().standard.model_copy(update={"unlisted": "the rest"})
    (judgement,) = judge(standard, conforming())
    assert verdict(judgement).startswith("PARTIAL (clauses not listed): ")
    assert "not listed: the rest" in list(lines_of(judgement))
    assert object_of(judgement)["unlisted"] == "the rest"
    assert "Not listed: the rest." in markdown_of([judgement], [])
    assert "Not listed: the rest." in page_of_conform([judgement], [])
    (judgement,) = judge(read("tst009"), conforming_to("tst009"))
    assert verdict(judgement).startswith("PARTIAL (clauses second-hand, clauses not listed): ETSI")


def test_switches_are_judged_apart() -> None:
    other = [axes(switch="ovs", residual=0)(one) for one in conforming()]
    one, two = judge(read("rfc9004"), [*conforming(), *other])
    assert (one.switch, one.is_met, two.switch, two.is_met) == ("linux-bridge", True, "ovs", False)


def test_records_of_older_schemas_are_judged() -> None:
    lines = (DATA / "records-schema-1.jsonl").read_text().splitlines()
    lines += (DATA / "records-0.1.0.jsonl").read_text().splitlines()
    old = [Record.model_validate(json.loads(line)["record"]) for line in lines]
    for judgement in judge(read("rfc2544"), old):
        words = {answer.clause.id: answer.word for answer in judgement.answers}
        assert words["23d"] == "deviates"
        assert words["26.4a"] == "not tested"
        assert not judgement.is_met


# --- what is printed -----------------------------------------------------------------------------


def test_the_lines_name_each_open_clause() -> None:
    (judgement,) = judge(read("rfc9004"), [axes(residual=0)(one) for one in conforming()])
    lines = list(lines_of(judgement))
    assert "open MUST: 6.2a, 6.2b" in lines
    assert lines[-1] == verdict(judgement)
    assert any(line.startswith("✗ 6.2a MUST      deviates") for line in lines)
    assert any("[second-hand]" in line for line in lines)


def test_json_has_every_clause() -> None:
    (judgement,) = judge(read("rfc9004"), conforming())
    content = json.loads(json.dumps(object_of(judgement)))
    assert [row["id"] for row in content["clauses"]] == [c.id for c in judgement.standard.clauses]
    assert (content["word"], content["musts_met"], content["second_hand"]) == (
        "PARTIAL",
        True,
        True,
    )
    assert sum(sum(words.values()) for words in content["counts"].values()) == len(
        judgement.answers
    )


def test_markdown_and_page_have_the_tables_of_the_standard() -> None:
    records = [axes(line_rate="10Gbps")(one) for one in conforming()]
    judgements = judge(read("rfc2544"), records)
    text = markdown_of(judgements, records)
    row = "| 64, bursts of 32 | 1 Mpps | 14.9 Mpps | 2 ns | 20 |"
    assert row in text
    assert "| 64, bursts of 32 | 90 % | 900 kpps | 10.000% |" in text
    assert "| 64, bursts of 32 | 1010 | 1000, 1020, 3 | 50 | 500 us | 250 us | 5, 1000000 |" in text
    page = page_of_conform(judgements, records)
    assert "Throughput by frame size (RFC 2544, 26.1)" in page
    assert "Frame loss by load (RFC 2544, 26.3)" in page
    assert "<td>26.4c</td>" in page


def test_resets_have_their_means_by_both_methods() -> None:
    short = outage("restart@15")
    long = silence(after_ns=None)(outage("kill@15"))
    text = markdown_of(judge(read("rfc6201"), [short, long]), [short, long])
    (_, after) = text.split("**Reset time, the means of trials (RFC 6201, 1.4)**")
    rows = [line for line in after.splitlines() if line.startswith("| 64")]
    assert rows == [
        "| 64, bursts of 1 | restart@15 | 1 Mpps | 100000 | 100 ms | 100 ms | 3 |",
        "| 64, bursts of 1 | kill@15 | 1 Mpps | 100000 | 100 ms or longer | 15 s or longer | 3 |",
    ]


def test_irregular_results_of_mlrsearch_are_marked() -> None:
    records = [both_goals(frame_size=64), goal(regular=False, high_pps=None)(both_goals())]
    text = markdown_of(judge(read("mlrsearch"), records), records)
    rows = [line for line in text.splitlines() if line.startswith("| 64, bursts of 32 | ndr")]
    assert "| regular | 1 Mpps | 1 Mpps | 1 Mpps | 0.5 | 0.005 | 1 s, 1 s, 21 s |" in rows[0]
    assert "| IRREGULAR | 1 Mpps | none | 1 Mpps |" in rows[1]
    assert "Throughput and latency" not in text


# --- the tests that measure a standard -----------------------------------------------------------


def planned(name: str, *, quick: bool = False, **options: Any) -> Any:
    standard = read(name)
    given = {"engine": "raw-mmsg", **options}
    return standard_tests(standard, [*standard.campaigns], given, check, list, quick=quick)


def test_a_standard_is_measured_at_its_sizes_and_durations() -> None:
    found = planned("rfc2544")
    assert not found.refused
    tests = found.campaign.tests
    assert len(tests) == 5 * len(SIZES) + 5
    assert {test.residual for test in tests} == {2.0}
    assert {test.frame_size for test in tests if test.search == "frame-loss"} == set(SIZES)
    longest = [test for test in tests if test.search not in ("fixed", "recovery")]
    assert min(test.duration for test in longest) == 60


def test_axes_of_the_command_line_take_the_place_of_the_standards() -> None:
    (test,) = planned("rfc9004", frame_size="64", switch="ovs").campaign.tests
    assert (test.frame_size, test.switch, test.finals, test.search) == (
        64,
        "ovs",
        50,
        "back-to-back",
    )


def test_a_quick_run_changes_what_a_campaign_names() -> None:
    tests = planned("rfc2544", quick=True).campaign.tests
    assert {test.frame_size for test in tests} == {64, 1518}
    # An outage needs time, so that the campaign of resets names no duration.
    assert {test.duration for test in tests if test.search != "fixed"} == {0.2}
    assert {test.duration for test in tests if test.search == "fixed"} == {10}


def test_a_campaign_that_can_never_run_leaves_its_clauses_open() -> None:
    found = planned("rfc2544", line_rate="10Gbps")
    assert [*found.refused] == ["back-to-back"]
    assert "so a line rate has no" in found.refused["back-to-back"]
    measured = [one for one in conforming() if one.test.search != "back-to-back"]
    (judgement,) = judge(read("rfc2544"), measured, found.refused)
    why = {answer.clause.id: answer.why for answer in judgement.answers}
    assert "so a line rate has no" in why["26.4a"]


def test_finals_of_the_command_line_are_those_of_its_searches() -> None:
    (test,) = planned("rfc9004", frame_size="64", finals="10").campaign.tests
    assert test.finals == 10


def test_axes_that_no_campaign_can_have_are_refused() -> None:
    with pytest.raises(UsageError, match="no switch named 'none-such'"):
        planned("rfc2544", switch="none-such")
    with pytest.raises(UsageError, match="so a line rate has no"):
        planned("rfc9004", line_rate="10Gbps")


@pytest.mark.parametrize("option", ["search", "verification", "dimension"])
def test_what_the_standard_sets_cannot_be_set(option: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option} is set by the standard"):
        planned("rfc2544", quick=False, **{option: "none"})


def test_only_the_campaigns_of_open_clauses_are_measured() -> None:
    standard: Standard = read("rfc2544")
    clauses = [clause for clause in standard.clauses if clause.id in ("26.3c", "8a")]
    assert standard.campaigns_of(clauses) == ["frame-loss"]
    assert standard.campaigns_of([*standard.clauses]) == [*standard.campaigns]
