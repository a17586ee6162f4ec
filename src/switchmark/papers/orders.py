"""Claims that compare points: orders, ratios and differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

from switchmark.metrics.difference import MARGIN
from switchmark.papers.comparing import Compared, Question
from switchmark.papers.judging import BaseClaim, ClaimAnswer, in_band, together, undecided
from switchmark.papers.points import At, Point, PointFigure, Scalar, grouped, meaning, number
from switchmark.papers.shapes import slope_weights


class _Sides(BaseClaim):
    """A claim about two sides: all points at `greater` are compared with all points at `less`."""

    greater: At
    less: At

    @property
    def own_axes(self) -> set[str]:
        return {*self.greater, *self.less}

    def members(self, points: Sequence[Point]) -> list[Point]:
        members = super().members(points)
        return [point for point in members if point.is_at(self.greater) or point.is_at(self.less)]

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        greater = [point for point in group if point.is_at(self.greater)]
        less = [point for point in group if point.is_at(self.less)]
        for pair in itertools.product(greater, less):
            figures = self._figures(pair)
            yield figures if isinstance(figures, ClaimAnswer) else self._compared(pair, *figures)

    def _compared(self, pair: Sequence[Point], more: PointFigure, less: PointFigure) -> ClaimAnswer:
        raise NotImplementedError


class Order(_Sides):
    """An order: all figures at `greater` are above all figures at `less` by more than chance. With
    `or-equal` it also holds if they are the same, or not below by more than the margin."""

    kind: Literal["order"]
    or_equal: bool = False

    def _compared(self, pair: Sequence[Point], more: PointFigure, less: PointFigure) -> ClaimAnswer:
        description = f"{pair[0].name} {more} against {pair[1].name} {less}"
        question = self.question
        outcome = question.compared(pair[0], pair[1])
        return _of_order(
            outcome, description, or_equal=self.or_equal, by_shares=question.is_of_shares
        )


class DiffersBy(_Sides):
    """A difference: `greater` is above `less` by an amount, within a tolerance."""

    kind: Literal["differs-by"]
    amount: float
    within: float

    def _compared(self, pair: Sequence[Point], more: PointFigure, less: PointFigure) -> ClaimAnswer:
        description = f"{pair[0].name} {more} less {pair[1].name} {less}"
        outcome = self.question.compared(pair[0], pair[1], less=True)
        return in_band(
            outcome.change, self.amount - self.within, self.amount + self.within, description
        )


class Exceeds(BaseClaim):
    """One metric is above another metric at all points by more than chance."""

    kind: Literal["exceeds"]
    other: str
    """The lower metric, in the same unit."""

    @property
    def own_axes(self) -> set[str]:
        return set()

    def judge(self, points: Sequence[Point]) -> ClaimAnswer:
        """Return the answer to the claim from all points, tested together."""
        answers, shown = [], []
        for point in self.members(points):
            figures = [point.figure(name) for name in (self.metric, self.other)]
            untold = [figure for figure in figures if isinstance(figure, str)]
            if untold:
                answers.append(ClaimAnswer("cannot be told", untold[0]))
            else:
                shown.append(point)
        for point, outcome in zip(shown, self.question.exceeds(shown, self.other), strict=True):
            both = point.figures[self.metric], point.figures[self.other]
            answers.append(_of_order(outcome, f"{point.name}: {both[0]} against {both[1]}"))
        return together(answers)


class Factor(BaseClaim):
    """A factor: the ratio of the figure at `to` to the figure at `from` lies in a band."""

    kind: Literal["factor"]
    from_: At
    to: At
    between: tuple[float, float]

    @property
    def own_axes(self) -> set[str]:
        return {*self.from_, *self.to}

    def members(self, points: Sequence[Point]) -> list[Point]:
        members = super().members(points)
        return [point for point in members if point.is_at(self.from_) or point.is_at(self.to)]

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        bases = [point for point in group if point.is_at(self.from_)]
        others = [point for point in group if point.is_at(self.to)]
        for base, other in itertools.product(bases, others):
            figures = self._figures((base, other))
            if isinstance(figures, ClaimAnswer):
                yield figures
            else:
                description = f"{other.name} {figures[1]} for {base.name} {figures[0]}"
                outcome = self.question.compared(other, base)
                description = description if outcome.word else f"{description} ({outcome.why})"
                yield in_band(outcome.change, *self.between, description, MARGIN)


class Crossover(BaseClaim):
    """A crossover: the series at `of` is below the series at `over` up to one value of the axis,
    and above it from another value on."""

    kind: Literal["crossover"]
    along: str
    of: At
    over: At
    below: Scalar
    above: Scalar

    @property
    def own_axes(self) -> set[str]:
        return {self.along, *self.of, *self.over}

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        until, from_ = (
            number(meaning(self.along, self.below)),
            number(meaning(self.along, self.above)),
        )
        shared = {"id": self.id, "says": self.says, "metric": self.metric, "kind": "order"}
        ahead = Order(**shared, subject=self.subject, greater=self.of, less=self.over)
        behind = Order(**shared, subject=self.subject, greater=self.over, less=self.of)
        for place in sorted({number(point.axes[self.along]) for point in group}):
            here = [point for point in group if number(point.axes[self.along]) == place]
            if place <= until:
                yield behind.judge(here)
            elif place >= from_:
                yield ahead.judge(here)


class Gap(BaseClaim):
    """A closing gap: the ratio of the largest figure to the smallest is lower at `to` than at
    `from`."""

    kind: Literal["gap"]
    over: str
    """The axis whose values are compared with each other, such as `switch`."""
    from_: At
    to: At

    @property
    def own_axes(self) -> set[str]:
        return {self.over, *self.from_, *self.to}

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        ratios = []
        for side in (self.from_, self.to):
            points = [point for point in group if point.is_at(side)]
            figures = self._figures(points)
            if isinstance(figures, ClaimAnswer) or len(figures) < 2:
                yield (
                    figures
                    if isinstance(figures, ClaimAnswer)
                    else ClaimAnswer("cannot be told", "one only")
                )
                return
            ratios.append(widest(self.question, points))
        wide, narrow = ratios
        description = f"{wide} times between the first and the last, then {narrow}"
        if wide.low > narrow.high:
            yield ClaimAnswer("holds", description)
        else:
            yield ClaimAnswer(
                "does not hold" if wide.high < narrow.low else "cannot be told", description
            )


class Slopes(_Sides):
    """A steeper slope: along an axis, the figures at `greater` grow with a larger exponent than the
    figures at `less`."""

    kind: Literal["slopes"]
    along: str

    @property
    def own_axes(self) -> set[str]:
        return {self.along, *self.greater, *self.less}

    def _answers(self, group: Sequence[Point]) -> Iterator[ClaimAnswer]:
        sides = []
        for side in (self.greater, self.less):
            series: list[tuple[str, list[tuple[Point, float]]]] = []
            members = [point for point in group if point.is_at(side)]
            for points in grouped(members, {}, {self.along}):
                points.sort(key=lambda point: number(point.axes[self.along]))
                figures = self._figures(points)
                if isinstance(figures, ClaimAnswer):
                    yield figures
                    return
                if len(figures) < 2:
                    yield ClaimAnswer("cannot be told", f"{points[0].name} stands alone")
                    return
                weights = slope_weights([number(point.axes[self.along]) for point in points])
                series.append((points[0].name, list(zip(points, weights, strict=True))))
            sides.append(series)
        for (more, steep), (less, flat) in itertools.product(*sides):
            question = self.question
            over = question.contrast([*steep, *((point, -weight) for point, weight in flat)])
            slopes = [question.contrast(way) for way in (steep, flat)]
            if not isinstance(over, PointFigure):
                yield undecided(over, f"{more} against {less}")
                continue
            exponents = [f"{slope.value:.3g}" for slope in slopes if isinstance(slope, PointFigure)]
            description = (
                f"exponent {exponents[0]} from {more} on against {exponents[1]} from {less} on"
            )
            description += f": {over} more"
            if over.low > 0:
                yield ClaimAnswer("holds", description)
            else:
                yield ClaimAnswer(
                    "does not hold" if over.high < 0 else "cannot be told", description
                )


class WinnersDiffer(BaseClaim):
    """No overall winner: each value of an axis is below another value somewhere."""

    kind: Literal["winners-differ"]
    over: str

    @property
    def own_axes(self) -> set[str]:
        return {self.over}

    def judge(self, points: Sequence[Point]) -> ClaimAnswer:
        """Return the answer to the claim from all pairwise comparisons within the groups."""
        beaten: dict[str, str] = {}
        leaders: list[str | None] = []
        values = {str(point.axes[self.over]) for point in self.members(points)}
        told_somewhere: set[str] = set()
        for group in grouped(points, self.among, self.own_axes):
            measured = [
                point for point in group if not isinstance(self._figures([point]), ClaimAnswer)
            ]
            told_somewhere |= {str(point.axes[self.over]) for point in measured}
            wins = dict.fromkeys((str(point.axes[self.over]) for point in measured), 0)
            for one, other in itertools.permutations(measured, 2):
                if self.question.compared(one, other).word == "above":
                    wins[str(one.axes[self.over])] += 1
                    beaten.setdefault(str(other.axes[self.over]), f"below {one.name}")
            leads = [who for who, count in wins.items() if count == len(values) - 1]
            leaders.append(leads[0] if leads else None)
        if told_somewhere and told_somewhere <= {*beaten}:
            return ClaimAnswer(
                "holds", "; ".join(f"{who} is {where}" for who, where in beaten.items())
            )
        if len(leaders) > 1 and len({*leaders}) == 1 and leaders[0] is not None:
            return ClaimAnswer("does not hold", f"{leaders[0]} leads at all {len(leaders)} places")
        decided = sum(leader is not None for leader in leaders)
        return ClaimAnswer("cannot be told", f"{decided} of {len(leaders)} groups have a leader")


def _of_order(
    outcome: Compared, description: str, *, or_equal: bool = False, by_shares: bool = False
) -> ClaimAnswer:
    if outcome.word == "above":
        return ClaimAnswer("holds", description)
    if outcome.word == "below":
        return ClaimAnswer("does not hold", description)
    if outcome.word == "same":
        return ClaimAnswer("holds" if or_equal else "does not hold", f"the same: {description}")
    if or_equal and outcome.change.low >= (0.0 if by_shares else 1 - MARGIN):
        return ClaimAnswer("holds", f"not below: {description}")
    return undecided(outcome, description)


def widest(question: Question, points: Sequence[Point]) -> PointFigure:
    """Return the ratio of the largest figure of some points to the smallest, or for shares the
    difference, with its interval from all pairwise comparisons."""
    changes = [
        question.compared(one, other).change for one, other in itertools.permutations(points, 2)
    ]
    none = 0.0 if question.is_of_shares else 1.0
    return PointFigure(
        max(change.value for change in changes),
        max(none, *(change.low for change in changes)),
        max(change.high for change in changes),
    )
