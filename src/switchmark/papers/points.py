"""A point is one result of an experiment: its place on the experiment's axes, and its figures.

Points are made of records and of published values alike, so that the same code judges both.
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
"""Values by axis, as campaign files write them: the points that have one of them on each axis."""

Spoiled = Literal["overcommitted", "bounded"]
"""What may spoil a comparison and be the subject of a claim: parts shared too few CPUs, or the
traffic program was the limit."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A point that was measured has its record, which is one of all the results of its run."""

    record: Record
    results: Results

    @property
    def is_relative(self) -> bool:
        """Say whether its load is a share of what it can do at most."""
        return self.record.test.parsed_rate.share is not None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure is a value in its metric's unit, and the ends of its 95 % interval: the value itself
    where there is none. One that is `bounded` may be greater: the traffic program was the
    limit."""

    value: float
    low: float
    high: float
    bounded: bool = False

    def __str__(self) -> str:
        return f"{'>= ' if self.bounded else ''}{_short(self.value, 4)}{self._ends}"

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
    """Write a number with so many digits, and without an exponent where it is thousands."""
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**9 else f"{value:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Point:
    """A point has values on the experiment's axes and figures by metric. Without any it is
    `untold`, and says why. It is `measured` unless its figures were published."""

    axes: Mapping[str, Any]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    untold: str = ""
    measured: Measured | None = None

    def is_at(self, at: At) -> bool:
        """Say whether the point has one of the values on each of these axes."""
        for axis, words in at.items():
            among = words if isinstance(words, list) else [words]
            if self.axes.get(axis) not in [meaning(axis, word) for word in among]:
                return False
        return True

    def figure(self, metric: str) -> Figure | str:
        """Return the figure by which a claim is judged, or why there is none."""
        if metric not in self.figures:
            return self.untold or f"{self.name} has no {metric}"
        return self.figures[metric]

    @property
    def name(self) -> str:
        """Return the values of the point in one line."""
        return " ".join("none" if value is None else str(value) for value in self.axes.values())


@lru_cache(maxsize=None, typed=True)
def meaning(axis: str, word: Scalar) -> Any:
    """Return what a word means on an axis: `1M` is 1000000. A word that is no value in this build,
    such as the name of a switch that it lacks, means itself."""
    name, text = field_name(axis), None if word in (None, "none") else str(word)
    try:
        return AXES[name].meaning(getattr(Test.model_validate({name: text}), name))
    except (ValidationError, UsageError):
        return text


def number(value: Any) -> float:
    """Return the number that places a value on its axis: 12.5 of `switch:12.5`; 0 for a word."""
    if isinstance(value, Rate):
        return value.number
    try:
        return float(str(value).rpartition(":")[2])
    except ValueError:
        return 0.0


def grouped(points: Sequence[Point], at: At, along: set[str]) -> Iterator[list[Point]]:
    """Yield the points at some values in groups that differ only along the given axes."""

    def others(point: Point) -> str:
        return repr([value for axis, value in point.axes.items() if axis not in along])

    chosen = sorted((point for point in points if point.is_at(at)), key=others)
    for _, group in itertools.groupby(chosen, others):
        yield list(group)
