"""Checks the pages of the guide: the glossary, and how a reader finds each page."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
GUIDE = REPOSITORY / "docs/guide"


def test_the_glossary_has_each_word_once() -> None:
    lines = (GUIDE / "glossary.md").read_text().splitlines()
    cells = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    words = [cell for cell in cells if cell != "word"]  # the head of each table
    assert len(words) > 30
    assert len(words) == len(set(words))


def test_every_page_of_the_guide_is_reached_from_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    pages = [page.name for page in GUIDE.glob("*.md")]
    assert [name for name in pages if f"docs/guide/{name}" not in readme] == []


def test_no_page_names_what_its_reader_does_not_have() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    assert [page.name for page in pages if re.search(r"\bDESIGN\b", page.read_text())] == []
