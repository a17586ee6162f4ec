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
    """One figure in a chart."""

    x: float | str
    """The position on the x axis."""
    y: float
    """The position on the y axis."""
    series: str = ""
    """The series, which determines the colour."""
    panel: str = ""
    """The panel."""
    row: str = ""
    """The row of panels."""
    low: float | None = None
    """The lower end of the interval. A `published` mark is a bar from `low` to `high` if these
    differ. In a chart of curves, these are on the x axis."""
    high: float | None = None
    """The upper end of the interval."""
    ranged: bool = False
    """Whether `low` and `high` are the minimum and maximum of few repeats, not an interval."""
    doubted: bool = False
    """Whether the figure has doubts; the mark is hollow."""
    bounded: bool = False
    """Whether the figure is a lower bound; the mark has an arrow up."""
    published: bool = False
    """Whether the figure was published; the mark is a cross, a bar or an arrow."""
    at_most: bool = False
    """Whether a published figure is an upper bound; the mark is an arrow down."""
    uncertain: bool = False
    """Whether a published figure is uncertain; the mark is pale and has a question mark."""
    switch: str = ""
    """The switch that it is about; empty if it is about several, or none."""
    note: str = ""
    """Further text about the mark: verdict and doubts."""
    key: str = ""
    """The key of its test, for filters."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis."""

    title: str
    """The title with the unit in parentheses."""
    log: bool = False
    """Whether the axis is logarithmic."""
    categories: tuple[str, ...] = ()
    """The ordered values of a categorical axis."""
    percent: bool = False
    """Whether the values are shares, shown in percent."""
    zero: bool = True
    """Whether the axis starts at 0, unless it is logarithmic."""
    tail: bool = False
    """Whether a position n is the percentile with one later value in n, such as 100 for p99."""

    @property
    def unit(self) -> str:
        """Return the unit at the end of the title; empty if there is none."""
        text, _, unit = self.title.rpartition(" (")
        return unit.rstrip(")") if text else ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference value such as a line rate: a horizontal line, or one point of a line."""

    y: float
    """The value."""
    name: str
    """The name. All points of a line have the same name."""
    panel: str = ""
    """The panel."""
    x: float | str | None = None
    """The position of a point of a line; None for a horizontal line."""
    low: float | None = None
    """The lower end of the interval."""
    high: float | None = None
    """The upper end of the interval."""
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
