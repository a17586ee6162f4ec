"""This module takes from records what tests are compared by: their figures, trial by trial or run
by run, and what other work on the CPUs may have cost them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import median
from typing import Literal

from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import is_lower_bound, loss_ratio, of_latency, rates_pps
from switchmark.model.record import Record

__all__ = [
    "FIGURES",
    "Figure",
    "Repeats",
    "Values",
    "main_figure",
    "median_interval_of",
    "repeats_of",
]

_DISTURBED = {"host-busy", "cpu-stolen", "started-late"}
_LEAST_LEFT = 0.02

Values = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure is what tests are compared by: its name, its unit, and its value in each trial.

    The change of a `share`, which may be 0, is told in shares, that of all else as a ratio.
    """

    name: str
    unit: Literal["pps", "ns", "share"]
    of_trials: Callable[[Record], list[float]]

    @property
    def more_is_better(self) -> bool:
        return self.unit == "pps"


def _latencies(record: Record, percentile: str) -> list[float]:
    told = (getattr(trial.latency, percentile) for trial in record.trials if trial.latency)
    return [float(each) for each in told if each is not None]


def _losses(record: Record) -> list[float]:
    return [loss_ratio([trial]) for trial in record.trials]


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("rate", "pps", rates_pps),
        Figure("latency", "ns", partial(_latencies, percentile="p50")),
        Figure("latency-p90", "ns", partial(_latencies, percentile="p90")),
        Figure("latency-p99", "ns", partial(_latencies, percentile="p99")),
        Figure("latency-p999", "ns", partial(_latencies, percentile="p999")),
        Figure("loss", "share", _losses),
    )
}
"""The received rate, the median latency and its percentiles, and lost frames of those sent."""


def main_figure(record: Record) -> Figure:
    """Return what a test is measured for: its rate, or the median of a test of latency."""
    return FIGURES["latency" if of_latency(record.test) else "rate"]


@dataclass(frozen=True, slots=True)
class Repeats:
    """These are the values of a figure on one side, and the best that each can have been without
    other work on the CPUs of its trial, which is known of rates alone.

    `of_runs` are their number: one, with a value for each trial, or several, with one for each run.
    `bound` says of a rate that the traffic program was the limit, `disturbed` of a latency or a
    loss that other work was on the CPUs: so that the switch may be better than its figure.
    """

    values: Values
    best: Values = ()
    of_runs: int = 1
    bound: bool = False
    disturbed: bool = False

    @property
    def undisturbed(self) -> Values:
        return self.best or self.values

    @property
    def middle(self) -> float | None:
        return median(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the median; None of fewer than three values."""
        return median_interval_of(self.values)


def repeats_of(records: Sequence[Record], figure: Figure, *, by_run: bool) -> Repeats:
    """Return the values of a figure in the records of one test: those of its trials, or, with
    `by_run`, one of each run, as what differs from run to run is seen only so.

    A rate that a search found is one value, however often it was tried in the end.
    """
    measured = [record for record in records if record.status == "ok"]
    of_rate = figure.unit == "pps"
    each = [figure.of_trials(record) for record in measured]
    best = [
        [value / share for value, share in zip(values, _shares_left(record), strict=True)]
        if of_rate and record.verdict != "offered-load"
        else values
        for record, values in zip(measured, each, strict=True)
    ]
    if by_run or len(measured) != 1 or _is_of_search(measured[0]):
        each, best = ([[median(one) for one in many if one]] for many in (each, best))
    return Repeats(
        tuple(each[0]),
        tuple(best[0]),
        len(measured),
        bound=of_rate and any(is_lower_bound(record.verdict) for record in measured),
        disturbed=not of_rate and any(_DISTURBED & set(record.doubts) for record in measured),
    )


def _shares_left(record: Record) -> list[float]:
    """Return for each trial the share of its CPUs that other work and the hypervisor left to it, of
    all of them together: parts on several CPUs wait for each other."""
    left = []
    for trial in record.trials:
        stolen = trial.evidence.window.stolen if trial.evidence.window else None
        taken = [*trial.evidence.taken.values(), stolen or 0.0]
        left.append(max(math.prod(1 - min(share, 1.0) for share in taken), _LEAST_LEFT))
    return left


def _is_of_search(record: Record) -> bool:
    """Say whether a search of many trials set the load of those that make the figure."""
    return record.search is not None and record.search.trials > len(record.trials)


@lru_cache(maxsize=1024)  # each is asked for again and again
def median_interval_of(values: Values) -> tuple[float, float] | None:
    """Return the 95 % interval of the median; None of fewer than three values."""
    return median_interval(values) if len(values) > 2 else None
