"""This module interleaves measurements and judges what they show: ratios by pairs, their intervals,
the verdicts. It knows nothing of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["met", "missed", "not shown either way"]

TOLERANCE = 0.05
"""The share of a limit by which an interval may lie on the wrong side of it: so much separates two
quiet evenings."""

_DRAWS = 10_000
_SEED = 20240101


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval is a median and the 95 % interval in which it lies."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit is what a figure must keep: at least, or at most, so much; or a ratio of 1, from
    which it may be so far `off`."""

    side: Literal["at least", "at most", "off"]
    value: float

    def __str__(self) -> str:
        if self.side == "off":
            return f"1 +- {self.value:g}"
        return f"{'>=' if self.side == 'at least' else '<='} {self.value:g}"


def interleaved(
    rounds: int,
    slots: Mapping[str, Callable[[], float]],
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, list[float]]:
    """Measure every slot once a round; every second round in reverse order, so that neither a drift
    of the host nor a place in the round favours one of them."""
    samples: dict[str, list[float]] = {name: [] for name in slots}
    for number in range(rounds):
        names = list(slots) if number % 2 == 0 else list(slots)[::-1]
        for name in names:
            progress(f"{number + 1}/{rounds} {name}")
            samples[name].append(slots[name]())
    return samples


def ratios(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return one ratio for each pair. ValueError if nothing was measured in one of them."""
    if any(value <= 0 for value in (*a, *b)):
        raise ValueError("a pair has no ratio: nothing was measured in it")
    return [x / y for x, y in zip(a, b, strict=True)]


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median and its 95 % percentile-bootstrap interval. The draws are seeded by a
    constant: the same values always have the same interval."""
    if not values:
        raise ValueError("no values")
    array = np.asarray(values, dtype=float)
    draws = np.random.default_rng(_SEED).choice(array, (_DRAWS, len(array)))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    return Interval(float(np.median(array)), float(low), float(high))


def verdict(measured: Interval, limit: Limit) -> Verdict:
    """Return `met` if the whole interval lies on that side of the limit, give or take the
    tolerance, else `missed` if it lies on the other side; a ratio of 1 is met too by an interval
    that contains it."""
    if limit.side == "at least":
        least = limit.value * (1 - TOLERANCE)
        met, missed = measured.low >= least, measured.high < limit.value
    elif limit.side == "off":
        least, most = 1 - limit.value, 1 + limit.value
        met = measured.low <= 1 <= measured.high or least <= measured.low <= measured.high <= most
        missed = measured.high < least or measured.low > most
    else:
        most = limit.value * (1 + TOLERANCE)
        met, missed = measured.high <= most, measured.low > limit.value
    return "met" if met else "missed" if missed else "not shown either way"
