"""Long trials in words: the first loss, the worst and the best intervals, and the drift."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.soak import Interval, best, first_loss_s, intervals_of, latency_drift, worst
from switchmark.model.record import Record, TrialResult
from switchmark.report.figures import format_ns, percent

_FEWEST = 10
"""The intervals from which on a trial is told by its intervals."""

_NAMED = 3
"""The best and the worst intervals to name."""


def sentences(records: Sequence[Record]) -> list[str]:
    """Return the sentences about each test whose trial has a time series and no event."""
    return [
        sentence
        for record in records
        for trial in record.trials[:1]
        if not trial.evidence.events and len(list(intervals_of(trial))) >= _FEWEST
        for sentence in _of_trial(record.test.switch, trial)
    ]


def _of_trial(switch: str, trial: TrialResult) -> list[str]:
    first_s = first_loss_s(trial)
    if first_s is not None:
        loss = f"the first loss was at {first_s:.1f} s"
    elif trial.series is not None and trial.series.lost is not None:
        loss = "no frame was lost"
    else:
        loss = "losses are not known"
    told = [
        f"{switch}: {loss}; worst intervals {_listed(worst(trial, _NAMED))}; "
        f"best {_listed(best(trial, _NAMED))}."
    ]
    drift = latency_drift(trial)
    if drift is not None and (drift.low > 0 or drift.high < 0):
        slope, low, high = (f"{ns / 1e3:+.3g}" for ns in (drift.slope, drift.low, drift.high))
        told.append(f"{switch}: p99.9 drifts by {slope} us an hour [{low}, {high}].")
    return told


def _listed(intervals: Sequence[Interval]) -> str:
    return ", ".join(_text(one) for one in intervals)


def _text(interval: Interval) -> str:
    ratio, p999 = interval.loss_ratio, interval.p999_ns
    lost = [] if ratio is None else [f"lost {percent(ratio)}{_where(interval)}"]
    latency = [] if p999 is None else [f"p99.9 {format_ns(p999)}"]
    figures = ", ".join((*lost, *latency))
    return f"at {interval.start_s:g} s" + (f" ({figures})" if figures else "")


def _where(interval: Interval) -> str:
    """Return the place of most of an interval's losses; empty if no counter shows it."""
    place = max(interval.lost_at, key=interval.lost_at.__getitem__, default=None)
    return "" if place is None else f" ({place})"
