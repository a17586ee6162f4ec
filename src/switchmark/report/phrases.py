"""Lists and ratios as parts of a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

NAMED = 4
"""The number of names to list before the rest is counted."""

_CLOSE, _LARGE = 1.5, 10
"""Ratios below the first limit have two decimals, ratios from the second limit on have no
decimals."""


def times(low: float | None, high: float | None) -> str:
    """Return the range of a ratio as text, with its low end rounded down and its high end rounded
    up."""
    if low is None:
        return "any number of times"
    least = _rounded(low, math.floor, 1)
    if float(least) <= 1 or (high or low) < _CLOSE:
        least = _rounded(low, math.floor, 2)
    if high is None:
        return f"at least {least} times"
    most = _rounded(high, math.ceil, 2 if high < _CLOSE else 1)
    if float(least) <= 1:
        return f"up to {most} times"
    return f"{least} to {most} times" if least != most else f"{least} times"


def _rounded(ratio: float, towards: Callable[[float], int], digits: int) -> str:
    digits = 0 if ratio >= _LARGE else digits
    return f"{towards(round(ratio * 10**digits, 6)) / 10**digits:.{digits}f}"


def listed(names: Sequence[str]) -> str:
    """Return some names as text, with a count of the names beyond a handful."""
    if len(names) <= NAMED + 1:
        return listed_all(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def listed_all(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
