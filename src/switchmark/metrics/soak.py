"""A long trial by its intervals: the best and the worst of them, the first loss, and the drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from switchmark.metrics.growth import Slope, trend_of
from switchmark.model.place import Place
from switchmark.model.record import Record, TrialResult
from switchmark.model.series import TimeSeries

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval of a trial."""

    number: int
    """Its number, from 0."""
    start_s: float
    """Its start, in seconds since the start of the measured phase."""
    series: TimeSeries
    """The series that it belongs to."""

    @property
    def loss_ratio(self) -> float | None:
        """Return the frames due in it that were lost, as a share; None if nothing was due in it, or
        if losses are not known."""
        offered = self.series.offered[self.number]
        if self.series.lost is None or not offered:
            return None
        return self.series.lost[self.number] / offered

    @property
    def lost_at(self) -> Mapping[Place, int]:
        """Return the frames lost in it by place, as far as counters show them."""
        places = self.series.lost_at
        return (places[self.number] if places else None) or {}

    @property
    def p999_ns(self) -> int | None:
        """Return the 99.9th percentile of the latency of the frames that arrived in it."""
        return self.series.p999_ns[self.number]


def intervals_of(trial: TrialResult) -> Iterator[Interval]:
    """Yield the intervals of a trial's measured phase; none for a trial without a series."""
    if trial.series is not None:
        for number, start_s in enumerate(trial.series.starts_s[:-1]):
            yield Interval(number, start_s, trial.series)


def worst(trial: TrialResult, count: int) -> list[Interval]:
    """Return the intervals with the most loss; among equals, those with the highest p99.9."""
    return sorted(_with_frames(trial), key=_badness, reverse=True)[:count]


def best(trial: TrialResult, count: int) -> list[Interval]:
    """Return the intervals with the least loss; among equals, those with the lowest p99.9."""
    return sorted(_with_frames(trial), key=_badness)[:count]


def _with_frames(trial: TrialResult) -> list[Interval]:
    return [one for one in intervals_of(trial) if one.series.offered[one.number]]


def _badness(interval: Interval) -> tuple[float, int]:
    return interval.loss_ratio or 0.0, interval.p999_ns or 0


def first_loss_s(trial: TrialResult) -> float | None:
    """Return the due time of the first lost frame, in seconds since the start of the measured
    phase; None without a loss. It is that of the last frame before the first gap, or the start of
    an interval if gaps are not known."""
    series = trial.series
    if series is None or not series.lost or not any(series.lost):
        return None
    if series.earliest_gap is not None:
        return (series.earliest_gap.before_due_ns or 0) / 1e9
    return next(one.start_s for one in intervals_of(trial) if series.lost[one.number])


def first_loss_of(record: Record) -> float | None:
    """Return the first loss of a test, in its trial with the earliest one."""
    found = [value for value in map(first_loss_s, record.trials) if value is not None]
    return min(found, default=None)


def worst_loss_of(record: Record) -> float | None:
    """Return the highest loss ratio of an interval of a test."""
    found = [one.loss_ratio for trial in record.trials for one in intervals_of(trial)]
    return max((ratio for ratio in found if ratio is not None), default=None)


def latency_drift(trial: TrialResult) -> Slope | None:
    """Return the trend of p99.9 in nanoseconds per hour; None for fewer than ten intervals with
    enough frames."""
    points = [(one.start_s, one.p999_ns) for one in intervals_of(trial) if one.p999_ns is not None]
    trend = trend_of(*zip(*points, strict=True)) if points else None
    if trend is None:
        return None
    return Slope(*(_HOUR_S * value for value in (trend.slope, trend.low, trend.high)))


def latency_drift_of(record: Record) -> float | None:
    """Return the drift of p99.9 in the first trial of a test, in microseconds per hour."""
    trends = (latency_drift(trial) for trial in record.trials[:1])
    return next((trend.slope / 1e3 for trend in trends if trend is not None), None)
