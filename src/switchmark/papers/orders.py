"""Claims that compare points: orders, ratios and differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from switchmark.metrics.difference import MARGIN
from switchmark.papers.comparing import Compared, Question
from switchmark.papers.judging import (
    NOTHING,
    BaseClaim,
    ClaimAnswer,
    Verdict,
    in_band,
    together,
    undecided,
)
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

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
        greater = [point for point in group if point.is_at(self.greater)]
        less = [point for point in group if point.is_at(self.less)]
        for pair in itertools.product(greater, less):
            figures = self._figures(pair)
            answer = figures if isinstance(figures, ClaimAnswer) else self._compared(pair, *figures)
            yield replace(answer, about=_against(*pair))

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
                answers.append(ClaimAnswer("cannot be told", untold[0], about=point.name))
            else:
                shown.append(point)
        for point, outcome in zip(shown, self.question.exceeds(shown, self.other), strict=True):
            both = point.figures[self.metric], point.figures[self.other]
            answer = _of_order(outcome, f"{point.name}: {both[0]} against {both[1]}")
            answers.append(replace(answer, about=point.name))
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

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
        bases = [point for point in group if point.is_at(self.from_)]
        others = [point for point in group if point.is_at(self.to)]
        for base, other in itertools.product(bases, others):
            figures = self._figures((base, other))
            about = f"{other.name} for {base.name}"
            if isinstance(figures, ClaimAnswer):
                yield replace(figures, about=about)
                continue
            description = f"{other.name} {figures[1]} for {base.name} {figures[0]}"
            outcome = self.question.ratio(other, base)
            description = description if outcome.word else f"{description} ({outcome.why})"
            yield replace(in_band(outcome.change, *self.between, description, MARGIN), about=about)


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

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
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


class GapClaim(BaseClaim):
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

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
        wide, narrow = ([p for p in group if p.is_at(at)] for at in (self.from_, self.to))
        both = {str(p.axes[self.over]) for p in wide} & {str(p.axes[self.over]) for p in narrow}
        untold = [
            point for point in (*wide, *narrow) if isinstance(self._figures([point]), ClaimAnswer)
        ]
        measured = both - {str(point.axes[self.over]) for point in untold}
        sides = [[p for p in side if str(p.axes[self.over]) in measured] for side in (wide, narrow)]
        if len(measured) > 1:
            answer = self._closing(*sides)
            # The gap between a part of them may grow while that between all shrinks.
            open_ = bool(untold) and answer.verdict == "does not hold"
            verdict: Verdict = "cannot be told" if open_ else answer.verdict
            yield replace(answer, verdict=verdict, about=", ".join(sorted(measured)))
        elif not untold:
            yield ClaimAnswer("cannot be told", f"there is only one {self.over} at both ends")
        for point in untold:
            if isinstance(reason := self._figures([point]), ClaimAnswer):
                yield replace(reason, about=point.name)

    def _closing(self, wide: Sequence[Point], narrow: Sequence[Point]) -> ClaimAnswer:
        before, after = (widest(self.question, points) for points in (wide, narrow))
        description = f"{before} times between the first and the last, then {after}"
        if before.low > after.high:
            return ClaimAnswer("holds", description)
        return ClaimAnswer(
            "does not hold" if before.high < after.low else "cannot be told", description
        )


class Slopes(_Sides):
    """A steeper slope: along an axis, the figures at `greater` grow with a larger exponent than the
    figures at `less`."""

    kind: Literal["slopes"]
    along: str

    @property
    def own_axes(self) -> set[str]:
        return {self.along, *self.greater, *self.less}

    def _answers(self, group: Sequence[Point], of: int) -> Iterator[ClaimAnswer]:
        sides = []
        for at in (self.greater, self.less):
            series: list[tuple[str, list[tuple[Point, float]]]] = []
            members = [point for point in group if point.is_at(at)]
            for points in grouped(members, {}, {self.along}):
                points.sort(key=lambda point: number(point.axes[self.along]))
                figures = self._figures(points)
                if isinstance(figures, ClaimAnswer):
                    yield replace(figures, about=points[0].name)
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
            about = f"from {more} on against from {less} on"
            if not isinstance(over, PointFigure):
                yield replace(undecided(over, f"{more} against {less}"), about=about)
                continue
            exponents = [f"{slope.value:.3g}" for slope in slopes if isinstance(slope, PointFigure)]
            description = (
                f"exponent {exponents[0]} from {more} on against {exponents[1]} from {less} on"
            )
            description += f": {over} more"
            verdict: Verdict = "holds" if over.low > 0 else "cannot be told"
            verdict = "does not hold" if over.high < 0 else verdict
            yield ClaimAnswer(verdict, description, about=about, change=over)


class WinnersDiffer(BaseClaim):
    """No overall winner: each value of an axis is below another value somewhere. A value that is
    above all others at every place refutes it."""

    kind: Literal["winners-differ"]
    over: str

    @property
    def own_axes(self) -> set[str]:
        return {self.over}

    def judge(self, points: Sequence[Point]) -> ClaimAnswer:
        """Return the answer to the claim from all pairwise comparisons within the groups."""
        groups = list(grouped(points, self.among, self.own_axes))
        every = dict.fromkeys(self._of(point) for group in groups for point in group)
        if not every:
            return NOTHING
        beaten: dict[str, str] = {}
        first = set(every)
        for group in groups:
            measured = [
                point for point in group if not isinstance(self._figures([point]), ClaimAnswer)
            ]
            wins = dict.fromkeys(every, 0)
            for one, other in itertools.permutations(measured, 2):
                if self.question.compared(one, other).word == "above":
                    wins[self._of(one)] += 1
                    beaten.setdefault(self._of(other), f"{self._of(other)} is below {one.name}")
            # One that is missing may be first.
            first &= {who for who, count in wins.items() if count == len(group) - 1}
        places = len(groups)
        if first and places > 1:
            return ClaimAnswer("does not hold", f"{first.pop()} is first at all {places} places")
        parts = tuple(ClaimAnswer("holds", why, about=who) for who, why in beaten.items())
        if set(beaten) == set(every):
            return ClaimAnswer("holds", "; ".join(beaten.values()), parts=parts)
        rest = [self._unbeaten(who, groups) for who in every if who not in beaten]
        some = f"{'; '.join(beaten.values())}; " if beaten else ""
        why = f"{some}{'; '.join(part.why for part in rest)}"
        return ClaimAnswer("cannot be told", why, parts=(*parts, *rest))

    def _of(self, point: Point) -> str:
        return str(point.axes[self.over])

    def _unbeaten(self, who: str, groups: Sequence[Sequence[Point]]) -> ClaimAnswer:
        places = [point for group in groups for point in group if self._of(point) == who]
        figures = (self._figures([point]) for point in places)
        untold = [figure for figure in figures if isinstance(figure, ClaimAnswer)]
        why = "was not shown to be below another"
        if len(untold) == len(places):
            why = untold[0].why
        return ClaimAnswer("cannot be told", f"{who}: {why}", about=who)


def _of_order(
    outcome: Compared, description: str, *, or_equal: bool = False, by_shares: bool = False
) -> ClaimAnswer:
    change = outcome.change
    if outcome.word == "above":
        return ClaimAnswer("holds", description, change=change)
    if outcome.word == "below":
        return ClaimAnswer("does not hold", description, change=change)
    if outcome.word == "same":
        verdict: Verdict = "holds" if or_equal else "does not hold"
        return ClaimAnswer(verdict, f"the same: {description}", change=change)
    if or_equal and change.low >= (0.0 if by_shares else 1 - MARGIN):
        return ClaimAnswer("holds", f"not below: {description}", change=change)
    return undecided(outcome, description)


def _against(one: Point, other: Point) -> str:
    return f"{one.name} against {other.name}"


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
