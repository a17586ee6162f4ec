"""These tests open the page of runs in Chromium: it asks for nothing, says nothing to the
console, and is drawn at every width, in light and dark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from bench.page import tests as lines_of_tests

from browser import chromium, painted_ms, picture, run_in_page
from recorded import fresh, latency_trial
from switchmark.campaign.experiments import planned
from switchmark.campaign.store import read_records
from switchmark.model.test import Test
from switchmark.papers.library import read
from switchmark.path.refusals import check
from switchmark.report.judged import judged
from switchmark.report.page import page
from switchmark.report.paper_page import paper_page

AXE = Path(sys.prefix) / "share/switchmark/axe.min.js"
"""Where the set-up puts axe-core; SWITCHMARK_AXE names another place."""

WIDTHS = (500, 900, 1400)

HOSTILE = "</script><img src=http://x.invalid/ onerror=alert(1)>"

QUESTION = """
told.drawn = document.querySelectorAll(".chart.vega-embed").length;
told.figures = document.querySelectorAll("figure[data-chart]").length;
told.wide = document.documentElement.scrollWidth;
if (innerWidth <= 500) document.body.style.width = "380px";  // no window is that narrow
told.cut = [...document.querySelectorAll("[aria-label=figures] > table")]
  .map((table) => table.offsetWidth - table.parentElement.clientWidth);
document.body.style.width = "";
told.order = [...document.querySelectorAll("a[href], select, button, summary, [tabindex]")]
  .filter((each) => each.tabIndex > 0).length;
const select = document.querySelector("#filter select[name=switch]");
select.value = "ovs"; select.dispatchEvent(new Event("change", { bubbles: true }));
await new Promise((resolve) => setTimeout(resolve, 500));
told.rows = [...document.querySelectorAll("tr[data-key]")].filter((row) => !row.hidden).length;
told.count = document.getElementById("count").textContent;
told.explored = document.querySelectorAll("#explored svg.marks").length;
"""

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]  # and no part of make setup


@pytest.fixture(scope="module")
def report_html() -> str:
    sizes = ((64, "raw-mmsg"), (512, "raw-mmsg"), (1500, "udp-mmsg"))
    points = [(switch, *size) for switch in ("linux-bridge", "ovs") for size in sizes]
    records = [
        fresh(
            number,
            test=Test(switch=switch, frame_size=size, engine=engine, search="max"),
            trials=tuple(latency_trial(100_000, range(1000, 3000)) for _ in range(5)),
        )
        for number, (switch, size, engine) in enumerate(points, 1)
    ]
    return page([(HOSTILE, records)], {HOSTILE: "ip link add a\n"})


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_drawn_asks_for_nothing_and_fits(
    width: int, report_html: str, tmp_path: Path
) -> None:
    facts = run_in_page(report_html, tmp_path, QUESTION, width)
    assert facts["errors"] == []
    assert facts["console"] == []
    assert facts["requests"] == []
    assert facts["drawn"] == facts["figures"] >= 2
    assert facts["explored"] == 1
    assert facts["wide"] <= width
    assert facts["cut"]
    assert max(facts["cut"]) <= 0
    assert facts["order"] == 0
    assert (facts["rows"], facts["count"]) == (3, "3 of 6 tests")


PRINTED = """
const of = (name) => [...document.querySelectorAll(name)];
told.drawn = of("figure[data-chart] .chart.vega-embed").length;
told.figures = of("figure[data-chart]").length;
const wide = () => of(".scroll > table")
  .filter((table) => table.offsetWidth > table.parentElement.clientWidth).length;
told.wideOnScreen = wide();
for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]))
  if (rule.media?.mediaText === "print") rule.media.mediaText = "all";
told.wide = wide();
told.forms = of(".js-only").filter((each) => each.getClientRects().length).length;
"""
A4 = 718
"""How wide a sheet is without its margins, in pixels."""


def test_what_is_printed_has_every_chart_and_every_column(tmp_path: Path) -> None:
    doubts = ("host-busy", "cpu-stolen", "started-late", "cores-shared", "short", "slow-path")
    points = [(size, burst, pairs) for size in (64, 1500) for burst in (1, 32) for pairs in (1, 2)]
    records = [
        fresh(
            number,
            test=Test(frame_size=size, burst=burst, pairs=pairs, switch=switch, search="max"),
            trials=tuple(latency_trial(100_000, range(1000, 3000)) for _ in range(5)),
            doubts=doubts,
        )
        for number, (size, burst, pairs, switch) in enumerate(
            ((*point, switch) for point in points for switch in ("linux-bridge", "ovs")), 1
        )
    ]
    facts = run_in_page(page([("wide", records)]), tmp_path, PRINTED, A4, height=300)
    assert facts["errors"] == []
    assert facts["drawn"] == facts["figures"] >= 4
    assert facts["wideOnScreen"] >= 1
    assert (facts["wide"], facts["forms"]) == (0, 0)


def test_of_many_panels_the_first_are_drawn_and_a_filter_shows_others(tmp_path: Path) -> None:
    points = [(size, pairs) for size in (64, 1500) for pairs in range(1, 15)]
    records = [
        fresh(number, test=Test(frame_size=size, pairs=pairs, switch=switch, search="max"))
        for number, (size, pairs, switch) in enumerate(
            ((size, pairs, switch) for size, pairs in points for switch in ("ovs", "linux-bridge")),
            1,
        )
    ]
    question = """
    const text = () => document.querySelector("figure[data-chart='0'] svg").textContent;
    told.first = text().includes("12 of 14 panels");
    const select = document.querySelector("#filter select[name=pairs]");
    select.value = "14"; select.dispatchEvent(new Event("change", { bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 500));
    told.chosen = text().includes("pairs 14") && !text().includes("of 14 panels");
    """
    facts = run_in_page(page([("many", records)]), tmp_path, question)
    assert facts["errors"] == []
    assert (facts["first"], facts["chosen"]) == (True, True)


def test_of_a_thousand_tests_the_first_is_seen_within_two_seconds(tmp_path: Path) -> None:
    """By the browser's own clock; the best of some tries, as other work on a host takes turns."""
    chromium()
    (tmp_path / "campaign.yaml").write_text("name: thousand\nswitch: ovs\n")
    (tmp_path / "records.jsonl").write_text("".join(f"{line}\n" for line in lines_of_tests(1000)))
    text = page([("thousand", read_records(tmp_path))], stills=1)
    assert len(text) < 6e6
    tries = (painted_ms(text, tmp_path) for _ in range(5))
    assert any(ms <= 2000 for ms in tries)


KEYBOARD = """
const controls = [...document.querySelectorAll("a[href], select, button, summary, [tabindex]")]
  .filter((each) => each.checkVisibility());
const named = (each) => each.outerHTML.slice(0, 80);
told.kinds = [...new Set(controls.map((each) => each.tagName))].sort();
told.first = controls[0].className;
told.unreachable = controls.filter((each) => each.tabIndex !== 0).map(named);
told.unframed = controls.filter((each) => {
  each.focus();
  const style = getComputedStyle(each);
  const framed = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return document.activeElement !== each || !framed;
}).map(named);
const tops = controls.slice(1).map((each) => each.getBoundingClientRect().top + scrollY);
told.backwards = tops.filter((top, at) => at > 0 && top < tops[at - 1] - 60).length;
"""


@pytest.mark.parametrize("width", [500, 1400])
def test_tab_reaches_every_control_from_top_to_bottom_and_shows_where_it_is(
    width: int, report_html: str, tmp_path: Path
) -> None:
    facts = run_in_page(report_html, tmp_path, KEYBOARD, width)
    assert facts["errors"] == []
    assert facts["first"] == "skip"
    assert {"A", "SELECT", "BUTTON", "SUMMARY", "DIV", "PRE"} >= set(facts["kinds"])
    assert {"A", "SELECT", "BUTTON", "SUMMARY", "DIV"} <= set(facts["kinds"])
    assert facts["unreachable"] == []
    assert facts["unframed"] == []
    assert facts["backwards"] == 0


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_pictures_of_their_own(
    dark: bool, report_html: str, tmp_path: Path
) -> None:
    other = picture(report_html, tmp_path, 900, dark=not dark)
    assert picture(report_html, tmp_path, 900, dark=dark) != other


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_stands_in_the_way_of_who_cannot_see_it(
    dark: bool, report_html: str, tmp_path: Path
) -> None:
    script = Path(os.environ.get("SWITCHMARK_AXE", AXE))
    if not script.is_file():
        pytest.skip(f"axe-core is not at {script}: make setup PARTS=page")
    question = """
    const found = await axe.run(document, { resultTypes: ["violations"] });
    told.found = found.violations.filter((each) => /serious|critical/.test(each.impact))
      .map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" | ")}`);
    """
    # Part of the question, as the page lets no script run but its own.
    facts = run_in_page(report_html, tmp_path, f"{script.read_text()};{question}", dark=dark)
    assert facts["errors"] == []
    assert facts["found"] == []


MODES = """
const figure = document.querySelector("figure[data-other]");
const seen = () => ({ ticks: [...figure.querySelectorAll(".role-axis-label text")]
  .map((text) => text.textContent), caption: figure.querySelector("figcaption").textContent });
const button = figure.querySelector("button.mode");
told.first = { ...seen(), button: button.textContent };
button.click();
await new Promise((resolve) => setTimeout(resolve, 800));
told.second = { ...seen(), button: button.textContent };
button.click();
await new Promise((resolve) => setTimeout(resolve, 800));
told.third = seen();
"""


def test_a_button_switches_between_relative_and_absolute_values(tmp_path: Path) -> None:
    experiment = read("ara-2021/table2")
    points = planned(experiment, check, {}, quick=True)
    pairs = [(p.point, fresh(n, test=p.test)) for n, p in enumerate(points, 1) if p.test]
    facts = run_in_page(paper_page([judged(experiment, pairs)]), tmp_path, MODES)
    assert (facts["errors"], facts["console"], facts["requests"]) == ([], [], [])
    relative, absolute = facts["first"], facts["second"]
    assert (relative["button"], absolute["button"]) == ("absolute values", "relative values")
    assert "100%" in relative["ticks"]
    assert not [tick for tick in absolute["ticks"] if tick.endswith("%")]
    assert "100 % is" in relative["caption"]
    assert "100 % is" not in absolute["caption"]
    assert facts["third"]["ticks"] == relative["ticks"]
