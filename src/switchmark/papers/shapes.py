"""This module finds the shape of a series: how it grows, and where it breaks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from switchmark.papers.points import Figure

__all__ = ["break_of", "slope_of"]


_STRAIGHT = 1e-6
"""Of the squares, what is no more than this is no bend."""


def slope_of(xs: Sequence[float], ys: Sequence[Figure]) -> Figure:
    """Return the exponent by which `y` grows with `x`: the slope of the least-squares line through
    their logarithms, with the ends that it has if each `y` lies anywhere in its interval."""
    logs = np.log(np.asarray(xs, dtype=float))
    weights = logs - logs.mean()
    weights /= (weights**2).sum()

    def slope(values: Sequence[float]) -> float:
        return float(weights @ np.log(np.maximum(values, 1e-12)))

    low = [y.low if weight > 0 else y.high for weight, y in zip(weights, ys, strict=True)]
    high = [y.high if weight > 0 else y.low for weight, y in zip(weights, ys, strict=True)]
    return Figure(slope([y.value for y in ys]), slope(low), slope(high))


def break_of(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return the `x` at which two straight lines that meet there fit best; None below five points,
    and where two lines are no better than one."""
    if len(xs) < 5:
        return None
    x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
    constant = np.ones_like(x)

    def misfit(*columns: np.ndarray) -> float:
        matrix = np.column_stack(columns)
        solution, *_ = np.linalg.lstsq(matrix, y, rcond=None)
        return float(((y - matrix @ solution) ** 2).sum())

    straight = misfit(constant, x)
    candidates = np.linspace(x.min(), x.max(), 201)[1:-1]
    misfits = [misfit(constant, x, np.maximum(x - at, 0)) for at in candidates]
    best = int(np.argmin(misfits))
    is_bent = straight > _STRAIGHT * float((y**2).sum()) and misfits[best] < straight / 4
    return float(candidates[best]) if is_bent else None
