"""Tests of trends, and of the memory of a switch that grows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from switchmark.metrics.growth import growing, trend_of
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.series import TimeSeries
from synthetic import SyntheticSwitch


def sized(sizes_kib: Sequence[int | None], interval_s: float = 300.0) -> TrialResult:
    """Return a trial in which the switch had this memory at the end of each interval."""
    nothing = (0,) * len(sizes_kib)
    series = TimeSeries(
        interval_ns=round(interval_s * 1e9),
        **dict.fromkeys(("offered", "received", "duplicated", "reordered"), nothing),
        **dict.fromkeys(("p50_ns", "p99_ns", "p999_ns", "max_ns"), (None,) * len(sizes_kib)),
        switch_rss_kib=tuple(sizes_kib),
    )
    trial = SyntheticSwitch()(TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0))
    return trial.model_copy(update={"series": series})


def test_the_slope_is_the_median_of_the_slopes_of_all_pairs() -> None:
    times = [0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    trend = trend_of(times, [3 * t + (100 if t == 4 else 0) for t in times])
    assert trend is not None
    assert trend.slope == pytest.approx(3)
    assert trend.low <= 3 <= trend.high
    assert trend.rises


def test_there_is_no_trend_of_few_values() -> None:
    assert trend_of(range(9), range(9)) is None


def test_the_interval_covers_the_true_slope_in_nineteen_of_twenty_cases() -> None:
    draw = random.Random(5)
    covered = 0
    for _ in range(400):
        values = [0.7 * t + draw.gauss(0, 20) for t in range(40)]
        trend = trend_of(range(40), values)
        assert trend is not None
        covered += trend.low <= 0.7 <= trend.high
    assert 0.92 * 400 <= covered <= 0.98 * 400


def test_a_long_series_has_the_trend_of_its_means() -> None:
    trend = trend_of(range(5000), [0.5 * t for t in range(5000)])
    assert trend is not None
    assert trend.slope == pytest.approx(0.5)


def test_a_leak_grows() -> None:
    leak = growing(sized([50_000 + 100 * n for n in range(100)], interval_s=300.25))
    assert leak is not None
    assert leak["rss_kib"] == [50_000, 59_900]
    assert leak["seconds"] == 29_724.8
    low, slope, high = leak["kib_per_hour"]
    assert low <= slope <= high
    assert slope == pytest.approx(1199)


@pytest.mark.parametrize(
    "sizes",
    [
        [50_000] * 100,
        [50_000 + min(n, 20) * 1000 for n in range(100)],  # buffers that fill up
        [50_000 + n for n in range(100)],  # less than 1 % and 1 MiB
        [50_000 + 1000 * (n % 2) for n in range(100)],
        [None] * 100,
        [50_000 + 1000 * n for n in range(15)],  # too few to tell
    ],
)
def test_other_memory_does_not_grow(sizes: list[int | None]) -> None:
    assert growing(sized(sizes)) is None


def test_a_trial_without_a_series_says_nothing() -> None:
    trial = SyntheticSwitch()(TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0))
    assert growing(trial) is None
