"""Checks the pages of the guide: the glossary, and the links of all pages."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
GUIDE = REPOSITORY / "docs/guide"


def test_the_glossary_has_each_word_once() -> None:
    lines = (GUIDE / "glossary.md").read_text().splitlines()
    cells = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    terms = [cell for cell in cells if cell != "word"]  # the head of each table
    assert len(terms) > 30
    assert len(terms) == len(set(terms))


def test_no_page_names_what_its_reader_does_not_have() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    assert [page.name for page in pages if re.search(r"\bDESIGN\b", page.read_text())] == []


def test_no_page_installs_by_a_name_that_is_not_published() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    sources = (REPOSITORY / "src").rglob("*.py")
    by_name = re.compile(r"pip install (?:-\S+ )*['\"]?switchmark(?:[\[=<>'\"`\s]|$)")
    named = [path.name for path in (*pages, *sources) if by_name.search(path.read_text())]
    assert named == []
    assert by_name.search("pip install 'switchmark[lab]'")
    assert not by_name.search("pip install ./switchmark-0.1.0.tar.gz")


def test_every_link_of_the_pages_leads_to_a_file_and_a_heading() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    assert sum(len(links(page)) for page in pages) > 200
    assert [broken for page in pages for broken in broken_links(page)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `word`, two\n[a](page.md) [b](#one-word-two) [c](#three) [d](none.md#one)\n"
        "[e](https://example.org/x)\n```\n[f](in-code.md)\n```\n"
    )
    assert broken_links(page) == ["page.md: #three", "page.md: none.md#one"]


def links(page: Path) -> list[str]:
    """Return the targets of the links on a page that lead to files of the repository."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if not target.startswith(("http:", "https:", "mailto:"))]


def broken_links(page: Path) -> list[str]:
    """Return the links on a page that lead to no file, or to no heading of one."""
    broken = []
    for target in links(page):
        name, _, heading = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists() or (heading and heading not in anchors(path)):
            broken.append(f"{page.name}: {target}")
    return broken


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in plain}
