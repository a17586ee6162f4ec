"""Finds the faults of a built site: broken links, and foreign addresses that a browser fetches."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("use", "href"),
    ("video", "src"),
}
"""The attributes whose address a browser fetches by itself."""

PASSIVE_LINKS = {"canonical", "prev", "next", "alternate"}
"""The kinds of `<link>` that a browser does not fetch."""

IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """The anchors of a page, the addresses that it links to, and those that it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        for name, value in named.items():
            passive = tag == "link" and named.get("rel") in PASSIVE_LINKS
            if (tag, name) in FETCHED and not passive:
                self.fetched.append(value)
            if name == "style":
                self.fetched += addresses(value)


@cache
def page(path: Path) -> Page:
    return Page(path.read_text())


def addresses(style: str) -> list[str]:
    """Return the addresses that a style sheet fetches."""
    return [match[1] or match[2] for match in IN_STYLES.finditer(style)]


def faults(folder: Path) -> list[str]:
    """Return a line for each fault of the site in `folder`: its page or style sheet, and the
    address."""
    page.cache_clear()
    found = []
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder)
        found += [f"{name} fetches {a}" for a in page(path).fetched if is_foreign(a)]
        local = [a for a in (*page(path).links, *page(path).fetched) if not is_foreign(a)]
        found += [f"{name} links to {a}, which is nowhere" for a in local if not leads(path, a)]
    for path in sorted(folder.rglob("*.css")):
        name = path.relative_to(folder)
        found += [f"{name} fetches {a}" for a in addresses(path.read_text()) if is_foreign(a)]
    return found


def is_foreign(address: str) -> bool:
    """Return whether an address is not in the site."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def leads(path: Path, address: str) -> bool:
    """Return whether an address on the page `path` leads to a file, and to an anchor of it."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    anchored = parts.fragment and target.suffix == ".html"
    return not anchored or unquote(parts.fragment) in page(target).anchors
