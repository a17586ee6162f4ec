"""Changes in the results of a test from night to night: which night began a new level, and how
likely chance alone would show it.

A series is judged night by night, as a nightly job sees it: a night may only use the nights before
it, so later nights never alter what was found. Each night, the last nights are compared with those
before by a two-sample t at several places, and the greatest t is compared with those of the same
nights in random order. The level of this test is `LEVEL`, so chance shows less than one change in
365 nights (`make simulate-trend` measures it, docs/guide/trend.md has the table). Neighbouring
nights that correlate count as fewer nights. Extreme nights are drawn in, so one bad night is no
change.

jumpavg, which FD.io's CSIT uses for its trends, locates a change: the division in two groups with
the shortest message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Logs = NDArray[np.float64]

LEVEL = 1 / 300
"""The probability with which chance may show a change in a single night. The nights of a year share
most of their data, so 365 of them show fewer false changes than 365 / 300."""

FEWEST = 12
"""The least number of nights that show a change: the orders of fewer nights are so few that chance
alone shows the same too often."""

_LEAST_BEFORE = 7
"""The least number of nights before a change."""

_LEAST_AFTER = 2
"""The least number of nights of a new level: one night is never a change."""

WINDOW = 90
"""The number of last nights that are compared."""

_PLACES = (2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 30, 40)
"""The numbers of last nights that are compared with those before."""

_ORDERS = 999
"""The number of random orders of the same nights."""

_LEAST = 2.6
"""The t below which the orders are not tried, because they would not reach the level."""

_DRAWN_IN = 2.5
"""Nights further from the median than this number of standard deviations are drawn in."""

_RESOLUTION = 3
"""The units of jumpavg in a standard deviation."""

_SEED = 31


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change in a series."""

    start: int
    """The index of the first night of the new level."""
    found: int
    """The index of the night whose result showed it."""
    p: float
    """The probability that chance alone shows such a change in that night."""
    kind: Literal["step", "drift"]
    """Whether steps or a straight line describe the nights better; later nights may show it."""
    amount: float
    """The change of the level when it was found, on the scale of the series."""


def changes(values: Sequence[float], level: float = LEVEL) -> list[ChangePoint]:
    """Return the changes in a series, in order. The values are on a scale on which noise does not
    depend on the level, such as the logarithms of rates.

    The changes in the first nights of a series are those of a series that ends there, except for
    their kind.
    """
    import numpy as np

    series = np.array(values, dtype=float)
    found: list[ChangePoint] = []
    first = 0
    for end in range(FEWEST, len(series) + 1):
        begin = max(first, end - WINDOW)
        change = _change(series[begin:end], begin, level)
        if change is not None:
            found.append(change)
            first = change.start
    return _with_kinds(series, found)


def _change(nights: Logs, begin: int, level: float) -> ChangePoint | None:
    """Return the change that the last of these nights shows; None if it shows none. `begin` is the
    index of the first night."""
    import numpy as np

    count = len(nights)
    places = np.array(
        [place for place in _PLACES if place <= min(count - _LEAST_BEFORE, count // 2)]
    )
    if not len(places):
        return None
    kept = _drawn_in(nights)
    ratios = _ratios(kept, places)
    best = int(ratios.argmax())
    ratio = float(ratios[best]) * _independence(kept, count - int(places[best]))
    if ratio < _LEAST:
        return None
    draw = np.random.default_rng((_SEED, begin + count))
    orders = draw.permuted(np.broadcast_to(kept, (_ORDERS, count)), axis=1)
    as_great = int((_ratios(orders, places).max(axis=-1) >= ratio - 1e-9).sum())
    p = (1 + as_great) / (_ORDERS + 1)
    if p > level:
        return None
    start = _located(kept)
    amount = float(np.median(nights[start:]) - np.median(nights[:start]))
    return ChangePoint(begin + start, begin + count - 1, p, "step", amount)


def _with_kinds(series: Logs, found: Sequence[ChangePoint]) -> list[ChangePoint]:
    """Return the changes, with those that are parts of a drift: neighbours in the same direction
    whose nights a straight line describes better than steps, by the Bayesian information
    criterion."""
    import numpy as np

    ends = [0, *(change.start for change in found), len(series)]
    kinds: list[ChangePoint] = []
    for _, group in groupby(range(len(found)), key=lambda index: found[index].amount > 0):
        indices = list(group)
        first, last = indices[0], indices[-1] + 2
        nights = _drawn_in(series[ends[first] : ends[last]])
        count, places = len(nights), np.arange(len(nights))
        line = nights - np.polyval(np.polyfit(places, nights, 1), places)
        parts = [end - ends[first] for end in ends[first + 1 : last]]
        step = np.concatenate([part - part.mean() for part in np.split(nights, parts)])
        more = 2 * len(indices) - 1  # parameters of the steps, over those of a line
        gain = count * math.log(max((line**2).sum(), 1e-24) / max((step**2).sum(), 1e-24))
        kind: Literal["step", "drift"] = "drift" if gain < more * math.log(count) else "step"
        kinds += [replace(found[index], kind=kind) for index in indices]
    return kinds


def _drawn_in(nights: Logs) -> Logs:
    """Return the nights, with extreme ones drawn in towards the median."""
    import numpy as np

    middle = float(np.median(nights))
    spread = 1.4826 * float(np.median(np.abs(nights - middle)))
    if not spread:
        return nights
    return np.clip(nights, middle - _DRAWN_IN * spread, middle + _DRAWN_IN * spread)


def _ratios(nights: Logs, places: NDArray[np.int64]) -> Logs:
    """Return the absolute two-sample t of the last nights against those before, for each number of
    last nights in `places`. The nights are the last dimension."""
    import numpy as np

    count = nights.shape[-1]
    away = nights - nights.mean(axis=-1, keepdims=True)
    sums = np.cumsum(away, axis=-1)[..., count - places - 1]
    between = sums * sums * count / (places * (count - places))
    within = (away * away).sum(axis=-1, keepdims=True) - between
    least = 1e-24 + 1e-12 * between  # nights without noise
    ratios: Logs = np.sqrt(between * (count - 2) / np.maximum(within, least))
    return ratios


def _independence(nights: Logs, start: int) -> float:
    """Return the factor by which the correlation of neighbouring nights reduces a t (Bayley and
    Hammersley 1946). A correlation that so few nights show by chance does not count."""
    left = nights.copy()
    left[:start] -= left[:start].mean()
    left[start:] -= left[start:].mean()
    squares = float((left * left).sum())
    if not squares:
        return 1.0
    correlation = float((left[1:] * left[:-1]).sum()) / squares - 1 / math.sqrt(len(left))
    correlation = min(max(correlation, 0.0), 0.9)
    return math.sqrt((1 - correlation) / (1 + correlation))


def _located(nights: Logs) -> int:
    """Return the index of the first night of the new level: of all divisions in two groups, the one
    that jumpavg describes with the fewest bits."""
    import numpy as np
    from jumpavg.bit_counting_group_list import BitCountingGroupList

    unit = float(np.median(np.abs(np.diff(nights)))) or float(np.ptp(nights)) or 1.0
    scaled = ((nights - nights.min()) / unit * _RESOLUTION + 1).tolist()

    def bits(start: int) -> float:
        groups = BitCountingGroupList(max_value=max(scaled))
        groups.append_group_of_runs(scaled[:start]).append_group_of_runs(scaled[start:])
        return float(groups.bits)

    return min(range(_LEAST_AFTER, len(scaled) - _LEAST_AFTER + 1), key=bits)


# --- states ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """The nights between two changes."""

    start: int
    """The index of the first night."""
    end: int
    """The index after the last night."""
    level: float
    """The median of the nights, on the scale of the series."""
    error: float
    """The standard error of the level."""


def states(values: Sequence[float], found: Sequence[ChangePoint]) -> list[State]:
    """Return the states that changes divide a series into."""
    ends = [0, *(change.start for change in found), len(values)]
    divided = []
    for start, end in pairwise(ends):
        nights = values[start:end]
        spread = fmean((night - median(nights)) ** 2 for night in nights)
        divided.append(State(start, end, median(nights), math.sqrt(spread / len(nights))))
    return divided


def last_good(divided: Sequence[State], *, more_is_better: bool, accepted: int = 0) -> int:
    """Return the index of the last good state: the first state, or a later one that is not worse
    than the good state before it. The state that has the night `accepted` is good."""
    good = next(index for index, state in enumerate(divided) if accepted < state.end)
    for index in range(good + 1, len(divided)):
        was, now = divided[good], divided[index]
        better = (now.level - was.level) * (1 if more_is_better else -1)
        if better > -2 * math.hypot(was.error, now.error):
            good = index
    return good
