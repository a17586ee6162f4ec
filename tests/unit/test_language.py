"""These tests hold the language of the house: whole sentences, the field's words, one word for one
thing.

They read the source by AST; nothing of the project is imported. A heuristic finds the verb of a
sentence: where it does not know yours, add it to `FINITE` or `IMPERATIVE`.
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

# What does not keep the rules yet. Nothing is added; what keeps them is taken out.
LATER: tuple[str, ...] = ()

IMPERATIVE = frozenset(
    """Add Append Apply Ask Begin Bind Build Carry Change Check Clean Close Compare Convert Copy
    Count Describe Do Draw End Find Gather Give Hold Join Keep Let List Look Make Mark Match
    Measure Note Open Parse Print Put Raise Read Record Release Remove Return Run Say Send
    Set Show Signal Skip Sort Spread Start Stop Take Tell Try Turn Undo Unlock Wait Write
    Yield""".split()
)
"""How the docstring of a function may begin: it says what to do."""

FINITE = frozenset(
    """is are was were has have had can may must does do did will would adds appears ask asked asks
    be becomes begins belongs bounds brings carries captures check checks clean compares
    comes come computes counts dead decides defines derive describes draw draws ended ends
    fails finds follow follows forwards gathers gets gives go goes hold holds inject
    interleaves join joins keep keeps knows lack lacks lays lead leads learns leases lends
    lets limits list lists load loads loses made make makes mean means measure measures
    names notes numbers offers opens parses paste picks plays polls prints puts raises reach
    reads read receives redirects rejects reports reserve reserves routes runs run says saves
    say send sends serves sets show shows starts start stands starve stays stops takes talks tells
    tell tries try turns uses wants writes""".split()
)
"""Verbs of which the first sentence of a module, or of a class, has one."""

IN_MID_AIR = re.compile(
    r"(Those|That of|The same|As|Of|From|Between|Both|Besides|Whether|How|What|Where|Which|Who|Why"
    r"|Also|Else|But|And|Or|It|Its|They|Their)\b(?! (is|are|has|have)\b)"
)
"""How no docstring begins: with an answer to a question that nobody asked."""


def documented(path: str) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield what a file defines for others, with its docstring; not tests, whose name is their
    sentence."""

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield name, node, " ".join(text.split("\n\n")[0].split())
        if isinstance(node, ast.FunctionDef):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                if not child.name.startswith(("_", "test_")):
                    yield from walk(child, f"{name}.{child.name}")

    yield from walk(FILES[path], path)


def sentence_of(text: str) -> str:
    return re.split(r"(?<=[.?!])\s", text)[0]


def faults(node: ast.AST, text: str) -> list[str]:
    """Return what keeps the beginning of a docstring from being a whole sentence."""
    sentence, wrong = sentence_of(text), []
    if not sentence.endswith("."):
        wrong.append("ends without a full stop")
    if not re.match(r"[A-Z`]", sentence):
        wrong.append("begins with a small letter")
    if IN_MID_AIR.match(sentence):
        wrong.append("begins in mid-air")
    words = re.findall(r"[A-Za-z]+", sentence.replace("R+", "R"))
    if isinstance(node, ast.FunctionDef):
        if not words or words[0] not in IMPERATIVE:
            wrong.append("does not say what to do")
    elif not FINITE & set(words):
        wrong.append("has no verb")
    return wrong


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""The ports of a switch."""', ["has no verb"]),
        ('"""A switch has ports."""', []),
        ('"""a switch has ports."""', ["begins with a small letter"]),
        ('"""Those of some CPUs; `root` is another one\'s."""', ["begins in mid-air"]),
        ('"""A switch has ports"""', ["ends without a full stop"]),
        ('def f():\n    """Return the ports."""', []),
        ('def f():\n    """The ports."""', ["does not say what to do"]),
    ],
)
def test_a_sentence_is_told_from_what_is_none(source: str, expected: list[str]) -> None:
    tree = ast.parse(source)
    node = tree.body[0] if isinstance(tree.body[0], ast.FunctionDef) else tree
    assert faults(node, ast.get_docstring(node) or "") == expected


@pytest.mark.parametrize("path", [path for path in FILES if not path.startswith(LATER)])
def test_every_docstring_begins_with_a_whole_sentence(path: str) -> None:
    wrong = {
        f"{name}: {sentence_of(text)}": found
        for name, node, text in documented(path)
        if (found := faults(node, text))
    }
    assert wrong == {}


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
