"""Plots of trials with a time series: received rate and latency over time, a panel for each
test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.model.record import Record, TrialResult
from switchmark.model.series import TimeSeries
from switchmark.plots.base import measured, split, words_of
from switchmark.plots.chart import Chart, Mark, Scale

_FEWEST = 5
"""The intervals from which on a curve says more than a figure."""

_Column = Callable[[TimeSeries], Sequence[float | None]]


def _kpps(series: TimeSeries) -> Sequence[float]:
    return [frames * 1e6 / series.interval_ns for frames in series.received]


def _us(name: str) -> _Column:
    def column(series: TimeSeries) -> Sequence[float | None]:
        return [None if ns is None else ns / 1e3 for ns in getattr(series, name)]

    return column


@dataclass
class _OverTime:
    name: str
    summary: str
    y: Scale
    columns: dict[str, _Column]

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Draw the first trial of each test that has a series. Tests with an event have another
        plot."""
        chosen = [record for record in measured(records) if _series_of(record) is not None]
        if not chosen:
            return None
        axes, panels = split(chosen)
        marks: list[Mark] = []
        for record in chosen:
            panel = words_of(record.test, (*axes, *panels)) or record.test.switch
            series = _series_of(record)
            assert series is not None
            middles = [start_s + series.interval_ns / 2e9 for start_s in series.starts_s[:-2]]
            for name, column in self.columns.items():
                marks += [
                    Mark(x, y, name, panel, switch=record.test.switch, key=record.key[:16])
                    for x, y in zip(middles, column(series), strict=False)
                    if y is not None and (y > 0 or not self.y.log)
                ]
        if not marks:
            return None
        says = f"{self.summary}: {self.y.title} by interval, {len(chosen)} tests."
        x = Scale("time from the start (s)", zero=False)
        order = tuple(self.columns)
        return Chart(self.name, self.summary, says, "curves", x, self.y, tuple(marks), order=order)


def _series_of(record: Record) -> TimeSeries | None:
    """Return the series of the first trial of a test without an event, if it has enough
    intervals."""

    def shows(trial: TrialResult) -> bool:
        series = trial.series
        return series is not None and len(series.offered) > _FEWEST and not trial.evidence.events

    return next((trial.series for trial in record.trials if shows(trial)), None)


RECEIVED = _OverTime(
    "received-over-time",
    "Received rate over time",
    Scale("received (kpps)"),
    {"received": _kpps},
)
LATENCY = _OverTime(
    "latency-over-time",
    "Latency over time",
    Scale("latency (us)", log=True),
    {"p50": _us("p50_ns"), "p99": _us("p99_ns"), "maximum": _us("max_ns")},
)
