"""These tests check the figures that have names: what they come to for a test and for each of its
trials."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import mean, median, stdev

import pytest
from hdrh.histogram import HdrHistogram

from switchmark.errors import UsageError
from switchmark.metrics.distribution import cdf, percentile_ns
from switchmark.metrics.latency import from_counts
from switchmark.metrics.named import METRICS, figure_of, metric
from switchmark.metrics.repeats import FIGURES
from switchmark.model.cost import InterruptCost, PerfCost, ProcessorCounts, TrialCost
from switchmark.model.latency import Latency
from switchmark.model.record import PartReport, Record, TrialResult
from switchmark.report.json import to_object

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TRIAL = RECORD.trials[0]
RANDOM = random.Random(7)


def trial(**changes: object) -> TrialResult:
    return TRIAL.model_copy(update={"elapsed_ns": 10**9, "latency": None, **changes})


def record(*trials: TrialResult) -> Record:
    test = RECORD.test.model_copy(update={"search": "fixed", "frame_size": 64})
    return RECORD.model_copy(update={"trials": trials, "test": test})


def latency(values: list[int]) -> Latency:
    histogram = HdrHistogram(1, 10**11, 3)
    for value in values:
        histogram.record_value(value)
    counts = [[index, count] for index, count in enumerate(histogram.counts) if count]
    members = {
        "count": len(values),
        "min": min(values),
        "max": max(values),
        "sum": sum(values),
        "counts": counts,
    }
    figures = from_counts("rtt", [members])
    assert figures is not None
    return figures


def samples_of(name: str, result: Record) -> list[float]:
    return metric(name).samples(result)


def test_rates_are_those_of_the_object_in_other_units() -> None:
    result = record(*(trial(rx_frames=frames, tx_frames=3000) for frames in (1000, 1500, 2500)))
    rx = to_object(result)["rx"]
    assert rx is not None
    assert metric("rx.mpps").of(result) == pytest.approx(rx["pps"] / 1e6) == 0.0015
    assert metric("rx.gbps_l1").of(result) == pytest.approx(rx["gbps_l1"])
    assert metric("rx.gbps_l2").of(result) == pytest.approx(rx["gbps_l2"])
    assert samples_of("rx.kpps", result) == [1.0, 1.5, 2.5]
    assert metric("tx.kpps").of(result) == 3.0
    assert metric("rx.trials_stdev_kpps").of(result) == pytest.approx(stdev([1.0, 1.5, 2.5]))
    assert samples_of("rx.trials_stdev_kpps", result) == []


def test_a_rate_for_each_copy_is_a_part_of_all_that_is_received() -> None:
    result = record(*(trial(rx_frames=frames) for frames in (1000, 1500, 3000)))
    twice = result.model_copy(update={"test": result.test.model_copy(update={"copies": 3})})
    assert metric("rx.mpps_per_copy").of(result) == pytest.approx(0.0015)
    assert metric("rx.mpps_per_copy").of(twice) == pytest.approx(0.0005)


def test_what_is_offered_is_what_was_sent_and_what_had_no_room() -> None:
    result = record(*(trial(tx_frames=3000, tx_unsent=unsent) for unsent in (0, 1000, 2000)))
    assert metric("offered.kpps").of(result) == 4.0
    assert samples_of("offered.kpps", result) == [3.0, 4.0, 5.0]


def test_an_interval_needs_thirteen_trials_and_holds_their_median() -> None:
    frames = (1500, 2500, 1000) * 5
    enough = record(*(trial(rx_frames=frame) for frame in frames[:13]))
    few = record(*(trial(rx_frames=frame) for frame in frames[:12]))
    assert metric("rx.kpps").interval(few) is None
    assert metric("rx.kpps").interval(enough) == (1.0, 2.5)


def test_the_spread_within_a_trial_leaves_the_broken_intervals_out() -> None:
    counts = (5, 100, 110, 90, 100, 103, 97, 100, 100, 5)
    result = record(trial(intervals=counts, interval_ns=10**8), trial(intervals=()))
    expected = stdev(counts[1:-1]) * 10 / 1e3
    assert samples_of("rx.stdev_kpps", result) == [pytest.approx(expected)]
    assert metric("rx.stdev_kpps").of(result) == pytest.approx(expected)
    assert metric("rx.stdev_mpps").of(record(trial(intervals=()))) is None


def test_a_percentile_of_the_summary_is_the_same_by_its_name() -> None:
    values = [RANDOM.randint(4_000, 900_000) for _ in range(20_000)]
    result = record(
        trial(latency=latency(values[:10_000])), trial(latency=latency(values[10_000:]))
    )
    summary = to_object(result)["latency_ns"]
    for name, key in (("p50", "p50"), ("p90", "p90"), ("p99.9", "p999")):
        assert metric(f"latency.{name}_us").of(result) == summary[key] / 1e3
    for end in ("min", "max"):
        assert metric(f"latency.{end}_us").of(result) == summary[end] / 1e3
    assert metric("latency.mean_us").of(result) == pytest.approx(mean(values) / 1e3)


@pytest.mark.parametrize("percent", ["1", "45", "95", "99.5"])
def test_any_percentile_is_within_what_a_histogram_tells(percent: str) -> None:
    values = sorted(RANDOM.randint(10, 5_000_000) for _ in range(5_000))
    exact = values[-(-len(values) * Fraction(percent) // 100) - 1]
    value = metric(f"latency.p{percent}_us").of(record(trial(latency=latency(values))))
    assert value is not None
    assert exact <= value * 1e3 <= exact * 1.001 + 1


def test_a_percentile_with_few_samples_beyond_it_is_not_told() -> None:
    few = latency(list(range(1000, 1100)))
    assert percentile_ns(few, Fraction(90)) == 1089
    assert percentile_ns(few, Fraction(91)) is None
    assert percentile_ns(few, Fraction(9)) is None


def test_the_deviation_of_latency_is_that_of_its_samples() -> None:
    values = [round(RANDOM.gauss(20_000, 1_500)) for _ in range(5_000)]
    result = record(*(trial(latency=latency(values)) for _ in range(3)))
    assert metric("latency.stdev_us").of(result) == pytest.approx(stdev(values) / 1e3, rel=0.001)
    assert len(samples_of("latency.stdev_us", result)) == 3


def test_the_distribution_ends_at_the_greatest_latency_and_rises() -> None:
    values = [RANDOM.randint(1_000, 100_000) for _ in range(3_000)]
    points = cdf(record(trial(latency=latency(values))))
    assert points[-1] == (max(values) / 1e3, 1.0)
    assert points == sorted(points)
    below = [share for us, share in points if us <= median(values) / 1e3]
    assert below[-1] == pytest.approx(0.5, abs=0.01)
    assert cdf(record(trial())) == []


def test_cores_are_of_a_role_and_of_all() -> None:
    parts = (
        PartReport(part="a0", roles=("sender",), cpu=0, cores=0.5),
        PartReport(part="b0", roles=("receiver",), cpu=1, cores=0.25),
    )
    softirq = InterruptCost(cpus={}, within_threads=True, outside=0.125)
    cost = TrialCost(elapsed_ns=10**9, softirq=softirq, perf=counted())
    result = record(*(trial(parts=parts, cost=cost) for _ in range(3)))
    assert metric("cpu.sender").of(result) == 0.5
    assert metric("cpu.switch").of(result) is None
    assert metric("cpu.total").of(result) == 0.875 == to_object(result)["cost"]["total_cores"]
    assert samples_of("cpu.total", result) == [0.875] * 3


def counted(**misses: int | None) -> PerfCost:
    parts = {
        part: ProcessorCounts(by="thread", roles=(part,), cache_misses=count)
        for part, count in misses.items()
    }
    return PerfCost(user_only=False, parts=parts)


def test_misses_of_all_parts_are_for_each_frame_received() -> None:
    softirq = InterruptCost(cpus={})
    measured, unknown = (
        trial(rx_frames=1000, cost=TrialCost(elapsed_ns=1, softirq=softirq, perf=perf))
        for perf in (counted(sender=500, switch=1500), counted(sender=500, switch=None))
    )
    assert metric("cost.cache_misses_per_frame").of(record(measured)) == 2.0
    assert metric("cost.cache_misses_per_frame").of(record(unknown)) is None
    assert samples_of("cost.cache_misses_per_frame", record(measured, measured)) == [2.0, 2.0]


def test_misses_of_all_cpus_have_those_of_their_parts_in_them() -> None:
    perf = counted(sender=500, cpus=3000)
    one = TrialCost(elapsed_ns=1, softirq=InterruptCost(cpus={}), perf=perf)
    result = record(trial(rx_frames=1000, cost=one))
    assert metric("cost.cache_misses_per_frame").of(result) == 3.0


def test_the_share_of_lost_frames_is_of_each_trial_too() -> None:
    result = record(trial(tx_frames=100, lost=10), trial(tx_frames=300, lost=90))
    assert metric("loss_ratio").of(result) == 0.25
    assert samples_of("loss_ratio", result) == [0.1, 0.3]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_of_a_test_without_trials_is_unknown(name: str) -> None:
    assert metric(name).of(record()) is None
    assert metric(name).samples(record()) == []
    assert metric(name).interval(record()) is None
    assert metric(name).description


def test_refuses_a_name_that_is_no_metric_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no metric named 'rx.mpp'") as refused:
        metric("rx.mpp")
    assert refused.value.hint == "did you mean rx.mpps?"
    with pytest.raises(UsageError, match="between 0 and 100") as refused:
        metric("latency.p999_us")
    assert refused.value.hint is not None
    assert refused.value.hint.endswith("latency.p99.9_us is 99.9 %")


@cache
def of_differing_trials(trials: int) -> Record:
    """Return a record of trials that differ much in latency, duration and loss."""
    results = []
    for n in range(trials):
        middle = 10_000 * (1 + n**2)
        delays = [RANDOM.randint(middle // 2, 2 * middle) for _ in range(2000 * (1 + n % 3))]
        frames = 1000 * (1 + 3 * n)
        results.append(
            trial(
                tx_frames=2 * frames,
                tx_unsent=17 * n**2,
                rx_frames=frames,
                lost=frames,
                elapsed_ns=10**9 * (1 + n % 4),
                latency=latency(delays),
            )
        )
    return record(*results)


@pytest.mark.parametrize("trials", [13, 14, 20])
@pytest.mark.parametrize("name", [*METRICS, "latency.p50_us", "latency.p99_us"])
def test_a_value_lies_in_the_interval_of_its_samples(name: str, trials: int) -> None:
    result = of_differing_trials(trials)
    value, interval = metric(name).of(result), metric(name).interval(result)
    if name.startswith(("latency.", "tx.", "offered.")):
        assert interval is not None
    if interval is not None:
        assert value is not None
        assert interval[0] <= value <= interval[1]


def test_metrics_are_compared_by_the_figures_that_all_answers_have() -> None:
    assert figure_of("rx.mpps") is figure_of("rx.kpps") is FIGURES["rate"]
    assert figure_of("latency.p50_us") is FIGURES["latency"]
    assert figure_of("loss_ratio") is FIGURES["loss"]
    result = record(*(trial(rx_frames=frames) for frames in (1000, 1500)))
    for name, unit, values in (
        ("rx.gbps_l1", "pps", samples_of("rx.gbps_l1", result)),
        ("tx.kpps", "amount", samples_of("tx.kpps", result)),
        ("profile.kernel", "share", [None, None]),
    ):
        figure = figure_of(name)
        assert (figure.unit, list(figure.of_trials(result))) == (unit, values)
    assert figure_of("tx.kpps").either_way
    assert not figure_of("latency.mean_us").either_way
    assert figure_of("cpu.total", less=True).unit == "share"
