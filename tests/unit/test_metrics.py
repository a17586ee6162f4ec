"""These tests check what is computed from the counts of trials."""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from recorded import fresh, latency_trial
from switchmark.metrics import statistics
from switchmark.metrics.cpu import cores_by_role
from switchmark.metrics.distribution import percentile_ns, stdev_ns
from switchmark.metrics.latency import PERCENTILES, from_counts, latency_ns
from switchmark.metrics.loss import lost_at, total
from switchmark.metrics.repeats import FIGURES, main_figure
from switchmark.metrics.statistics import MIN_OF_INTERVAL, is_unstable, mser_start
from switchmark.metrics.throughput import (
    confidence,
    fairness,
    is_lower_bound,
    is_uncertain,
    per_flow,
    rates_pps,
    sent,
    steady_pps,
)
from switchmark.model.evidence import Evidence
from switchmark.model.latency import Latency
from switchmark.model.record import FlowCounts, PartReport, Record, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.report.json import MEMBERS

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TRIAL = RECORD.trials[0]


def trial(**changes: object) -> TrialResult:
    return TRIAL.model_copy(update=changes)


def record(*trials: TrialResult, search: str = "fixed", size: int | str = 64) -> Record:
    test = RECORD.test.model_copy(update={"search": search, "frame_size": size})
    return RECORD.model_copy(update={"trials": trials, "test": test})


def measured(values: list[int]) -> Latency:
    histogram = HdrHistogram(1, 10**10, 3)
    for value in values:
        histogram.record_value(value)
    return Latency(
        kind="rtt",
        count=len(values),
        min=min(values),
        mean=sum(values) / len(values),
        p50=None,
        p90=None,
        p99=None,
        p999=None,
        max=max(values),
        histogram=histogram.encode().decode(),
    )


received = MEMBERS["rx"]


# --- throughput ------------------------------------------------------------------------------


def test_frames_are_sums_and_the_rate_is_the_median_of_the_trials() -> None:
    one = trial(elapsed_ns=10**9, tx_frames=1000, rx_frames=900, tx_unsent=1)
    two = trial(elapsed_ns=3 * 10**9, tx_frames=5000, rx_frames=3100, tx_unsent=2)
    assert sent(record(one, two)) == {"frames": 6000, "pps": 1500, "unsent": 3}
    found = received(record(one, two))
    assert found is not None
    assert (found["frames"], found["pps"]) == (4000, pytest.approx((900 + 3100 / 3) / 2))
    assert found["gbps_l2"] == pytest.approx(found["pps"] * 64 * 8 / 1e9)
    assert found["gbps_l1"] == pytest.approx(found["pps"] * 84 * 8 / 1e9)


@pytest.mark.parametrize(
    ("rate_pps", "frames", "pps"), [(None, None, 800), (1000.0, None, 900), (None, 900, 900)]
)
def test_what_queues_give_up_after_the_phase_is_no_rate(
    rate_pps: float | None, frames: int | None, pps: int
) -> None:
    """At full rate alone: else what arrives is held against what was to be sent."""
    spec = TrialSpec(rate_pps=rate_pps, duration_s=1, warmup_s=0, frames=frames)
    one = trial(spec=spec, elapsed_ns=10**9, tx_frames=1000, rx_frames=900, lost=100)
    one = one.model_copy(update={"evidence": Evidence(after_end=100)})
    assert rates_pps(record(one)) == [pps]
    found = received(record(one))
    assert found is not None
    assert (found["frames"], found["pps"]) == (900, pps)


def test_the_rate_of_imix_counts_its_mean_frame() -> None:
    found = received(record(trial(elapsed_ns=10**9, rx_frames=12), size="imix"))
    assert found is not None
    assert found["gbps_l2"] * 1e9 == pytest.approx((7 * 64 + 4 * 594 + 1518) * 8)


def test_r_plus_leaves_out_the_first_and_the_last_interval() -> None:
    one = trial(elapsed_ns=5 * 10**8, interval_ns=10**8, intervals=(1, 200, 300, 400, 7))
    assert steady_pps(one) == 3000
    found = received(record(one, search="max"))
    assert found is not None
    assert found["pps"] == 3000


def test_r_plus_begins_where_the_arrivals_are_steady() -> None:
    warming = (0, *range(100, 1000, 100), *(1000, 1010, 990) * 17, 0)
    one = trial(elapsed_ns=len(warming) * 10**8, interval_ns=10**8, intervals=warming)
    assert steady_pps(one) == pytest.approx(10_000, rel=0.002)
    short = trial(elapsed_ns=10**9, interval_ns=10**8, intervals=warming[:10])
    assert steady_pps(short) == 4500


@given(st.lists(st.integers(0, 1000), max_size=200))
def test_the_steady_part_has_the_least_error_of_the_mean(values: list[int]) -> None:
    count = len(values) // 5
    means = [sum(values[5 * index : 5 * index + 5]) / 5 for index in range(count)]
    errors = [
        sum((value - sum(rest) / len(rest)) ** 2 for value in rest) / len(rest) ** 2
        for rest in (means[start:] for start in range(count // 2 + 1))
        if count >= 4
    ]
    start = mser_start(values) // 5
    assert start == 0 if not errors else errors[start] == pytest.approx(min(errors), abs=1e-9)
    assert not errors or not [error for error in errors[:start] if error < errors[start] - 1e-9]


@given(st.lists(st.integers(0, 1000), max_size=200))
def test_at_most_half_of_a_series_is_left_out(values: list[int]) -> None:
    assert 0 <= mser_start(values) <= len(values) / 2


@pytest.mark.parametrize(
    ("series", "unstable"),
    [
        (lambda draw, i: 1000 + draw.gauss(0, 20), False),
        (lambda draw, i: 1000 + draw.gauss(0, 100), False),
        (lambda draw, i: 1000 * (1 - 0.003 * i) + draw.gauss(0, 20), True),
        (lambda draw, i: draw.choice((700, 1000)) + draw.gauss(0, 20), True),
        (lambda draw, i: (700 if i > 60 else 1000) + draw.gauss(0, 20), True),
        (lambda draw, i: 1000 - 900 * (i == 40), False),
        (lambda draw, i: 1000, False),
        (lambda draw, i: 0, False),
    ],
)
def test_drift_and_two_bands_are_unstable(series: Any, unstable: bool) -> None:
    wrong = sum(
        is_unstable([series(draw, i) for i in range(98)]) != unstable
        for draw in map(random.Random, range(30))
    )
    assert wrong == 0


def test_r_plus_leaves_out_what_came_after_the_measured_phase() -> None:
    late = trial(elapsed_ns=4 * 10**8, interval_ns=10**8, intervals=(1, 200, 300, 9, 5, 5))
    assert steady_pps(late) == 2500


def test_r_plus_of_a_trial_without_whole_intervals_is_its_mean() -> None:
    short = trial(elapsed_ns=2 * 10**8, interval_ns=10**8, intervals=(1, 2), rx_frames=50)
    assert steady_pps(short) == 250


def test_nothing_is_made_up_where_no_trial_was_finished() -> None:
    nothing = record()
    assert sent(nothing) is None
    assert received(nothing) is None
    assert confidence(nothing) is None
    assert fairness(nothing) is None
    assert latency_ns(nothing) is None
    assert total(nothing, "lost") is None
    assert lost_at(nothing) == {}
    assert cores_by_role(nothing) == {"sender": None, "receiver": None, "switch": None}


@pytest.mark.parametrize("search", ["fixed", "max"])
def test_what_is_to_be_certain_is_the_rate_whose_interval_is_shown(search: str) -> None:
    """Trials that begin slowly: the whole of each differs, their steady part does not."""
    slow = [0, 10, 20, 30, 40, 5, 15, 25, 35, 0, 40, 20, 10]
    trials = [
        trial(
            rx_frames=4000 + start,
            intervals=(0, *[start] * 5, *[100] * 33, 0),
            interval_ns=100_000_000,
            elapsed_ns=4_000_000_000,
        )
        for start in slow
    ]
    found = record(*trials, search=search)
    certain = found.test.model_copy(update={"until_certain": 1e-6})
    low, high = confidence(found) or (0.0, 0.0)
    assert is_uncertain(certain, trials) == (high > low) == (search == "fixed")


def test_an_interval_takes_thirteen_repeats() -> None:
    rates = [trial(rx_frames=n, elapsed_ns=10**9) for n in (100, 110, 90) * 5]
    assert confidence(record(*rates[:12])) is None
    assert confidence(record(*rates)) == (90, 110)


@given(st.lists(st.integers(0, 10**9), min_size=MIN_OF_INTERVAL, max_size=20))
def test_the_interval_lies_within_what_was_seen(frames: list[int]) -> None:
    found = confidence(record(*(trial(rx_frames=n, elapsed_ns=10**9) for n in frames)))
    assert found is not None
    assert min(frames) * 0.999 <= found[0] <= found[1] <= max(frames) * 1.001


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=8))
def test_fairness_lies_between_one_taker_and_equal_shares(shares: list[int]) -> None:
    flows = tuple(FlowCounts(flow=str(i), tx=n, rx=n, lost=0) for i, n in enumerate(shares))
    found = fairness(record(trial(per_flow=flows)))
    if any(shares):
        assert found is not None
        assert 1 / len(shares) * 0.999 <= found <= 1.001
    else:
        assert found is None


def test_flows_are_summed_over_trials_by_name() -> None:
    one = FlowCounts(flow="a", tx=3, rx=2, lost=1, reordered=1)
    two = FlowCounts(flow="b", tx=1, rx=1, lost=0)
    found = per_flow(record(trial(per_flow=(one, two)), trial(per_flow=(one,))))
    assert found == [
        {"flow": "a", "tx": 6, "rx": 4, "lost": 2, "duplicated": 0, "reordered": 2, "corrupted": 0},
        {"flow": "b", "tx": 1, "rx": 1, "lost": 0, "duplicated": 0, "reordered": 0, "corrupted": 0},
    ]


def test_a_verdict_on_the_traffic_program_makes_a_bound() -> None:
    assert is_lower_bound("sender")
    assert is_lower_bound("receiver")
    assert not is_lower_bound("switch")


# --- loss ------------------------------------------------------------------------------------


def test_lost_frames_are_placed_or_unaccounted_for() -> None:
    one = trial(lost=10, lost_at={"ring": 4, "switch": 3})
    of_both = record(one, trial(lost=1, lost_at={"ring": 1}))
    assert (total(of_both, "lost"), total(of_both, "unaccounted")) == (11, 3)
    assert lost_at(of_both) == {"ring": 5, "switch": 3}


# --- cpu -------------------------------------------------------------------------------------


def part(*roles: str, cores: float | None) -> PartReport:
    return PartReport(part="+".join(roles), roles=roles, cpu=0, cores=cores)


def test_cores_of_a_role_are_added_up_and_averaged_by_time() -> None:
    one = trial(
        elapsed_ns=10**9,
        parts=(part("sender", cores=1), part("sender", cores=0.5), part("switch", cores=0.25)),
    )
    two = trial(elapsed_ns=3 * 10**9, parts=(part("sender", cores=0.5), part("switch", cores=0.25)))
    assert cores_by_role(record(one, two)) == {"sender": 0.75, "receiver": None, "switch": 0.25}


def test_a_role_with_an_unknown_part_is_unknown() -> None:
    one = trial(parts=(part("sender", cores=1), part("sender", cores=None)))
    assert cores_by_role(record(one))["sender"] is None


def test_a_part_of_two_roles_is_not_divided() -> None:
    found = cores_by_role(record(trial(elapsed_ns=7, parts=(part("sender", "receiver", cores=1),))))
    assert found == {"sender": None, "receiver": None, "switch": None, "sender+receiver": 1}


# --- latency ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "percentiles"),
    [
        (19, set()),
        (20, {"p50"}),
        (99, {"p50"}),
        (100, {"p50", "p90"}),
        (1000, {"p50", "p90", "p99"}),
        (10_000, {"p50", "p90", "p99", "p999"}),
    ],
)
def test_a_percentile_needs_ten_samples_beyond_it(count: int, percentiles: set[str]) -> None:
    half = count // 2
    values = list(range(1000, 1000 + count))
    found = latency_ns(
        record(trial(latency=measured(values[:half])), trial(latency=measured(values[half:])))
    )
    assert found is not None
    assert {
        name for name in ("p50", "p90", "p99", "p999") if getattr(found, name) is not None
    } == percentiles


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 10**9), min_size=10, max_size=50),
    st.lists(st.integers(1, 10**9), min_size=10, max_size=50),
)
def test_merged_histograms_are_that_of_all_samples(one: list[int], two: list[int]) -> None:
    found = latency_ns(record(trial(latency=measured(one)), trial(latency=measured(two))))
    values = sorted(one + two)
    assert found is not None
    assert (found.min, found.max, found.count) == (values[0], values[-1], len(values))
    assert found.mean == pytest.approx(sum(values) / len(values))
    nearby = values[(len(values) + 1) // 2 - 1]
    assert found.p50 == pytest.approx(nearby, rel=0.002, abs=1)
    assert found.p50 is not None
    assert found.p50 <= found.max


def index_of(value: int) -> int:
    """Return where HdrHistogram (lowest 1, three digits) counts a value."""
    bucket = (value | 2047).bit_length() - 11
    return (bucket << 10) + (value >> bucket)


def histogram_of(values: list[int]) -> dict[str, Any]:
    """Return the traffic program's report of these samples."""
    counts = Counter(index_of(value) for value in values)
    return {
        "count": len(values),
        "min": min(values),
        "max": max(values),
        "sum": sum(values),
        "counts": sorted(counts.items()),
    }


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, 10**11), min_size=1, max_size=30), min_size=1, max_size=4),
    st.integers(1, 100),
)
def test_percentiles_are_those_of_a_sort_to_the_histograms_resolution(
    parts: list[list[int]], times: int
) -> None:
    samples = [part * times for part in parts]
    values = sorted(value for part in samples for value in part)
    trials = [trial(latency=from_counts("one-way", [histogram_of(part)])) for part in samples]
    together = from_counts("one-way", [histogram_of(part) for part in samples])
    found = latency_ns(record(*trials))
    assert found is not None
    assert together is not None
    once = latency_ns(record(trial(latency=together)))
    assert once is not None
    assert found.mean == pytest.approx(once.mean)
    assert found == once.model_copy(update={"mean": found.mean})
    for name, millionths in PERCENTILES.items():
        rank = -(-len(values) * millionths // 10**6)
        if len(values) * (10**6 - millionths) < 10 * 10**6:
            assert getattr(found, name) is None
        else:
            exact = values[rank - 1]
            assert exact <= getattr(found, name) <= exact * 1.001


def test_the_highest_percentile_takes_ten_million_samples() -> None:
    common = {
        "count": 10**7,
        "min": 5,
        "max": 90,
        "sum": 5 * 10**7,
        "counts": [[5, 10**7 - 9], [90, 9]],
    }
    found = from_counts("rtt", [common])
    assert found is not None
    assert (found.p999999, found.p99999, found.max) == (5, 5, 90)
    found = from_counts("rtt", [common | {"count": 10**7 - 1, "counts": [[5, 10**7 - 1]]}])
    assert found is not None
    assert (found.p999999, found.p99999) == (None, 5)


def test_delay_variation_is_that_of_rfc_5481() -> None:
    delays, steps = list(range(1000, 11_000)), [7] * 9999
    one = from_counts("rtt", [histogram_of(delays)], [histogram_of(steps)])
    found = latency_ns(record(trial(latency=one), trial(latency=one)))
    assert found is not None
    assert found.pdv == pytest.approx(10_989 - 1000, rel=0.002)
    assert found.ipdv is not None
    assert found.ipdv.count == 2 * 9999
    assert (found.ipdv.p999, found.ipdv.mean) == (7, 7)


def test_each_flow_has_its_own_latency_where_it_was_measured() -> None:
    flows = [
        FlowCounts(
            flow=name, tx=9, rx=9, lost=0, latency=from_counts("rtt", [histogram_of([n] * 99)])
        )
        for name, n in (("a", 100), ("b", 900))
    ]
    found = per_flow(record(trial(per_flow=flows), trial(per_flow=flows)))
    assert [(flow["latency_ns"]["p50"], flow["latency_ns"]["count"]) for flow in found] == [
        (100, 198),
        (900, 198),
    ]


def test_one_trial_keeps_its_own_percentiles() -> None:
    latency = measured([5] * 200).model_copy(update={"p50": 5, "p90": 5, "histogram": None})
    found = latency_ns(record(trial(latency=latency)))
    assert found is not None
    assert (found.p50, found.p90, found.p99) == (5, 5, None)


def test_trials_without_histograms_have_no_common_percentile() -> None:
    bare = measured([5] * 200).model_copy(update={"histogram": None})
    found = latency_ns(record(trial(latency=bare), trial(latency=bare)))
    assert found is not None
    assert found.count == 400
    assert found.p50 is None


@pytest.mark.parametrize(
    ("axes", "name"),
    [
        ({}, "rate"),
        ({"dimension": "latency"}, "latency"),
        ({"dimension": "outage"}, "outage"),
        ({"search": "back-to-back"}, "burst"),
        ({"search": "back-to-back", "dimension": "outage"}, "burst"),
    ],
)
def test_a_test_is_measured_for_its_main_figure(axes: dict[str, str], name: str) -> None:
    assert main_figure(fresh(test=Test.model_validate(axes))) is FIGURES[name]


@pytest.mark.parametrize("score", [20, 40, 60])
def test_the_odds_of_an_order_are_those_of_all_orders(
    score: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For many values they are those of the normal distribution."""
    exact = statistics._order_odds(20, score)
    monkeypatch.setattr(statistics, "_COUNTED", 19)
    assert statistics._order_odds(20, score) == pytest.approx(exact, rel=0.1)


def test_a_latency_without_a_histogram_has_no_percentile_and_no_deviation() -> None:
    latency = latency_trial(1000, range(2000, 3000)).latency
    assert latency is not None
    assert percentile_ns(latency, Fraction(50)) == pytest.approx(2500, rel=0.01)
    assert stdev_ns(latency) == pytest.approx(289, rel=0.01)
    bare = latency.model_copy(update={"histogram": None})
    assert percentile_ns(bare, Fraction(50)) is None
    assert stdev_ns(bare) is None
    few = latency.model_copy(update={"count": 1})
    assert stdev_ns(few) is None
