"""This module has the claims that compare points: orders, ratios and differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

from switchmark.papers.judging import (
    Answer,
    BaseClaim,
    Verdict,
    in_band,
    ratio,
    unless_bounded,
)
from switchmark.papers.points import At, Figure, Point, Scalar, grouped, meaning, number
from switchmark.papers.shapes import slope_of

__all__ = ["Crossover", "DiffersBy", "Exceeds", "Factor", "Gap", "Order", "Slopes", "WinnersDiffer"]


class _Sides(BaseClaim):
    """This is a claim of two sides: each point at `greater` is compared with each at `less`."""

    greater: At
    less: At

    @property
    def own_axes(self) -> set[str]:
        return {*self.greater, *self.less}

    def members(self, points: Sequence[Point]) -> list[Point]:
        own = super().members(points)
        return [point for point in own if point.is_at(self.greater) or point.is_at(self.less)]

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        greater = [point for point in group if point.is_at(self.greater)]
        less = [point for point in group if point.is_at(self.less)]
        for pair in itertools.product(greater, less):
            figures = self._figures(pair, bounded=True)
            yield figures if isinstance(figures, Answer) else self._compared(pair, *figures)

    def _compared(self, pair: Sequence[Point], more: Figure, less: Figure) -> Answer:
        raise NotImplementedError


class Order(_Sides):
    """An order holds where every figure at `greater` is above every one at `less`, with their
    intervals apart; with `or-equal` also where the intervals meet."""

    kind: Literal["order"]
    or_equal: bool = False

    def _compared(self, pair: Sequence[Point], more: Figure, less: Figure) -> Answer:
        words = f"{pair[0].name} {more} against {pair[1].name} {less}"
        if more.low > less.high or (self.or_equal and more.high >= less.low):
            return unless_bounded(less.bounded, "holds", words)
        if more.high < less.low:
            return unless_bounded(more.bounded, "does not hold", words)
        return Answer("cannot be told", f"the intervals meet: {words}")


class DiffersBy(_Sides):
    """A difference holds where `greater` is above `less` by an amount, within a tolerance."""

    kind: Literal["differs-by"]
    amount: float
    within: float

    def _compared(self, pair: Sequence[Point], more: Figure, less: Figure) -> Answer:
        words = f"{pair[0].name} {more} less {pair[1].name} {less}"
        if more.bounded or less.bounded:
            return unless_bounded(True, "holds", words)
        difference = Figure(more.value - less.value, more.low - less.high, more.high - less.low)
        return in_band(difference, self.amount - self.within, self.amount + self.within, words)


class Exceeds(BaseClaim):
    """One metric exceeds another where it is above it at every point, their intervals apart."""

    kind: Literal["exceeds"]
    other: str
    """The metric that it is above, in the same unit."""

    @property
    def own_axes(self) -> set[str]:
        return set()

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        for point in group:
            figures = [point.figure(name, self.subject) for name in (self.metric, self.other)]
            untold = [each for each in figures if isinstance(each, str)]
            if untold:
                yield Answer("cannot be told", untold[0])
                continue
            more, less = (each for each in figures if isinstance(each, Figure))
            words = f"{point.name}: {more} against {less}"
            if more.low > less.high:
                yield Answer("holds", words)
            elif more.high < less.low:
                yield Answer("does not hold", words)
            else:
                yield Answer("cannot be told", f"the intervals meet: {words}")


class Factor(BaseClaim):
    """A factor holds where the figure at `to` divided by that at `from` lies in a band."""

    kind: Literal["factor"]
    from_: At
    to: At
    between: tuple[float, float]

    @property
    def own_axes(self) -> set[str]:
        return {*self.from_, *self.to}

    def members(self, points: Sequence[Point]) -> list[Point]:
        own = super().members(points)
        return [point for point in own if point.is_at(self.from_) or point.is_at(self.to)]

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        bases = [point for point in group if point.is_at(self.from_)]
        others = [point for point in group if point.is_at(self.to)]
        for base, other in itertools.product(bases, others):
            figures = self._figures((base, other))
            if isinstance(figures, Answer):
                yield figures
            else:
                words = f"{other.name} {figures[1]} for {base.name} {figures[0]}"
                yield in_band(ratio(figures[1], figures[0]), *self.between, words)


class Crossover(BaseClaim):
    """Two series cross where the one at `of` is below that at `over` up to a value of the axis, and
    above it from another value on."""

    kind: Literal["crossover"]
    along: str
    of: At
    over: At
    below: Scalar
    above: Scalar

    @property
    def own_axes(self) -> set[str]:
        return {self.along, *self.of, *self.over}

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
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
    """A gap closes where the greatest figure is fewer times the smallest at `to` than at `from`."""

    kind: Literal["gap"]
    over: str
    """The axis whose values are compared with each other, such as `switch`."""
    from_: At
    to: At

    @property
    def own_axes(self) -> set[str]:
        return {self.over, *self.from_, *self.to}

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        ratios = []
        for at in (self.from_, self.to):
            points = [point for point in group if point.is_at(at)]
            figures = self._figures(points)
            if isinstance(figures, Answer) or len(figures) < 2:
                yield (
                    figures if isinstance(figures, Answer) else Answer("cannot be told", "one only")
                )
                return
            most = max(figures, key=lambda figure: figure.value)
            ratios.append(ratio(most, min(figures, key=lambda figure: figure.value)))
        wide, narrow = ratios
        words = f"{wide} times between the first and the last, then {narrow}"
        if wide.low > narrow.high:
            yield Answer("holds", words)
        else:
            yield Answer("does not hold" if wide.high < narrow.low else "cannot be told", words)


class Slopes(_Sides):
    """A slope is above another where the figures at `greater` grow by a greater exponent along an
    axis than those at `less`."""

    kind: Literal["slopes"]
    along: str

    @property
    def own_axes(self) -> set[str]:
        return {self.along, *self.greater, *self.less}

    def _answers(self, group: Sequence[Point]) -> Iterator[Answer]:
        slopes = []
        for at in (self.greater, self.less):
            series: list[tuple[str, Figure]] = []
            members = [point for point in group if point.is_at(at)]
            for points in grouped(members, {}, {self.along}):
                points.sort(key=lambda point: number(point.axes[self.along]))
                figures = self._figures(points)
                if isinstance(figures, Answer):
                    yield figures
                    return
                if len(figures) < 2:
                    yield Answer("cannot be told", f"{points[0].name} stands alone")
                    return
                xs = [number(point.axes[self.along]) for point in points]
                series.append((points[0].name, slope_of(xs, figures)))
            slopes.append(series)
        for (more, steep), (less, flat) in itertools.product(*slopes):
            words = f"exponent {steep} from {more} on against {flat} from {less} on"
            if steep.low > flat.high:
                yield Answer("holds", words)
            else:
                verdict: Verdict = "does not hold" if steep.high < flat.low else "cannot be told"
                yield Answer(verdict, words)


class WinnersDiffer(BaseClaim):
    """Winners differ where not one value of an axis leads everywhere."""

    kind: Literal["winners-differ"]
    over: str

    @property
    def own_axes(self) -> set[str]:
        return {self.over}

    def judge(self, points: Sequence[Point]) -> Answer:
        """Compare who leads in each group, where that is told."""
        leaders: dict[str, str] = {}
        for group in grouped(points, self.among, self.own_axes):
            told = [point for point in group if not isinstance(self._figures([point]), Answer)]
            ranked = sorted(told, key=lambda point: -point.figures[self.metric].value)
            if len(ranked) > 1:
                first, second = (point.figures[self.metric] for point in ranked[:2])
                if first.low > second.high:
                    leaders[ranked[0].name] = str(ranked[0].axes[self.over])
        if len(set(leaders.values())) > 1:
            return Answer(
                "holds", "; ".join(f"{who} leads at {where}" for where, who in leaders.items())
            )
        return Answer("cannot be told", f"{len(leaders)} groups have a leader that is told")
