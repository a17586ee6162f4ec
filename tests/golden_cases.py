"""The text of a golden file with several cases: each line of a case that is like one above it is
there once.

The heading of such a case names the other. Below it is what differs, from top to bottom: `+` begins
a line that the other does not have, `-` a line that only the other has, and `~` the line in place
of the other's next one with the same first word. `@` begins a line that both have, where the next
change comes behind it. All other lines are those of the other case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby

Lines = Sequence[str]

_HEADING = re.compile(r"(?P<name>.*?)(, like '(?P<other>.*)'(:|$))?")
_FIRST_WORD = re.compile(r"\s*\S+")


def text_of_cases(cases: Mapping[str, Lines]) -> str:
    """Return the text of cases by their names. A case is shown by its changes if these are at most
    two thirds of it; the other is that with the most lines in common."""
    whole = {name: "\n".join(lines).split("\n") if lines else [] for name, lines in cases.items()}
    text: list[str] = []
    seen: dict[str, set[str]] = {}
    for name, lines in whole.items():
        own = {*lines}
        other = min(seen, key=lambda earlier: len(own ^ seen[earlier]), default=None)
        changes = [] if other is None else [*_changes(whole[other], lines)]
        if other is not None and 3 * len(changes) <= 2 * len(lines):
            text += [f"## {name}, like '{other}'{':' * bool(changes)}", *changes]
        else:
            text += [f"## {name}", *lines]
        seen[name] = own
    assert cases_of("\n".join([*text, ""])) == whole
    return "\n".join([*text, ""])


def cases_of(text: str) -> dict[str, list[str]]:
    """Return the cases of a text, each with all of its lines."""
    before, *parts = f"\n{text.removesuffix(chr(10))}".split("\n## ")
    cases: dict[str, list[str]] = {}
    for part in parts:
        heading, *lines = part.split("\n")
        found = _HEADING.fullmatch(heading)
        assert found is not None
        assert found["name"] not in cases, f"'{heading}' is there twice"
        other = found["other"]
        cases[found["name"]] = lines if other is None else _changed(cases[other], lines)
    assert not before, f"'{before}' is in no case"
    return cases


def shortened(text: str) -> str:
    """Return a text of cases, of which each has a heading and all of its lines, with each line that
    is like one above it once."""
    return text_of_cases(cases_of(text))


def counted(lines: Lines) -> list[str]:
    """Return lines, of those that are the same one after another one with their number."""
    numbers = [(line, len([*same])) for line, same in groupby(lines)]
    return [f"{line} ({number} times)" if number > 1 else line for line, number in numbers]


def _changes(before: Lines, now: Lines) -> Iterator[str]:
    place = 0  # where a reader of the changes so far is in `before`
    for kind, first, end, new_first, new_end in _opcodes(before, now):
        if kind != "equal":
            changes = [*_in_place(before[first:end], now[new_first:new_end])]
            start = first
            while start > place and _next(before, place, changes[0]) != start:
                start -= 1
                changes.insert(0, f"@{before[start]}")
            yield from changes
            place = end


def _in_place(gone: Lines, new: Lines) -> Iterator[str]:
    """Yield the changes of lines that follow each other."""
    first_words = ([_first_word(line) for line in lines] for lines in (gone, new))
    for kind, first, end, new_first, new_end in _opcodes(*first_words):
        if kind == "equal":
            yield from (f"~{line}" for line in new[new_first:new_end])
        else:
            yield from (f"-{line}" for line in gone[first:end])
            yield from (f"+{line}" for line in new[new_first:new_end])


def _changed(before: Lines, changes: Lines) -> list[str]:
    """Return the lines after changes."""
    lines: list[str] = []
    place = 0
    for change in changes:
        kind, line = change[0], change[1:]
        if kind != "+":
            reached = _next(before, place, change)
            lines += before[place:reached]
            place = reached + 1
        if kind != "-":
            lines.append(line)
    return [*lines, *before[place:]]


def _next(lines: Lines, place: int, change: str) -> int:
    """Return which line a change is about, from a place on; -1 if it is about none."""
    form = _first_word if change[0] == "~" else str
    told = form(change[1:])
    numbers = range(place, len(lines)) if change[0] != "+" else ()
    return next((number for number in numbers if form(lines[number]) == told), -1)


def _first_word(line: str) -> str:
    """Return how a line begins: its indentation and its first word."""
    found = _FIRST_WORD.match(line)
    return found[0] if found else ""


def _opcodes(before: Lines, now: Lines) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
