"""Statistics of small samples: the confidence interval of the median, Holm's procedure, steady
state and drift of a series."""

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

MIN_OF_INTERVAL = 13
"""The least number of values for an interval. On a host that changes its state every few trials, an
interval from fewer values would cover the population median in less than 90 % of cases
(docs/guide/trust.md)."""

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
    """Return the 95 % confidence interval of the population median from values in the order of
    measurement; None if there are fewer than MIN_OF_INTERVAL values.

    The method is distribution-free: the ends lie between two order statistics, from the sign test
    (Hettmansperger and Sheather 1986). If neighbouring values correlate, the effective number of
    values is n (1 - r) / (1 + r), where r is the correlation of neighbours (Bayley and Hammersley
    1946).
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
    """Interpolate from the outer value, which may be infinite, to the inner value."""
    return outer if outer == inner or not part else inner + (1 - part) * (outer - inner)


@cache
def _rank(count: int) -> float:
    """Return the rank, counted from 1, of the lower end of the interval for independent values."""
    covers = [1 - 2 * _below(count, beyond) for beyond in range(count // 2 + 1)]
    # The interval from this rank covers more than the level, the next narrower interval covers
    # less. The ends are interpolated.
    rank = max(index for index in range(1, len(covers)) if covers[index] >= _LEVEL)
    more, less = covers[rank], covers[rank + 1] if rank + 1 < len(covers) else 0.0
    part = (more - _LEVEL) / (more - less)
    return rank + (count - rank) * part / (rank + (count - 2 * rank) * part)


def _correlation(values: Sequence[float]) -> float:
    """Return the correlation of neighbouring values, from 0 to 0.9; 0 if a value is not finite. The
    estimate from a short series is too low by 1/n, so 1/n is added."""
    count = len(values)
    middle = sum(values) / count
    if not math.isfinite(middle):
        return 0.0
    away = [value - middle for value in values]
    spread = sum(distance * distance for distance in away)
    if not spread:
        return 0.0
    together = sum(one * other for one, other in pairwise(away))
    return min(max(together / spread + 1 / count, 0.0), 0.9)


def _below(count: int, rank: int) -> float:
    """Return the probability that fewer than `rank` of `count` values are below the median."""
    return sum(math.comb(count, successes) for successes in range(rank)) / float(2**count)


def stepwise(odds: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for several simultaneous tests, such that by chance alone one of
    them falls below 0.05 in at most 5 % of cases (Holm 1979)."""
    adjusted, least = [1.0] * len(odds), 0.0
    for rank, index in enumerate(sorted(range(len(odds)), key=odds.__getitem__)):
        least = max(least, min(1.0, odds[index] * (len(odds) - rank)))
        adjusted[index] = least
    return adjusted


def mser_start(values: Sequence[float]) -> int:
    """Return the start of the steady part of a series by MSER-5 (White 1997); 0 if the series is
    too short.

    MSER-5 chooses the start with the lowest standard error of the mean over batches of five values,
    and the earliest start if several are equal. It omits at most half of the series.

    For `left` batches with sum s and sum of squares q, the squared error is (left * q - s * s) /
    left**3. Counts are integers, so the computation is exact.
    """
    count = len(values) // _BATCH
    if count < _MIN_BATCHES:
        return 0
    batches = [sum(values[_BATCH * index : _BATCH * (index + 1)]) for index in range(count)]
    total, squares = sum(batches), sum(value * value for value in batches)
    best, best_error, best_left = 0, count * squares - total * total, count
    for start, left_out in enumerate(batches[: count // 2], 1):
        left = count - start
        total, squares = total - left_out, squares - left_out * left_out
        error = left * squares - total * total
        if error * best_left**3 < best_error * left**3:
            best, best_error, best_left = start, error, left
    return best * _BATCH


def is_drifting(values: Sequence[float]) -> bool:
    """Return whether repeats drift: from first to last they rise or fall by at least a tenth of
    their median (median slope, Theil 1950), and Kendall's tau is significant (p below 0.01).

    False for fewer than six repeats, which cannot reach that level.
    """
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
    """Return the probability that values in random order have at least this excess of rising over
    falling pairs, or the reverse (Kendall 1938). Exact for few values, by the normal distribution
    for many."""
    pairs = count * (count - 1) // 2
    if count > _COUNTED:
        spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        return math.erfc((score - 1) / spread / math.sqrt(2))
    orders = [1]  # orders of the values so far, by number of falling pairs
    for size in range(2, count + 1):
        extended = [0] * (len(orders) + size - 1)
        for falls, times in enumerate(orders):
            for further in range(size):
                extended[falls + further] += times
        orders = extended
    extreme = sum(times for falls, times in enumerate(orders) if abs(pairs - 2 * falls) >= score)
    return extreme / math.factorial(count)


def is_unstable(values: Sequence[float]) -> bool:
    """Return whether a series drifts or splits into two bands; False if the series is too short.

    A drift is a change of more than a tenth of the median from end to end, with a significant
    Kendall's tau (p below 0.001). Two bands are more than a tenth of the median apart, and the gap
    is more than four times the width of either band.
    """
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
    """Return whether the values form two bands, from the best division of the sorted values (Otsu
    1979)."""
    import numpy as np

    values = np.sort(series)
    count = len(values)
    sums = np.cumsum(values)
    below = np.arange(1, count)
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / (count - below)
    index = int(np.argmax(below * (count - below) * (high - low) ** 2))
    size = index + 1
    if min(size, count - size) < max(_SMALLEST_BAND * count, 2):
        return False
    gap = float(high[index] - low[index])
    width = max(float(values[:size].std()), float(values[size:].std()))
    return gap > _BANDS and gap > _SEPARATION * width
