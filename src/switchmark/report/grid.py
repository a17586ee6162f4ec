"""This module draws the answer to a query as a table that fits a terminal.

A column of text gives way first; what does not fit even so is drawn as one block for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_GAP = 2
_NARROWEST = 8
_CUT = "…"


def grid(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> Iterator[str]:
    """Yield the lines of a table of rows, none longer than a width."""
    cells = [[cell(value) for value in row] for row in rows]
    right = [all(_is_number(row[at]) for row in rows) for at in range(len(columns))]
    widths = [
        max(len(name), *(len(row[at]) for row in cells), 1) for at, name in enumerate(columns)
    ]
    room = width - _GAP * (len(columns) - 1)
    while sum(widths) > room:
        wide = [at for at, each in enumerate(widths) if not right[at] and each > _NARROWEST]
        if not wide:
            yield from _blocks(columns, cells, width)
            return
        widest = max(wide, key=lambda at: widths[at])
        widths[widest] = max(_NARROWEST, widths[widest] - (sum(widths) - room))
    yield _line(columns, widths, right)
    yield "─" * (sum(widths) + _GAP * (len(columns) - 1))
    for row in cells:
        yield _line(row, widths, right)


def cell(value: Any) -> str:
    """Write a value on one line: a number with six digits, a list with commas."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if abs(value) >= 1e5 else f"{value:.6g}"
        case Mapping():
            return ", ".join(f"{name}: {cell(each)}" for name, each in value.items())
        case list() | tuple():
            return ", ".join(map(cell, value))
        case _:
            return " ".join(str(value).split())


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    fitted = [
        text if len(text) <= width else text[: width - 1] + _CUT
        for text, width in zip(cells, widths, strict=True)
    ]
    padded = [
        text.rjust(width) if is_right else text.ljust(width)
        for text, width, is_right in zip(fitted, widths, right, strict=True)
    ]
    return (" " * _GAP).join(padded).rstrip()


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a line for each value of each row, as for a table that is too wide."""
    name_width = max(map(len, columns))
    room = max(width - name_width - _GAP, _NARROWEST)
    for number, row in enumerate(rows, 1):
        yield f"─── {number} ".ljust(width, "─")
        for name, text in zip(columns, row, strict=True):
            fitted = text if len(text) <= room else text[: room - 1] + _CUT
            yield f"{name:{name_width}}{' ' * _GAP}{fitted}".rstrip()
