"""Texts of records as cells of Markdown or CSV, escaped so that they cannot act as markup or
formulas."""

from __future__ import annotations

import re

from switchmark.model.printable import printable

_MARKUP = re.compile(r"[\\`*_|<>\[\]#]")
_FORMULA = re.compile(r"[=+@\t\r]|-(?![0-9.]+$)")
"""The start of a formula in a spreadsheet. A negative number does not count."""


def in_markdown(text: str) -> str:
    """Return a text on one line with its markup escaped."""
    return " ".join(_MARKUP.sub(r"\\\g<0>", printable(text)).split())


def in_csv(text: str) -> str:
    """Return a text that a spreadsheet does not compute: an apostrophe precedes the start of a
    formula."""
    return f"'{text}" if _FORMULA.match(text) else text
