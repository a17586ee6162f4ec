"""This module lays a table out: columns as wide as there is room for, in lines of text.

It knows nothing of tests; what stands in the columns is decided in `report.sections`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

_GAP = "  "
_NO_WIDTH = 10_000
_NARROWEST = 8
"""No column of text is cut to less."""

_CUT = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """A column has a heading, what stands above it, and a cell for each row. Where there is no room
    for all columns, those of the greatest `expendable` are left out first, and those of 0 never.
    The words of one that `wraps` may stand below each other. One that `folds` is said once above
    the table where all of its cells are the same."""

    heading: str
    cells: tuple[str, ...]
    above: str = ""
    numeric: bool = False
    expendable: int = 0
    wraps: bool = False
    folds: bool = False

    @property
    def name(self) -> str:
        return f"{self.above} {self.heading}".strip()

    @property
    def width(self) -> int:
        return max(map(len, (self.above, self.heading, *self.cells)))

    @property
    def least_width(self) -> int:
        """Return how narrow it can be made."""
        if not self.wraps:
            return self.width
        words = (word for cell in self.cells for word in cell.split())
        return max(map(len, (self.above, self.heading, *words)))


@dataclass(frozen=True, slots=True)
class Section:
    """A section shows some tests: what all of them have in common, in a caption and lines below it,
    and a table of the rest."""

    caption: str
    columns: tuple[Column, ...]
    below: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """The test that each row is of."""


def folded(section: Section) -> Section:
    """Return a section whose caption says what its columns would only repeat."""
    same = [
        column
        for column in section.columns
        if column.folds and len(column.cells) > 1 and len(set(column.cells)) == 1
    ]
    said = ", ".join((section.caption, *(f"{each.name} {each.cells[0]}" for each in same)))
    columns = tuple(column for column in section.columns if column not in same)
    return replace(section, caption=said, columns=columns)


def table_lines(section: Section, width: int | None = None) -> list[str]:
    """Return a section as lines no wider than `width`, or as wide as they need to be: columns for
    which there is no room are left out, and named."""
    shown = _fitted(section.columns, width)
    names = {column.name for column in shown}
    gone = [column.name for column in section.columns if column.name not in names]
    said = (section.caption, *section.below)
    lines = [line for each in said for line in _within(each, width)]
    lines += drawn(shown)
    if gone:
        note = f"no room for: {', '.join(gone)} (--wide shows all)"
        lines += _within(note, width)
    return lines


def drawn(columns: Sequence[Column]) -> list[str]:
    """Return columns side by side: their headings, a rule, and a line or more for each row."""
    widths = [_lines_width(column, False) for column in columns]
    rows = [[column.above for column in columns]] if any(c.above for c in columns) else []
    rows.append([column.heading for column in columns])
    lines = [line for row in rows for line in _row(columns, widths, row)]
    lines.append("─" * (sum(widths) + len(_GAP) * (len(columns) - 1)))
    for cells in zip(*(column.cells for column in columns), strict=True):
        lines += _row(columns, widths, cells)
    return lines


def narrowed(columns: Sequence[Column], width: int) -> list[Column] | None:
    """Return columns whose texts are cut so that they fit, the widest first; None where they are
    too many even so."""
    widths = [max(column.width, 1) for column in columns]
    room = width - len(_GAP) * (len(columns) - 1)
    while sum(widths) > room:
        wide = [
            at
            for at, column in enumerate(columns)
            if not column.numeric and widths[at] > _NARROWEST
        ]
        if not wide:
            return None
        widest = max(wide, key=lambda at: widths[at])
        widths[widest] = max(_NARROWEST, widths[widest] - (sum(widths) - room))
    return [
        replace(
            column,
            heading=cut(column.heading, each),
            cells=tuple(cut(cell, each) for cell in column.cells),
        )
        for column, each in zip(columns, widths, strict=True)
    ]


def cut(text: str, width: int) -> str:
    """Return a text, or its beginning where it is longer."""
    return text if len(text) <= width else text[: width - 1] + _CUT


def _within(text: str, width: int | None) -> list[str]:
    return textwrap.wrap(text, width or _NO_WIDTH, subsequent_indent=_GAP, break_on_hyphens=False)


def _fitted(columns: Sequence[Column], width: int | None) -> list[Column]:
    """Return the columns that there is room for. Those below one heading go together; of others
    that matter alike the last one goes first. What wraps gets the room that is left."""
    shown = list(columns)
    if width is None:
        return shown
    while _width(shown, least=True) > width:
        most = max((column.expendable for column in shown), default=0)
        if not most:
            break
        of_most = [column for column in shown if column.expendable == most]
        gone = of_most if of_most[0].above else of_most[-1:]
        shown = [column for column in shown if column not in gone]
    return [_wrapped(column, width - _width(shown, but=column)) for column in shown]


def _wrapped(column: Column, room: int) -> Column:
    if not column.wraps or column.width <= room:
        return column
    width = max(room, column.least_width)
    wrapped = (textwrap.wrap(cell, width, break_on_hyphens=False) for cell in column.cells)
    return replace(column, cells=tuple("\n".join(lines) for lines in wrapped))


def _width(columns: Sequence[Column], *, least: bool = False, but: Column | None = None) -> int:
    """Return how wide some columns are side by side, with the gaps of all of them."""
    widths = (_lines_width(column, least) for column in columns if column is not but)
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def _lines_width(column: Column, least: bool) -> int:
    if least:
        return column.least_width
    lines = (line for cell in column.cells for line in cell.split("\n"))
    return max(map(len, (column.above, column.heading, *lines)))


def _row(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str]) -> list[str]:
    """Return the lines of a row: as many as its highest cell has."""
    cells = [text.split("\n") for text in texts]
    lines = []
    for number in range(max(map(len, cells))):
        parts = []
        for column, width, cell in zip(columns, widths, cells, strict=True):
            text = cell[number] if number < len(cell) else ""
            parts.append(text.rjust(width) if column.numeric else text.ljust(width))
        lines.append(_GAP.join(parts).rstrip())
    return lines
