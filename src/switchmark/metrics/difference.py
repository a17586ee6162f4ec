"""This module says how a figure of two tests differs: faster, slower, the same, or undecided.

A difference is one where three things agree: the 95 % intervals of the medians lie apart, that of
the change leaves out none at all, and a permutation test does, with all comparisons of that figure
counted (Holm). All three hold if what other work took of the test's CPUs is given back, and, of two
runs that were made once each, with what differs from run to run (`run_to_run`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from switchmark.metrics.repeats import Figure, Repeats, Values, median_interval_of
from switchmark.metrics.run_to_run import change_of_runs, ratio_of_runs
from switchmark.metrics.statistics import (
    change_interval,
    difference_p,
    least_p,
    ratio_interval,
    stepwise,
)

__all__ = ["ALPHA", "MIN_REPEATS", "Difference", "Word", "differences", "repeats_needed"]

ALPHA = 0.05
"""How often chance alone may make one difference or more, of all that are looked for at once."""

MIN_REPEATS = 4
"""Of each side: with fewer, chance alone can part them by more than one time in twenty."""

_MOST_REPEATS = 50

Word = Literal["faster", "slower", "same", "undecided"]
"""What is said of a figure. Less latency and less loss are faster."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference says how a figure changed, and whether that is more than chance.

    `change` is the ratio of the medians, `after` to `before`, or of shares the one less the other;
    `interval` is its 95 % interval, as wide as other work on the CPUs makes it. `p` is the odds of
    chance alone, `p_of_all` with all comparisons counted, which are `of` of this figure. None where
    there are too few repeats, or a 0 has no ratio. `margin` is what counts as the same.
    """

    figure: Figure
    before: Repeats
    after: Repeats
    margin: float
    change: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_of_all: float | None = None
    of: int = 1

    @property
    def needs_repeats(self) -> int | None:
        """Return how many repeats of each side could show a difference; None where there are as
        many."""
        counts = len(self.before.values), len(self.after.values)
        if min(counts) >= MIN_REPEATS and least_p(*counts) * self.of <= ALPHA:
            return None
        return repeats_needed(self.of)

    @property
    def is_told(self) -> bool:
        """Say whether a difference, had it been there, could have been shown."""
        return self.p is not None and self.needs_repeats is None

    @property
    def is_shown(self) -> bool:
        """Say whether the figures differ by more than chance and by more than other work on the
        CPUs makes, in any direction and by any amount, whoever was the limit."""
        return (
            self.interval is not None
            and self.p_of_all is not None
            and self.p_of_all <= ALPHA
            and not self.interval[0] <= self._none <= self.interval[1]
            and self._lie_apart
        )

    @property
    def word(self) -> Word:
        """Return what can be said. What may be better than its figure is not called worse."""
        if self._is_within_margin:
            return "same"
        if not self.is_shown or self._worse.bound or self._worse.disturbed:
            return "undecided"
        return "slower" if self._worse is self.after else "faster"

    @property
    def is_limited(self) -> bool:
        """Say whether the figures differ, and the traffic program was the limit of the worse."""
        return self.is_shown and self._worse.bound

    @property
    def is_disturbed(self) -> bool:
        """Say whether other work on the CPUs may be what sets the figures apart."""
        if self.is_shown:
            return self._worse.disturbed
        return _apart(self.before.values, self.after.values) and not self._lie_apart

    @property
    def is_chance(self) -> bool:
        """Say whether the figures lie apart, by no more than chance or what changes from run to
        run may make."""
        return self.is_told and not self.is_shown and self._lie_apart

    @property
    def amount(self) -> float:
        """Return by how much the medians differ: a share of `before`, or of all frames."""
        return 0.0 if self.change is None else abs(self.change - self._none)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Return the ends of the interval as changes from none: `(-0.03, 0.01)`."""
        return self.interval and (self.interval[0] - self._none, self.interval[1] - self._none)

    @property
    def _lie_apart(self) -> bool:
        """Say whether the intervals of the medians do so in their own order, with what other work
        took given back."""
        before, after = _least_apart(self.figure, self.before, self.after)
        told = median(self.after.values) - median(self.before.values)
        return _apart(before, after) and (median(after) - median(before)) * told > 0

    @property
    def _none(self) -> float:
        return 0.0 if self.figure.unit == "share" else 1.0

    @property
    def _worse(self) -> Repeats:
        return self.after if _is_worse(self.figure, self.before, self.after) else self.before

    @property
    def _is_within_margin(self) -> bool:
        """Say whether all of the interval is within the margin, of figures that are no bounds."""
        if self.ends is None or self.before.bound or self.after.bound:
            return False
        return -self.margin <= self.ends[0] and self.ends[1] <= self.margin


def differences(
    figure: Figure,
    sides: Sequence[tuple[Repeats, Repeats]],
    margin: float,
    two_runs: Sequence[bool] = (),
) -> list[Difference]:
    """Return the differences of all comparisons of one figure, which are judged at once. `two_runs`
    says of each whether its sides are runs that were made once each; none are if not given."""
    changes = [
        _change(figure, *each, two)
        for each, two in zip(sides, two_runs or [False] * len(sides), strict=True)
    ]
    odds = [change.p for change in changes]
    adjusted = iter(stepwise([p for p in odds if p is not None]))
    of = max(sum(p is not None for p in odds), 1)
    return [
        Difference(
            *(figure, *each, margin, change.middle, change.interval, change.p),
            *(None if change.p is None else next(adjusted), of),
        )
        for each, change in zip(sides, changes, strict=True)
    ]


def repeats_needed(comparisons: int) -> int:
    """Return the fewest repeats of each side by which so many comparisons at once can show a
    difference."""
    counts = range(MIN_REPEATS, _MOST_REPEATS)
    return next((n for n in counts if least_p(n, n) * comparisons <= ALPHA), _MOST_REPEATS)


def _is_worse(figure: Figure, before: Repeats, after: Repeats) -> bool:
    """Say whether the median of `after` is worse."""
    if before.middle is None or after.middle is None:
        return False
    return after.middle < before.middle if figure.unit == "pps" else after.middle > before.middle


def _least_apart(figure: Figure, before: Repeats, after: Repeats) -> tuple[Values, Values]:
    """Return the values of both sides, with what other work took given back to the worse."""
    if _is_worse(figure, before, after):
        return before.values, after.undisturbed
    return before.undisturbed, after.values


def _apart(before: Values, after: Values) -> bool:
    one, other = median_interval_of(before), median_interval_of(after)
    return bool(one and other and (one[1] < other[0] or other[1] < one[0]))


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of the medians has an interval and odds; each is None where it is not known."""

    middle: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None


def _change(figure: Figure, before: Repeats, after: Repeats, two_runs: bool) -> _Change:
    if before.middle is None or after.middle is None:
        return _Change()
    share = figure.unit == "share"
    if not share and not before.middle:
        return _Change()
    middle = after.middle - before.middle if share else after.middle / before.middle
    if min(len(before.values), len(after.values)) < MIN_REPEATS:
        return _Change(middle)
    # All that other work took is given back to the one side, then to the other.
    least = _told(share, before.undisturbed, after.values, two_runs)
    most = _told(share, before.values, after.undisturbed, two_runs)
    if least is None or most is None:
        return _Change(middle)
    apart = _least_apart(figure, before, after)
    odds = difference_p(*apart)
    if two_runs:
        told = change_of_runs(*apart) if share else ratio_of_runs(*apart)
        odds = max(odds, told[2] if told else 1.0)
    return _Change(middle, (least[0], most[1]), odds)


def _told(share: bool, before: Values, after: Values, two_runs: bool) -> tuple[float, float] | None:
    """Return the 95 % interval of a change."""
    if not two_runs:
        return change_interval(before, after) if share else ratio_interval(before, after)
    told = change_of_runs(before, after) if share else ratio_of_runs(before, after)
    return told and told[:2]
