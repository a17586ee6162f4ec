"""This module finds the shape of a series: how it grows, and where it breaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from switchmark.metrics.difference import LEVEL
from switchmark.metrics.studentized import t_quantile

_STRAIGHT = 1e-6
"""Of the squares, what is no more than this is no bend."""

_LACKS = 4.0
"""Lines that miss the points by so many times the variance of their values do not fit them."""


def slope_weights(xs: Sequence[float]) -> list[float]:
    """Return the weights of the logarithms of `y` whose sum is the exponent by which `y` grows with
    `x`: the slope of the least-squares line through their logarithms."""
    logs = np.log(np.asarray(xs, dtype=float))
    weights = logs - logs.mean()
    return [float(weight) for weight in weights / (weights**2).sum()]


def break_of(
    xs: Sequence[float], values: Sequence[Sequence[float]]
) -> tuple[float, float, float] | None:
    """Return the `x` at which two straight lines that meet there fit the means of some values best,
    and the least and the greatest at which they fit no worse by more than chance; None below five
    points, and where two lines are no better than one."""
    if len(xs) < 5:
        return None
    x, y = np.asarray(xs, dtype=float), np.array([fmean(each) for each in values])
    constant = np.ones_like(x)

    def misfit(*columns: np.ndarray) -> float:
        matrix = np.column_stack(columns)
        solution, *_ = np.linalg.lstsq(matrix, y, rcond=None)
        return float(((y - matrix @ solution) ** 2).sum())

    straight = misfit(constant, x)
    candidates = np.linspace(x.min(), x.max(), 201)[1:-1]
    misfits = np.array([misfit(constant, x, np.maximum(x - at, 0)) for at in candidates])
    best = int(np.argmin(misfits))
    least = float(misfits[best])
    if straight <= _STRAIGHT * float((y**2).sum()) or least >= straight / 4:
        return None
    as_good = candidates[misfits <= least + _by_chance(values, least)]
    return float(candidates[best]), float(as_good.min()), float(as_good.max())


def _by_chance(values: Sequence[Sequence[float]], least: float) -> float:
    """Return by how much chance may make the squares of a misfit greater where the lines are right:
    from what the values of a point vary by, or, where the lines miss the points by more than
    that, from what they miss them by."""
    free = len(values) - 4
    missed = least / free
    freedom = sum(len(each) - 1 for each in values)
    if not freedom:
        return t_quantile(LEVEL, free) ** 2 * missed
    means = [fmean(each) for each in values]
    squares = math.fsum(
        (value - mean) ** 2 for each, mean in zip(values, means, strict=True) for value in each
    )
    of_mean = squares / freedom * fmean(1 / len(each) for each in values)
    varies = t_quantile(LEVEL, freedom) ** 2 * of_mean
    if missed <= _LACKS * of_mean:
        return varies
    return max(varies, t_quantile(LEVEL, free) ** 2 * missed)
