"""These tests check which trials on a cable are the cable latency of a test of latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.lab import cable_latency
from switchmark.lab.cable import Basis
from switchmark.lab.cable_latency import CableLatencies
from switchmark.model.cable import CableLatency, NoCableLatency
from switchmark.model.cpus import Cpu
from switchmark.model.latency import Latency
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.path.placement import Placement, place
from switchmark.path.resolving import resolve


class Bench:
    """Floors of a run at the time `now`. The cable takes 1000 ns, then 1001, and so on; its next
    trials have the `doubts` that are listed, in turn."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[Test] = []
        self.fails = False
        self.doubts: list[tuple[str, ...]] = []
        self.floors = CableLatencies(True, self._measure, lambda: self.now)
        self._ns = 999

    def _measure(
        self,
        test: Test,
        placement: Placement,
        spec: TrialSpec,
        enough: Callable[[Sequence[TrialResult]], bool],
    ) -> Sequence[TrialResult]:
        if self.fails:
            raise TrialFailed("no cable today")
        self.asked.append(test)
        trials: list[TrialResult] = []
        while not trials or not enough(trials):
            self._ns += 1
            doubts = self.doubts.pop(0) if self.doubts else ("short",)
            trials.append(trial(self._ns, spec, doubts))
        return trials

    def of(self, **axes: Any) -> CableLatency | NoCableLatency | None:
        those = drawn(**axes)
        before = len(self.asked)
        lacks = self.floors.lacks(those)
        found = self.floors.of(those)
        assert lacks == (len(self.asked) > before or self.fails)
        return found

    def learn(self, ns: int, spec: TrialSpec, **axes: Any) -> None:
        self.floors.learn(drawn(**{"switch": "direct", **axes}), trial(ns, spec, ()))


def trial(ns: int, spec: TrialSpec, doubts: tuple[str, ...]) -> TrialResult:
    times = dict.fromkeys(("min", "max", "mean", "p50", "p90", "p99", "p999"), ns)
    counts = dict.fromkeys(("tx_frames", "rx_frames", "rx_bytes", "tx_unsent", "lost"), 0)
    return TrialResult(
        spec=spec,
        elapsed_ns=10**9,
        lost_at={},
        doubts=doubts,
        latency=Latency(kind="rtt", count=10, **times),
        **counts,
    )


def drawn(**axes: Any) -> Basis:
    test = Test(**{"dimension": "latency", "rate": "1000", **axes})
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    placement = place(layout.cpu_users, [Cpu(0), Cpu(1)])
    return Basis(layout.placed(replace(placement, policy=test.placement)), {}, "", "")


def of_1_kpps(frames: int | None = None) -> TrialSpec:
    return TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0, frames=frames)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def figures(found: CableLatency | NoCableLatency | None) -> tuple[int, int, int]:
    assert isinstance(found, CableLatency)
    return found.trials, found.min, found.max


def test_a_floor_is_of_several_trials_at_the_rate_of_the_test(bench: Bench) -> None:
    found = bench.of(rate="500")
    assert isinstance(found, CableLatency)
    assert figures(found) == (3, 1000, 1002)
    assert (found.switch, found.rate_pps, found.doubts) == ("direct", 500, ())
    asked = [(test.switch, test.rate, test.duration, test.warmup) for test in bench.asked]
    assert asked == [("direct", "500", 0.4, 0.05)]


@pytest.mark.parametrize(("later_s", "floor"), [(50, (3, 1000, 1002)), (70, (3, 1003, 1005))])
def test_tests_of_one_minute_share_it(
    bench: Bench, later_s: float, floor: tuple[int, int, int]
) -> None:
    bench.of()
    bench.now += later_s
    assert figures(bench.of(switch="ip-forward")) == floor


def test_each_visit_of_a_test_has_trials_beside_it(bench: Bench) -> None:
    bench.of()
    bench.now += 70
    assert figures(bench.of()) == (6, 1000, 1005)
    assert figures(bench.of()) == (6, 1000, 1005)


def test_the_runs_own_test_on_the_cable_is_the_floor(bench: Bench) -> None:
    bench.of()
    bench.learn(950, of_1_kpps(), duration=2, repeat=3)
    assert figures(bench.of(switch="ip-forward")) == (1, 950, 950)
    assert len(bench.asked) == 1
    bench.now += 70
    assert figures(bench.of(switch="ovs")) == (3, 1003, 1005)
    assert bench.of(switch="direct") is None


@pytest.mark.parametrize(
    ("axes", "spec"),
    [
        ({}, of_1_kpps(frames=10)),
        ({}, TrialSpec(rate_pps=500, duration_s=1, warmup_s=0)),
        ({"frame_size": 128}, of_1_kpps()),
        ({"placement": "0"}, of_1_kpps()),
        ({"switch": "ip-forward"}, of_1_kpps()),
    ],
    ids=("a burst", "another rate", "another size", "another placement", "a switch"),
)
def test_a_trial_of_something_else_is_not_a_floor(
    bench: Bench, axes: dict[str, Any], spec: TrialSpec
) -> None:
    bench.learn(950, spec, **axes)
    assert figures(bench.of()) == (3, 1000, 1002)


def test_what_was_disturbed_counts_only_where_all_was(bench: Bench) -> None:
    bench.doubts = [("host-busy",), (), ("cpu-stolen",)]
    assert figures(bench.of()) == (1, 1001, 1001)
    bench.doubts = [("host-busy",)] * 3
    found = bench.of(rate="2000")
    assert figures(found) == (3, 1003, 1005)
    assert isinstance(found, CableLatency)
    assert found.doubts == ("host-busy",)


def test_what_fails_is_told_and_not_tried_again(bench: Bench) -> None:
    bench.fails = True
    assert bench.of() == NoCableLatency(switch="direct", error="no cable today")
    bench.fails = False
    assert bench.of() == NoCableLatency(switch="direct", error="no cable today")


def test_a_rate_has_no_floor(bench: Bench) -> None:
    assert bench.of(dimension="throughput") is None


def test_a_test_that_no_cable_can_run_has_no_floor(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cable_latency, "can_work", lambda test: test.switch != "direct")
    assert bench.of() is None
    assert bench.asked == []
