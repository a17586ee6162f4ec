"""A chart independent of its drawing: marks with intervals on two scales, with text. The HTML
report and the figures for papers are drawn from the same chart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["lines", "bars", "points", "curves", "boxes", "stacks", "heat"]
"""Lines through points; bars; points alone; curves of many points without marks; box plots over the
values of the trials; bars stacked by series; a heat map."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One figure in a chart, with the ends of its interval.

    `series` determines the colour, and `panel` the panel. A `doubted` mark is hollow, and a
    `bounded` mark has an arrow up. A `published` mark is a cross, a bar from `low` to `high` if
    these differ, or an arrow: up if it is `bounded`, down if it is `at_most`. An `uncertain`
    published mark is pale and has a question mark.
    """

    x: float | str
    y: float
    series: str = ""
    panel: str = ""
    row: str = ""
    low: float | None = None
    high: float | None = None
    ranged: bool = False
    """Whether `low` and `high` are the minimum and maximum of few repeats, not an interval."""
    doubted: bool = False
    bounded: bool = False
    published: bool = False
    at_most: bool = False
    uncertain: bool = False
    switch: str = ""
    """The switch that it is about; empty if it is about several, or none."""
    note: str = ""
    """Further text about the mark: verdict and doubts."""
    key: str = ""
    """The key of its test, for filters."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis with a title and its unit. `categories` are the ordered values of a categorical
    axis."""

    title: str
    log: bool = False
    categories: tuple[str, ...] = ()
    percent: bool = False
    zero: bool = True
    """Whether the axis starts at 0, unless it is logarithmic."""
    tail: bool = False
    """Whether a position n is the percentile with one later value in n, such as 100 for p99."""

    @property
    def unit(self) -> str:
        """Return the unit at the end of the title; empty if there is none."""
        words, _, unit = self.title.rpartition(" (")
        return unit.rstrip(")") if words else ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference value such as a line rate, with the ends of its interval: a horizontal line, or
    with `x` one point of a line. All points of a line have the same name."""

    y: float
    name: str
    panel: str = ""
    x: float | str | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    """The unit of `y`."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: a title, an alternative text (`says`), and marks in the order of the series.

    Raises ValueError for a reference in another unit than the y axis, and for a diagonal between
    axes with different units: such a line would show nothing.
    """

    name: str
    title: str
    says: str
    kind: Kind
    x: Scale
    y: Scale
    marks: tuple[Mark, ...]
    series: str = ""
    """The meaning of the series, such as `switch`."""
    panels: str = ""
    """The meaning of the panels."""
    rows: str = ""
    """The meaning of the rows of panels."""
    references: tuple[Reference, ...] = ()
    diagonal: bool = False
    """Whether to draw the line `y` = `x`."""
    second: tuple[Mark, ...] = field(default=())
    """Marks on a second scale on the right."""
    y2: Scale | None = None
    """The scale of `second`."""
    note: str = ""
    """A further remark on the marks."""
    along: bool = False
    """Whether it shows a metric along a numeric axis."""
    order: tuple[str, ...] = ()
    """The names of series and panels in order; those that are missing follow in natural order."""

    def __post_init__(self) -> None:
        for reference in self.references:
            if reference.unit != self.y.unit:
                raise ValueError(
                    f"{self.name}: the reference {reference.name} is in {reference.unit or 'none'},"
                    f" and the y axis in {self.y.unit or 'none'}"
                )
        if self.diagonal and (self.x.categories or self.x.unit != self.y.unit):
            raise ValueError(
                f"{self.name}: a diagonal needs the same unit on both axes, not"
                f" {self.x.unit or 'none'} and {self.y.unit or 'none'}"
            )

    def series_names(self) -> list[str]:
        """Return the distinct names of the series in order."""
        return self._in_order(mark.series for mark in self.marks)

    def panel_names(self) -> list[str]:
        """Return the distinct names of the panels in order."""
        return self._in_order(mark.panel for mark in self.marks)

    def _in_order(self, names: Iterable[str]) -> list[str]:
        ranks = {name: rank for rank, name in enumerate(self.order)}
        return sorted(
            dict.fromkeys(names), key=lambda name: (ranks.get(name, len(ranks)), _natural(name))
        )


def _natural(text: str) -> list[tuple[float, str]]:
    """Return a sort key that puts `pairs 2` before `pairs 10`."""
    parts = re.split(r"([0-9.]*[0-9])", text)
    return [(float(word), "") if number % 2 else (-1.0, word) for number, word in enumerate(parts)]


def is_range(mark: Mark) -> bool:
    """Return whether a published mark is a range."""
    is_bound = mark.bounded or mark.at_most
    return mark.published and not is_bound and mark.low is not None and mark.low != mark.high


def spans(marks: Sequence[Mark]) -> bool:
    """Return whether some of these marks have an interval."""
    return any(mark.low is not None and mark.low != mark.high for mark in marks)
