"""This module gathers what is wrong with a campaign, each thing at its place in a file or on the
command line."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place is a line of a file, or an option of the command line (line 0)."""

    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class Problems:
    """Problems are gathered before any is reported; the same thing at the same place is said
    once."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[Place, str], None] = {}

    def add(self, place: Place, what: str) -> None:
        self._gathered[place, what] = None

    def __bool__(self) -> bool:
        return bool(self._gathered)

    def settle(self) -> None:
        """Raise UsageError if anything was found: one line each, in the order of the file."""
        problems = sorted(self._gathered)
        if len(problems) == 1:
            place, what = problems[0]
            message, _, hint = what.partition("\n\nhint: ")
            raise UsageError(f"{place}: {message}", hint=hint or None)
        if problems:
            lines = (f"{place}: {what}".replace("\n\n", "\n") for place, what in problems)
            each = "\n".join(line.replace("\n", "\n    ") for line in lines)
            raise UsageError(f"{len(problems)} problems\n" + _indented(each))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
