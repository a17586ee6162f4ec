"""A chart is what is drawn, without how: marks with their intervals on two scales, in words and
numbers. The page and the papers' figures are drawn from it alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["lines", "bars", "points", "curves", "boxes", "stacks", "heat"]
"""Lines through points; bars; points alone; curves of many points without marks; boxes over the
values of the trials; bars stacked by series; cells whose colour is the value."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark is one figure in a chart, with the ends of its interval. `series` is its colour,
    `panel` the picture that it is in. One that is `doubted` is drawn hollow, one that is `bounded`
    with an arrow up, and a `published` one as a cross."""

    x: float | str
    y: float
    series: str = ""
    panel: str = ""
    row: str = ""
    low: float | None = None
    high: float | None = None
    doubted: bool = False
    bounded: bool = False
    published: bool = False
    told: str = ""
    """What is said of it beside its figures: verdict and doubts."""
    key: str = ""
    """The test that it is of, for what chooses among tests."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale has a title with its unit. `words` are its values in order where they are no
    numbers."""

    title: str
    log: bool = False
    words: tuple[str, ...] = ()
    percent: bool = False
    zero: bool = True
    """Whether it begins at nothing, if it is not logarithmic."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference is a line across a chart that figures are held against, such as a line rate, with
    the ends of its interval; or a point of a line along the bottom, of which all have the name."""

    y: float
    name: str
    panel: str = ""
    x: float | str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart has a title, a sentence that says what it shows to those who cannot see it, and its
    marks in the order of the series."""

    name: str
    title: str
    says: str
    kind: Kind
    x: Scale
    y: Scale
    marks: tuple[Mark, ...]
    series: str = ""
    """What the series are, such as `switch`."""
    panels: str = ""
    """What the panels are."""
    rows: str = ""
    """What the rows of panels are."""
    references: tuple[Reference, ...] = ()
    diagonal: bool = False
    """Whether a line shows where `y` is `x`."""
    second: tuple[Mark, ...] = field(default=())
    """Marks on a second scale, on the right."""
    y2: Scale | None = None
    """That scale."""
    note: str = ""
    """What has to be known of its marks besides."""

    def series_names(self) -> list[str]:
        """Return the names of the series, each once, by the numbers in them."""
        return sorted(dict.fromkeys(mark.series for mark in self.marks), key=_natural)

    def panel_names(self) -> list[str]:
        """Return the names of the panels, each once, by the numbers in them."""
        return sorted(dict.fromkeys(mark.panel for mark in self.marks), key=_natural)


def _natural(text: str) -> list[tuple[float, str]]:
    """Return the key by which `pairs 2` comes before `pairs 10`."""
    words = re.split(r"([0-9.]*[0-9])", text)
    return [(float(word), "") if number % 2 else (-1.0, word) for number, word in enumerate(words)]


def spans(marks: Sequence[Mark]) -> bool:
    """Say whether any of these marks has an interval."""
    return any(mark.low is not None and mark.low != mark.high for mark in marks)
