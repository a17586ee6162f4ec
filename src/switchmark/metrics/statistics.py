"""This module says what a handful of figures tell: intervals by the bootstrap, differences, the
steady part.

All draws are seeded by a constant, so that a record always yields the same numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "change_interval",
    "difference_p",
    "is_unstable",
    "least_p",
    "median_interval",
    "mser_start",
    "ratio_interval",
    "stepwise",
]

_DRAWS = 10_000
_DIVISIONS = 20_000
_BATCH = 5
_MIN_BATCHES = 4

_POINTS = 100
_MIN_POINTS = 10
_DRIFT = 0.10
_BANDS = 0.10
_SEPARATION = 4.0
_SMALLEST_BAND = 0.10


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, by the percentile bootstrap (Efron 1979)."""
    import numpy as np

    if len(values) % 2 == 0:
        low, high = np.percentile(_medians(values), (2.5, 97.5))
        return float(low), float(high)
    # The median of an odd number is one of them: which, only their order says.
    order = sorted(range(len(values)), key=values.__getitem__)
    places = _median_places(tuple(order))
    low, high = (_between(values[order[a]], values[order[b]], at) for (a, b), at in places)
    return low, high


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the ratio of the medians, `after` to `before`; None where that
    may be zero."""
    import numpy as np

    base = _medians(before, 1)
    if not (base > 0).all():
        return None
    low, high = np.percentile(_medians(after, 2) / base, (2.5, 97.5))
    return float(low), float(high)


def change_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the difference of the medians, `after` less `before`."""
    import numpy as np

    low, high = np.percentile(_medians(after, 2) - _medians(before, 1), (2.5, 97.5))
    return float(low), float(high)


def difference_p(before: Sequence[float], after: Sequence[float]) -> float:
    """Return how often chance alone sets the means as far apart as they are: a permutation test,
    two-sided, of all divisions of the values, or of 10,000 where there are very many. Three values
    against three never come below 0.1."""
    import numpy as np

    pooled = np.array([*before, *after], dtype=float)
    count, split = len(pooled), len(before)
    whole = pooled.sum()

    def apart(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        differences: NDArray[np.float64] = np.abs(sums / split - (whole - sums) / (count - split))
        return differences

    # What differs by less than this differs by rounding alone.
    least = apart(np.array([np.array(before, dtype=float).sum()]))[0] - 1e-9 * abs(whole) / count
    if math.comb(count, split) <= _DIVISIONS:
        chosen = np.array(list(itertools.combinations(range(count), split)))
        return float((apart(pooled[chosen].sum(axis=1)) >= least).mean())
    draws = np.random.default_rng(0).permuted(np.tile(pooled, (_DRAWS, 1)), axis=1)
    return float((1 + (apart(draws[:, :split].sum(axis=1)) >= least).sum()) / (1 + _DRAWS))


def least_p(before: int, after: int) -> float:
    """Return the least that `difference_p` can say of so many values on each side."""
    divisions = math.comb(before + after, before)
    least = (2 if before == after else 1) / divisions
    return least if divisions <= _DIVISIONS else max(least, 1 / (1 + _DRAWS))


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


@lru_cache(maxsize=4096)
def _median_places(order: tuple[int, ...]) -> tuple[tuple[tuple[int, int], float], ...]:
    """Return where the ends of the interval lie: between which two of the values in order, and how
    far from the first of them."""
    import numpy as np

    ranks = np.empty(len(order))
    ranks[list(order)] = range(len(order))
    medians = np.sort(_medians(ranks.tolist())).astype(int)
    ends = []
    for share in (0.025, 0.975):
        place = share * (len(medians) - 1)
        first = int(place)
        ends.append(((int(medians[first]), int(medians[first + 1])), place - first))
    return tuple(ends)


def _between(low: float, high: float, at: float) -> float:
    return float(low + (high - low) * at if at < 0.5 else high - (high - low) * (1 - at))


def _medians(values: Sequence[float], seed: int = 0) -> Any:
    import numpy as np

    draws = np.random.default_rng(seed).choice(np.array(values, float), (_DRAWS, len(values)))
    return np.median(draws, axis=1)
