"""This module makes texts of records fit for a cell of Markdown or CSV: what others wrote there is
neither markup nor a formula."""

from __future__ import annotations

import re

from switchmark.model.printable import printable

_MARKUP = re.compile(r"[\\`*_|<>\[\]#]")
_FORMULA = re.compile(r"[=+@\t\r]|-(?![0-9.]+$)")
"""What a spreadsheet takes for the beginning of a formula; a negative number is none."""


def in_markdown(text: str) -> str:
    """Return a text that is no markup, in one line."""
    return " ".join(_MARKUP.sub(r"\\\g<0>", printable(text)).split())


def in_csv(text: str) -> str:
    """Return a text that no spreadsheet computes: one that would begin a formula has an apostrophe
    before it."""
    return f"'{text}" if _FORMULA.match(text) else text
