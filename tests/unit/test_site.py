"""These tests check the sources of the site: its navigation, its first page and its gallery."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.page import tests as lines_of_tests
from tools.website import built
from tools.website.__main__ import write
from tools.website.gallery import GALLERY, MOST_BYTES, PICTURE, add, index
from tools.website.pages import (
    HOME,
    REPOSITORY,
    TABS,
    UNLISTED,
    contents,
    moved,
    navigation,
    place,
    sources,
    unlisted,
)

from unit.test_asked import made_run

CONTENTS = [page for pages in TABS.values() for page in pages if page.endswith("/README.md")]


@pytest.mark.parametrize("readme", CONTENTS)
def test_a_table_of_contents_has_every_page_of_its_folder(readme: str) -> None:
    """To add a page to the site, add a line to the README.md of its folder, such as
    docs/guide/README.md."""
    assert unlisted(readme) == ()


def test_a_page_that_no_table_of_contents_has_comes_last_in_the_navigation(tmp_path: Path) -> None:
    folder = tmp_path / "docs/guide"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Guide\n\n## First\n\n- [a](a.md)\n")
    for name in ("a", "later"):
        (folder / f"{name}.md").write_text(f"# {name}\n")
    first, last = contents("docs/guide/README.md", tmp_path)
    assert (first.title, first.pages) == ("First", ("docs/guide/a.md",))
    assert (last.title, last.pages) == (UNLISTED, ("docs/guide/later.md",))


def test_every_page_of_the_guide_is_two_clicks_from_the_first_page() -> None:
    assert "(guide/README.md)" in (REPOSITORY / HOME).read_text()
    assert "(docs/guide/README.md)" in (REPOSITORY / "README.md").read_text()
    links = re.findall(r"\]\(([\w-]+\.md)", (REPOSITORY / "docs/guide/README.md").read_text())
    guide = {page.name for page in (REPOSITORY / "docs/guide").glob("*.md")} - {"README.md"}
    assert len(guide) > 25
    assert guide <= set(links)


def in_order(entries: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from in_order([value] if isinstance(value, str) else value)


def test_the_navigation_has_every_page_of_docs_once() -> None:
    pages = list(in_order(tomllib.loads(navigation())["nav"]))
    assert len(pages) == len(set(pages))
    docs = {place(path) for path in sources() if path.startswith("docs/") and path.endswith(".md")}
    assert docs <= set(pages)
    assert {"CONTRIBUTING.md", "CHANGELOG.md"} <= set(pages)


def test_links_are_those_that_a_page_needs_in_its_place() -> None:
    text = (
        "[a](../README.md) [b](../../CONTRIBUTING.md#top) [c](#here) [d](https://example.org/)\n"
        "![e](../pictures/rates.svg) [f](../../src/switchmark/cli/app.py) [g](../../LICENSE)\n"
        "```\n[h](../README.md)\n```\n"
    )
    assert moved(text, "docs/guide/page.md") == (
        "[a](../index.md) [b](../CONTRIBUTING.md#top) [c](#here) [d](https://example.org/)\n"
        "![e](../pictures/rates.svg) [f](../src/switchmark/cli/app.py.txt) [g](../LICENSE.txt)\n"
        "```\n[h](../README.md)\n```\n"
    )


def test_every_file_of_the_site_is_written(tmp_path: Path) -> None:
    write(tmp_path)
    pages = tmp_path / "pages"
    assert [path for path in sources() if not (pages / place(path)).is_file()] == []
    settings = tomllib.loads((tmp_path / "zensical.toml").read_text())
    assert settings["project"]["nav"][0] == {"Home": "index.md"}
    assert settings["project"]["theme"]["font"] is False
    assert len(list(pages.rglob("*.md"))) > 90


def test_the_first_page_has_the_first_command_of_the_readme_and_no_other() -> None:
    def commands(path: str) -> list[str]:
        blocks = re.findall(
            r"^```sh\n(.*?)^```", (REPOSITORY / path).read_text(), re.MULTILINE | re.DOTALL
        )
        return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]

    assert commands(HOME) == commands("README.md")[:1]


# --- faults of a built site ------------------------------------------------------------------

PAGE = '<h1 id="top">A</h1><a href="b.html#there">b</a><img src="a.svg" alt=""><script src="a.js">'


def test_a_site_without_faults_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    (tmp_path / "b.html").write_text('<p id="there"><a href="https://example.org/">c</a>')
    for name in ("a.svg", "a.js"):
        (tmp_path / name).write_text("")
    (tmp_path / "a.css").write_text("p { background: url(data:image/png;base64,AA) }")
    assert built.faults(tmp_path) == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<script src="https://x.invalid/a.js">', "a.html fetches https://x.invalid/a.js"),
        ('<img src="//x.invalid/a.png">', "a.html fetches //x.invalid/a.png"),
        ('<link rel="stylesheet" href="http://x.invalid/">', "a.html fetches http://x.invalid/"),
        ("<p style=\"background: url('http://x.invalid/')\">", "a.html fetches http://x.invalid/"),
        ('<a href="none.html">', "a.html links to none.html, which is nowhere"),
        ('<a href="#none">', "a.html links to #none, which is nowhere"),
        ('<a href="sub/">', "a.html links to sub/, which is nowhere"),
        ('<img src="none.svg">', "a.html links to none.svg, which is nowhere"),
    ],
)
def test_a_fault_of_a_page_is_found(page: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(page)
    assert built.faults(tmp_path) == [fault]


@pytest.mark.parametrize(
    "style", ["p { background: url('http://x.invalid/') }", "@import 'http://x.invalid/';"]
)
def test_a_style_sheet_that_fetches_from_elsewhere_is_found(style: str, tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text(style)
    assert built.faults(tmp_path) == ["a.css fetches http://x.invalid/"]


# --- the gallery -----------------------------------------------------------------------------


def test_the_gallery_is_small_and_its_contents_are_current() -> None:
    assert sum(path.stat().st_size for path in GALLERY.iterdir()) < MOST_BYTES
    assert (GALLERY / "README.md").read_text() == index(), "run make gallery"


def test_every_run_of_the_gallery_has_its_host_its_date_and_a_chart() -> None:
    pages = [page for page in GALLERY.glob("*.md") if page.name != "README.md"]
    assert pages
    for page in pages:
        text = page.read_text()
        assert re.search(r"^Measured 20\d\d-\d\d-\d\d on .* CPUs .*Linux \d", text, re.MULTILINE)
        pictures = PICTURE.findall(text)
        assert pictures
        assert all((GALLERY / picture).is_file() for picture in pictures)
    shown = "".join(page.read_text() for page in pages)
    assert [path.name for path in GALLERY.glob("*.svg") if path.name not in shown] == []


HOST = {"kernel": "6.1.0-1", "cpu_model": "Some CPU", "cores_usable": 2, "virtual": True}


def stored(folder: Path, count: int) -> Path:
    """Write a run of some tests, and return its folder."""
    folder.mkdir()
    (folder / "campaign.yaml").write_text("name: some\nswitch: ovs\n")
    (folder / "host.json").write_text(json.dumps(HOST))
    lines = "".join(f"{line}\n" for line in lines_of_tests(count))
    (folder / "records.jsonl").write_text(lines)
    return folder


@pytest.mark.slow
def test_a_run_is_added_and_replaces_one_of_its_name(tmp_path: Path) -> None:
    gallery = tmp_path / "gallery"
    gallery.mkdir()
    (gallery / "some.md").write_text("![Some](some-earlier.svg)\n")
    for name in ("some-earlier.svg", "some-other-run.svg"):
        (gallery / name).write_text("")
    page = add("some", "Some tests", stored(tmp_path / "some", 4), ["trials"], gallery)
    assert "![Some tests: trials](some-trials.svg)" in page.read_text()
    assert "a virtual machine of 2 CPUs (Some CPU), Linux 6.1.0." in page.read_text()
    assert "[Some tests](some.md) | 20" in (gallery / "README.md").read_text()
    pictures = {path.name for path in gallery.glob("*.svg")}
    assert pictures == {"some-trials.svg", "some-other-run.svg"}


@pytest.mark.slow
def test_a_run_of_a_paper_is_added_with_the_figures_of_the_paper(tmp_path: Path) -> None:
    run = made_run(tmp_path, facts=HOST)
    page = add("table", "A table", run, ["ara-2021-table2-0"], tmp_path / "gallery")
    assert "batched system calls help UDP sockets" in page.read_text()
    with pytest.raises(ValueError, match="no chart none: ara-2021-table2-0"):
        add("table", "A table", run, ["none"], tmp_path / "gallery")
    assert (tmp_path / "gallery/table-ara-2021-table2-0.svg").is_file()


def test_a_run_without_a_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="measured nothing"):
        add("none", "None", stored(tmp_path / "none", 0), ["trials"], tmp_path / "gallery")
