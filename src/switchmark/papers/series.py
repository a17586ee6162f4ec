"""Claims about a series: points along one axis."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Literal

from pydantic import ValidationInfo, field_validator

from switchmark.papers.judging import BaseClaim, ClaimAnswer, in_band, listed, together, undecided
from switchmark.papers.orders import widest
from switchmark.papers.points import Point, PointFigure, meaning, number
from switchmark.papers.shapes import BENDS, break_of, slope_weights

_REACHED = 0.99
"""The share of the line rate that counts as reaching it."""


class _Series(BaseClaim):
    """A claim about points along an axis, in the order of its values."""

    along: str

    @property
    def own_axes(self) -> set[str]:
        return {self.along}

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
        points = sorted(group, key=lambda point: number(point.axes[self.along]))
        if len(points) > 1:
            figures = self._figures(points)
            answer = (
                figures if isinstance(figures, ClaimAnswer) else self._shaped(points, figures, of)
            )
            yield replace(answer, about=self._about(points[0]))

    def _about(self, point: Point) -> str:
        """Return the place of a series: its values on the other axes."""
        others = replace(point, axes={k: v for k, v in point.axes.items() if k != self.along})
        return others.name

    def _shaped(
        self, points: Sequence[Point], figures: Sequence[PointFigure], of: int
    ) -> ClaimAnswer:
        """Return whether a series has its shape, as one of `of` series that are tested together."""
        raise NotImplementedError


class Flat(_Series):
    """A flat series: its largest and smallest figures differ by at most a share of their median.
    With `above`, all of them also exceed a value: a share that is constantly 0 is no share."""

    kind: Literal["flat"]
    spread: float = 0.15
    above: float | None = None

    def _shaped(
        self, points: Sequence[Point], figures: Sequence[PointFigure], of: int
    ) -> ClaimAnswer:
        description, question = listed(points, figures), self.question
        if not any(figure.value for figure in figures) and self.above is None:
            return ClaimAnswer("cannot be told", f"their median is 0: {description}")
        levels: list[PointFigure] = []
        if self.above is not None or question.is_of_shares:
            for point in points:
                level = question.level(point, of * len(points))
                if isinstance(level, str):
                    return ClaimAnswer("cannot be told", level)
                levels.append(level)
        if self.above is not None:
            low = min(levels, key=lambda level: level.high)
            if low.high <= self.above:
                return ClaimAnswer(
                    "does not hold", f"{low} is not above {self.above:g}: {description}"
                )
            least = min(levels, key=lambda level: level.low)
            if least.low <= self.above:
                return ClaimAnswer(
                    "cannot be told", f"{least} may not exceed {self.above:g}: {description}"
                )
        return in_band(self._spread(points, figures, levels), 0, self.spread, description)

    def _spread(
        self, points: Sequence[Point], figures: Sequence[PointFigure], levels: Sequence[PointFigure]
    ) -> PointFigure:
        """Return the greatest difference as a share of the median."""
        wide = widest(self.question, points)
        middle = median(figure.value for figure in figures)
        if self.question.is_of_shares:
            # The ends hold for all of the levels at once, and so for their median.
            low, high = (
                median(level.low for level in levels),
                median(level.high for level in levels),
            )
            most = wide.high / low if low > 0 else math.inf
            value = wide.value / middle if middle else math.inf
            return PointFigure(value, wide.low / high if high > 0 else math.inf, most)
        part = min(figure.value for figure in figures) / middle
        value, low, high = ((end - 1.0) * part for end in (wide.value, wide.low, wide.high))
        return PointFigure(value, low, high)


class Monotone(_Series):
    """A falling or rising series: no point contradicts the direction by more than chance, and the
    ends confirm it."""

    kind: Literal["monotone"]
    sense: Literal["falls", "rises"]

    def _shaped(
        self, points: Sequence[Point], figures: Sequence[PointFigure], of: int
    ) -> ClaimAnswer:
        rising = points if self.sense == "rises" else points[::-1]
        description, question = listed(points, figures), self.question
        for before, after in itertools.combinations(rising, 2):
            outcome = question.compared(after, before)
            if outcome.word == "below":
                against = f"{after.name} against {before.name}"
                return ClaimAnswer(
                    "does not hold", f"{against}: {description}", change=outcome.change
                )
        ends = question.compared(rising[-1], rising[0])
        if ends.word == "same":
            return ClaimAnswer(
                "does not hold", f"the same at both ends: {description}", change=ends.change
            )
        return (
            ClaimAnswer("holds", description, change=ends.change)
            if ends.word
            else undecided(ends, description)
        )


class Scales(_Series):
    """A power law along the axis with an exponent in a band: 1 is linear, -1 inverse, 0
    constant."""

    kind: Literal["scales"]
    exponent: tuple[float, float]

    def _shaped(
        self, points: Sequence[Point], figures: Sequence[PointFigure], of: int
    ) -> ClaimAnswer:
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

    def _shaped(
        self, points: Sequence[Point], figures: Sequence[PointFigure], of: int
    ) -> ClaimAnswer:
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
        full = whole.figures[self.metric]
        for share, point in by_share.items():
            low, high = share * (1 - self.within), share * (1 + self.within)
            description = f"{point.figures[self.metric]} for a share of {share:g} of {full}"
            if share != 1:
                change = self.question.compared(point, whole).change
                answers.append(replace(in_band(change, low, high, description), about=point.name))
        return together(answers)


_CORES = re.compile(r"cores(?: - (?:\d+|[a-z][a-z-]*))*")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)% of cores")


class Knee(_Series):
    """A series with a knee: the point at which straight lines that fit it best first meet, with an
    interval of all points at which they fit equally well within chance. There are two lines, or
    three if two do not fit.

    `at` is in units of the axis, or with `relative` a share of the largest figure. `cores - 2 -
    AXIS` is the number of the host's CPUs less two and the value of another axis, and `within` may
    be such as `12.5% of cores`. With `log`, lines fit the logarithms of both, so that a power law
    is no knee. `bends` is the least share of all changes of the slope that makes a knee.
    """

    kind: Literal["knee"]
    at: float | str
    within: float | str
    relative: bool = False
    log: bool = False
    bends: float = BENDS
    x: str = ""
    """The metric on the x axis, if it is not the axis itself."""

    @field_validator("at", "within")
    @classmethod
    def _has_form(cls, value: float | str, field: ValidationInfo) -> float | str:
        form, noun, example = (
            (_CORES, "place", "cores - 2 - switch-cores")
            if field.field_name == "at"
            else (_SHARE, "width", "12.5% of cores")
        )
        if isinstance(value, str) and not form.fullmatch(value):
            raise ValueError(f"a {noun} by CPUs is such as '{example}'")
        return value

    @property
    def place_axes(self) -> list[str]:
        """Return the axes on which the place of the knee depends."""
        terms = str(self.at).split(" - ")[1:] if isinstance(self.at, str) else []
        return [term for term in terms if not term.isdigit()]

    def _shaped(
        self, points: Sequence[Point], figures: Sequence[PointFigure], of: int
    ) -> ClaimAnswer:
        xs = [number(point.axes[self.along]) for point in points]
        if self.x:
            over = [point.figure(self.x) for point in points]
            shown = [place for place in over if isinstance(place, PointFigure)]
            if len(shown) < len(over):
                return ClaimAnswer("cannot be told", f"not every point has {self.x}")
            xs = [place.value for place in shown]
        spoilt = [why for point in points if (why := self.question.spoiled(point))]
        if spoilt:
            return ClaimAnswer("cannot be told", spoilt[0])
        band = self._band(points[0])
        if band is None:
            return ClaimAnswer("cannot be told", "the number of CPUs is not known")
        unit = max(figure.value for figure in figures) if self.relative else 1.0
        expected = unit * sum(band) / 2
        if not min(xs) < expected < max(xs):
            return ClaimAnswer(
                "cannot be told", f"no point lies beyond {expected:g}, where it may be"
            )
        values = [self.question.values(point) for point in points]
        if self.log and min(*xs, *map(min, values)) <= 0:
            return ClaimAnswer("cannot be told", f"0 has no logarithm: {listed(points, figures)}")
        logs = [[math.log(value) for value in row] for row in [xs, *values]] if self.log else []
        series = (logs[0], logs[1:]) if self.log else (xs, values)
        bend = break_of(*series, of, self.bends)
        if bend is None:
            return ClaimAnswer("cannot be told", f"no knee is found: {listed(points, figures)}")
        middle, low, high = (math.exp(end) if self.log else end for end in bend)
        place = PointFigure(middle / unit, low / unit, high / unit)
        return in_band(place, *band, f"the knee is at {place}: {listed(points, figures)}")

    def _band(self, point: Point) -> tuple[float, float] | None:
        """Return the ends between which the knee is expected; None if they depend on an unknown
        number of CPUs."""
        cores = point.figures.get("host.cores")
        if cores is None and (isinstance(self.at, str) or isinstance(self.within, str)):
            return None
        count = cores.value if cores else 0.0
        place, width = self.at, self.within
        if isinstance(place, str):
            less = sum(float(word) for word in place.split(" - ")[1:] if word.isdigit())
            place = count - less - sum(number(point.axes[axis]) for axis in self.place_axes)
        if isinstance(width, str):
            width = count * float(width.partition("%")[0]) / 100
        return place - width, place + width


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
                answers.append(replace(figures, about=point.name))
                continue
            figure = self.question.level(point, len(members))
            answer = (
                ClaimAnswer("cannot be told", figure)
                if isinstance(figure, str)
                else self._held(figure, point)
            )
            answers.append(replace(answer, about=point.name))
        return together(answers)

    def _held(self, figure: PointFigure, point: Point) -> ClaimAnswer:
        raise NotImplementedError


class Saturates(_Levels):
    """A saturated rate: within 1 % of the line rate of all senders together, by the lower end of
    its interval.

    A rate below the line says something about a switch only where a bare cable carries the line
    (`cable.gbps_l1` of a measured point). Otherwise the claim cannot be told.
    """

    kind: Literal["saturates"]
    metric: Literal["rx.gbps_l1"]
    at: float
    """The line rate of the paper in Gbps. The metric `line.gbps_l1` of a point replaces it."""

    def _held(self, figure: PointFigure, point: Point) -> ClaimAnswer:
        line = point.figures.get("line.gbps_l1")
        limit = line.value if line else self.at
        least = _REACHED * limit
        description = f"{point.name}: {figure} of {limit:g}"
        if figure.low >= least:
            return ClaimAnswer("holds", description, change=figure, band=(least, math.inf))
        if figure.high >= least:
            return ClaimAnswer("cannot be told", description, change=figure, band=(least, math.inf))
        cable = point.figures.get("cable.gbps_l1")
        if point.measured and (cable is None or cable.low < least):
            lacks = "what a bare cable carries is not known" if cable is None else (
                f"a bare cable carries {cable} of {limit:g} here"
            )  # fmt: skip
            return ClaimAnswer("cannot be told", f"{lacks}; {description}", change=figure)
        return ClaimAnswer("does not hold", description, change=figure, band=(least, math.inf))


class Within(_Levels):
    """A figure within a band, in its metric's unit. Use it for quantities that do not depend on the
    hardware, such as the number of busy cores of a part."""

    kind: Literal["within"]
    between: tuple[float, float]

    def _held(self, figure: PointFigure, point: Point) -> ClaimAnswer:
        return in_band(figure, *self.between, point.name)
