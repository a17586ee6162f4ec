"""These tests hold the charts of papers to what is true: units, bounds, bases, looks and words."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import pytest

import switchmark.switches
from checked import check
from recorded import latency_trial
from switchmark.campaign.experiments import PlannedPoint, planned
from switchmark.metrics.named import metric
from switchmark.model.place import PortEnd
from switchmark.model.record import Record, TrialSpec
from switchmark.model.test import Test
from switchmark.papers.asked import Asked
from switchmark.papers.library import names, read
from switchmark.papers.points import Point
from switchmark.plots.chart import Chart, Mark, Reference, Scale
from switchmark.plots.looks import look_of_switch, looks_of
from switchmark.plots.render import svg
from switchmark.plots.vega import specification
from switchmark.report.drawn import PaperChart, Side, experiment_charts, paper_charts
from switchmark.report.judged import Judged, judged
from switchmark.report.paper import print_judged
from switchmark.report.paper_files import publication, write_papers
from switchmark.report.paper_method import departures, paper_method
from switchmark.report.paper_page import paper_page
from switchmark.report.paper_values import value_rows
from switchmark.report.paper_words import bibtex_of, cited
from synthetic import SyntheticSwitch

Rate = Callable[[Test], float | None]
"""The rate of the switch in a test; None for a test that was not run."""


def record_of(number: int, test: Test, pps: float, **changes: Any) -> Record:
    trials = tuple(
        SyntheticSwitch(pps, noise=0.001, seed=number)(
            TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
        )
        for _ in range(3)
    )
    content = {"key": f"{number:064x}", "number": number, "status": "ok", "error": None}
    record = Record(**{**content, "test": test, "trials": trials})
    return record.model_copy(update={"started": "2026-11-22T01:02:03+0100", **changes})


@cache
def points_of(name: str, *, quick: bool) -> list[PlannedPoint]:
    return planned(read(name), check, {}, quick=quick)


def result_of(
    name: str, rate: Rate = lambda test: None, *, quick: bool = False, **changes: Any
) -> Judged:
    """Return an experiment whose switches forward at these rates."""
    experiment = read(name)
    pairs: list[tuple[Point, Record | None]] = []
    for number, each in enumerate(points_of(name, quick=quick), 1):
        pps = rate(each.test) if each.test else None
        record = record_of(number, each.test, pps, **changes) if each.test and pps else None
        pairs.append((each.point, record))
    asked = Asked.model_validate({"schema": 1, "experiments": [name], "files": {}, "quick": quick})
    return judged(experiment, pairs, frozenset(), asked=asked)


def figures(result: Judged) -> list[PaperChart]:
    return paper_charts([Side("", result)])


def published(chart: Chart | None) -> list[Mark]:
    assert chart is not None
    return [mark for mark in chart.marks if mark.published]


def here(chart: Chart | None) -> list[Mark]:
    assert chart is not None
    return [mark for mark in chart.marks if not mark.published]


# --- units -----------------------------------------------------------------------------------


def drawn_figures() -> Iterator[Any]:
    for name in names():
        for number, figure in enumerate(read(name).figures):
            yield pytest.param(name, figure, id=f"{name}-{number}")


@pytest.mark.parametrize(("name", "figure"), list(drawn_figures()))
def test_a_diagonal_joins_like_units(name: str, figure: Any) -> None:
    if figure.diagonal:
        assert metric(figure.x).unit == metric(figure.y).unit != ""
    assert figure.title, f"{name} has no title in words"


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (Scale("rate"), Scale("received (Mpps)")),
        (Scale("offered (Gbps L1)"), Scale("received (Mpps)")),
        (Scale("rate", categories=("1M", "2M")), Scale("rate", categories=())),
    ],
)
def test_a_chart_with_a_diagonal_between_unlike_units_is_refused(x: Scale, y: Scale) -> None:
    with pytest.raises(ValueError, match="the same unit on both axes"):
        Chart("c", "", "", "lines", x, y, (Mark(1.0, 1.0),), diagonal=True)
    like = Scale("offered (Mpps)")
    Chart("c", "", "", "lines", like, Scale("received (Mpps)"), (Mark(1.0, 1.0),), diagonal=True)


def test_a_reference_in_another_unit_is_refused() -> None:
    line = Reference(9.9, "line rate", unit="Gbps L1")
    with pytest.raises(ValueError, match="line rate is in Gbps L1, and the y axis in Mpps"):
        Chart("c", "", "", "lines", Scale("x"), Scale("rx (Mpps)"), (), references=(line,))
    Chart("c", "", "", "lines", Scale("x"), Scale("rx (Gbps L1)"), (), references=(line,))


def test_the_diagonal_of_what_is_offered_passes_through_what_was_offered() -> None:
    (figure,) = figures(result_of("ara-2021/fig4a", lambda test: 4e5, r_plus_pps=4e5))
    for chart in (figure.absolute, figure.relative):
        assert chart is not None
        assert chart.diagonal
        offered = {mark.x for mark in here(chart)}
        received = {round(mark.y, 6) for mark in here(chart)}
        assert all(isinstance(x, float) for x in offered)
        assert max(received) <= max(x for x in offered if isinstance(x, float)) * 1.01
    assert figure.relative is not None
    assert {round(mark.y, 2) for mark in here(figure.relative)} == {1.0}


def test_bars_on_a_logarithmic_scale_begin_at_its_end() -> None:
    (figure,) = figures(result_of("zhang-2021/fig6", of_zhang))
    for chart, ticks in (
        (figure.absolute, (">0.1<", ">10<")),
        (figure.relative, (">10%<", ">100%<")),
    ):
        assert chart is not None
        assert chart.y.log
        picture = svg(specification(chart))
        for tick in ticks:
            assert tick in picture
        bars = re.findall(r'"bar" d="M[\d.]+,[\d.]+h[\d.]+v([\d.]+)h', picture)
        assert len({round(float(height)) for height in bars}) > 1


# --- what was published ----------------------------------------------------------------------


def test_a_range_is_a_bar_from_end_to_end_and_no_value_in_its_middle() -> None:
    (figure,) = figures(result_of("zhang-2021/fig4"))
    ranges = [m for m in published(figure.absolute) if m.low != m.high]
    assert {(m.series, m.panel, m.x, m.low, m.high) for m in ranges} == {
        ("fastclick", "both ways", "64", 10, 20),
        ("vpp", "both ways", "64", 10, 20),
    }
    assert figure.absolute is not None
    rows = specification(figure.absolute)["data"]["values"]
    assert {row["as"] for row in rows if row["y"] == 15} == {"range"}
    assert "bar with two ends: published as a range" in json.dumps(specification(figure.absolute))


@pytest.mark.parametrize(
    ("name", "how", "legend"),
    [
        ("zhang-2021/fig6", "most", "arrow down: published as at most"),
        ("ara-2021/fig5a", "most", "arrow down: published as at most"),
        ("ara-2021/fig4b", "least", "arrow up: published as at least"),
    ],
)
def test_a_bound_is_an_arrow(name: str, how: str, legend: str) -> None:
    (figure,) = figures(result_of(name))
    assert figure.absolute is not None
    rows = specification(figure.absolute)["data"]["values"]
    bounds = [row for row in rows if row["as"] == how]
    assert bounds
    assert all(row["low"] == row["high"] == row["y"] for row in bounds)
    assert legend in json.dumps(specification(figure.absolute)["title"])


def test_ranges_and_ends_of_a_distribution_are_along_its_latency() -> None:
    (figure,) = figures(result_of("zhang-2021/fig8"))
    marks = published(figure.absolute)
    assert {(m.panel, m.y, m.low, m.high) for m in marks if m.series == "vale"} == {
        ("10 % of R+", 0.5, 30, 40),
        ("50 % of R+", 0.5, 30, 40),
    }
    ends = [(m.y, m.x, m.bounded, m.at_most) for m in marks if m.series == ""]
    assert {*ends} == {(0.0, 4, True, False), (1.0, 1000, False, True)}
    assert len(ends) == 2 * 3  # one of each in a panel
    assert figure.absolute is not None
    drawn = specification(figure.absolute)
    legend = " ".join(drawn["title"]["subtitle"])
    assert "arrow right: published as at least; arrow left: published as at most" in legend
    rules = re.findall(
        r'<line [^>]*aria-roledescription="rule mark" [^>]*x2="([-\d.]+)" y2="([-\d.]+)"',
        svg(drawn),
    )
    assert rules
    assert all(float(x) != 0 and float(y) == 0 for x, y in rules)
    assert {row["spread"] for row in drawn["data"]["values"] if row["as"] == "range"} >= {
        "30 to 40 (published)"
    }
    (table, _) = figures(result_of("dissertation-2017/baseline"))[::-1]
    told = {(m.series, m.y): m.x for m in published(table.absolute)}
    assert told["on the host", 0.0] == 63.458
    assert told["on the host", 0.5] == 453.152
    assert told["on the host", 1.0] == 631.316


def test_what_is_uncertain_looks_uncertain() -> None:
    (figure,) = figures(result_of("emmerich-2014/fig8"))
    assert figure.absolute is not None
    assert [mark.uncertain for mark in published(figure.absolute)] == [True, True, True]
    assert [mark.uncertain for mark in published(figure.relative)] == [True, False, True]
    picture = svg(specification(figure.absolute))
    assert ">?<" in picture
    certain = figures(result_of("bonafiglia-2015/fig5b"))[0].absolute
    assert certain is None or ">?<" not in svg(specification(certain))


def test_a_bound_far_off_the_scale_is_said_and_does_not_flatten_the_curve() -> None:
    (figure,) = figures(result_of("ara-2021/fig4b", lambda test: 2e5))
    assert not published(figure.chart())
    assert "off the scale: at least 2 Mpps (uncertain)" in figure.chart().note  # type: ignore[union-attr]
    (near,) = figures(result_of("ara-2021/fig4b", lambda test: 9e5))
    assert len(published(near.chart())) == 1  # a statement about all switches is one mark
    assert "" not in looks_of(near.chart())  # type: ignore[arg-type]
    assert near.chart().note == ""  # type: ignore[union-attr]


# --- the relative mode -----------------------------------------------------------------------


def of_zhang(test: Test) -> float | None:
    """Return a hundredth of the published rates of two switches, which this host has."""
    gbps = {("ovs-dpdk", "uni", 64): 8.07, ("testpmd", "uni", 64): 10, ("testpmd", "bi", 64): 16}
    if test.switch not in ("ovs-dpdk", "testpmd"):
        return None
    both = 20 if test.direction == "bi" else 10
    known = gbps.get((test.switch, test.direction, int(test.frame_size)), both)
    return known * 1e9 / 100 / (int(test.frame_size) + 20) / 8


def test_where_shape_is_judged_ones_own_curve_fills_the_height_beside_the_papers() -> None:
    (figure,) = figures(result_of("zhang-2021/fig4", of_zhang))
    assert figure.prefers_relative
    chart = figure.chart()
    assert chart is not None
    assert max(mark.y for mark in here(chart)) == pytest.approx(1, abs=0.02)
    of_paper = {(m.series, m.panel, m.x): m.y for m in published(chart) if m.low == m.high}
    for mark in here(chart):
        if (expected := of_paper.get((mark.series, mark.panel, mark.x))) is not None:
            assert mark.y == pytest.approx(expected, abs=0.02), mark
    assert "100 % is ovs-dpdk, both ways, 256 B: 0.2 here, 20 in the paper" in chart.note
    assert chart.y.percent
    assert figure.other is figure.absolute


def test_absolute_values_are_shown_first_where_a_claim_about_them_was_decided() -> None:
    (figure,) = figures(result_of("zhang-2021/fig4"))
    assert not figure.prefers_relative  # nothing was measured
    (alone,) = figures(result_of("ara-2021/fig4c", lambda test: 2e5))
    assert not alone.prefers_relative  # nothing was published


def test_the_base_may_be_a_value_of_an_axis() -> None:
    rates = {1: 3e5, 2: 4.2e5, 3: 4.8e5}
    (figure,) = figures(result_of("emmerich-2014/fig8", lambda test: rates[test.copies]))
    assert figure.relative is not None
    told = {mark.x: round(mark.y, 2) for mark in here(figure.relative)}
    assert told == {"1": 1.0, "2": 0.7, "3": pytest.approx(0.53, abs=0.01)}
    assert "copies 1" in figure.relative.note


def test_a_ratio_is_drawn_at_the_published_value_that_it_refers_to() -> None:
    (figure,) = figures(result_of("emmerich-2014/fig8"))
    told = {mark.x: mark.y for mark in published(figure.absolute)}
    assert told == pytest.approx({"1": 1.88, "2": 0.7 * 1.88, "3": 0.7 * 0.75 * 1.88})
    (second,) = (mark for mark in published(figure.absolute) if mark.x == "2")
    assert second.note == "published: 0.7 times that at copies 1; section IV.C"


def test_a_ratio_alone_is_drawn_only_where_its_point_is_100_percent() -> None:
    (figure,) = figures(result_of("ara-2021/fig4f", lambda test: 3e5 * test.pairs))
    assert not published(figure.absolute)
    told = {(mark.series, mark.x): mark.y for mark in published(figure.relative)}
    assert told == {("vale", 4.0): 4, ("sriov", 4.0): 3.288}
    assert figure.prefers_relative
    (other,) = figures(result_of("emmerich-2014/text-perf"))
    assert other.absolute is None
    assert [(mark.x, mark.y) for mark in published(other.relative)] == [("99", 0.99)]


# --- looks and words -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_switch_looks_the_same_in_every_chart() -> None:
    seen: dict[str, set[tuple[str, str]]] = {}
    for name in names():
        for figure in figures(result_of(name)):
            chart = figure.absolute
            if chart is None:
                continue
            switches = {mark.series: mark.switch for mark in chart.marks}
            for series, look in looks_of(chart).items():
                if series == switches[series] and len(set(switches.values())) > 1:
                    seen.setdefault(series, set()).add((look.colour, look.shape))
    assert len(seen) > 5
    assert all(len(looks) == 1 for looks in seen.values())
    assert seen["snabb"] == {(look_of_switch("snabb").colour, look_of_switch("snabb").shape)}


def test_the_looks_of_switches_follow_their_table_and_differ() -> None:
    looks = [look_of_switch(name) for name in switchmark.switches.TABLE]
    assert len({look.colour for look in looks}) == len(looks)
    assert "cross" not in {look.shape for look in looks}
    assert look_of_switch("ovs@2.0") == look_of_switch("ovs")


def test_versions_of_a_switch_differ_in_their_marks_and_dashes() -> None:
    marks = tuple(
        Mark(x, 1.0, name, switch=name)
        for name in ("ovs@2.0", "ovs@1.9", "vpp")
        for x in (1.0, 2.0)
    )
    chart = Chart("c", "", "", "lines", Scale("x"), Scale("y"), marks)
    looks = looks_of(chart)
    assert len({(look.colour, look.shape, look.dash) for look in looks.values()}) == 3
    assert len({look.dash for look in looks.values()}) == 2
    assert "strokeDash" in json.dumps(specification(chart))


def test_panels_stand_as_in_the_paper_with_words() -> None:
    (figure,) = figures(result_of("zhang-2021/fig4"))
    assert figure.absolute is not None
    assert figure.absolute.panel_names() == ["one way", "both ways"]
    (rates,) = figures(result_of("zhang-2021/fig8"))
    assert rates.absolute is None or rates.absolute.panel_names()[0] == "10 % of R+"


@pytest.mark.slow
def test_titles_and_captions_are_words_for_a_reader() -> None:
    for name in names():
        for figure in figures(result_of(name, lambda test: 3e5, quick=True)):
            chart = figure.chart()
            if chart is not None:
                assert name not in chart.title
                assert "marks" not in chart.says
                assert chart.title[:1].isupper()


def test_a_title_is_whole_in_every_width() -> None:
    (figure,) = figures(result_of("zhang-2021/fig4", of_zhang))
    chart = figure.chart()
    assert chart is not None
    for width in (240, 640):
        picture = svg(specification(chart, width))
        lines = re.findall(r"font-size=\"14px\"[^>]*>(.*?)</text>", picture)
        words = re.findall(r"[\w,]+", " ".join(re.findall(r">([^<]+)<", picture)))
        assert set(chart.title.replace(",", "").split()) <= {w.strip(",") for w in words}, lines


def test_a_caption_says_how_and_what_was_not_measured() -> None:
    (figure,) = figures(result_of("zhang-2021/fig4", of_zhang, quick=True))
    chart = figure.chart()
    assert chart is not None
    assert chart.says.startswith("Zhang et al. (2021), figure 4, section 5.1: ")
    assert "Here: median of 3 trials of 0.5 s (--quick), 22 November 2026." in chart.says
    assert "Not measured here: bess, fastclick, snabb, vpp, t4p4s, vale." in chart.says


# --- what is missing, and what differs -------------------------------------------------------


def test_no_metric_is_dropped_in_silence() -> None:
    (figure,) = figures(result_of("emmerich-2014/fig13", lambda test: 3e5))
    assert figure.chart() is None
    assert len(figure.missing) == 2
    page = paper_page([result_of("emmerich-2014/fig13", lambda test: 3e5)])
    assert "(cost.cycles_load), because the processor&#x27;s counters did not cover" in page
    stream = io.StringIO()
    print_judged(result_of("emmerich-2014/fig13", lambda test: 3e5), stream)
    printed = " ".join(stream.getvalue().split())
    assert "(cost.scheduler_load), because the kernel's load of the CPUs was not read" in printed
    assert "here cost." not in printed  # no column of dashes
    (second,) = figures(result_of("emmerich-2014/fig7", lambda test: 3e5))
    chart = second.chart()
    assert chart is not None
    assert "(cost.cache_misses_per_frame), because" in chart.says


def test_a_value_that_is_missing_has_its_reason_in_the_table() -> None:
    result = result_of("zhang-2021/fig4", of_zhang)
    rows = [row for row in value_rows(result) if row.here is None]
    assert rows
    assert all(row.why for row in rows)
    page = paper_page([result])
    assert escape(rows[0].why) in page.partition("why it is missing</th>")[2]


def test_a_diagonal_stays_inside_of_the_chart() -> None:
    (figure,) = figures(result_of("ara-2021/fig4a", lambda test: 4e5, r_plus_pps=4e5))
    chart = figure.chart()
    assert chart is not None
    (line,) = (
        layer["mark"]
        for layer in specification(chart)["layer"]
        if isinstance(layer["mark"], dict) and layer["mark"].get("strokeDash") == [2, 3]
    )
    assert line["clip"]


def test_a_measured_ratio_stands_beside_the_published_one() -> None:
    rates = {1: 1e6, 2: 8e5, 3: 6e5}
    rows = value_rows(result_of("emmerich-2014/fig8", lambda test: rates[test.copies]))
    per_copy = {number: rate / number for number, rate in rates.items()}
    ratios = [row.ratio for row in rows]
    assert ratios == [
        pytest.approx(ratio, rel=0.01)
        for ratio in (
            per_copy[1] / 1.88e6,
            per_copy[2] / per_copy[1] / 0.7,
            per_copy[3] / per_copy[2] / 0.75,
        )
    ]


def test_a_nic_that_the_switch_opens_past_the_kernel_is_no_departure() -> None:
    def said(**changes: Any) -> bool:
        result = result_of("ara-2021/fig4b", lambda test: 3e5, port="vhost-user", **changes)
        records = tuple(
            record
            and record.model_copy(
                update={"test": record.test.model_copy(update={"locality": "remote"})}
            )
            for record in result.records
        )
        return any("AF_PACKET" in each for each in departures(replace(result, records=records)))

    assert said()
    assert not said(nics={PortEnd("a:u0", at_switch=True): "0000:03:00.0 [8086:1572]"})


def test_what_a_quick_run_and_the_scale_change_is_said() -> None:
    quick = departures(result_of("ara-2021/fig4a", lambda test: 3e5, quick=True))
    assert "rate 10%..10%..150% instead of 1M..1M..20M (shares of this host's R+)" in quick
    assert "duration 500ms instead of 1min (--quick)" in quick
    assert any(each.startswith("only rate 20%, 60%") for each in quick)
    chosen = result_of("ara-2021/fig4a", lambda test: 3e5, quick=True)
    chosen = replace(
        chosen, asked=chosen.asked and chosen.asked.model_copy(update={"axes": {"duration": "0.2"}})
    )
    assert [each for each in departures(chosen) if "duration" in each] == [
        "duration 0.2 instead of 1min (option)"
    ]
    whole = departures(result_of("ara-2021/fig4b", lambda test: 3e5))
    assert not [each for each in whole if "--quick" in each]
    queues = departures(result_of("dissertation-2017/case1", lambda test: 3e5, quick=True))
    assert any(each.startswith("queues 1 instead of") for each in queues)
    ping = departures(result_of("zhang-2021/fig10", lambda test: None))
    assert "rate also 10% (shares of this host's R+)" in ping


def test_what_the_host_has_not_is_said() -> None:
    ran: dict[str, Any] = {"port": "vhost-user", "switch_mode": "userspace"}
    ran |= {"doubts": ("cores-overcommitted",)}
    told = departures(result_of("dissertation-2017/baseline", lambda test: 3e5, **ran))
    assert "ports of kind vhost-user instead of NICs" in told
    assert "ovs ran in mode userspace, and the paper is about mode kernel" in told
    assert any(each.startswith("too few CPUs, so that parts of") for each in told)
    chart = experiment_charts(result_of("dissertation-2017/baseline", lambda test: 3e5, **ran))[0]
    assert "ovs ran in mode userspace" in chart.note
    remote: dict[str, Any] = {"port": "vhost-user", "cables": {"c": "made for the test"}}
    result = result_of("ara-2021/fig4d", lambda test: 3e5, **remote)
    assert not [each for each in departures(result) if "AF_PACKET" in each]  # none was remote
    far = result.measured[0].test.model_copy(update={"locality": "remote", "hosts": "a,b"})
    experiment = read("ara-2021/fig4d")
    at = [(Point({"switch": far.switch}), record_of(1, far, 3e5, **remote))]
    assert any("AF_PACKET" in each for each in departures(judged(experiment, at)))


# --- files -----------------------------------------------------------------------------------


def test_a_folder_has_all_that_a_publication_needs(tmp_path: Path) -> None:
    result = result_of("zhang-2021/fig4", of_zhang, quick=True)
    write_papers(tmp_path / "out", [result])
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {
        *("index.html", "figures.tex", "values.tex", "values.csv", "claims.json"),
        *("references.bib", "zhang-2021-fig4-0.svg", "zhang-2021-fig4-0.pdf"),
        *("zhang-2021-fig4-0-relative.svg", "zhang-2021-fig4-0-relative.pdf"),
    }
    bib = (tmp_path / "out" / "references.bib").read_text()
    assert "doi = {10.1016/j.comnet.2021.107861}" in bib
    assert "@misc{switchmark" in bib
    table = (tmp_path / "out" / "values.tex").read_text()
    assert "published & received rate (Gbps L1), here & ratio" in table
    caption = (tmp_path / "out" / "figures.tex").read_text()
    assert r"\includegraphics[width=\linewidth]{zhang-2021-fig4-0-relative.pdf}" in caption
    assert "NIC to NIC" not in (tmp_path / "out" / "zhang-2021-fig4-0.svg").read_text()


def test_a_doi_is_given_only_if_the_source_has_it_and_an_author_only_if_named() -> None:
    assert "doi" not in bibtex_of(read("ara-2021/fig4a").source, "ara-2021")
    dissertation = read("dissertation-2017/case1").source
    assert "author" not in bibtex_of(dissertation, "dissertation-2017")
    assert "the text at hand" not in cited(dissertation, "dissertation-2017")


def test_the_page_says_how_it_was_measured_and_has_the_values() -> None:
    result = result_of("zhang-2021/fig4", of_zhang, quick=True, doubts=("host-busy",))
    page = paper_page([result])
    assert paper_method(result).split(".")[0] in page
    assert "A trial took 1 s" in page or "A trial took 0.5 s" in page
    for words in ("doubts: host-busy", "here ÷ published", "8.07", "<summary>BibTeX</summary>"):
        assert words in page, words


def test_a_page_has_both_modes_of_a_figure_and_a_button() -> None:
    page = paper_page([result_of("zhang-2021/fig4", of_zhang)])
    assert re.search(r"data-chart='0' data-other='1'", page)
    assert "<button type='button' class='mode js-only'>absolute values</button>" in page


def test_the_quantiles_of_a_paper_are_on_its_distribution() -> None:
    def late(test: Test) -> float | None:
        return 2e5 if test.frame_size == 128 else None

    trials = (latency_trial(200_000, range(1000, 3000)),) * 3
    result = result_of("dissertation-2017/case1", late, trials=trials)
    chart = next(f.absolute for f in figures(result) if f.absolute and f.absolute.kind == "curves")
    crosses = {(mark.x, mark.y) for mark in published(chart)}
    assert (14.26, 0.45) in crosses


def test_publication_has_no_run_without_a_chart() -> None:
    files = publication([result_of("emmerich-2014/fig13", lambda test: 3e5)])
    assert not [name for name in files if name.endswith(".svg")]
    assert "Not shown" in str(files["index.html"])
