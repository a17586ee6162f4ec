"""The layout of tables as lines of text, with column widths that fit the available space.

`report.sections` decides the content of the columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

_GAP = "  "
_NO_WIDTH = 10_000
_NARROWEST = 8
"""The least width of a text column."""

_CUT = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    heading: str
    """The heading."""
    cells: tuple[str, ...]
    """The text of every row."""
    above: str = ""
    """The group heading above it."""
    numeric: bool = False
    """Whether cells are aligned to the right."""
    expendable: int = 0
    """The rank for dropping columns if space is short: the largest first, columns with 0 never."""
    wraps: bool = False
    """Whether cells may break into lines."""
    folds: bool = False
    """Whether the column moves to the caption if all of its cells are equal."""

    @property
    def name(self) -> str:
        return f"{self.above} {self.heading}".strip()

    @property
    def width(self) -> int:
        return max(map(len, (self.above, self.heading, *self.cells)))

    @property
    def least_width(self) -> int:
        """Return the smallest possible width."""
        if not self.wraps:
            return self.width
        parts = (word for cell in self.cells for word in cell.split())
        return max(map(len, (self.above, self.heading, *parts)))


def columns_of(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0
) -> list[Column]:
    """Return the columns of a table that is given by its rows. The first `left` columns are texts,
    the others are aligned to the right."""
    return [
        Column(heading, tuple(row[index] for row in rows), numeric=index >= left)
        for index, heading in enumerate(headings)
    ]


@dataclass(frozen=True, slots=True)
class Section:
    """Some tests: a table, and their common properties in its caption and below it."""

    caption: str
    """The caption."""
    columns: tuple[Column, ...]
    """The columns of the table."""
    below: tuple[str, ...] = ()
    """The lines below the caption."""
    keys: tuple[str, ...] = ()
    """The keys of the tests in the rows."""


def folded(section: Section) -> Section:
    """Return a section with constant columns moved to the caption."""
    same = [
        column
        for column in section.columns
        if column.folds and len(column.cells) > 1 and len(set(column.cells)) == 1
    ]
    text = ", ".join((section.caption, *(f"{column.name} {column.cells[0]}" for column in same)))
    columns = tuple(column for column in section.columns if column not in same)
    return replace(section, caption=text, columns=columns)


def table_lines(section: Section, width: int | None = None) -> list[str]:
    """Return a section as lines of at most `width` characters, or of any length without a width.
    Columns that do not fit are dropped, and a note names them."""
    fitted = _fitted(section.columns, width)
    gone = hidden(section, width)
    caption = (section.caption, *section.below)
    lines = [line for text in caption for line in _within(text, width)]
    lines += drawn(fitted)
    if gone:
        note = f"hidden columns: {', '.join(gone)} (--wide shows all)"
        lines += _within(note, width)
    return lines


def hidden(section: Section, width: int | None) -> list[str]:
    """Return the names of the columns that do not fit into `width` characters."""
    names = {column.name for column in _fitted(section.columns, width)}
    return [column.name for column in section.columns if column.name not in names]


def drawn(columns: Sequence[Column], *, rule: bool = True) -> list[str]:
    """Return columns side by side: their headings, a rule if wanted, and the lines of the rows."""
    widths = [_lines_width(column, False) for column in columns]
    rows = [[column.above for column in columns]] if any(c.above for c in columns) else []
    rows.append([column.heading for column in columns])
    lines = [line for row in rows for line in _row(columns, widths, row)]
    if rule:
        lines.append("─" * (sum(widths) + len(_GAP) * (len(columns) - 1)))
    for cells in zip(*(column.cells for column in columns), strict=True):
        lines += _row(columns, widths, cells)
    return lines


def narrowed(columns: Sequence[Column], width: int) -> list[Column] | None:
    """Return columns with texts cut to fit, the widest column first; None if there are too many
    columns."""
    widths = [max(column.width, 1) for column in columns]
    room = width - len(_GAP) * (len(columns) - 1)
    while sum(widths) > room:
        wide = [
            index
            for index, column in enumerate(columns)
            if not column.numeric and widths[index] > _NARROWEST
        ]
        if not wide:
            return None
        widest = max(wide, key=lambda index: widths[index])
        widths[widest] = max(_NARROWEST, widths[widest] - (sum(widths) - room))
    return [
        replace(
            column,
            heading=cut(column.heading, column_width),
            cells=tuple(cut(cell, column_width) for cell in column.cells),
        )
        for column, column_width in zip(columns, widths, strict=True)
    ]


def cut(text: str, width: int) -> str:
    """Return a text, or its beginning if it is too long."""
    return text if len(text) <= width else text[: width - 1] + _CUT


def _within(text: str, width: int | None) -> list[str]:
    return textwrap.wrap(text, width or _NO_WIDTH, subsequent_indent=_GAP, break_on_hyphens=False)


def _fitted(columns: Sequence[Column], width: int | None) -> list[Column]:
    """Return the columns that fit. Columns with a common group heading are dropped together; of
    other columns with the same priority, the last is dropped first. Columns that wrap get the
    remaining space."""
    fitted = list(columns)
    if width is None:
        return fitted
    while _width(fitted, least=True) > width:
        most = max((column.expendable for column in fitted), default=0)
        if not most:
            break
        of_most = [column for column in fitted if column.expendable == most]
        gone = of_most if of_most[0].above else of_most[-1:]
        fitted = [column for column in fitted if column not in gone]
    return [_wrapped(column, width - _width(fitted, but=column)) for column in fitted]


def _wrapped(column: Column, room: int) -> Column:
    if not column.wraps or column.width <= room:
        return column
    width = max(room, column.least_width)
    wrapped = (textwrap.wrap(cell, width, break_on_hyphens=False) for cell in column.cells)
    return replace(column, cells=tuple("\n".join(lines) for lines in wrapped))


def _width(columns: Sequence[Column], *, least: bool = False, but: Column | None = None) -> int:
    """Return the total width of some columns with gaps."""
    widths = (_lines_width(column, least) for column in columns if column is not but)
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def _lines_width(column: Column, least: bool) -> int:
    if least:
        return column.least_width
    lines = (line for cell in column.cells for line in cell.split("\n"))
    return max(map(len, (column.above, column.heading, *lines)))


def _row(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str]) -> list[str]:
    """Return the lines of a row, as many as its tallest cell needs."""
    cells = [text.split("\n") for text in texts]
    lines = []
    for number in range(max(map(len, cells))):
        parts = []
        for column, width, cell in zip(columns, widths, cells, strict=True):
            text = cell[number] if number < len(cell) else ""
            parts.append(text.rjust(width) if column.numeric else text.ljust(width))
        lines.append(_GAP.join(parts).rstrip())
    return lines
