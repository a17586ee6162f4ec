"""This module says how measured tests stand to each other: the figure of each with its interval,
and what two intervals show.

Whatever is claimed of an order is claimed here: nothing where two intervals meet, where one is
lacking, or where the lesser of two figures is only a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.metrics.latency import latency_ns
from switchmark.metrics.throughput import (
    confidence,
    is_lower_bound,
    latency_confidence,
    of_latency,
    received,
)
from switchmark.model.record import Record
from switchmark.model.search import Goal

__all__ = ["FUNCTIONAL", "Figure", "Relation", "Unit", "figures_of", "relation", "united"]

FUNCTIONAL = "cores-overcommitted"
"""The doubt of a figure that is left out of rankings."""

Unit = Literal["pps", "ns", "frames"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure is what a test found, with the 95 % interval of its repeats, or what a search had
    passing and failing; None where there is neither. `at_least`: it is a bound, and what was
    measured may do better. `what` names the goal of a search."""

    record: Record
    unit: Unit
    value: float
    low: float | None
    high: float | None
    at_least: bool = False
    what: str = ""

    @property
    def is_told(self) -> bool:
        """Say whether it has an interval."""
        return self.low is not None and (self.high is not None or self.at_least)

    @property
    def is_less_better(self) -> bool:
        return self.unit == "ns"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation says how one figure stands to another that is no better. `better`: it is so many
    times as good, at least and at most (None: nobody knows how much more); `alike`: their intervals
    meet; `bounded`: one of them is only a bound, and may be the better one; `untold`: an interval
    is lacking."""

    kind: Literal["better", "alike", "bounded", "untold"]
    low: float | None = None
    high: float | None = None


def figures_of(record: Record) -> Iterator[Figure]:
    """Yield the figures of a test that was measured: one, or one for each goal that was met."""
    if record.status != "ok" or not record.trials:
        return
    if of_latency(record.test):
        latency = latency_ns(record)
        if latency is not None and latency.p50 is not None:
            low, high = latency_confidence(record) or (None, None)
            what = f"{latency.kind} at the highest load" if record.search else latency.kind
            yield Figure(record, "ns", float(latency.p50), low, high, what=what)
        return
    if record.search is not None and record.search.name != "max":
        for goal in record.search.goals:
            yield from _of_goal(record, goal)
        return
    rates = received(record)
    if rates is not None:
        low, high = confidence(record) or (None, None)
        at_least = is_lower_bound(record.verdict) or record.verdict == "offered-load"
        yield Figure(record, "pps", rates["pps"], low, high, at_least)


def _of_goal(record: Record, goal: Goal) -> Iterator[Figure]:
    """Yield what a search found; nothing for a goal that no rate met."""
    verdict = goal.verdict or "unknown"
    if goal.burst_frames is not None:
        low, high = goal.burst_low, goal.burst_high
        known = None if low is None else float(low)
        beyond = None if high is None else float(high)
        at_least = beyond is None or is_lower_bound(verdict)
        yield Figure(record, "frames", goal.burst_frames, known, beyond, at_least, goal.goal)
    elif goal.rate_pps is not None:
        at_least = goal.high_pps is None or is_lower_bound(verdict) or verdict == "offered-load"
        low_pps = goal.rate_pps if goal.low_pps is None else goal.low_pps
        yield Figure(record, "pps", goal.rate_pps, low_pps, goal.high_pps, at_least, goal.goal)


def relation(better: Figure, other: Figure) -> Relation:
    """Return how a figure stands to one that is no better by its value."""
    more, less = (other, better) if better.is_less_better else (better, other)
    if not (more.is_told and less.is_told) or more.low is None or less.low is None:
        return Relation("untold")
    if less.at_least or less.high is None:
        return Relation("bounded")
    if more.low <= less.high:
        return Relation("bounded" if more.at_least else "alike")
    most = None if more.at_least or less.low <= 0 else more.high
    return Relation(
        "better",
        more.low / less.high if less.high > 0 else None,
        None if most is None else most / less.low,
    )


def united(relations: Sequence[Relation]) -> Relation:
    """Return what several relations of one kind have in common."""
    lows = [each.low for each in relations]
    highs = [each.high for each in relations]
    return Relation(
        relations[0].kind,
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
    )
