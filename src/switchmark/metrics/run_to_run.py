"""This module tells what differs between two runs that were made once each.

What changes from one run to the next (where memory lies, what the host did before, what else uses
its caches) cannot be seen within a run. It is taken to be as much as what changes from repeat to
repeat, so that a run is one draw, however many repeats it has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import median, stdev

__all__ = ["change_of_runs", "ratio_of_runs", "t_odds", "t_quantile"]

_STEPS = 400
_LEVEL = 0.95

_Change = tuple[float, float, float]
"""The ends of the 95 % interval of a change, and the odds that chance alone makes it so large."""


def ratio_of_runs(before: Sequence[float], after: Sequence[float]) -> _Change | None:
    """Return what is known of the ratio of the medians of two runs, `after` to `before`; None where
    one is not above 0."""
    one, other = median(before), median(after)
    if min(one, other) <= 0:
        return None
    error = math.hypot(_error(before) / one, _error(after) / other)
    middle = math.log(other / one)
    width = error * t_quantile(_freedom(before, after))
    odds = _odds(middle, error, _freedom(before, after))
    return math.exp(middle - width), math.exp(middle + width), odds


def change_of_runs(before: Sequence[float], after: Sequence[float]) -> _Change:
    """Return what is known of the difference of the medians of two runs, `after` less `before`."""
    middle = median(after) - median(before)
    error = math.hypot(_error(before), _error(after))
    width = error * t_quantile(_freedom(before, after))
    return middle - width, middle + width, _odds(middle, error, _freedom(before, after))


def t_odds(value: float, freedom: int) -> float:
    """Return how often Student's t is as far from 0 as this value."""
    angle = math.atan(abs(value) / math.sqrt(freedom))
    return 1 - _integral(angle, freedom) / _integral(math.pi / 2, freedom)


@cache
def t_quantile(freedom: int) -> float:
    """Return the value beyond which Student's t is one time in twenty, on either side."""
    low, high = 0.0, 20.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if t_odds(middle, freedom) > 1 - _LEVEL else (low, middle)
    return high


def _integral(angle: float, freedom: int) -> float:
    """Return the integral of a power of the cosine, which the density of t becomes, by Simpson."""
    step = angle / _STEPS
    heights = [math.cos(at * step) ** (freedom - 1) for at in range(_STEPS + 1)]
    inner = 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    return (heights[0] + inner + heights[-1]) * step / 3


def _error(values: Sequence[float]) -> float:
    """Return the standard error of a run's figure: of its repeats, and as much again as one of them
    has."""
    return stdev(values) * math.sqrt(1 + 1 / len(values))


def _freedom(before: Sequence[float], after: Sequence[float]) -> int:
    return len(before) + len(after) - 2


def _odds(middle: float, error: float, freedom: int) -> float:
    if not error:
        return float(middle == 0)
    return t_odds(middle / error, freedom)
