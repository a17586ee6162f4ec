"""Claims about a series: points along one axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

from switchmark.papers.judging import BaseClaim, ClaimAnswer, in_band, listed, together, undecided
from switchmark.papers.orders import widest
from switchmark.papers.points import Point, PointFigure, meaning, number
from switchmark.papers.shapes import break_of, slope_weights

_REACHED = 0.99
"""The share of the line rate that counts as reaching it."""


class _Series(BaseClaim):
    """A claim about points along an axis, in the order of its values."""

    along: str

    @property
    def own_axes(self) -> set[str]:
        return {self.along}

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        points = sorted(group, key=lambda point: number(point.axes[self.along]))
        if len(points) > 1:
            figures = self._figures(points)
            yield figures if isinstance(figures, ClaimAnswer) else self._shaped(points, figures)

    def _shaped(self, points: Sequence[Point], figures: Sequence[PointFigure]) -> ClaimAnswer:
        raise NotImplementedError


class Flat(_Series):
    """A flat series: its largest and smallest figures differ by at most a share of their median."""

    kind: Literal["flat"]
    spread: float = 0.15

    def _shaped(self, points: Sequence[Point], figures: Sequence[PointFigure]) -> ClaimAnswer:
        description = listed(points, figures)
        middle, least = (
            median(figure.value for figure in figures),
            min(figure.value for figure in figures),
        )
        if not middle:
            return ClaimAnswer("cannot be told", f"their median is 0: {description}")
        question = self.question
        wide = widest(question, points)
        none, part = (0.0, 1 / middle) if question.is_of_shares else (1.0, least / middle)
        value, low, high = ((end - none) * part for end in (wide.value, wide.low, wide.high))
        spread = PointFigure(value, low, high)
        return in_band(spread, 0, self.spread, description)


class Monotone(_Series):
    """A falling or rising series: no point contradicts the direction by more than chance, and the
    ends confirm it."""

    kind: Literal["monotone"]
    sense: Literal["falls", "rises"]

    def _shaped(self, points: Sequence[Point], figures: Sequence[PointFigure]) -> ClaimAnswer:
        rising = points if self.sense == "rises" else points[::-1]
        description, question = listed(points, figures), self.question
        if any(
            question.compared(after, before).word == "below"
            for before, after in itertools.combinations(rising, 2)
        ):
            return ClaimAnswer("does not hold", description)
        ends = question.compared(rising[-1], rising[0])
        if ends.word == "same":
            return ClaimAnswer("does not hold", f"the same at both ends: {description}")
        return ClaimAnswer("holds", description) if ends.word else undecided(ends, description)


class Scales(_Series):
    """A power law along the axis with an exponent in a band: 1 is linear, -1 inverse, 0
    constant."""

    kind: Literal["scales"]
    exponent: tuple[float, float]

    def _shaped(self, points: Sequence[Point], figures: Sequence[PointFigure]) -> ClaimAnswer:
        xs = [number(point.axes[self.along]) for point in points]
        slope = self.question.contrast([*zip(points, slope_weights(xs), strict=True)])
        if not isinstance(slope, PointFigure):
            return undecided(slope, listed(points, figures))
        return in_band(slope, *self.exponent, f"exponent {slope}: {listed(points, figures)}")


class Follows(_Series):
    """A series that follows shares: the ratio of a figure to the figure at share 1 is within a
    tolerance of its share. `shares` maps values of the axis to shares."""

    kind: Literal["follows"]
    shares: dict[str, float]
    within: float = 0.15

    def _shaped(self, points: Sequence[Point], figures: Sequence[PointFigure]) -> ClaimAnswer:
        shares = {meaning(self.along, word): share for word, share in self.shares.items()}
        by_share = {
            shares[point.axes[self.along]]: point
            for point in points
            if point.axes[self.along] in shares
        }
        whole = by_share.get(1)
        if whole is None:
            return ClaimAnswer("cannot be told", f"the whole is missing: {listed(points, figures)}")
        answers = []
        r_plus = whole.figures[self.metric]
        for share, point in by_share.items():
            low, high = share * (1 - self.within), share * (1 + self.within)
            description = f"{point.figures[self.metric]} for a share of {share:g} of {r_plus}"
            if share != 1:
                change = self.question.compared(point, whole).change
                answers.append(in_band(change, low, high, description))
        return together(answers)


class Knee(_Series):
    """A series with a knee: the point at which two straight lines fit it best, with an interval of
    all points at which they fit equally well within chance.

    `at` is in units of the axis, or with `relative` a share of the largest figure. `cores - AXIS`
    is the number of the host's CPUs minus the value of another axis.
    """

    kind: Literal["knee"]
    at: float | str
    within: float
    relative: bool = False
    x: str = ""
    """The metric on the x axis, if it is not the axis itself."""

    def _shaped(self, points: Sequence[Point], figures: Sequence[PointFigure]) -> ClaimAnswer:
        xs = [number(point.axes[self.along]) for point in points]
        if self.x:
            over = [point.figure(self.x) for point in points]
            known_xs = [x for x in over if isinstance(x, PointFigure)]
            if len(known_xs) < len(over):
                return ClaimAnswer("cannot be told", f"not every point has {self.x}")
            xs = [figure.value for figure in known_xs]
        spoilt = [why for point in points if (why := self.question.spoiled(point))]
        if spoilt:
            return ClaimAnswer("cannot be told", spoilt[0])
        values = [self.question.values(point) for point in points]
        bend, expected = break_of(xs, values), self._place(points[0])
        if bend is None:
            return ClaimAnswer("cannot be told", f"no knee is found: {listed(points, figures)}")
        if expected is None:
            return ClaimAnswer("cannot be told", "how many CPUs there are is not known")
        unit = max(figure.value for figure in figures) if self.relative else 1.0
        place = PointFigure(bend[0] / unit, bend[1] / unit, bend[2] / unit)
        description = f"the knee is at {place}: {listed(points, figures)}"
        return in_band(place, expected - self.within, expected + self.within, description)

    def _place(self, point: Point) -> float | None:
        """Return the expected position of the knee; None if it depends on an unknown number of
        CPUs."""
        if not isinstance(self.at, str):
            return self.at
        cores = point.figures.get("host.cores")
        axis = self.at.partition(" - ")[2]
        return None if cores is None else cores.value - number(point.axes.get(axis, 0))


class _Levels(BaseClaim):
    """A claim about separate points, which are tested together."""

    @property
    def own_axes(self) -> set[str]:
        return set()

    def judge(self, points: Sequence[Point]) -> ClaimAnswer:
        """Return the answer to the claim from all of its points."""
        members, answers = self.members(points), []
        for point in members:
            figures = self._figures([point])
            if isinstance(figures, ClaimAnswer):
                answers.append(figures)
                continue
            figure = self.question.level(point, len(members))
            answers.append(
                ClaimAnswer("cannot be told", figure)
                if isinstance(figure, str)
                else self._held(figure, point)
            )
        return together(answers)

    def _held(self, figure: PointFigure, point: Point) -> ClaimAnswer:
        raise NotImplementedError


class Saturates(_Levels):
    """A saturated rate: within 1 % of the line rate of all senders together."""

    kind: Literal["saturates"]
    at: float
    """The line rate in the paper's figures, in the metric's unit. The metric `line.gbps_l1` of a
    point replaces it."""

    def _held(self, figure: PointFigure, point: Point) -> ClaimAnswer:
        line = point.figures.get("line.gbps_l1")
        limit = line.value if line else self.at
        description = f"{point.name}: {figure} of {limit:g}"
        if figure.low >= _REACHED * limit:
            return ClaimAnswer("holds", description)
        return ClaimAnswer(
            "does not hold" if figure.high < _REACHED * limit else "cannot be told", description
        )


class Within(_Levels):
    """A figure within a band, in its metric's unit. Use it for quantities that do not depend on the
    hardware, such as the number of busy cores of a part."""

    kind: Literal["within"]
    between: tuple[float, float]

    def _held(self, figure: PointFigure, point: Point) -> ClaimAnswer:
        return in_band(figure, *self.between, point.name)
