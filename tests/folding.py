"""The steps that most plans share, as golden files keep them: one line each, with all that differs
from plan to plan. tests/golden/frames has the short form of every such row of steps in its first
line, and the row below it. At the end of the short form is on which host the steps are, if the
reasons of the steps say it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FRAMES = Path(__file__).parent / "golden" / "frames"
_FIELD = re.compile(r"(?<!\$)\{([a-z_]+)\}")
_VALUES = {"words": ".+", "where": r"(?: \(on [^\s()]+\))?"}


@dataclass(frozen=True)
class Frame:
    """A row of steps that plans share."""

    short: str
    """The line that stands for the row in golden files."""
    row: re.Pattern[str]
    """Finds the row, from the start of a line to the end of one."""
    long: str
    """The row."""

    @classmethod
    def read(cls, text: str) -> Frame:
        """Read a row from its file. Raise ValueError if the short form leaves out what differs."""
        short, *rows = text.rstrip("\n").split("\n")
        short += "{where}"
        long = "\n".join(row + "{where}" * row.startswith("#") for row in rows)
        if {*_FIELD.findall(short)} != {*_FIELD.findall(long)}:
            raise ValueError(f"'{short}' has not the fields of its row")
        return cls(short, re.compile(_pattern(long), re.MULTILINE), long)

    def fold(self, text: str) -> str:
        """Return a text with the short form in place of each row."""
        return self.row.sub(lambda found: _filled(self.short, found.groupdict()), text)

    def unfold(self, line: str) -> str | None:
        """Return the row that a line stands for; None for any other line."""
        found = re.fullmatch(_pattern(self.short), line)
        return None if found is None else _filled(self.long, found.groupdict())


@cache
def frames() -> tuple[Frame, ...]:
    return tuple(Frame.read(path.read_text()) for path in sorted(FRAMES.glob("*.txt")))


def folded(text: str) -> str:
    """Return a plan with the rows of steps that plans share in their short forms."""
    for frame in frames():
        text = frame.fold(text)
    return text


def unfolded(text: str) -> str:
    """Return the plan that was folded."""
    return "".join(f"{row}\n" for line in text.splitlines() for row in _rows(line))


def _rows(line: str) -> Iterator[str]:
    yield next((row for frame in frames() if (row := frame.unfold(line)) is not None), line)


def _pattern(template: str) -> str:
    """Return the expression that matches a template: a field is the same everywhere, and a word if
    its name is not in `_VALUES`."""
    pattern, end, seen = "", 0, set()
    for field in _FIELD.finditer(template):
        name = field[1]
        pattern += re.escape(template[end : field.start()])
        value = _VALUES.get(name, r"[^\s,()]+")
        pattern += f"(?P={name})" if name in seen else f"(?P<{name}>{value})"
        seen.add(name)
        end = field.end()
    return f"^{pattern}{re.escape(template[end:])}$"


def _filled(template: str, fields: dict[str, str]) -> str:
    return _FIELD.sub(lambda field: fields[field[1]], template)
