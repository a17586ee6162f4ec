"""The text of a campaign file: its parsing into a tree of nodes with line numbers, and the list of
problems, each at its place in the file or on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

from switchmark.errors import UsageError
from switchmark.regular_file import MIB, read_regular

_MOST_BYTES = 16 * MIB
_MOST_KEPT = 64 * 1024
_END_OF_FILE = "<stream end>"
_OPENED = {"sequence": "list with '['", "mapping": "mapping with '{'"}
"""PyYAML's names of flow collections, and plain names."""


def read_text(path: Path, *, links: bool = True) -> str:
    """Return the text of a file; without `links`, refuse a symbolic link."""
    try:
        content = read_regular(path, _MOST_BYTES, links=links)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text") from error


def compose(text: str, source: str) -> yaml.Node:
    """Return the file's tree of nodes with line numbers; tags construct nothing. Callers do not
    change it: runs of the same campaign share it."""
    try:
        root = (_composed if len(text) <= _MOST_KEPT else _composed.__wrapped__)(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{source}:{line}: not text: it holds 0x{error.character:02x}") from error
    except yaml.MarkedYAMLError as error:
        raise UsageError(_syntax(error, text, source)) from error
    except RecursionError as error:
        raise UsageError(f"{source}:1: nested too deeply for a campaign") from error
    if root is None:
        raise UsageError(
            f"{source}:1: the file is empty", hint="begin with campaigns/smallest.yaml"
        )
    return root


@lru_cache(maxsize=32)
def _composed(text: str) -> yaml.Node | None:
    root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


def _syntax(error: yaml.MarkedYAMLError, text: str, source: str) -> str:
    """Return the line and the description of a syntax error. For a list or mapping that is not
    closed, return the line where it begins."""
    mark = error.problem_mark or error.context_mark
    problem = str(error.problem or error.context)
    if _END_OF_FILE in problem and error.context_mark:
        mark = error.context_mark
        kind = next((kind for name, kind in _OPENED.items() if name in str(error.context)), "text")
        problem = f"the {kind} that begins here is not closed when the file ends"
    number = mark.line if mark else 0
    lines = text.splitlines()
    if number < len(lines) and re.match(r"[ ]*\t", lines[number]):
        problem = "the line is indented with a tab; YAML takes spaces"
    return f"{source}:{number + 1}: {problem}"


@dataclass(frozen=True, slots=True, order=True)
class TextPlace:
    """A line of a file, or an option of the command line (line 0)."""

    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class Problems:
    """A list of problems that is reported as a whole; duplicates at the same place are dropped."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[TextPlace, str], None] = {}

    def add(self, place: TextPlace, problem: str) -> None:
        self._gathered[place, problem] = None

    def __bool__(self) -> bool:
        return bool(self._gathered)

    def settle(self) -> None:
        """Raise UsageError if there are problems: one line for each, in the order of the file."""
        problems = sorted(self._gathered)
        if len(problems) == 1:
            place, problem = problems[0]
            message, _, hint = problem.partition("\n\nhint: ")
            raise UsageError(f"{place}: {message}", hint=hint or None)
        if problems:
            lines = (f"{place}: {problem}".replace("\n\n", "\n") for place, problem in problems)
            listed = "\n".join(line.replace("\n", "\n    ") for line in lines)
            raise UsageError(f"{len(problems)} problems\n" + _indented(listed))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
