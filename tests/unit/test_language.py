"""Checks names, the glossary and the guide's vocabulary: one word for one thing.

The source is read by AST; nothing of the project is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
GUIDE = REPOSITORY / "docs/guide"
FOLDERS = ("src/switchmark", "bench", "tools", "tests")
FILES = {
    str(path.relative_to(REPOSITORY)): ast.parse(path.read_text())
    for folder in FOLDERS
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
}

# --- names -----------------------------------------------------------------------------------

BANNED_NAMES = frozenset(
    """books crew crews floors found h leg legs promise promised seat seated seats tenant tenants
    trust w""".split()
)
"""Words of which no name is made: they tell a newcomer nothing."""

STILL = {
    "found": ("cli/doctor", "model/"),
    "promised": ("model/evidence",),
    "seats": ("model/placement",),
}
"""Where they still stand, or are the names of fields of a record. Nothing is added."""


def names_of(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file gives: of variables, arguments, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_a_name_is_taken_apart_into_its_words() -> None:
    assert words_of("_CableLatencies") == {"cable", "latencies"}
    assert words_of("tenants_of") == {"tenants", "of"}
    (given,) = (set(names_of(ast.parse("def f(w): seat = w.crew"))),)
    assert given == {"f", "w", "seat"}


def test_names_are_words_of_the_field() -> None:
    wrong = [
        f"{path}: {name}"
        for path, tree in FILES.items()
        if path.startswith("src/switchmark/")
        for name in names_of(tree)
        for word in words_of(name) & BANNED_NAMES
        if not path.removeprefix("src/switchmark/").startswith(STILL.get(word, ()))
    ]
    assert wrong == []


# --- the glossary ----------------------------------------------------------------------------

BANNED_IN_PROSE = (
    *("books", "crew", "floor", "leg", "machine", "machines", "promise", "promised", "seat"),
    *("seats", "tenant", "tenants"),
)
"""Words for which the glossary has another one. `virtual machine` is what it says."""


def glossary() -> list[str]:
    """Return the words of the glossary, in its order."""
    lines = (GUIDE / "glossary.md").read_text().splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    return [word for word in rows if word != "word"]


def prose_of(page: Path) -> str:
    """Return the text of a page without code: names of fields and commands are not prose."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def test_the_glossary_has_each_word_once() -> None:
    words = glossary()
    assert len(words) > 30
    assert len(words) == len(set(words))


def test_every_word_of_the_glossary_is_used_in_the_guide() -> None:
    pages = [page for page in GUIDE.glob("*.md") if page.name != "glossary.md"]
    text = " ".join(" ".join(page.read_text().split()) for page in pages)
    unused = [
        word
        for word in glossary()
        if not re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE)
    ]
    assert unused == []


@pytest.mark.parametrize("page", sorted(GUIDE.glob("*.md")), ids=lambda page: page.stem)
def test_the_guide_says_it_in_the_words_of_the_glossary(page: Path) -> None:
    text = re.sub(r"(?i)virtual machines?", "VM", prose_of(page))
    assert [word for word in BANNED_IN_PROSE if re.search(rf"(?i)\b{word}\b", text)] == []


def test_every_page_of_the_guide_is_reached_from_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    assert [
        page.name for page in GUIDE.glob("*.md") if f"docs/guide/{page.name}" not in readme
    ] == []


def test_no_page_names_what_its_reader_does_not_have() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    assert [page.name for page in pages if re.search(r"\bDESIGN\b", page.read_text())] == []
