"""Comparisons of points. Measured points are compared by `metrics.difference` among all results of
their run, with the same outcome as elsewhere. Published points are compared by their printed
values.

The interval ends in an answer hold simultaneously for all comparisons of a run. They are infinite
if a bound or a doubt leaves them open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from switchmark.errors import UsageError
from switchmark.metrics.difference import (
    LEVEL,
    MIN_REPEATS,
    Difference,
    Family,
    Reason,
    differences,
)
from switchmark.metrics.doubts import TABLE
from switchmark.metrics.named import figure_of, metric, scale_of
from switchmark.metrics.repeats import FIGURES, Repeats
from switchmark.papers.points import Measured, Point, PointFigure, Spoiled

Word = Literal["above", "below", "same", ""]

_DOUBTS: Mapping[Spoiled, str] = {
    "overcommitted": "cores-overcommitted",
    "profiled": "profiled",
}
"""The doubts that may be the subject of a claim."""

_NOTHING = 1e-12

_WHY: Mapping[Reason, str] = {
    "few": f"fewer than {MIN_REPEATS} repeats",
    "zero": "a figure of 0, or none, has no ratio",
    "load": "the loads offered differ",
    "chance": "chance may have made the difference",
    "bound": "the traffic generator was the limit of the lower rate",
    "spoiled": "doubts may be all that sets them apart",
    "error": "the clocks may be wrong by as much as they differ",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of two points.

    `word` is the position of the first point relative to the second, or empty if undecided.
    `change` is the ratio of the first to the second, or with `less` the difference, with its
    interval. `why` is the reason for no decision, and `needed` the number of rounds that would
    decide.
    """

    word: Word
    change: PointFigure
    why: str = ""
    needed: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The metric by which points are compared.

    The causes in `subject` do not spoil the comparison, because the claim is about them. The same
    holds for different loads if the claim is about loads (`of_loads`), or about frame sizes at
    absolute loads (`of_sizes`).
    """

    metric: str
    subject: tuple[Spoiled, ...] = ()
    of_loads: bool = False
    of_sizes: bool = False
    by_ratio: bool = False

    @property
    def is_of_shares(self) -> bool:
        """Return whether the metric may be 0, so that differences are compared instead of
        ratios."""
        if self.by_ratio:
            return False
        try:
            return figure_of(self.metric).unit == "share"
        except UsageError:
            return False

    def compared(self, one: Point, other: Point, *, less: bool = False) -> Compared:
        """Compare one point with another. Both have the metric."""
        if one.measured is None or other.measured is None:
            return self._published(one, other, less=less or self.is_of_shares)
        difference = self._difference(one.measured, other.measured, less=less)
        if difference.reason == "zero" and difference.figure not in FIGURES.values():
            by_shares = self._difference(one.measured, other.measured, less=True)
            pair_result = self._with_doubts((one, other), by_shares)
            return replace(pair_result, change=PointFigure(0.0, 0.0, math.inf))
        return self._with_doubts((one, other), difference)

    def ratio(self, one: Point, other: Point) -> Compared:
        """Compare one point with another by their ratio, even if the metric is a share. Both have
        the metric."""
        if not self.is_of_shares:
            return self.compared(one, other)
        return replace(self, by_ratio=True).compared(one, other)

    def level(self, point: Point, of: int) -> PointFigure | str:
        """Return the figure of a point with its interval, as one of `of` points that are tested
        together, or the reason for no interval."""
        figure = point.figures[self.metric]
        if point.measured is None:
            return f"what was published is relative to {figure.of}" if figure.of else figure
        family, place = self._place(point.measured)
        side = family.results[place]
        ends = family.level(place, of)
        if ends is None:
            return f"{point.name}: {_WHY['few' if len(side.values) < MIN_REPEATS else 'zero']}"
        scale = scale_of(self.metric)
        low, high = (scale * end for end in ends)
        up, down = self._open(side), self._open(side, up=False)
        return PointFigure(
            figure.value, low if not down else -math.inf, high if not up else math.inf
        )

    def values(self, point: Point) -> list[float]:
        """Return the values of a point's trials in the unit of the metric, or of its runs if they
        repeat each other, or the single published value."""
        if point.measured is None:
            return [point.figures[self.metric].value]
        if len(point.measured.repeats) > 1:
            of_runs = map(metric(self.metric).of, point.measured.repeats)
            return [value for value in of_runs if value is not None]
        return metric(self.metric).samples(point.measured.record)

    def spoiled(self, point: Point) -> str:
        """Return why the figure of a point may be wrong; empty if it is sound."""
        side = None if point.measured is None else self.repeats(point.measured)
        if side is None or not (self._open(side) or self._open(side, up=False)):
            return ""
        if self._is_bound(side):
            return f"{point.name}: the traffic generator was the limit"
        return f"{_WHY['spoiled']} ({_doubts((point,), self.subject)})"

    def contrast(self, weights: Sequence[tuple[Point, float]]) -> PointFigure | Compared:
        """Return the weighted sum of the logarithms of points, for weights that add up to 0.

        The sum consists of comparisons, and so does its interval. If a comparison has no interval,
        return that comparison.
        """
        more = [(point, weight) for point, weight in weights if weight > 0]
        less = [(point, -weight) for point, weight in weights if weight < 0]
        value = low = high = 0.0
        while more and less:
            (one, up), (other, down) = more.pop(), less.pop()
            outcome = self.compared(one, other)
            if outcome.change.low <= 0 and math.isinf(outcome.change.high):
                return outcome
            part = min(up, down)
            value += part * _log(outcome.change.value)
            low += part * _log(outcome.change.low)
            high += part * _log(outcome.change.high)
            if up - part > _NOTHING:
                more.append((one, up - part))
            if down - part > _NOTHING:
                less.append((other, down - part))
        return PointFigure(value, low, high)

    def exceeds(self, points: Sequence[Point], other: str) -> list[Compared]:
        """Compare the metric with another metric at each point, trial by trial, as planned
        comparisons. All points have both metrics."""
        second = replace(self, metric=other)
        sides = []
        for point in points:
            if point.measured is None:
                continue
            both = second.repeats(point.measured), self.repeats(point.measured)
            # Both values come from the same trial.
            before, after = (replace(x, rounds=tuple(range(len(x.values)))) for x in both)
            sides.append((before, after))
        results = iter(differences(figure_of(self.metric), sides) if sides else ())
        return [
            _by_ends(point.figures[self.metric], point.figures[other], less=self.is_of_shares)
            if point.measured is None
            else self._with_doubts((point,), next(results))
            for point in points
        ]

    # --- measured points ---------------------------------------------------------------------

    def _place(self, measured: Measured, *, less: bool = False) -> tuple[Family, int]:
        excused = [_DOUBTS[cause] for cause in self.subject if cause in _DOUBTS]
        results = measured.results.excusing(*excused) if excused else measured.results
        figure = figure_of(self.metric, less=less)
        if self.by_ratio and figure.unit == "share":
            figure = replace(figure, name=f"{figure.name} ratio", unit="amount")
        return results.place(measured.record, figure)

    def repeats(self, measured: Measured) -> Repeats:
        """Return the values of a measured point among all results of its run."""
        family, place = self._place(measured)
        return family.results[place]

    def _difference(self, one: Measured, other: Measured, *, less: bool) -> Difference:
        """Return the difference of the first point from the second."""
        family, after = self._place(one, less=less)
        second, before = self._place(other, less=less)
        if family is second:
            return family.difference(before, after)
        # Points from two runs are independent samples. The pair counts as one of as many pairs as
        # the larger run has results.
        pair = second.results[before], family.results[after]
        of = max(len(family.results), len(second.results))
        return differences(family.figure, [pair] * of, two_runs=[True] * of)[0]

    def _with_doubts(self, points: Sequence[Point], difference: Difference) -> Compared:
        """Return the comparison of points from their difference. The first point is `after`."""
        by_shares = difference.figure.unit == "share"
        none, most, least = (0.0, math.inf, -math.inf) if by_shares else (1.0, math.inf, 0.0)
        value = none if difference.change is None else difference.change
        if difference.interval is None:
            why = _WHY[difference.reason]
            return Compared("", PointFigure(value, least, most), why)
        low, high = difference.interval
        before, after = difference.before, difference.after
        if self._open(after) or self._open(before, up=False):
            high = most if by_shares else high * self._more(after, before)
        if self._open(before) or self._open(after, up=False):
            low = least if by_shares else low / self._more(before, after)
        change = PointFigure(value, low, high)
        reason = difference.reason
        if reason == "bound" and "bounded" in self.subject:
            reason = ""
        if reason == "load" and self._is_about_loads(points):
            is_chance = difference.p is None or difference.p > LEVEL
            reason = "chance" if is_chance else "" if low > none or high < none else "spoiled"
        if difference.word == "same":
            return Compared("same", change)
        if not reason:
            return Compared("above" if value > none else "below", change)
        doubts = _doubts(points, self.subject) if reason == "spoiled" else ""
        why = _WHY[reason] + (f" ({doubts})" if doubts else "")
        return Compared("", change, why, difference.needed)

    def _is_about_loads(self, points: Sequence[Point]) -> bool:
        is_relative = any(point.measured and point.measured.is_relative for point in points)
        if "loads" in self.subject and is_relative:
            return True
        return self.of_loads or (self.of_sizes and not is_relative)

    def _open(self, side: Repeats, *, up: bool = True) -> bool:
        """Return whether the true figure of a side may be greater than measured, or smaller."""
        if up and self._is_bound(side):
            return True
        return side.lowered if up == figure_of(self.metric).more_is_better else side.raised

    def _is_bound(self, side: Repeats) -> bool:
        return side.bound and "bounded" not in self.subject

    def _more(self, up: Repeats, down: Repeats) -> float:
        """Return the factor by which a ratio may exceed the end of its interval, because the upper
        figure may be greater and the lower figure smaller. The effect of background load is known
        for rates only."""
        if self._open(down, up=False) or self._is_bound(up):
            return math.inf
        if not self._open(up):
            return 1.0
        if not up.best:
            return math.inf
        return math.exp(fmean(map(math.log, up.best)) - fmean(map(math.log, up.values)))

    # --- published points --------------------------------------------------------------------

    def _published(self, one: Point, other: Point, *, less: bool) -> Compared:
        figures = [point.figures[self.metric] for point in (one, other)]
        if figures[0].of != figures[1].of:
            why = "what was published of them is relative to different points"
            return Compared("", PointFigure(1.0, 0.0, math.inf), why)
        return _by_ends(*figures, less=less)


def ratio(above: PointFigure, below: PointFigure) -> PointFigure:
    """Return the ratio of two figures with its interval."""
    if below.low <= 0:
        return PointFigure(above.value / below.value if below.value else 0.0, 0.0, math.inf)
    low = max(above.low, 0.0) / below.high
    return PointFigure(above.value / below.value, low, above.high / below.low)


def _by_ends(more: PointFigure, less_: PointFigure, *, less: bool) -> Compared:
    """Compare two figures by their ends alone."""
    word: Word = "above" if more.low > less_.high else "below" if more.high < less_.low else ""
    change = (
        PointFigure(more.value - less_.value, more.low - less_.high, more.high - less_.low)
        if less
        else ratio(more, less_)
    )
    return Compared(word, change, "" if word else "what was published does not tell them apart")


def _doubts(points: Sequence[Point], subject: Sequence[Spoiled]) -> str:
    """Return the doubts that may falsify the figures of points, as text."""
    noted = []
    for point in points:
        if point.measured is None:
            continue
        record = point.measured.record
        every = {*record.doubts, *(doubt for trial in record.trials for doubt in trial.doubts)}
        names = sorted(name for name in every if name in TABLE and TABLE[name].spoils)
        excused = {_DOUBTS[cause] for cause in subject if cause in _DOUBTS}
        names = [name for name in names if name not in excused]
        if record.verdict == "host":
            names.append("the host was the limit")
        if names:
            noted.append(f"{point.name}: {', '.join(names)}")
    return "; ".join(noted)


def _log(value: float) -> float:
    if value <= 0:
        return -math.inf
    return math.log(value) if not math.isinf(value) else math.inf
