"""The shape of a series: its growth exponent and its knee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from switchmark.metrics.difference import LEVEL
from switchmark.metrics.studentized import t_quantile

_STRAIGHT = 1e-6
"""The share of the squares up to which a misfit is negligible and a series counts as straight."""

_LACKS = 4.0
"""The ratio of the misfit to the variance of the values above which two lines do not fit."""


def slope_weights(xs: Sequence[float]) -> list[float]:
    """Return the weights of the logarithms of `y` whose sum is the growth exponent: the slope of
    the least-squares line through the logarithms of `x` and `y`."""
    logs = np.log(np.asarray(xs, dtype=float))
    weights = logs - logs.mean()
    return [float(weight) for weight in weights / (weights**2).sum()]


def break_of(
    xs: Sequence[float], values: Sequence[Sequence[float]]
) -> tuple[float, float, float] | None:
    """Return the `x` of the knee at which two connected straight lines best fit the means of the
    values, with the lowest and the highest `x` at which they fit equally well within chance.

    None if there are fewer than five points, or if two lines fit hardly better than one line.
    """
    if len(xs) < 5:
        return None
    x, y = np.asarray(xs, dtype=float), np.array([fmean(repeats) for repeats in values])
    constant = np.ones_like(x)

    def misfit(*columns: np.ndarray) -> float:
        matrix = np.column_stack(columns)
        solution, *_ = np.linalg.lstsq(matrix, y, rcond=None)
        return float(((y - matrix @ solution) ** 2).sum())

    straight = misfit(constant, x)
    candidates = np.linspace(x.min(), x.max(), 201)[1:-1]
    misfits = np.array(
        [misfit(constant, x, np.maximum(x - candidate, 0)) for candidate in candidates]
    )
    best = int(np.argmin(misfits))
    least = float(misfits[best])
    if straight <= _STRAIGHT * float((y**2).sum()) or least >= straight / 4:
        return None
    as_good = candidates[misfits <= least + _by_chance(values, least)]
    return float(candidates[best]), float(as_good.min()), float(as_good.max())


def _by_chance(values: Sequence[Sequence[float]], least: float) -> float:
    """Return by how much chance may increase the squared misfit of the right lines.

    The estimate comes from the variance of the values at each point. If the lines miss the points
    by far more than that, or if points have a single value, it comes from the misfit.
    """
    free = len(values) - 4
    missed = least / free
    freedom = sum(len(repeats) - 1 for repeats in values)
    if not freedom:
        return t_quantile(LEVEL, free) ** 2 * missed
    means = [fmean(repeats) for repeats in values]
    squares = math.fsum(
        (value - mean) ** 2
        for repeats, mean in zip(values, means, strict=True)
        for value in repeats
    )
    of_mean = squares / freedom * fmean(1 / len(repeats) for repeats in values)
    varies = t_quantile(LEVEL, freedom) ** 2 * of_mean
    if missed <= _LACKS * of_mean:
        return varies
    return max(varies, t_quantile(LEVEL, free) ** 2 * missed)
