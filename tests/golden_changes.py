"""The changes of golden files, with each hunk once, however many files contain it."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Sequence


def changes_in_words(changes: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return lines that describe the changes in files: name, old text, new text."""
    files: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, before, now in changes:
        for hunk in _hunks(before, now):
            files[hunk].append(name)
    steps = sum(len(names) * _steps(hunk) for hunk, names in files.items())
    lines = [f"{steps} steps changed in {len(changes)} files, {len(files)} distinct hunks"]
    for hunk, names in sorted(files.items(), key=lambda entry: -len(entry[1])):
        apart = sorted({*names})
        others = f" and {len(apart) - 1} more" if len(apart) > 1 else ""
        lines += ["", f"{len(names)} times, in {apart[0]}{others}:", *hunk]
    return lines


def _hunks(before: str, now: str) -> Iterator[tuple[str, ...]]:
    """Yield the lines that are gone and new, together where they are."""
    hunk: list[str] = []
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=0)
    for line in list(lines)[2:]:
        if line.startswith("@@"):
            if hunk:
                yield tuple(hunk)
            hunk = []
        else:
            hunk.append(line)
    if hunk:
        yield tuple(hunk)


def _steps(hunk: tuple[str, ...]) -> int:
    """Return how many steps a hunk changes: a step is a comment and a command, of which either may
    have changed. A mark of `golden_cases` may stand before them."""
    gone, new = ([line[1:] for line in hunk if line[0] == sign] for sign in "-+")
    return max(_commands(gone), _commands(new))


def _commands(lines: list[str]) -> int:
    commands = sum(not line.lstrip("~+-@").startswith("#") for line in lines)
    return commands or len(lines)
