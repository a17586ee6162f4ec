"""These tests build the site, and read it in Chromium as a user without a network does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tools.website.__main__ import GENERATOR, build, write

from browser import Window, window
from contract.test_browser import AXE

SCREENS = {400: 800, 800: 1000, 1400: 900}
"""The height of a screen of each width, in pixels."""

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not GENERATOR.exists():
        pytest.skip("the site's generator is not installed: make site")
    folder = tmp_path_factory.mktemp("site")
    write(folder)
    assert build(folder) == []
    return folder / "html"


@pytest.fixture(scope="module")
def browser(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    with window(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def test_the_site_has_its_parts_and_the_licence_of_its_scripts(site: Path) -> None:
    pages = ("guide/trust", "reference/axes", "gallery/index", "decisions/index", "CHANGELOG")
    assert [page for page in pages if not (site / f"{page}.html").is_file()] == []
    assert "MIT" in (site / "assets/LICENSE.md").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", SCREENS)
def test_the_first_page_fits_one_screen(
    width: int, dark: bool, site: Path, browser: Window
) -> None:
    browser.show(site / "index.html", width, SCREENS[width], dark=dark)
    end = browser.ask(
        "document.querySelector('article').lastElementChild.getBoundingClientRect().bottom"
    )
    assert end <= SCREENS[width]
    shade = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (shade == "rgb(255, 255, 255)") is not dark


WIDE = """
[...document.querySelectorAll("article *")]
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter((each) => !each.closest(".md-typeset__scrollwrap, table, pre"))
  .map((each) => each.outerHTML.slice(0, 100))
"""


def wide(pages: Iterable[Path], browser: Window) -> dict[str, list[str]]:
    """Return what reaches over the edge of a screen of 400 pixels, by page."""
    found = {}
    for page in pages:
        browser.show(page, 400, 800)
        parts = browser.ask(WIDE)
        scrolls = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        if parts or browser.ask(scrolls):
            found[str(page)] = parts
    return found


PAGES = ("index", "guide/trust", "guide/papers", "reference/axes", "gallery/demo", "CONTRIBUTING")


def test_a_page_is_no_wider_than_400_pixels(site: Path, browser: Window) -> None:
    assert wide((site / f"{page}.html" for page in PAGES), browser) == {}


@pytest.mark.further
@pytest.mark.timeout(600)
def test_no_page_is_wider_than_400_pixels(site: Path, browser: Window) -> None:
    assert wide(site.rglob("*.html"), browser) == {}


def test_a_page_fetches_nothing_from_elsewhere_and_says_nothing(
    site: Path, browser: Window
) -> None:
    browser.requests.clear()
    browser.console.clear()
    for page in PAGES:
        browser.show(site / f"{page}.html", 1400, 900)
    assert browser.requests
    local = (f"file://{site}", "data:")
    assert [request for request in browser.requests if not request.startswith(local)] == []
    assert browser.console == []


FOUND = """
(async () => {
  const parts = (root) => [...root.querySelectorAll("*")]
    .flatMap((each) => (each.shadowRoot ? parts(each.shadowRoot) : [each]));
  const results = () => parts(document)
    .filter((each) => each.tagName === "A" && each.getRootNode() !== document)
    .map((link) => link.href);
  for (let tries = 0; tries < 200 && !results().some((each) => each.includes("?h=WORD")); tries++)
    await new Promise((resolve) => setTimeout(resolve, 50));
  return results();
})()
"""


def test_the_search_finds_a_page_without_a_server(site: Path, browser: Window) -> None:
    browser.show(site / "guide/index.html", 1400, 900)
    browser.ask("document.querySelector('.md-search__button').click()")
    for key in "hugepages":
        browser.order("Input.dispatchKeyEvent", type="keyDown", text=key, key=key)
    found = browser.ask(FOUND.replace("WORD", "hugepages"))
    assert any("guide/kernel-bypass.html?h=hugepages" in link for link in found)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "page", ["index", "guide/ci", "guide/labs", "reference/axes", "gallery/demo"]
)
def test_nothing_stands_in_the_way_of_who_cannot_see_a_page(
    page: str, dark: bool, site: Path, browser: Window
) -> None:
    script = Path(os.environ.get("SWITCHMARK_AXE", AXE))
    if not script.is_file():
        pytest.skip(f"axe-core is not at {script}: make setup PARTS=page")
    browser.show(site / f"{page}.html", 1400, 900, dark=dark)
    browser.ask(script.read_text() + "; 0")
    found = browser.ask(
        "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations"
        ".filter((each) => /serious|critical/.test(each.impact))"
        ".map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(' | ')}`))"
    )
    assert found == []
