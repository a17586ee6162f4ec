"""These tests check the texts of golden files with several cases: a case shows what differs from
one above it, and every case can be read from the text as it was."""

from __future__ import annotations

from random import Random

import pytest

from golden_cases import cases_of, shortened, text_of_cases

CASES = {
    "usual": ["build", "  ip link add", "  ip link set", "steps: 2", "measure", "remove"],
    "again": ["build", "  ip link add", "  ip link set", "steps: 2", "measure", "remove"],
    "two": [
        *("build", "  ip link add", "  ip link add", "  ip link set", "steps: 3", "measure"),
        *("remove", "remove"),
    ],
    "failing": ["build", "  ip link add", "error: in use", "steps: 1", "measure", "remove"],
    "other": ["nothing"],
}
TEXT = """\
## usual
build
  ip link add
  ip link set
steps: 2
measure
remove
## again, like 'usual'
## two, like 'usual':
@  ip link add
+  ip link add
~steps: 3
@remove
+remove
## failing, like 'usual':
-  ip link set
+error: in use
~steps: 1
## other
nothing
"""


def test_a_case_shows_what_differs_from_one_above_it() -> None:
    assert text_of_cases(CASES) == TEXT
    assert cases_of(TEXT) == CASES
    whole = (line for name, lines in CASES.items() for line in (f"## {name}", *lines, ""))
    assert shortened("\n".join(whole).replace("\n\n", "\n")) == TEXT


@pytest.mark.parametrize("seed", range(40))
def test_no_case_loses_a_line(seed: int) -> None:
    """The lines are few, so that they repeat, and some begin like a mark or a heading."""
    draw = Random(seed)
    words = ["", "a", "a: 1", "a: 2", "b: 1", "+a", "-a", "~a: 1", "@a", "# a", "##", " a", ": 1"]
    cases = {
        str(number): draw.choices(words[: 2 + seed % 12], k=draw.randrange(12))
        for number in range(30)
    }
    text = text_of_cases(cases)
    assert cases_of(text) == cases
    assert len(text.splitlines()) <= sum(map(len, cases.values())) + len(cases)


def test_a_line_of_several_is_several_lines() -> None:
    assert cases_of(text_of_cases({"a": ["1\n2", ""]})) == {"a": ["1", "2", ""]}


@pytest.mark.parametrize("text", ["x\n## a\n", "## a\n## a\n", "## b, like 'a'\n## a\n"])
def test_every_line_is_in_a_case_and_no_name_is_there_twice(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        cases_of(text)


def test_a_line_that_would_be_a_heading_is_no_line_of_a_case() -> None:
    with pytest.raises(AssertionError):
        text_of_cases({"a": ["x", "## b", "y"]})
