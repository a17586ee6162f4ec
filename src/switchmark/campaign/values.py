"""The values of an axis as users write them: comma lists, ranges, and the meaning of each word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from switchmark.errors import UsageError
from switchmark.model.test import AXES, Test

MAX_TESTS = 100_000
"""The most tests of a campaign, and so the most values of an axis."""

_MAX_SHOWN = 60
_RANGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-zA-Z%]*)")


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the known word closest to this one; empty if none is
    close."""
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def read_words(name: str, text: str) -> list[str]:
    """Return the values of a comma list with ranges: `64,128..128..512` is 64, 128, 256, 384,
    512."""
    if AXES[name].undivided:
        return [text]
    values: list[str] = []
    for item in text.split(","):
        word = item.strip()
        if not word:
            raise UsageError("a value is missing" + (" between commas" if "," in text else ""))
        if sweep := AXES[name].sweeps.get(word):
            values += sweep
            continue
        # A name may hold a path, and a path may hold two dots, so names have no ranges.
        ranged = ".." in word and not AXES[name].table
        values += _range(word, counts=AXES[name].counts) if ranged else [word]
    return values


def _range(word: str, *, counts: bool) -> list[str]:
    """Return the values from start to stop, both included. If `step` does not divide the distance,
    the last step is shorter."""
    ends = word.split("..")
    if counts and len(ends) == 2:
        ends.insert(1, "1")
    parts = [_RANGE.fullmatch(part.strip()) for part in ends]
    if len(parts) != 3 or None in parts:
        form = "start..stop or start..step..stop" if counts else "start..step..stop"
        raise UsageError(f"'{shortened(word)}' is not a range; write {form}")
    numbers = [Decimal(part[1]) for part in parts if part]
    units = {part[2] for part in parts if part}
    if len(units) != 1:
        raise UsageError(f"the three parts of '{shortened(word)}' need the same unit")
    start, step, stop = numbers
    if step <= 0 or stop < start:
        raise UsageError(f"'{shortened(word)}' does not count up from start to stop")
    length = int((stop - start) / step) + 1
    if length > MAX_TESTS:
        raise UsageError(f"'{shortened(word)}' has {length} values; at most {MAX_TESTS} are taken")
    values = [start + i * step for i in range(length)]
    if values[-1] != stop:
        values.append(stop)
    return [f"{value:f}{min(units)}" for value in values]


def read_value(name: str, word: str) -> Any:
    """Return the value of a word on an axis; raise UsageError for an invalid word."""
    if word == "none" and AXES[name].takes_none:
        return None
    try:
        return getattr(Test.model_validate({name: word}), name)
    except ValidationError as error:
        if choices := AXES[name].choices:
            message = (
                f"'{shortened(word)}' is not one of {', '.join(choices)}{nearest(word, choices)}"
            )
        else:
            message = f"'{shortened(word)}' {_reason(error)}"
        raise UsageError(message) from None


_REASONS = {
    "int_parsing": "is no whole number",
    "int_from_float": "is no whole number",
    "float_parsing": "is no number",
    "finite_number": "is no number",
    "bool_parsing": "is neither true nor false",
    "greater_than": "is too small: more than {gt:g}",
    "greater_than_equal": "is too small: at least {ge:g}",
    "less_than": "is too large: less than {lt:g}",
    "less_than_equal": "is too large: at most {le:g}",
}
"""The messages about invalid values, by pydantic's names of the errors."""


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] in _REASONS:
        return _REASONS[first["type"]].format(**first.get("ctx", {}))
    return first["msg"].replace("Input ", "")


def shortened(text: str) -> str:
    """Return a text for an error message, shortened if it is long."""
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
