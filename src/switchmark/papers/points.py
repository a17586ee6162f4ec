"""Points: results of an experiment, with their position on the experiment's axes and their figures.

Points are built from records and from published values, so that the same code judges both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from pydantic import ValidationError

from switchmark.errors import UsageError
from switchmark.metrics.family import Results
from switchmark.model.axis import field_name
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.model.units import Rate

Scalar = str | int | float | None

At = dict[str, Scalar | list[Scalar]]
"""Values by axis, as in campaign files. They select the points that match on all of these axes."""

WAITING = "waiting: "
"""The beginning of the reason of a point that another host or installation can measure."""

UNABLE = "this build cannot measure it: "
"""The beginning of the reason of a point that this build cannot measure on any host."""

IMPOSSIBLE = "no build can measure it: "
"""The beginning of the reason of a point of which its experiment says so (`Impossible`)."""

LEFT_OUT = "left out by --quick"
"""The reason of a point that a quick run leaves out."""

OVERLOADED = "the load is more than it carries here"
"""The beginning of the reason of a latency at a load that the paper's host carried, and this one
does not."""

Spoiled = Literal["overcommitted", "bounded", "profiled", "loads"]
"""Causes that may spoil a comparison and may be the subject of a claim: parts shared too few CPUs,
the traffic program was the limit, a profiler ran, or loads differ as they are shares of different
maximum rates."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The record of a measured point, and all results of its run. If several runs repeat each
    other, `repeats` has one record for each run, and `record` is the first."""

    record: Record
    results: Results
    repeats: tuple[Record, ...] = ()

    @property
    def is_relative(self) -> bool:
        """Return whether its load is a share of its maximum rate."""
        return self.record.test.parsed_rate.share is not None


@dataclass(frozen=True, slots=True)
class PointFigure:
    """A value in its metric's unit with the ends of its 95 % confidence interval, which equal the
    value if there is no interval. A `bounded` figure may be greater, because the traffic program
    was the limit. If `of` names a point, the figure is relative to that point's figure, which was
    not published."""

    value: float
    low: float
    high: float
    bounded: bool = False
    of: str = ""

    def __str__(self) -> str:
        least = ">= " if self.bounded else ""
        relative = f" of {self.of}" if self.of else ""
        return f"{least}{_short(self.value, 4)}{self._ends}{relative}"

    @property
    def _ends(self) -> str:
        if self.low == self.high:
            return ""
        has_low, has_high = abs(self.low) < math.inf, abs(self.high) < math.inf
        if has_low and has_high:
            return f" [{_short(self.low)}, {_short(self.high)}]"
        if not has_low and not has_high:
            return " [unknown]"
        return f" [at least {_short(self.low)}]" if has_low else f" [at most {_short(self.high)}]"


def _short(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits, without an exponent up to a billion."""
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**9 else f"{value:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Point:
    """A point with values on the experiment's axes and figures by metric.

    A point without figures has the reason in `untold`. It is `measured` unless its figures were
    published.
    """

    axes: Mapping[str, Any]
    figures: Mapping[str, PointFigure] = field(default_factory=dict)
    untold: str = ""
    measured: Measured | None = None

    def is_at(self, at: At) -> bool:
        """Return whether the point matches on all of these axes."""
        for axis, values in at.items():
            among = values if isinstance(values, list) else [values]
            if self.axes.get(axis) not in [meaning(axis, word) for word in among]:
                return False
        return True

    def figure(self, metric: str) -> PointFigure | str:
        """Return the figure for a claim, or the reason for a missing figure."""
        if metric not in self.figures:
            return self.untold or f"{self.name} has no {metric}"
        return self.figures[metric]

    @property
    def name(self) -> str:
        """Return the values of the point in one line."""
        return " ".join("none" if value is None else str(value) for value in self.axes.values())


@lru_cache(maxsize=None, typed=True)
def meaning(axis: str, word: Scalar) -> Any:
    """Return the value of a word on an axis: `1M` is 1000000. A word that is not valid in this
    build, such as the name of a missing switch, stays a word."""
    name, text = field_name(axis), None if word in (None, "none") else str(word)
    try:
        return AXES[name].meaning(getattr(Test.model_validate({name: text}), name))
    except (ValidationError, UsageError):
        return text


def number(value: Any) -> float:
    """Return the number of a value for sorting: 12.5 for `switch:12.5`, and 0 for a word."""
    if isinstance(value, Rate):
        return value.number
    try:
        return float(str(value).rpartition(":")[2])
    except ValueError:
        return 0.0


def grouped(points: Sequence[Point], at: At, along: set[str]) -> Iterator[list[Point]]:
    """Yield the selected points in groups that differ only on the given axes."""

    def others(point: Point) -> str:
        return repr([value for axis, value in point.axes.items() if axis not in along])

    chosen = sorted((point for point in points if point.is_at(at)), key=others)
    for _, group in itertools.groupby(chosen, others):
        yield list(group)
