"""This module says what a handful of figures tell: the interval of their median, Holm's steps, the
steady part of a series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_OF_INTERVAL = 12
"""Fewer values have no interval. Where a host changes its state every few trials, that of fewer
would cover the median of their population less than 90 times in 100: docs/guide/trust.md."""

_LEVEL = 0.95
_BATCH = 5
_MIN_BATCHES = 4

_POINTS = 100
_MIN_POINTS = 10
_DRIFT = 0.10
_DRIFT_LEVEL = 0.01
_MIN_DRIFT = 6
_COUNTED = 30
_BANDS = 0.10
_SEPARATION = 4.0
_SMALLEST_BAND = 0.10


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median of the population that these values, in the order in
    which they were measured, were drawn from. None of fewer than MIN_OF_INTERVAL values.

    The ends lie between two order statistics, whatever the distribution: those of the sign test
    (Hettmansperger and Sheather 1986). Where a value is like the one before it, the values count
    for fewer: n (1 - r) / (1 + r) of them, r being the correlation of neighbours (Bayley and
    Hammersley 1946).
    """
    count, ordered = len(values), sorted(values)
    if count < MIN_OF_INTERVAL:
        return None
    middle, correlation = (count + 1) / 2, _correlation(values)
    wider = math.sqrt((1 + correlation) / (1 - correlation))
    rank = max(middle - wider * (middle - _rank(count)), 1.0)
    whole = math.floor(rank)
    part = rank - whole
    return (
        _between(ordered[whole - 1], ordered[whole], part),
        _between(ordered[-whole], ordered[-whole - 1], part),
    )


def _between(outer: float, inner: float, part: float) -> float:
    """Return what lies a part of the way from the outer value, which may be infinite, to the inner
    one."""
    return outer if outer == inner or not part else inner + (1 - part) * (outer - inner)


@cache
def _rank(count: int) -> float:
    """Return the rank, counted from 1, of the lower end of the interval of independent values."""
    covers = [1 - 2 * _below(count, beyond) for beyond in range(count // 2 + 1)]
    # The ends are between the values of this rank, which cover more, and those next to them.
    rank = max(at for at in range(1, len(covers)) if covers[at] >= _LEVEL)
    more, less = covers[rank], covers[rank + 1] if rank + 1 < len(covers) else 0.0
    part = (more - _LEVEL) / (more - less)
    return rank + (count - rank) * part / (rank + (count - 2 * rank) * part)


def _correlation(values: Sequence[float]) -> float:
    """Return the correlation of each value with the one before it, from 0 to 0.9. The estimate of
    a short series is too low by 1/n, which is added. 0 where a value is not finite."""
    count = len(values)
    middle = sum(values) / count
    if not math.isfinite(middle):
        return 0.0
    away = [value - middle for value in values]
    spread = sum(each * each for each in away)
    if not spread:
        return 0.0
    together = sum(one * other for one, other in pairwise(away))
    return min(max(together / spread + 1 / count, 0.0), 0.9)


def _below(count: int, rank: int) -> float:
    """Return how often fewer than `rank` of so many values are below the median."""
    return sum(math.comb(count, each) for each in range(rank)) / float(2**count)


def stepwise(odds: Sequence[float]) -> list[float]:
    """Return what each p of several tests comes to where they are judged at once, such that one of
    them in twenty times is below 0.05 by chance alone (Holm 1979)."""
    adjusted, least = [1.0] * len(odds), 0.0
    for rank, at in enumerate(sorted(range(len(odds)), key=odds.__getitem__)):
        least = max(least, min(1.0, odds[at] * (len(odds) - rank)))
        adjusted[at] = least
    return adjusted


def mser_start(values: Sequence[float]) -> int:
    """Return where the steady part of a series begins: MSER-5 (White 1997), the beginning that
    leaves the least standard error of the mean of batches of five; at most half of the series is
    left out; the earliest of several. 0 for a series that is too short to tell.

    Of `left` batches with the sum s and the sum of squares q, that is (left * q - s * s) / left**3.
    Counts are whole numbers, and so nothing here is rounded.
    """
    count = len(values) // _BATCH
    if count < _MIN_BATCHES:
        return 0
    batches = [sum(values[_BATCH * at : _BATCH * (at + 1)]) for at in range(count)]
    total, squares = sum(batches), sum(each * each for each in batches)
    best, best_error, best_left = 0, count * squares - total * total, count
    for start, left_out in enumerate(batches[: count // 2], 1):
        left = count - start
        total, squares = total - left_out, squares - left_out * left_out
        error = left * squares - total * total
        if error * best_left**3 < best_error * left**3:
            best, best_error, best_left = start, error, left
    return best * _BATCH


def is_drifting(values: Sequence[float]) -> bool:
    """Say whether repeats rise or fall, by a tenth of their median from the first to the last (the
    median of all slopes, Theil 1950) beyond what chance does (Kendall's tau, p below 0.01). False
    for fewer than six, of which none is that sure."""
    count = len(values)
    if count < _MIN_DRIFT:
        return False
    places = list(combinations(range(count), 2))
    rises = [values[after] - values[before] for before, after in places]
    slopes = (rise / (after - before) for rise, (before, after) in zip(rises, places, strict=True))
    if abs(median(slopes)) * (count - 1) < _DRIFT * abs(median(values)):
        return False
    up, down = sum(rise > 0 for rise in rises), sum(rise < 0 for rise in rises)
    return _order_odds(count, abs(up - down)) < _DRIFT_LEVEL


def _order_odds(count: int, score: int) -> float:
    """Return how often so many values in random order have as many more pairs in one order than in
    the other (Kendall 1938): exactly, or by the normal distribution of many."""
    pairs = count * (count - 1) // 2
    if count > _COUNTED:
        spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        return math.erfc((score - 1) / spread / math.sqrt(2))
    orders = [1]  # of the values so far, by how many of their pairs fall
    for size in range(2, count + 1):
        more = [0] * (len(orders) + size - 1)
        for falls, times in enumerate(orders):
            for further in range(size):
                more[falls + further] += times
        orders = more
    extreme = sum(times for falls, times in enumerate(orders) if abs(pairs - 2 * falls) >= score)
    return extreme / math.factorial(count)


def is_unstable(values: Sequence[float]) -> bool:
    """Say whether a series drifts, by a tenth of its median from end to end beyond what chance does
    (Kendall's tau, p below 0.001), or splits in two bands a tenth apart and four times as far as
    either is wide. False for a series that is too short to tell."""
    import numpy as np

    if len(values) < _MIN_POINTS:
        return False
    series = np.array(values, dtype=float)
    middle = float(np.median(series))
    if middle <= 0:
        return False
    joined = max(len(series) // _POINTS, 1)
    whole = series[: len(series) // joined * joined].reshape(-1, joined).mean(axis=1)
    return _drifts(whole / middle) or _splits(series / middle)


def _drifts(series: NDArray[np.float64]) -> bool:
    import numpy as np

    count = len(series)
    first, second = np.triu_indices(count, 1)
    rises = series[second] - series[first]
    across = float(np.median(rises / (second - first))) * (count - 1)
    spread = (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    return abs(across) > _DRIFT and abs(float(np.sign(rises).sum())) > 3.29 * spread


def _splits(series: NDArray[np.float64]) -> bool:
    """Return the best division of the sorted values in two (Otsu 1979)."""
    import numpy as np

    values = np.sort(series)
    count = len(values)
    sums = np.cumsum(values)
    below = np.arange(1, count)
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / (count - below)
    at = int(np.argmax(below * (count - below) * (high - low) ** 2))
    size = at + 1
    if min(size, count - size) < max(_SMALLEST_BAND * count, 2):
        return False
    gap = float(high[at] - low[at])
    width = max(float(values[:size].std()), float(values[size:].std()))
    return gap > _BANDS and gap > _SEPARATION * width
