"""Statistical comparison of results: whether they differ, by how much, and how certainly. The
answer, the tables, `compare`, reports, `tune`, claims of papers and labs all use it.

The results compared in one answer form a family. Two results are compared round by round if they
were measured in the same rounds, else as two independent samples. Rates and times are compared by
their logarithms, shares directly. The amount is a trimmed mean: of twenty values or more, a tenth
at each end does not count, because a host that changes its state within a round moves one side of
it far away. The variance of a comparison is the mean of its own variance and the variance of all
comparisons in the family. A difference is tested against the studentized range for the number of
results in the family (Tukey, Kramer), or by Holm's procedure for planned pairs. docs/guide/trust.md
has the error rates, simulated by `make simulate`.

A difference is not claimed if background load, a bound, a different load or clock error could
explain it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean, median
from typing import Literal

from switchmark.metrics.repeats import Figure, Repeats, Round, Values
from switchmark.metrics.statistics import stepwise
from switchmark.metrics.studentized import range_odds, range_quantile, t_quantile

LEVEL = 0.03
"""A difference is claimed if chance alone would show it in less than 3 % of runs. The guide
promises 5 %: hosts that switch between two states, and unequal noise, use up the margin."""

MIN_REPEATS = 3
"""The least number of repeats on either side: fewer give no reliable variance."""

MARGIN = 0.01
"""The default share by which two figures may differ and still count as the same."""

_TRIMMED = 10
"""A trimmed mean leaves out one of so many values at each end."""

_TRIMMED_FROM = 20
"""The least number of values of which a mean is trimmed. With ten, the variance of what is left is
too uncertain: false claims rise by a fifth, and 87 in place of 96 % of differences are found."""

_MOST_REPEATS = 1000
_NOTHING = 0.01

Word = Literal["faster", "slower", "same", "undecided"]
"""The outcome for a figure. Less latency and less loss are faster."""

Reason = Literal["", "few", "zero", "load", "chance", "bound", "spoiled", "error"]
"""The reason for no outcome: too few repeats, a figure of 0, different offered loads, chance, a
worse side limited by the traffic program, doubts about a side, or clock error."""


@dataclass(frozen=True, slots=True)
class _Change:
    """The trimmed mean of `after` minus `before` on the scale of comparison."""

    middle: float
    """The trimmed mean."""
    variance: float
    """The variance of one round: that of the trimmed mean, times the number of rounds."""
    rounds: float
    """The number of rounds that both sides have."""
    freedom: float
    """The degrees of freedom of the variance."""
    fixed: float = 0.0
    """The component of the variance of the mean that more rounds do not reduce, in units of
    `variance`."""

    @property
    def share(self) -> float:
        """Return the variance of the mean in units of the variance of one round."""
        return 1 / self.rounds + self.fixed


@dataclass(frozen=True, slots=True)
class Difference:
    """The change of a figure, and whether it exceeds chance."""

    figure: Figure
    """The figure."""
    before: Repeats
    """The values of the first side."""
    after: Repeats
    """The values of the second side."""
    margin: float
    """The change that counts as the same."""
    change: float | None = None
    """The ratio of `after` to `before`, or for shares `after` minus `before`; None if it cannot be
    computed, for which `reason` says why."""
    interval: tuple[float, float] | None = None
    """Its confidence interval, simultaneous with all other comparisons of the family."""
    p: float | None = None
    """The probability that chance alone makes at least one of these comparisons as large."""
    of: int = 1
    """The number of results or planned pairs that are tested together."""
    reason: Reason = ""
    """Why the difference is undecided, or what limits its claim."""
    _rounds: Callable[[], int | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def needed(self) -> int | None:
        """Return the number of rounds that would probably decide; None if the difference is decided
        or no number of rounds would decide it."""
        if self.reason == "few":
            return MIN_REPEATS
        return self._rounds() if self.reason in ("chance", "spoiled") else None

    @property
    def are_run_by_run(self) -> bool:
        """Return whether the sides are compared run by run, so that a round is a whole run."""
        names = {round_ for round_ in self.before.rounds if isinstance(round_, str)}
        return not names.isdisjoint(self.after.rounds)

    @property
    def is_shown(self) -> bool:
        """Return whether the figures differ by more than chance."""
        return self.p is not None and self.p <= LEVEL and self.reason in ("", "bound", "spoiled")

    @property
    def word(self) -> Word:
        """Return the outcome."""
        if self._is_within_margin:
            return "same"
        if self.reason or not self.is_shown:
            return "undecided"
        return "slower" if self.worse is self.after else "faster"

    @property
    def is_decided(self) -> bool:
        return self.word != "undecided"

    @property
    def is_at_least(self) -> bool:
        """Return whether the better side is only a lower bound, so the true difference may be
        larger."""
        return self.better.bound

    @property
    def amount(self) -> float:
        """Return the size of the difference: a share of `before`, or of all frames."""
        return 0.0 if self.change is None else abs(self.change - self._none)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Return the ends of the interval as relative changes: `(-0.03, 0.01)`."""
        return self.interval and (self.interval[0] - self._none, self.interval[1] - self._none)

    @property
    def times(self) -> tuple[float, float | None] | None:
        """Return the range of the ratio of the better side to the worse, with None for an unknown
        upper end. Shares have no such range."""
        if self.interval is None or self.figure.unit == "share":
            return None
        low, high = self.interval
        if (self.worse is self.after) == self.figure.more_is_better:
            low, high = 1 / high, 1 / low if low else math.inf
        return low, None if self.is_at_least or math.isinf(high) else high

    def excludes(self, amount: float) -> bool:
        """Return whether the data exclude that `after` is worse by this amount: a share of
        `before`, or of all frames.

        False if the interval reaches the amount. Also False if a figure may hide the change: the
        traffic program was the limit of `before`, or doubts say that `before` may be better, or
        `after` worse, than measured.
        """
        if self.word in ("faster", "same"):
            return True
        if self.ends is None or self.reason == "load":
            return False
        if self.before.bound or self.before.lowered or self.after.raised:
            return False
        low, high = self.ends
        error = math.hypot(
            *(_scaled_error(self.figure, side) for side in (self.before, self.after))
        )
        return (-low if self.figure.more_is_better else high) + error < amount

    @property
    def worse(self) -> Repeats:
        """Return the side with the worse figure; `before` if they are equal."""
        if self.change is None or self.change == self._none:
            return self.before
        return (
            self.after if (self.change < self._none) == self.figure.more_is_better else self.before
        )

    @property
    def better(self) -> Repeats:
        return self.before if self.worse is self.after else self.after

    @property
    def _none(self) -> float:
        return 0.0 if self.figure.unit == "share" else 1.0

    @property
    def _is_within_margin(self) -> bool:
        """Return whether the whole interval is within the margin, and no figure is a bound or
        falsified."""
        if self.ends is None or self.reason == "load":
            return False
        if any(side.bound or side.lowered or side.raised for side in (self.before, self.after)):
            return False
        return -self.margin <= self.ends[0] and self.ends[1] <= self.margin


@dataclass(frozen=True)
class Family:
    """The results that are compared in one answer by one figure, in any pair."""

    figure: Figure
    """The figure."""
    results: tuple[Repeats, ...]
    """The values of every result."""
    margin: float | None = None
    """The share by which two figures may differ and still count as the same; None for the
    default."""
    looks: int = 1
    """The number of times that the results may be tested. Chance may produce a claim each time, so
    each test gets an equal share of the level (Bonferroni)."""
    _pairs: dict[tuple[int, int], Difference] = field(default_factory=dict, repr=False)

    def difference(self, before: int, after: int) -> Difference:
        """Return the difference of the result at index `after` from that at index `before`."""
        if (before, after) not in self._pairs:
            self._pairs[before, after] = self._compared(before, after)
        return self._pairs[before, after]

    def level(self, index: int, comparisons: int = 1) -> tuple[float, float] | None:
        """Return the confidence interval of one result's trimmed mean, as one of `comparisons`
        results that are tested together (Bonferroni). None if there are too few values, or a value
        is 0 on a logarithmic scale."""
        side = self.results[index]
        if _lacking(self.figure, side):
            return None
        result, count = _trimmed(_scaled(self.figure, side.values)), len(self._usable)
        spread = (result.variance + self._spread) / 2 if count > 1 else result.variance
        freedom = result.freedom * (2 * (count - 1) / count if count > 1 else 1)
        width = t_quantile(LEVEL / self.looks / comparisons, max(1.0, freedom)) * math.sqrt(
            spread / len(side.values)
        )
        return (
            _unscaled(self.figure, result.mean - width),
            _unscaled(self.figure, result.mean + width),
        )

    @cached_property
    def _spread(self) -> float:
        """Return the mean variance of a result's values."""
        return fmean(
            _trimmed(_scaled(self.figure, result.values)).variance for result in self._usable
        )

    def _compared(self, before: int, after: int) -> Difference:
        def odds(change: _Change) -> tuple[float, float]:
            pooled = self._pooled(change)
            ratio = _ratio(change, pooled.variance)
            root = range_quantile(LEVEL / self.looks, pooled.means, pooled.freedom) / math.sqrt(2)
            return range_odds(ratio * math.sqrt(2), pooled.means, pooled.freedom), root

        def needed(change: _Change) -> tuple[_Change, int, float]:
            pooled = self._pooled(change)
            factor = 2 * (pooled.means - 1) / pooled.means
            return replace(change, variance=pooled.variance), pooled.means, factor

        sides = self.results[before], self.results[after]
        margin = _margin(self.figure, self.margin)
        level = LEVEL / self.looks
        difference = _difference(
            self.figure, sides, margin, False, self._count, odds, needed, level
        )
        if difference.p is None:
            return difference
        return replace(difference, p=min(1.0, self.looks * difference.p))

    @cached_property
    def _usable(self) -> list[Repeats]:
        return [result for result in self.results if not _lacking(self.figure, result)]

    @cached_property
    def _count(self) -> int:
        return max(2, len(self._usable))

    @cached_property
    def _variance(self) -> float:
        """Return the mean variance of one round over all comparisons."""
        count = len(self._usable)
        if rounds := _rounds_of_all(self._usable):
            # The mean over all pairs, without the pairs: a report may have 75,000 of them.
            rows = [
                dict(zip(result.rounds, _scaled(self.figure, result.values), strict=True))
                for result in self._usable
            ]
            middles = {round_: fmean(row[round_] for row in rows) for round_ in rounds}
            around = [
                _variance_of([row[round_] - middles[round_] for round_ in rounds]) for row in rows
            ]
            return 2 * math.fsum(around) / (count - 1)
        if sum(any(round_ is not None for round_ in each.rounds) for each in self._usable) <= 1:
            return 2 * self._spread if count > 1 else 0.0  # no pair has rounds to compare
        pairs = combinations(self._usable, 2)
        return fmean(_change(self.figure, *pair, False).variance for pair in pairs)

    def _pooled(self, change: _Change) -> _Pooled:
        count = self._count
        together = (change.variance + self._variance) / 2 if count > 2 else change.variance
        return _Pooled(together, count, change.freedom * 2 * (count - 1) / count)


@dataclass(frozen=True, slots=True)
class _Pooled:
    variance: float
    means: int
    freedom: float


def differences(
    figure: Figure,
    sides: Sequence[tuple[Repeats, Repeats]],
    margin: float | None = None,
    two_runs: Sequence[bool] = (),
) -> list[Difference]:
    """Return the differences of planned pairs of results by one figure, tested together (Holm
    1979). `two_runs` says for each pair whether its sides come from two separate runs; by default
    they do not."""
    apart = list(two_runs or [False] * len(sides))
    first = [
        _planned(figure, side, margin, two, 1, 1) for side, two in zip(sides, apart, strict=True)
    ]
    odds = [difference.p for difference in first if difference.p is not None]
    comparisons = max(1, len(odds))
    # The rank of a pair is the number of pairs tested with it.
    order = sorted(odds)
    adjusted = iter(stepwise(odds))
    judged = []
    for side, two, before in zip(sides, apart, first, strict=True):
        if before.p is None:
            judged.append(before)
            continue
        left = comparisons - order.index(before.p)
        difference = _planned(figure, side, margin, two, left, comparisons)
        p = next(adjusted)
        reason: Reason = difference.reason
        if reason in ("", "chance"):
            reason = "" if p <= LEVEL else "chance"
        judged.append(replace(difference, p=p, reason=reason))
    return judged


def _planned(
    figure: Figure,
    sides: tuple[Repeats, Repeats],
    margin: float | None,
    two_runs: bool,
    left: int,
    comparisons: int,
) -> Difference:
    """Return a difference as one of `left` pairs that are tested together."""

    def odds(change: _Change) -> tuple[float, float]:
        ratio = _ratio(change, change.variance) * math.sqrt(2)
        root = range_quantile(LEVEL / left, 2, change.freedom) / math.sqrt(2)
        return range_odds(ratio, 2, change.freedom), root

    def needed(change: _Change) -> tuple[_Change, int, float]:
        return change, 2, 1.0

    return _difference(
        figure, sides, _margin(figure, margin), two_runs, comparisons, odds, needed, LEVEL / left
    )


# --- one pair --------------------------------------------------------------------------------


def _difference(
    figure: Figure,
    sides: tuple[Repeats, Repeats],
    margin: float,
    two_runs: bool,
    comparisons: int,
    odds: Callable[[_Change], tuple[float, float]],
    needed: Callable[[_Change], tuple[_Change, int, float]],
    level: float = LEVEL,
) -> Difference:
    """Return the difference of two sides.

    `odds` returns for a change the p-value and the half-width of its interval in standard errors.
    `needed` returns the change with its known variance, the number of means, and the ratio of
    degrees of freedom to rounds.
    """
    before, after = sides
    difference = Difference(figure, before, after, margin, of=comparisons)
    reason = _lacking(figure, before) or _lacking(figure, after)
    if reason:
        return replace(difference, reason=reason, change=_plain(figure, before, after))
    change = _change(figure, before, after, two_runs)

    def rounds_for(middle: float) -> Callable[[], int | None]:
        within = _scaled_margin(figure, margin)
        return lambda: _rounds(*needed(change), abs(middle), within, level)

    p, root = odds(change)
    width = root * math.sqrt(needed(change)[0].variance * change.share)
    difference = Difference(
        figure,
        before,
        after,
        margin,
        change=_unscaled(figure, change.middle),
        interval=(
            _unscaled(figure, change.middle - width),
            _unscaled(figure, change.middle + width),
        ),
        p=p,
        of=comparisons,
        _rounds=rounds_for(change.middle),
    )
    reason = "" if p <= level else "chance"
    if not _same_load(before, after):
        reason = "load"
    elif not reason:
        reason = _what_else(difference, figure, change, width, two_runs)
    if reason == "spoiled":
        left = _left(difference, figure, two_runs)
        # More rounds help only against the part that background load does not explain.
        decided = rounds_for(left) if left is not None and left * change.middle > 0 else None
        difference = replace(difference, _rounds=decided or (lambda: None))
    return replace(difference, reason=reason) if reason else difference


def _what_else(
    difference: Difference, figure: Figure, change: _Change, width: float, two_runs: bool
) -> Reason:
    """Return the cause other than chance that may explain a difference."""
    if difference.worse.bound:
        return "bound"
    if difference.better.raised:
        return "spoiled"
    if difference.worse.lowered:
        left = _left(difference, figure, two_runs)
        if left is None or left * change.middle <= 0 or abs(left) <= width:
            return "spoiled"
    error = math.hypot(
        *(_scaled_error(figure, side) for side in (difference.before, difference.after))
    )
    return "error" if error and abs(change.middle) - width <= error else ""


def _left(difference: Difference, figure: Figure, two_runs: bool) -> float | None:
    """Return the change that remains when both sides get back the CPU time that other work took
    from them; None if the size of that load is not known, or the better side is too good."""
    if difference.better.raised or not difference.worse.best:
        return None
    before, after = (
        replace(side, values=side.best or side.values)
        for side in (difference.before, difference.after)
    )
    return _change(figure, before, after, two_runs).middle


def _lacking(figure: Figure, side: Repeats) -> Reason:
    if len(side.values) < MIN_REPEATS:
        return "few"
    return "zero" if figure.unit != "share" and max(side.values) <= 0 else ""


def _plain(figure: Figure, before: Repeats, after: Repeats) -> float | None:
    """Return the change of two sides without a test."""
    if before.middle is None or after.middle is None:
        return None
    if figure.unit == "share":
        return after.middle - before.middle
    return after.middle / before.middle if before.middle else None


def _same_load(before: Repeats, after: Repeats) -> bool:
    """Return whether both sides had the same offered load, as far as it is known."""
    if before.offered is None or after.offered is None:
        return before.offered is after.offered
    return math.isclose(before.offered, after.offered, rel_tol=0.005)


def _rounds_of_all(results: Sequence[Repeats]) -> tuple[Round, ...]:
    """Return the rounds of results that are compared round by round in every pair, all values of
    which count; empty if there is another pair, or none."""
    if len(results) < 2:
        return ()
    first = results[0].rounds
    rounds = set(first)
    if None in rounds or _cut(len(first)):
        return ()
    same = all(len(each.rounds) == len(rounds) == len({*each.rounds} & rounds) for each in results)
    return first if same else ()


def _change(figure: Figure, before: Repeats, after: Repeats, two_runs: bool) -> _Change:
    one, other = _scaled(figure, before.values), _scaled(figure, after.values)
    known_rounds = [round_ for round_ in after.rounds if round_ is not None]
    common = [round_ for round_ in before.rounds if round_ is not None and round_ in known_rounds]
    if not two_runs and len(common) >= max(MIN_REPEATS, 0.8 * min(len(one), len(other))):
        first = dict(zip(before.rounds, one, strict=True))
        second = dict(zip(after.rounds, other, strict=True))
        changes = _trimmed([second[round_] - first[round_] for round_ in common])
        return _Change(changes.mean, changes.variance, len(common), changes.freedom)
    was, became = _trimmed(one), _trimmed(other)
    middle = became.mean - was.mean
    if two_runs:
        # A run is one sample of the variation from run to run, which is assumed to equal the
        # variation from repeat to repeat, that of the rare repeats included.
        freedom = float(len(one) + len(other) - 2)
        whole = _variance_of(one) + _variance_of(other)
        mean = (
            (_variance_of(one) / len(one) + _variance_of(other) / len(other)) / whole
            if whole
            else 1.0
        )
        return _Change(middle, whole, 1 / mean, freedom, fixed=1.0)
    shares = was.variance / len(one), became.variance / len(other)
    whole = was.variance + became.variance
    if not whole:
        return _Change(middle, 0.0, min(len(one), len(other)), 2.0)
    # Welch's degrees of freedom for unequal variances, rounded down to halves because each number
    # has a table in the cache.
    freedom = sum(shares) ** 2 / (shares[0] ** 2 / was.freedom + shares[1] ** 2 / became.freedom)
    freedom = max(1.0, math.floor(2 * freedom) / 2)
    return _Change(middle, whole, whole / sum(shares), freedom)


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """A trimmed mean, and how sure it is (Yuen 1974)."""

    mean: float
    variance: float
    """The variance of the mean, times the number of all values."""
    freedom: int
    """The degrees of freedom of the variance."""


def _trimmed(values: Sequence[float]) -> _Trimmed:
    """Return the mean without the greatest and the least values, if there are enough values."""
    count = len(values)
    cut = _cut(count)
    kept = sorted(values)[cut : count - cut]
    drawn_in = [kept[0]] * cut + kept + [kept[-1]] * cut
    variance = _variance_of(drawn_in) * (count / len(kept)) ** 2
    return _Trimmed(fmean(kept), variance, len(kept) - 1)


def _cut(count: int) -> int:
    """Return how many of so many values a trimmed mean leaves out at each end."""
    return count // _TRIMMED if count >= _TRIMMED_FROM else 0


def _variance_of(values: Sequence[float]) -> float:
    """Return the sample variance. `statistics.variance` uses fractions and takes a hundred times as
    long."""
    middle = fmean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _ratio(change: _Change, spread: float) -> float:
    """Return a change in units of its standard error."""
    if not change.middle:
        return 0.0
    error = math.sqrt(spread * change.share)
    return abs(change.middle) / error if error else math.inf


def _rounds(
    change: _Change, means: int, factor: float, middle: float, margin: float, level: float
) -> int | None:
    """Return the number of rounds after which a difference of this size, or equality within the
    margin, would probably be decided."""
    # The width after more rounds is random: in five of six runs it stays below this reserve.
    reserve = 1.15
    count = int(change.rounds)
    while count < _MOST_REPEATS:
        count += max(1, count // 12)
        kept = count - 2 * _cut(count)
        root = range_quantile(level, means, factor * (kept - 1)) / math.sqrt(2)
        width = reserve * root * math.sqrt(change.variance * (1 / count + change.fixed))
        if width < middle or middle + width < margin:
            return count
    return None


# --- scales ----------------------------------------------------------------------------------


def _scaled(figure: Figure, values: Values) -> Values:
    """Return values on the scale of the comparison. A trial without received frames among others
    counts as a hundredth of their median, because 0 has no logarithm."""
    if figure.unit == "share":
        return values
    least = _NOTHING * median(value for value in values if value > 0)
    return tuple(math.log(max(value, least)) for value in values)


def _unscaled(figure: Figure, change: float) -> float:
    return change if figure.unit == "share" else math.exp(min(change, 700.0))


def _scaled_margin(figure: Figure, margin: float) -> float:
    return margin if figure.unit == "share" else math.log1p(margin)


def _scaled_error(figure: Figure, side: Repeats) -> float:
    if not side.error or figure.unit == "share" or not side.middle:
        return side.error
    return math.log1p(side.error / side.middle)


def _margin(figure: Figure, margin: float | None) -> float:
    if margin is not None:
        return margin
    return 0.0 if figure.unit == "share" else MARGIN
