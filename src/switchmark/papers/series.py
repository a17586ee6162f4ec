"""These claims are of a series: points along one axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

from switchmark.papers.judging import (
    Answer,
    BaseClaim,
    Verdict,
    in_band,
    listed,
    ratio,
    together,
    unless_bounded,
)
from switchmark.papers.points import Figure, Point, meaning, number
from switchmark.papers.shapes import break_of, slope_of

__all__ = ["Flat", "Follows", "Knee", "Monotone", "Saturates", "Scales", "Within"]


class _Series(BaseClaim):
    """This is a claim of a series: points along an axis, in the order of its values."""

    along: str

    @property
    def own_axes(self) -> set[str]:
        return {self.along}

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        points = sorted(group, key=lambda point: number(point.axes[self.along]))
        if len(points) > 1:
            figures = self._figures(points)
            yield figures if isinstance(figures, Answer) else self._shaped(points, figures)

    def _shaped(self, points: Sequence[Point], figures: Sequence[Figure]) -> Answer:
        raise NotImplementedError


class Flat(_Series):
    """A series is flat where its greatest and smallest figures differ by no more than a share of
    their median."""

    kind: Literal["flat"]
    spread: float = 0.15

    def _shaped(self, points: Sequence[Point], figures: Sequence[Figure]) -> Answer:
        middle = median(figure.value for figure in figures) or 1.0
        least = max(figure.low for figure in figures) - min(figure.high for figure in figures)
        most = max(figure.high for figure in figures) - min(figure.low for figure in figures)
        values = [figure.value for figure in figures]
        spread = Figure((max(values) - min(values)) / middle, max(least, 0) / middle, most / middle)
        return in_band(spread, 0, self.spread, listed(points, figures))


class Monotone(_Series):
    """A series falls or rises where no step goes against the sense beyond its intervals, and its
    ends are apart in that sense."""

    kind: Literal["monotone"]
    sense: Literal["falls", "rises"]

    def _shaped(self, points: Sequence[Point], figures: Sequence[Figure]) -> Answer:
        rising = figures if self.sense == "rises" else figures[::-1]
        words = listed(points, figures)
        if any(before.low > after.high for before, after in itertools.pairwise(rising)):
            return Answer("does not hold", words)
        apart = rising[-1].low > rising[0].high
        return Answer("holds" if apart else "cannot be told", words)


class Scales(_Series):
    """A series scales with its axis where the exponent of a power law through it lies in a band:
    linear is 1, inverse -1, none 0."""

    kind: Literal["scales"]
    exponent: tuple[float, float]

    def _shaped(self, points: Sequence[Point], figures: Sequence[Figure]) -> Answer:
        xs = [number(point.axes[self.along]) for point in points]
        slope = slope_of(xs, figures)
        return in_band(slope, *self.exponent, f"exponent {slope}: {listed(points, figures)}")


class Follows(_Series):
    """A series follows shares where each figure, relative to that of the whole, is within a
    tolerance of its share. `shares` has the share of each value of the axis; one of them is 1."""

    kind: Literal["follows"]
    shares: dict[str, float]
    within: float = 0.15

    def _shaped(self, points: Sequence[Point], figures: Sequence[Figure]) -> Answer:
        shares = {meaning(self.along, word): share for word, share in self.shares.items()}
        by_share = {
            shares[point.axes[self.along]]: figure
            for point, figure in zip(points, figures, strict=True)
            if point.axes[self.along] in shares
        }
        if 1 not in by_share:
            return Answer("cannot be told", f"the whole is missing: {listed(points, figures)}")
        answers = []
        for share, figure in by_share.items():
            low, high = share * (1 - self.within), share * (1 + self.within)
            words = f"{figure} for a share of {share:g} of {by_share[1]}"
            if share != 1:
                answers.append(in_band(ratio(figure, by_share[1]), low, high, words))
        return together(answers)


class Knee(_Series):
    """A series has its knee where two straight lines fit it best.

    `at` is in units of the axis; with `relative` it is a share of the greatest figure; and
    `cores - AXIS` is what a value of another axis leaves of the host's CPUs.
    """

    kind: Literal["knee"]
    at: float | str
    within: float
    relative: bool = False
    x: str = ""
    """The metric that the series is drawn over, where that is not the axis itself."""

    def _shaped(self, points: Sequence[Point], figures: Sequence[Figure]) -> Answer:
        xs = [number(point.axes[self.along]) for point in points]
        if self.x:
            over = [point.figure(self.x, self.subject) for point in points]
            told = [each for each in over if isinstance(each, Figure)]
            if len(told) < len(over):
                return Answer("cannot be told", f"not every point has {self.x}")
            xs = [each.value for each in told]
        values = [figure.value for figure in figures]
        bend, at = break_of(xs, values), self._place(points[0])
        if bend is None:
            return Answer("cannot be told", f"no knee is found: {listed(points, figures)}")
        if at is None:
            return Answer("cannot be told", "how many CPUs there are is not known")
        place = bend / max(values) if self.relative else bend
        verdict: Verdict = "holds" if abs(place - at) <= self.within else "does not hold"
        return Answer(verdict, f"the knee is at {place:.3g}: {listed(points, figures)}")

    def _place(self, point: Point) -> float | None:
        """Return where the knee should be; None where that depends on CPUs that are not known."""
        if not isinstance(self.at, str):
            return self.at
        cores = point.figures.get("host.cores")
        axis = self.at.partition(" - ")[2]
        return None if cores is None else cores.value - number(point.axes.get(axis, 0))


class Saturates(BaseClaim):
    """A rate is saturated where it reaches the line rate of all senders together within a
    hundredth."""

    kind: Literal["saturates"]
    at: float
    """The line rate that the paper's figures saturate at, in the metric's unit; here it is the
    metric `line.gbps_l1` of a point."""

    @property
    def own_axes(self) -> set[str]:
        return set()

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        for point in group:
            figures = self._figures([point], bounded=True)
            if isinstance(figures, Answer):
                yield figures
                continue
            line = point.figures.get("line.gbps_l1")
            limit = line.value if line else self.at
            words = f"{point.name}: {figures[0]} of {limit:g}"
            if figures[0].high >= 0.99 * limit:
                yield Answer("holds", words)
            else:
                yield unless_bounded(figures[0].bounded, "does not hold", words)


class Within(BaseClaim):
    """A figure is within a band, in its metric's unit: for what hardware does not change, such as
    how many cores a part keeps busy."""

    kind: Literal["within"]
    between: tuple[float, float]

    @property
    def own_axes(self) -> set[str]:
        return set()

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        for point in group:
            figures = self._figures([point])
            if isinstance(figures, Answer):
                yield figures
            else:
                yield in_band(figures[0], *self.between, point.name)
