"""The distribution of the studentized range: the spread of several means by chance alone (Tukey
1949). For two means it is Student's t.

numpy integrates it on grids. Probabilities are accurate to 1e-5, and the tests compare them with
published tables.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WIDEST = 40.0
"""The upper limit of a range in standard deviations."""

_FARTHEST = 1e6
_LEAST = 1e-300
_PLACES = 40
"""The places with known odds for each power of e of the value; between them they are
interpolated."""


def range_odds(value: float, means: int, freedom: float) -> float:
    """Return the probability that the range of several means, divided by an estimate of their
    standard error with `freedom` degrees of freedom, is at least `value`."""
    if value >= _FARTHEST:
        return 0.0
    if value <= 0:
        return 1.0
    place = math.log1p(value) * _PLACES
    first = int(place)
    low, high = (_log_odds(known, means, freedom) for known in (first, first + 1))
    return math.exp(low + (high - low) * (place - first))


@lru_cache(maxsize=4096)
def range_quantile(odds: float, means: int, freedom: float) -> float:
    """Return the value that the studentized range exceeds with this probability."""
    low, high = 0.0, 4.0
    while range_odds(high, means, freedom) > odds:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if range_odds(middle, means, freedom) > odds else (low, middle)
    return high


def t_quantile(odds: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's t."""
    return range_quantile(odds, 2, freedom) / math.sqrt(2)


@lru_cache(maxsize=65536)
def _log_odds(place: int, means: int, freedom: float) -> float:
    """Return the logarithm of the odds at a place, at equal steps of log(1 + value). A quantile
    needs a few of the 554 places."""
    import numpy as np

    scales, weights = _scales(freedom)
    widths, below = _ranges(means)
    value = math.expm1(place / _PLACES)
    above = np.interp(value * scales, widths, 1.0 - below, right=0.0)
    return math.log(max(float(weights @ above), _LEAST))


@lru_cache(maxsize=256)
def _scales(freedom: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ratios of the estimated to the true standard deviation, with their weights."""
    import numpy as np

    # The grid is logarithmic: with few degrees of freedom, small ratios dominate.
    logs = np.linspace(-15.0, 2.5, 2501)
    scales = np.exp(logs)
    density = freedom * logs - freedom * scales * scales / 2
    weights = np.exp(density - density.max())
    return scales, weights / weights.sum()


@lru_cache(maxsize=256)
def _ranges(means: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return widths, and the probability that the range of several normal values is below each
    width."""
    import numpy as np

    points, step = np.linspace(-9.0, 9.0, 1201, retstep=True)
    density = np.exp(-points * points / 2) / math.sqrt(2 * math.pi)
    normal = np.array([0.5 * math.erfc(-point / math.sqrt(2)) for point in points.tolist()])
    widths = np.concatenate((np.linspace(0.0, 14.0, 1401), [_WIDEST]))
    below = np.empty(len(widths))
    for place, width in enumerate(widths.tolist()):
        between = normal - np.interp(points - width, points, normal)
        below[place] = means * float(density @ between ** (means - 1)) * step
    return widths, np.minimum(below, 1.0)
