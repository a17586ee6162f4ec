"""The trend of a series of values: its slope with an interval, and whether a process grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.model.record import TrialResult

_MIN_VALUES = 10
_MOST_VALUES = 1000
"""The most values whose pairs are all compared; of more, neighbours are averaged first."""

_TWO_SIDED = 1.959963984540054  # the quantile of the normal distribution for 95 %
_GROWTH = 0.01
_GROWTH_KIB = 1024


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope in units per step, with its 95 % confidence interval."""

    slope: float
    low: float
    high: float

    @property
    def rises(self) -> bool:
        """Return whether the slope is above 0 with 95 % confidence."""
        return self.low > 0


def trend_of(times: Sequence[float], values: Sequence[float]) -> Slope | None:
    """Return the trend of values at ascending times: the median of the slopes of all pairs (Theil
    1950), and its interval from Kendall's statistic (Sen 1968). None for fewer than ten values."""
    import numpy as np

    if len(values) < _MIN_VALUES:
        return None
    joined = -(-len(values) // _MOST_VALUES)
    whole = len(values) // joined * joined
    x = np.array(times[:whole], dtype=float).reshape(-1, joined).mean(axis=1)
    y = np.array(values[:whole], dtype=float).reshape(-1, joined).mean(axis=1)
    first, second = np.triu_indices(len(y), 1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    count, pairs = len(y), len(slopes)
    spread = _TWO_SIDED * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((pairs - spread) / 2) - 1)
    high = min(pairs - 1, math.ceil((pairs + spread) / 2))
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


def growing(trial: TrialResult) -> dict[str, Any] | None:
    """Return the evidence that the switch's memory grew to the end of a trial; None if it did not.

    It grows if its trend is above 0 in the first and in the second half, and if the growth exceeds
    1 % of the memory and 1 MiB. A program that fills its buffers first, and then keeps its size,
    does not grow.
    """
    if trial.series is None:
        return None
    sizes = [
        (start_s, kib)
        for start_s, kib in zip(trial.series.starts_s, trial.series.switch_rss_kib, strict=False)
        if kib is not None
    ]
    half = len(sizes) // 2
    trends = [trend_of(*zip(*part, strict=True)) for part in (sizes[:half], sizes[half:]) if part]
    if len(trends) < 2 or not all(trend and trend.rises for trend in trends):
        return None
    (began_s, began), (ended_s, ended) = sizes[0], sizes[-1]
    if ended - began <= max(_GROWTH * began, _GROWTH_KIB):
        return None
    last = trends[-1]
    assert last is not None
    return {
        "rss_kib": [began, ended],
        "seconds": round(ended_s - began_s, 1),
        "kib_per_hour": [round(3600 * value, 1) for value in (last.low, last.slope, last.high)],
    }
