"""The values by which tests are compared, by trial or by run, and the effect of background load on
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Literal

from switchmark.metrics.doubts import spoiled
from switchmark.metrics.latency import latency_ns
from switchmark.metrics.outage import outages_ns
from switchmark.metrics.searched import is_bound, search_values, searches_of
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import (
    is_lower_bound,
    is_of_search,
    loss_ratio,
    of_latency,
    rates_pps,
)
from switchmark.model.record import Record
from switchmark.model.search import Goal

_LEAST_LEFT = 0.02

_TAKEN = ("host-busy", "cpu-stolen", "host")
"""The doubts about CPU time lost to other work, and the verdict that it was the limit. The amount
lost is known."""

Values = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by which tests are compared."""

    name: str
    """The name of the figure."""
    unit: Literal["pps", "ns", "share", "frames", "amount"]
    """The unit. A change of a `share`, which may be 0, is a difference. A change of any other unit
    is a ratio. An `amount` is any other positive quantity."""
    of_trials: Callable[[Record], Sequence[float | None]]
    """Returns the value in each trial; None in a trial without the figure."""
    either_way: bool = False
    """Whether any doubt may have made the figure larger or smaller."""

    @property
    def more_is_better(self) -> bool:
        return self.unit in ("pps", "frames")


def _latencies(record: Record, percentile: str) -> list[float | None]:
    values = (getattr(trial.latency, percentile, None) for trial in record.trials)
    return [None if value is None else float(value) for value in values]


def _losses(record: Record) -> list[float]:
    return [loss_ratio([trial]) for trial in record.trials]


def _of_goal(record: Record, goal: str) -> list[float | None]:
    """Return the value that a search found for a goal, repeated for each trial."""
    values = search_values(record, goal)
    return [median(values) if values else None] * len(record.trials)


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("rate", "pps", rates_pps),
        Figure("latency", "ns", partial(_latencies, percentile="p50")),
        Figure("latency-p90", "ns", partial(_latencies, percentile="p90")),
        Figure("latency-p99", "ns", partial(_latencies, percentile="p99")),
        Figure("latency-p999", "ns", partial(_latencies, percentile="p999")),
        Figure("loss", "share", _losses),
        Figure("outage", "ns", outages_ns),
        Figure("burst", "frames", partial(_of_goal, goal="back-to-back")),
    )
}
"""The received rate, the median latency and its percentiles, the loss ratio, and the longest burst
without loss that a search found."""


def main_figure(record: Record) -> Figure:
    """Return the figure for which a test is measured: its rate, the median latency of a latency
    test, the outage of an outage test, or the burst of search `back-to-back`."""
    if record.test.search == "back-to-back":
        return FIGURES["burst"]
    if record.test.dimension == "outage":
        return FIGURES["outage"]
    return FIGURES["latency" if of_latency(record.test) else "rate"]


def figure_of_goal(record: Record, goal: str) -> Figure:
    """Return the figure by which tests are compared for a goal of their searches: the main figure
    for the first goal that was met, else the value of the goal."""
    met = (goal.goal for goal in record.search.goals if _is_met(goal)) if record.search else ()
    if goal == next(iter(met), goal):
        return main_figure(record)
    return Figure(goal, "pps", partial(_of_goal, goal=goal))


def _is_met(goal: Goal) -> bool:
    return goal.rate_pps is not None or goal.burst_frames is not None


Round = int | str | None


@dataclass(frozen=True, slots=True)
class Repeats:
    """The values of a figure on one side of a comparison, which was measured several times."""

    values: Values
    """A value for each trial of one run, or for each of several runs."""
    rounds: tuple[Round, ...] = ()
    """The round of the run in which each value was measured, or with one value for each run, the
    name of the run. None if unknown."""
    best: Values = ()
    """The values corrected for the CPU time that other work took from each trial; only rates have
    them."""
    bound: bool = False
    """Whether the traffic program was the limit of a rate, so that the switch may be faster."""
    lowered: bool = False
    """Whether doubts may have made the figure worse than the switch is."""
    raised: bool = False
    """Whether doubts may have made the figure better than the switch is."""
    error: float = 0.0
    """The clock error that all values share, in the figure's unit."""
    offered: float | None = None
    """The load of a rate in frames per second; None if a search found the rate."""

    @property
    def middle(self) -> float | None:
        return median(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of the median; None if there are too few values."""
        return median_interval(self.values)


def repeats_of(
    records: Sequence[Record],
    figure: Figure,
    *,
    by_run: bool = False,
    excused: Collection[str] = (),
) -> Repeats:
    """Return the values of a figure in the records of one test: one for each trial, or with
    `by_run` one for each run, which shows the spread from run to run.

    A search is one value, regardless of its number of trials. A repeated search has one value for
    each repeat. Doubts in `excused` do not count as falsifying.
    """
    measured = [record for record in records if record.status == "ok" and record.trials]
    of_rate = figure.unit == "pps"
    if stated := [rates for record in records if (rates := _stated(record, figure))]:
        return _repeats_of_rates(stated, by_run=by_run or len(stated) > 1)
    values, best = [], []
    rounds: list[list[Round]] = []
    searched = not by_run and len(measured) == 1 and is_of_search(measured[0])
    for record in searches_of(measured[0]) if searched else measured:
        known_values = [
            (value, left, trial.round)
            for value, left, trial in zip(
                figure.of_trials(record), _shares_left(record), record.trials, strict=True
            )
            if value is not None
        ]
        values.append([value for value, _, _ in known_values])
        given_back = of_rate and record.verdict != "offered-load"
        best.append([value / left if given_back else value for value, left, _ in known_values])
        rounds.append([round_ for _, _, round_ in known_values])
    if by_run or searched or len(measured) != 1:
        # All trials of one search belong to its round. Results of the same runs are compared run by
        # run: a run measures one set-up of each path, on the host as it was then.
        kept = [index for index, many in enumerate(values) if many]
        if searched:
            rounds = [[rounds[index][0] for index in kept]]
        else:
            rounds = [_runs_of([measured[index] for index in kept])]
        values, best = ([[median(many[index]) for index in kept]] for many in (values, best))
    latency = True if figure.name.startswith("latency") else None
    spoilt = frozenset().union(
        *(spoiled(record, latency=latency, excused=excused) for record in measured)
    )
    if spoilt and figure.either_way:
        spoilt |= {"lowers", "raises"}
    return Repeats(
        tuple(values[0]),
        tuple(rounds[0]),
        tuple(best[0]) if of_rate and _is_all_taken(measured, excused) else (),
        bound=figure.more_is_better and any(map(_is_bound, measured)),
        lowered="lowers" in spoilt,
        raised="raises" in spoilt,
        error=max((_error_of(record) for record in measured), default=0.0)
        if figure.name == "latency"
        else 0.0,
        offered=_offered(measured) if of_rate else None,
    )


def _stated(record: Record, figure: Figure) -> list[float]:
    """Return the rates in the file of another program; empty for other figures and records."""
    if record.imported is None or figure.name != "rate" or record.status != "ok":
        return []
    return rates_pps(record)


def _repeats_of_rates(rates: Sequence[Sequence[float]], *, by_run: bool) -> Repeats:
    values = [median(one) for one in rates] if by_run else list(rates[0])
    return Repeats(tuple(values), rounds=(None,) * len(values))


def _runs_of(records: Sequence[Record]) -> list[Round]:
    """Return the names of the runs of some records, or None for each if two have one name."""
    names = [record.origin.run if record.origin else None for record in records]
    return list(names) if len(set(names)) == len(names) else [None] * len(names)


def _is_bound(record: Record) -> bool:
    """Return whether the switch may be better than a record's figure, because the traffic program
    was the limit or a search had reached its highest load."""
    goals = record.search.goals if record.search and record.search.name != "max" else ()
    met = [goal for goal in goals if _is_met(goal)]
    return is_lower_bound(record.verdict) or bool(met and is_bound(met[0]))


def _is_all_taken(records: Sequence[Record], excused: Collection[str]) -> bool:
    """Return whether only the measured background load lowered a rate. The effect of other doubts
    has no known size."""
    if any("lowers" in spoiled(record, excused=(*excused, *_TAKEN)) for record in records):
        return False
    return all(
        min(_shares_left(record)) < 1
        for record in records
        if "lowers" in spoiled(record, excused=excused)
    )


def _offered(records: Sequence[Record]) -> float | None:
    """Return the offered load that these records have in common."""
    loads = [_load(record) for record in records]
    known_loads = [load for load in loads if load is not None]
    return median(known_loads) if known_loads else None


def _load(record: Record) -> float | None:
    """Return the load that a test requested of each sender; None if a search sets the load, or if
    the load is the maximum."""
    rate = record.test.parsed_rate
    if record.test.search != "fixed" or rate.is_max:
        return None
    if rate.share is not None:
        return None if record.r_plus_pps is None else rate.share * record.r_plus_pps
    return record.test.rate_pps


def _error_of(record: Record) -> float:
    """Return the error bound of a record's median latency in nanoseconds."""
    figures = latency_ns(record)
    return float(figures.error.median_ns) if figures and figures.error else 0.0


def _shares_left(record: Record) -> list[float]:
    """Return for each trial the share of its CPU time that other work and the hypervisor left to
    it, as a product over its CPUs: parts on different CPUs wait for each other."""
    left = []
    for trial in record.trials:
        stolen = trial.evidence.window.stolen if trial.evidence.window else None
        taken = [*trial.evidence.taken.values(), stolen or 0.0]
        left.append(max(math.prod(1 - min(share, 1.0) for share in taken), _LEAST_LEFT))
    return left
