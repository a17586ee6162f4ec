"""Query results as a table that fits the terminal (`report.table`).

Text columns are cut first. If the table is still too wide, each row becomes a block of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from switchmark.report.table import Column, cut, drawn, narrowed

_GAP = 2
_NARROWEST = 8


def grid(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> Iterator[str]:
    """Yield the lines of a table, with at most `width` characters."""
    cells = [[cell(value) for value in row] for row in rows]
    columns = [
        Column(
            name,
            tuple(row[column] for row in cells),
            numeric=all(_is_number(row[column]) for row in rows),
        )
        for column, name in enumerate(names)
    ]
    fitted = narrowed(columns, width)
    yield from _blocks(names, cells, width) if fitted is None else drawn(fitted)


def cell(value: Any) -> str:
    """Return a value on one line: a number with six digits, a list with commas."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if abs(value) >= 1e5 else f"{value:.6g}"
        case Mapping():
            return ", ".join(f"{name}: {cell(member)}" for name, member in value.items())
        case list() | tuple():
            return ", ".join(map(cell, value))
        case _:
            return " ".join(str(value).split())


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a line for each value of each row, for a table that is too wide."""
    name_width = max(map(len, columns))
    room = max(width - name_width - _GAP, _NARROWEST)
    for number, row in enumerate(rows, 1):
        yield f"─── {number} ".ljust(width, "─")
        for name, text in zip(columns, row, strict=True):
            yield f"{name:{name_width}}{' ' * _GAP}{cut(text, room)}".rstrip()
