"""This module writes a report as one HTML file that needs nothing else: what each run answers, its
tables, notes and bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from switchmark.model.record import Record
from switchmark.report.answer import answer
from switchmark.report.bars import bars
from switchmark.report.notes import footnotes
from switchmark.report.sections import sections
from switchmark.report.table import Section

__all__ = ["page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #8884 }
pre { line-height: 1.2; overflow-x: auto }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } }
"""


def page(runs: Sequence[tuple[str, Sequence[Record]]]) -> str:
    """Return the page of these runs, each with its name."""
    sections = "\n".join(_section(name, records) for name, records in runs)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>switchmark</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{sections}\n</body>\n</html>\n"
    )


def _section(name: str, records: Sequence[Record]) -> str:
    tables = "\n".join(map(_table, sections(records)))
    notes = "\n".join(f"<p>{escape(note)}</p>" for note in footnotes(records))
    chart = escape("\n".join(bars(records)))
    said = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in answer(records))
    return f"<h1>{escape(name)}</h1>\n{said}\n{tables}\n{notes}\n<pre>{chart}</pre>"


def _table(section: Section) -> str:
    head = "".join(f"<th>{escape(column.name)}</th>" for column in section.columns)
    rows = zip(*(column.cells for column in section.columns), strict=True)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    said = "<br>\n".join(map(escape, (section.caption, *section.below)))
    return f"<p>{said}</p>\n<table>\n<tr>{head}</tr>\n{body}\n</table>"
