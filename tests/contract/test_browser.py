"""These tests open the page of runs in Chromium: it asks for nothing, says nothing to the
console, and is drawn at every width, in light and dark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from browser import asked, picture
from recorded import fresh
from switchmark.model.spec import Test
from switchmark.report.page import page

WIDTHS = (500, 900, 1400)

HOSTILE = "</script><img src=http://x.invalid/ onerror=alert(1)>"

QUESTION = """
told.drawn = document.querySelectorAll(".chart.vega-embed").length;
told.figures = document.querySelectorAll("figure[data-chart]").length;
told.wide = document.documentElement.scrollWidth;
told.order = [...document.querySelectorAll("a[href], select, button, summary, [tabindex]")]
  .filter((each) => each.tabIndex > 0).length;
const select = document.querySelector("#filter select[name=switch]");
select.value = "ovs"; select.dispatchEvent(new Event("change", { bubbles: true }));
await new Promise((resolve) => setTimeout(resolve, 500));
told.rows = [...document.querySelectorAll("tr[data-key]")].filter((row) => !row.hidden).length;
told.count = document.getElementById("count").textContent;
told.explored = document.querySelectorAll("#explored svg.marks").length;
"""

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def written() -> str:
    made = [(switch, size) for switch in ("linux-bridge", "ovs") for size in (64, 512, 1500)]
    records = [
        fresh(number, test=Test(switch=switch, frame_size=size, search="max"))
        for number, (switch, size) in enumerate(made, 1)
    ]
    return page([(HOSTILE, records)], {HOSTILE: "ip link add a\n"})


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_drawn_asks_for_nothing_and_fits(
    width: int, written: str, tmp_path: Path
) -> None:
    told = asked(written, tmp_path, QUESTION, width)
    assert told["errors"] == []
    assert told["console"] == []
    assert told["requests"] == []
    assert told["drawn"] == told["figures"] >= 2
    assert told["explored"] == 1
    assert told["wide"] <= width
    assert told["order"] == 0
    assert (told["rows"], told["count"]) == (3, "3 of 6 tests")


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_pictures_of_their_own(dark: bool, written: str, tmp_path: Path) -> None:
    other = picture(written, tmp_path, 900, dark=not dark)
    assert picture(written, tmp_path, 900, dark=dark) != other


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_stands_in_the_way_of_who_cannot_see_it(
    dark: bool, written: str, tmp_path: Path
) -> None:
    script = os.environ.get("SWITCHMARK_AXE")
    if script is None:
        pytest.skip("SWITCHMARK_AXE names no axe.min.js of the npm package axe-core")
    question = """
    const found = await axe.run(document, { resultTypes: ["violations"] });
    told.found = found.violations.filter((each) => /serious|critical/.test(each.impact))
      .map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" | ")}`);
    """
    axe = f"<script>{Path(script).read_text()}</script></head>"
    told = asked(written.replace("</head>", axe, 1), tmp_path, question, dark=dark)
    assert told["errors"] == []
    assert told["found"] == []
