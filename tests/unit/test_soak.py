"""Tests of long trials by their intervals: the worst ones, the first loss, the drift, and bounded
records of a simulated day."""

from __future__ import annotations

import random

import pytest

from recorded import fresh
from switchmark.metrics.soak import best, first_loss_s, intervals_of, latency_drift, worst
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.series import Gap, TimeSeries, series_interval_ns
from switchmark.report.soak import sentences
from synthetic import SyntheticSwitch

_S = 10**9


def soaked(**members: object) -> TrialResult:
    """Return a trial of twelve intervals of 10 s with these members of its series."""
    columns = {
        "offered": (1000,) * 12 + (0,),
        "lost": (0,) * 13,
        "received": (1000,) * 13,
        "duplicated": (0,) * 13,
        "reordered": (0,) * 13,
        **dict.fromkeys(("p50_ns", "p99_ns", "max_ns"), (5000,) * 13),
        "p999_ns": (9000,) * 13,
    }
    series = TimeSeries(interval_ns=10 * _S, **{**columns, **members})
    trial = SyntheticSwitch()(TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0))
    return trial.model_copy(update={"series": series})


def test_the_worst_intervals_lost_most_and_then_were_slowest() -> None:
    lost = (0, 3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    slow = (9000, 9000, 9000, 9000, 20_000, 9000, 9000, 9000, 9000, 9000, 9000, 1000, 9000)
    trial = soaked(lost=lost, p999_ns=slow)
    assert [one.number for one in worst(trial, 3)] == [3, 1, 4]
    assert [one.number for one in best(trial, 1)] == [11]
    assert worst(trial, 1)[0].loss_ratio == pytest.approx(0.007)


def test_an_answer_says_where_the_worst_interval_lost_its_frames() -> None:
    lost = (0, 3, 0, 7, *(0,) * 9)
    places = {Place(PlaceKind.CORRUPTED): 2, Place(PlaceKind.INSIDE_SWITCH): 5}
    trial = soaked(lost=lost, lost_at=(None, None, None, places, *(None,) * 9))
    record = fresh(trials=(trial,))
    (text, *_) = sentences([record])
    assert "worst intervals at 30 s (lost 0.7 % (inside switch), p99.9 9 us)" in text
    assert "at 10 s (lost 0.3 %, p99.9" in text


def test_what_comes_after_the_trial_is_no_interval() -> None:
    assert [one.start_s for one in intervals_of(soaked())] == [10.0 * n for n in range(12)]


def test_the_first_loss_is_where_the_first_gap_is() -> None:
    gap = Gap(flow="f", first=7, lost=2, before_due_ns=round(31.25 * _S), before_ns=1)
    assert first_loss_s(soaked()) is None
    lost = (0, 0, 0, 2, *(0,) * 9)
    assert first_loss_s(soaked(lost=lost, earliest_gap=gap)) == 31.25
    assert first_loss_s(soaked(lost=lost)) == 30.0
    assert first_loss_s(soaked(lost=None)) is None


def test_latency_that_drifts_has_a_trend() -> None:
    rising = tuple(9000 + 100 * n for n in range(13))
    drift = latency_drift(soaked(p999_ns=rising))
    assert drift is not None
    assert drift.slope == pytest.approx(100 * 360)
    assert drift.rises
    flat = latency_drift(soaked())
    assert flat is not None
    assert not flat.rises


@pytest.mark.parametrize(
    ("interval_s", "duration_s", "ns"),
    [
        (300, 86_400, 300 * _S),
        (0.1, 10, _S // 10),
        (0.01, 20, _S // 100),
        (0.01, 21, _S // 50),
        (0.01, 86_400, round(81.92 * _S)),
    ],
)
def test_intervals_double_until_a_trial_has_two_thousand(
    interval_s: float, duration_s: float, ns: int
) -> None:
    assert series_interval_ns(interval_s, duration_s) == ns


def test_the_record_of_a_day_is_bounded() -> None:
    """With the most intervals, large numbers everywhere and the most gaps."""
    draw = random.Random(3)
    count = 2001

    def column(most: int) -> tuple[int, ...]:
        return tuple(draw.randrange(most // 2, most) for _ in range(count))

    gaps = tuple(
        Gap(
            flow=f"f0-f1#{number}",
            first=draw.randrange(2**40),
            lost=draw.randrange(2**30),
            **dict.fromkeys(
                ("before_due_ns", "before_ns", "after_due_ns", "after_ns"), 86_400 * _S - number
            ),
        )
        for number in range(512)
    )
    series = TimeSeries(
        interval_ns=round(81.92 * _S),
        **{
            name: column(10**9)
            for name in ("offered", "lost", "received", "duplicated", "reordered")
        },
        **{name: column(10**11) for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")},
        switch_rss_kib=column(10**8),
        gaps=gaps,
        earliest_gap=gaps[0],
        latest_gap=gaps[0],
    )
    spec = TrialSpec(rate_pps=1e6, duration_s=86_400, warmup_s=0.5)
    intervals = tuple(draw.randrange(10**6) for _ in range(86_400 * _S // spec.interval_ns + 1))
    trial = SyntheticSwitch()(spec.model_copy(update={"duration_s": 1.0})).model_copy(
        update={"spec": spec, "series": series, "intervals": intervals}
    )
    assert len(trial.model_dump_json()) < 2 * 10**6


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ((0,) * 13, "linux-bridge: no frame was lost; worst intervals"),
        (None, "linux-bridge: losses are not known; worst intervals"),
    ],
)
def test_an_answer_says_whether_frames_were_lost(lost: tuple[int, ...] | None, words: str) -> None:
    (text, *_) = sentences([fresh(trials=(soaked(lost=lost),))])
    assert text.startswith(words)


def test_an_interval_in_which_no_frame_was_due_has_no_loss_ratio() -> None:
    (first, second, *_) = intervals_of(soaked(offered=(0, *(1000,) * 11, 0)))
    assert (first.loss_ratio, second.loss_ratio) == (None, 0.0)
    assert [one.loss_ratio for one in intervals_of(soaked(lost=None))] == [None] * 12
