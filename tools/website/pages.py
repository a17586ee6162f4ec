"""Makes the pages and the navigation of the site from the files of the repository.

The `README.md` of a folder of docs is its table of contents: the navigation has the pages that it
links to, in the same order and below the same headings. To add a page to the guide, add a line to
docs/guide/README.md.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

HOME = "docs/README.md"
TABS: Mapping[str, tuple[str, ...]] = {
    "Guide": ("docs/guide/README.md",),
    "Reference": ("docs/reference/README.md",),
    "Gallery": ("docs/gallery/README.md",),
    "Decisions": ("docs/decisions/README.md",),
    "Contributing": ("CONTRIBUTING.md", "docs/architecture.md"),
    "Changes": ("CHANGELOG.md",),
}
"""The pages of each tab, by their paths in the repository. A `README.md` brings its contents."""

UNLISTED = "Other pages"
"""The section of pages that the table of contents of their folder lacks."""

NO_SIDEBARS = "---\nhide:\n  - navigation\n  - toc\n---\n\n"
FENCED = re.compile(r"^( *)(```+).*?^\1\2\s*?$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^##+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A heading of a table of contents, empty above the first one, and the pages listed below it,
    by their paths in the repository."""

    title: str
    pages: tuple[str, ...]


def sources(repository: Path = REPOSITORY) -> list[str]:
    """Return the paths in the repository of all files of the site: the pages of docs and of `TABS`,
    and every file that one of them links to. A broken link is a fault of the built site."""
    wanted = [str(page.relative_to(repository)) for page in (repository / "docs").rglob("*.md")]
    wanted += [page for tab in TABS.values() for page in tab]
    found: dict[str, None] = {}
    while wanted:
        path = wanted.pop()
        if path not in found and (repository / path).is_file():
            found[path] = None
            if path.endswith(".md"):
                wanted += targets((repository / path).read_text(), path)
    return sorted(found)


def place(path: str) -> str:
    """Return where a file of the repository is in the site, as the path of its source.

    A browser shows a text without a suffix or with that of a program only if it ends in `.txt`.
    """
    inside = path.removeprefix("docs/")
    folder, name = posixpath.split(inside)
    if name == "README.md":
        name = "index.md"
    elif "." not in name or name.endswith(".py"):
        name += ".txt"
    return posixpath.join(folder, name)


def moved(text: str, path: str) -> str:
    """Return the text of a page with the links that its place in the site needs."""
    here = posixpath.dirname(place(path))

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match[1].partition("#")
        if not target or is_foreign(target):
            return match[0]
        new = posixpath.relpath(place(resolved(target, path)), here or ".")
        return f"]({new}{'#' if anchor else ''}{anchor})"

    text = outside_of_code(text, lambda prose: LINK.sub(link, prose))
    return NO_SIDEBARS + text if path == HOME else text


def targets(text: str, path: str) -> list[str]:
    """Return the files that a page links to or shows, by their paths in the repository."""
    links = (match[1].partition("#")[0] for match in LINK.finditer(FENCED.sub("", text)))
    return [resolved(link, path) for link in links if link and not is_foreign(link)]


def contents(readme: str, repository: Path = REPOSITORY) -> list[Section]:
    """Return the sections of the table of contents `readme`. The pages of its folder that it lacks
    come last."""
    folder = posixpath.dirname(readme)
    text = (repository / readme).read_text()
    starts = [0, *(match.start() for match in HEADING.finditer(text)), len(text)]
    sections, seen = [], {readme}
    for start, end in pairwise(starts):
        part = text[start:end]
        here = [
            page
            for page in dict.fromkeys(targets(part, readme))
            if page.endswith(".md") and posixpath.dirname(page) == folder and page not in seen
        ]
        seen.update(here)
        if here:
            heading = HEADING.match(part)
            sections.append(Section(heading[1] if heading else "", tuple(here)))
    rest = unlisted(readme, repository)
    return [*sections, Section(UNLISTED, rest)] if rest else sections


def unlisted(readme: str, repository: Path = REPOSITORY) -> tuple[str, ...]:
    """Return the pages of the folder of `readme` that it does not link to."""
    folder = posixpath.dirname(readme)
    listed = {readme, *targets((repository / readme).read_text(), readme)}
    pages = sorted(f"{folder}/{page.name}" for page in (repository / folder).glob("*.md"))
    return tuple(page for page in pages if page not in listed)


def navigation(repository: Path = REPOSITORY) -> str:
    """Return the navigation as TOML: `nav = [...]`. Titles of pages are their first headings."""
    tabs = [f'{{ "Home" = {json.dumps(place(HOME))} }}']
    for title, roots in TABS.items():
        entries: list[str] = []
        for root in roots:
            entries.append(json.dumps(place(root)))
            for section in contents(root, repository) if root.endswith("/README.md") else ():
                pages = [json.dumps(place(page)) for page in section.pages]
                if section.title:
                    entries.append(f"{{ {json.dumps(section.title)} = [{', '.join(pages)}] }}")
                else:
                    entries += pages
        tabs.append(f"{{ {json.dumps(title)} = [{', '.join(entries)}] }}")
    return "nav = [\n" + "".join(f"  {tab},\n" for tab in tabs) + "]\n"


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text in which everything but its fenced blocks is changed."""
    return "".join(part if is_code else change(part) for is_code, part in parts(text))


def parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a text in order: whether it is a fenced block, and its text."""
    end = 0
    for block in FENCED.finditer(text):
        yield False, text[end : block.start()]
        yield True, block[0]
        end = block.end()
    yield False, text[end:]


def resolved(target: str, path: str) -> str:
    """Return the path in the repository of the target of a link on the page `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def is_foreign(target: str) -> bool:
    """Return whether the target of a link is not in the repository."""
    return target.startswith(("http:", "https:", "mailto:"))
