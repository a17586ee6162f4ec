"""The shape of a series: its growth exponent and its knee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from switchmark.metrics.difference import LEVEL
from switchmark.metrics.studentized import t_quantile

_STRAIGHT = 1e-6
"""The share of the squares up to which a misfit is negligible and a series counts as straight."""

_LACKS = 4.0
"""The ratio of the misfit to the variance of the values above which lines do not fit."""

_PLACES = 201
"""The places at which two lines are tried to meet."""

_FEWER = 81
"""The places at which the first and the second of three lines are tried to meet."""

BENDS = 0.1
"""The share of all changes of the slope from which on the first of three lines bends into the
second: noise bends every line a little."""

_Floats: TypeAlias = NDArray[np.float64]


def slope_weights(xs: Sequence[float]) -> list[float]:
    """Return the weights of the logarithms of `y` whose sum is the growth exponent: the slope of
    the least-squares line through the logarithms of `x` and `y`."""
    logs = np.log(np.asarray(xs, dtype=float))
    weights = logs - logs.mean()
    return [float(weight) for weight in weights / (weights**2).sum()]


def break_of(
    xs: Sequence[float], values: Sequence[Sequence[float]], of: int = 1, bends: float = BENDS
) -> tuple[float, float, float] | None:
    """Return the `x` at which connected straight lines that fit the means of the values first meet,
    with the lowest and the highest `x` at which they fit equally well within chance, as one of `of`
    series that are tested together (Bonferroni).

    There are two lines, or three. Where both fit within chance, the ends cover the places of both.
    The first two of three lines count as one if less than the share `bends` of all changes of the
    slope is between them. None if there are fewer than five points, or if lines fit hardly better
    than one line.
    """
    if len(xs) < 5:
        return None
    x, least_x, width = np.asarray(xs, dtype=float), float(min(xs)), float(max(xs) - min(xs))
    x = (x - least_x) / width  # the powers of a large x would lose digits
    y = np.array([fmean(row) for row in values])
    straight = float(_fits(x, y, np.empty((1, 0)))[0][0])
    # A line has two points: one alone could lie anywhere on it.
    second, last = (float(place) for place in np.sort(x)[[1, -2]])
    places = np.linspace(second, last, _PLACES)
    two, _ = _fits(x, y, places[:, None])
    firsts, three = _three(x, y, bends)
    of_two = float(two.min())
    best = min(of_two, float(three.min()) if len(three) else math.inf)
    if straight <= _STRAIGHT * float((y**2).sum()) or best >= straight / 4:
        return None
    noise = _Noise(values, best, len(xs) - (4 if best == of_two else 6), LEVEL / of)
    # Two lines have two places and bends less to fit with.
    as_good = places[two <= best + noise.of_place + (noise.of_line if best < of_two else 0.0)]
    also = firsts[three <= best + noise.of_place]
    every = np.concatenate((as_good, also))
    middle = places[int(np.argmin(two))] if len(as_good) else firsts[int(np.argmin(three))]
    return tuple(least_x + width * float(at) for at in (middle, every.min(), every.max()))  # type: ignore[return-value]


def _three(x: _Floats, y: _Floats, bends: float) -> tuple[_Floats, _Floats]:
    """Return the places where three lines first bend, with the least misfit at each. There are none
    with too few points: the first and the last line have two points of their own, the second has
    one."""
    nothing = np.empty(0), np.empty(0)
    if len(x) < 7:
        return nothing
    places = np.linspace(0.0, 1.0, _FEWER)[1:-1]
    until = np.searchsorted(np.sort(x), places, side="right")
    first, second = np.meshgrid(places, places, indexing="ij")
    between, after = until[None, :] - until[:, None], len(x) - until[None, :]
    allowed = (until[:, None] >= 2) & (between >= 1) & (after >= 2)
    if not allowed.any():
        return nothing
    fits, lines = _fits(x, y, np.column_stack((first[allowed], second[allowed])))
    changes = np.abs(lines[:, 2:])
    is_first = changes[:, 0] >= bends * changes.sum(axis=1)
    bend = np.where(is_first, first[allowed], second[allowed])
    best = np.array([fits[bend == place].min(initial=np.inf) for place in places])
    is_met = np.isfinite(best)
    return places[is_met], best[is_met]


def _fits(x: _Floats, y: _Floats, places: _Floats) -> tuple[_Floats, _Floats]:
    """Return the squared misfit and the coefficients of connected lines, for each row of places
    where they meet: a constant, a slope, and the change of the slope at each place."""
    base, upper = _bases(x.tobytes(), places.tobytes(), places.shape)
    along = np.einsum("rni,n->ri", base, y)
    lines = np.linalg.solve(upper, along[:, :, None])[:, :, 0]
    misfits: _Floats = ((y - np.einsum("rni,ri->rn", base, along)) ** 2).sum(axis=1)
    return misfits, lines


@lru_cache(maxsize=8)
def _bases(x: bytes, places: bytes, shape: tuple[int, int]) -> tuple[_Floats, _Floats]:
    """Return the QR factors of connected lines, for each row of places where they meet. They do not
    depend on `y`, and most series of a claim share their `x`."""
    at, meets = np.frombuffer(x), np.frombuffer(places).reshape(shape)
    matrix = np.ones((shape[0], len(at), 2 + shape[1]))
    matrix[:, :, 1] = at
    matrix[:, :, 2:] = np.maximum(at[None, :, None] - meets[:, None, :], 0.0)
    base, upper = np.linalg.qr(matrix)
    return base, upper


class _Noise:
    """By how much chance may increase the squared misfit of the right lines: for the place where
    they meet, and for a line less.

    The estimate comes from the variance of the values at each point. If the best lines miss the
    points by far more than that (`best`, with `free` degrees of freedom left), or if points have a
    single value, it comes from the misfit.
    """

    def __init__(
        self, values: Sequence[Sequence[float]], best: float, free: int, level: float
    ) -> None:
        freedom = sum(len(row) - 1 for row in values)
        means = [fmean(row) for row in values]
        squares = math.fsum(
            (value - mean) ** 2 for row, mean in zip(values, means, strict=True) for value in row
        )
        shares = fmean(1 / len(row) for row in values)
        spreads = [(squares / freedom * shares, freedom)] if freedom else []
        missed = best / max(free, 1)
        if not spreads or missed > _LACKS * spreads[0][0]:
            spreads.append((missed, max(free, 1)))
        self.of_place = max(t_quantile(level, free_of) ** 2 * spread for spread, free_of in spreads)
        # The quantile of F with two degrees of freedom in the numerator has this form.
        self.of_line = max(
            free_of * (level ** (-2 / free_of) - 1) * spread for spread, free_of in spreads
        )
