"""The ranking of measured tests: their figures, and the relation between two of them according to
`metrics.difference`.

`metrics.difference` decides every claim of an order from the records of the whole run. This module
only selects comparable figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.metrics.difference import Reason
from switchmark.metrics.family import Results
from switchmark.metrics.latency import latency_ns
from switchmark.metrics.named import METRICS
from switchmark.metrics.repeats import FIGURES, Figure, figure_of_goal, repeats_of
from switchmark.metrics.searched import OF_NO_GOAL, values_interval, values_of_goal
from switchmark.metrics.throughput import is_lower_bound, of_latency
from switchmark.model.record import Record
from switchmark.model.search import Goal

FUNCTIONAL = "cores-overcommitted"
"""The doubt that excludes a figure from rankings."""

OUTAGE = "outage"
"""The name of the figure of an outage test."""

Unit = Literal["pps", "ns", "frames"]
Kind = Literal["better", "same"] | Reason
"""The relation of one figure to another: it is better, both are the same, or the reason for no
decision."""


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """A result of a test."""

    record: Record
    """The record of the test."""
    unit: Unit
    """The unit of the value."""
    value: float
    """The value."""
    compared: Figure
    """The figure of `metrics` for comparisons."""
    values: tuple[float, ...] = ()
    """The values of the repeats (trials or whole searches)."""
    interval: tuple[float, float | None] | None = None
    """The 95 % confidence interval of their median, or None if they are too few. The upper end is
    None if lower bounds leave it open."""
    is_bound: bool = False
    """Whether the value is a lower bound."""
    what: str = ""
    """The goal of a search."""

    @property
    def is_less_better(self) -> bool:
        return self.unit == "ns"


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of one figure to another."""

    kind: Kind
    """The relation."""
    low: float | None = None
    """The lower end of the range of the ratio, if one figure is better."""
    high: float | None = None
    """The upper end of that range; None if it is unknown."""
    needed: int | None = None
    """The number of rounds that would probably decide; None if it is unknown."""
    margin: float = 0.0
    """The share by which two figures may differ and still count as the same."""


def figures_of(record: Record) -> Iterator[MeasuredFigure]:
    """Yield the figures of a measured test: a single figure, or a figure for each goal that was
    met."""
    if record.status != "ok" or not record.trials:
        return
    if record.test.dimension == "outage":
        outage_s = METRICS["outage.s"].of(record)
        if outage_s is not None:
            yield _figure(record, "ns", outage_s * 1e9, FIGURES["outage"], what=OUTAGE)
        return
    if record.test.search == "recovery":  # a time after an overload, not a figure of the load
        return
    if of_latency(record.test):
        latency = latency_ns(record)
        if latency is not None and latency.p50 is not None:
            name = f"{latency.kind} at the highest load" if record.search else latency.kind
            yield _figure(record, "ns", float(latency.p50), FIGURES["latency"], what=name)
        return
    if record.search is not None and record.search.name not in OF_NO_GOAL:
        for goal in record.search.goals:
            yield from _of_goal(record, goal)
        return
    rate = METRICS["rx.pps"].of(record)
    if rate is not None:
        is_bound = is_lower_bound(record.verdict) or record.verdict == "offered-load"
        yield _figure(record, "pps", rate, FIGURES["rate"], is_bound)


def _of_goal(record: Record, goal: Goal) -> Iterator[MeasuredFigure]:
    """Yield the figure of a goal, unless no rate met the goal."""
    verdict = goal.verdict or "unknown"
    compared = figure_of_goal(record, goal.goal)
    if goal.burst_frames is not None:
        is_bound = goal.burst_high is None or is_lower_bound(verdict)
        yield _of_searches(record, "frames", goal.burst_frames, compared, is_bound, goal.goal)
    elif goal.rate_pps is not None:
        is_bound = goal.high_pps is None or is_lower_bound(verdict) or verdict == "offered-load"
        yield _of_searches(record, "pps", goal.rate_pps, compared, is_bound, goal.goal)


def _of_searches(
    record: Record, unit: Unit, value: float, compared: Figure, is_bound: bool, goal: str
) -> MeasuredFigure:
    """Return the figure of searches. Its values are per sender, like the value, but comparisons use
    the rate of all receivers."""
    searches = values_of_goal(record, goal)
    values = tuple(one.value for one in searches if one.value is not None)
    return MeasuredFigure(
        record, unit, value, compared, values, values_interval(searches), is_bound, goal
    )


def _figure(
    record: Record,
    unit: Unit,
    value: float,
    compared: Figure,
    is_bound: bool = False,
    what: str = "",
) -> MeasuredFigure:
    repeats = repeats_of([record], compared)
    return MeasuredFigure(
        record, unit, value, compared, repeats.values, repeats.interval, is_bound, what
    )


def ranked(
    figures: Sequence[MeasuredFigure], results: Results
) -> tuple[list[MeasuredFigure], list[Relation]]:
    """Return comparable figures with the best first, and the relations of the best to the others.
    The best is the figure with the best value that is not shown to be worse than another."""
    by_value = sorted(
        figures, key=lambda figure: figure.value, reverse=not figures[0].is_less_better
    )

    def is_led(figure: MeasuredFigure) -> bool:
        others = (other for other in by_value if other is not figure)
        return any(_relation(other, figure, results).kind == "better" for other in others)

    best = next((figure for figure in by_value if not is_led(figure)), by_value[0])
    others = [figure for figure in by_value if figure is not best]
    return [best, *others], [_relation(best, other, results) for other in others]


def _relation(one: MeasuredFigure, other: MeasuredFigure, results: Results) -> Relation:
    """Return the relation of a figure to another. If the other figure is better, the reason is
    chance: `ranked` has no such pair."""
    difference = results.difference(one.record, other.record, one.compared)
    if difference.word == "same":
        return Relation("same", margin=difference.margin)
    if not difference.is_decided:
        return Relation(difference.reason or "chance", needed=difference.needed)
    if difference.better is not difference.before:
        return Relation("chance")
    low, high = difference.times or (None, None)
    return Relation("better", low, high)


def united(relations: Sequence[Relation]) -> Relation:
    """Return the common range of several relations of the same kind."""
    lows = [relation.low for relation in relations]
    highs = [relation.high for relation in relations]
    needed = [relation.needed for relation in relations]
    return Relation(
        relations[0].kind,
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
        None if None in needed else max(rounds for rounds in needed if rounds is not None),
        relations[0].margin,
    )
