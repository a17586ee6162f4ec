"""These tests draw records: which plots show them, what each mark says, and that all can be made
pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from recorded import fresh, latency_trial
from switchmark.metrics.named import metric
from switchmark.model.cable import Calibration
from switchmark.model.record import PartReport, Record, TrialSpec
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.model.units import gbps_l1
from switchmark.plots import TABLE, charts
from switchmark.plots.chart import Chart, Kind, Mark, Reference, Scale
from switchmark.plots.latency import thinned
from switchmark.plots.layers import VALUES
from switchmark.plots.looks import COLOURS
from switchmark.plots.render import pdf, png, svg
from switchmark.plots.scales import in_handy_units
from switchmark.plots.vega import specification, specification_of_page, together
from synthetic import SyntheticSwitch

SWITCHES = ("linux-bridge", "ovs", "macvlan")


def records_along(axis: str, values: Sequence[Any], **others: Any) -> list[Record]:
    """Return a record for each value of an axis and each switch."""
    points = [(switch, value) for switch in SWITCHES for value in values]
    tests = [
        Test(**{"search": "max", "frame_size": 64, **others, "switch": switch, axis: value})
        for switch, value in points
    ]
    return [fresh(number, test=test) for number, test in enumerate(tests, 1)]


def loads() -> list[Record]:
    """Return records of one switch at growing loads, with their latencies."""
    records = []
    for number, rate in enumerate((100_000, 200_000, 300_000, 400_000), 1):
        late = [1000 * number + value for value in range(2000)]
        trials = tuple(latency_trial(rate, late) for _ in range(3))
        test = Test(switch="ovs", rate=str(rate), frame_size=64)
        records.append(fresh(number, test=test, trials=trials))
    return records


def drawn(name: str, records: Sequence[Record]) -> Chart:
    chart = TABLE[name].draw(records)
    assert chart is not None, name
    return chart


SHOWN = {
    "figures": records_along("frame_size", [64]),
    "rate-against-size": records_along("frame_size", [64, 512, 1500]),
    "gbps-against-size": records_along("frame_size", [64, 512, 1500]),
    "received-against-offered": loads(),
    "loss-against-offered": loads(),
    "latency-against-load": loads(),
    "latency-distribution": loads(),
    "latency-percentiles": loads(),
    "rate-against-pairs": records_along("pairs", [1, 2, 10]),
    "rate-against-chain": records_along("chain", [1, 2, 4], scenario="loopback"),
    "rate-against-flows": records_along("flows", [1, 10, 1000]),
    "rate-against-burst": records_along("burst", [1, 8, 32]),
    "two-axes": [
        fresh(size // 64 + 4 * pairs, test=Test(search="max", frame_size=size, pairs=pairs))
        for size in (64, 128, 256)
        for pairs in (1, 2, 3)
    ],
    "trials": records_along("frame_size", [64]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_plot_draws_what_shows_it_as_a_picture(name: str) -> None:
    chart = drawn(name, SHOWN[name])
    assert chart.marks
    assert chart.says
    assert chart.title
    picture = svg(specification(chart))
    assert picture.startswith("<svg")
    assert chart.y.title.partition(" (")[0] in picture


@pytest.mark.parametrize("name", TABLE)
def test_a_plot_draws_nothing_of_nothing(name: str) -> None:
    refused = fresh(1, status="refused", trials=(), error="no")
    assert TABLE[name].draw([]) is None
    assert TABLE[name].draw([refused]) is None


@pytest.mark.parametrize("name", sorted(set(SHOWN) - {"figures", "trials"}))
def test_a_plot_of_several_points_draws_nothing_of_one_without_latency(name: str) -> None:
    assert TABLE[name].draw([fresh(1)]) is None


def test_lines_come_before_bars_in_many_panels_and_bars_of_one_panel_first() -> None:
    assert charts(SHOWN["rate-against-size"])[0].name == "rate-against-size"
    assert charts(loads())[0].kind in ("bars", "lines")
    assert charts(SHOWN["figures"])[0].name == "figures"


def test_bars_stand_by_their_figures_with_intervals_of_thirteen_trials() -> None:
    marks = drawn("figures", SHOWN["figures"]).marks
    assert [mark.y for mark in marks] == sorted((mark.y for mark in marks), reverse=True)
    assert all(mark.ranged for mark in marks)  # of three
    assert all((mark.low or 0) < mark.y < (mark.high or 0) for mark in marks)
    switch, spec = SyntheticSwitch(noise=0.05), TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
    trials = tuple(switch(spec) for _ in range(13))
    (mark,) = drawn("figures", [fresh(trials=trials)]).marks
    assert not mark.ranged
    assert mark.low is not None
    assert mark.high is not None
    assert mark.low < mark.y < mark.high


def test_doubts_and_limits_of_the_sender_are_on_the_marks() -> None:
    doubted = fresh(1, doubts=("drift",), verdict="switch")
    bounded = fresh(2, test=Test(switch="ovs", search="max"), verdict="sender")
    marks = {mark.x: mark for mark in drawn("figures", [doubted, bounded]).marks}
    assert [mark.doubted for mark in marks.values()].count(True) == 1
    assert [mark.bounded for mark in marks.values()].count(True) == 1


def rows_of(chart: Chart) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = specification(chart)["data"]["values"]
    return rows


def of_kind(kind: Kind, *marks: Mark, **changes: Any) -> Chart:
    names = tuple(str(mark.x) for mark in marks) if isinstance(marks[0].x, str) else ()
    chart = Chart("a", "A title", "It says.", kind, Scale("x", categories=names), Scale("y"), marks)
    return replace(chart, **changes)


KINDS: dict[Kind, Chart] = {
    "lines": of_kind("lines", Mark(1, 1.0, "a", low=0.5, high=2), Mark(2, 2.0, "a", doubted=True)),
    "bars": of_kind("bars", Mark("p", 1.0, low=0.5, high=2), Mark("q", 2.0, bounded=True)),
    "points": of_kind("points", Mark(1, 1.0), Mark(2, 2.0, published=True)),
    "curves": of_kind("curves", Mark(1, 0.1, "a"), Mark(2, 0.9, "a")),
    "boxes": of_kind("boxes", Mark("p", 1.0), Mark("p", 2.0), Mark("p", 3.0)),
    "stacks": of_kind("stacks", Mark("p", 1.0, "sender"), Mark("p", 2.0, "switch")),
    "heat": of_kind("heat", Mark("1", 1.0, "64"), Mark("2", 2.0, "128"), series="frame size"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_picture_with_panels_and_without(kind: Kind) -> None:
    chart = KINDS[kind]
    assert "A title" in svg(specification(chart))
    for panels in (
        tuple(replace(mark, panel=panel) for mark in chart.marks for panel in ("one", "two")),
        tuple(replace(mark, panel=panel, row="r") for mark in chart.marks for panel in ("one",)),
    ):
        parted = replace(chart, marks=panels, panels="pairs")
        picture = svg(specification(parted))
        assert "one" in picture


def test_published_marks_are_crosses_and_are_told() -> None:
    spec = json.dumps(specification(KINDS["points"]))
    assert '"shape": "cross"' in spec
    assert "cross: published" in spec
    assert [row["kind"] for row in rows_of(KINDS["points"])] == ["sure", "published"]


def test_what_is_hollow_and_bounded_is_told_only_where_it_is() -> None:
    assert "hollow: may be wrong" in json.dumps(specification(KINDS["lines"]))
    assert "arrow up" not in json.dumps(specification(KINDS["lines"]))
    assert "arrow up" in svg(specification(KINDS["bars"]))
    arrow = 'd="M0,-9'  # its tip; the shape is one of ours, scaled
    drawn = {kind: svg(specification(KINDS[kind])).count(arrow) for kind in ("bars", "lines")}
    assert drawn == {"bars": 1, "lines": 0}


def test_references_a_diagonal_and_a_second_scale_are_drawn() -> None:
    chart = replace(
        KINDS["lines"],
        references=(Reference(1.5, "on a bare cable"),),
        diagonal=True,
        second=(Mark(1, 70.0), Mark(2, 90.0)),
        y2=Scale("cores of all"),
    )
    picture = svg(specification(chart))
    assert "on a bare cable" in picture
    assert "cores of all" in picture
    assert "stroke-dasharray" in picture


def test_on_a_second_scale_each_series_has_a_line_of_its_own_beside_its_bars() -> None:
    places = [(x, series) for x in "123" for series in ("1500", "64", "512")]
    chart = replace(
        of_kind("bars", *(Mark(x, 1.0, series) for x, series in places)),
        x=Scale("chain", categories=("1", "2", "3")),
        second=tuple(Mark(x, float(series), series) for x, series in places),
        y2=Scale("received (Gbps)"),
    )
    specified = specification(chart)
    picture = svg(specified)
    lines = re.findall(r'<path[^>]* d="([^"]*)"[^>]*stroke-dasharray="4,3"', picture)
    assert len(lines) == 3
    assert {line.count("L") for line in lines} == {2}
    starts = [float(re.findall(r"M([0-9.]+)", line)[0]) for line in lines]
    assert len(set(starts)) == 3
    assert "white squares: received (Gbps), at the right" in json.dumps(specified)
    (domain,) = set(
        re.findall(r'"xOffset": {"field": "series", "scale": ({.*?})}', json.dumps(specified))
    )
    assert json.loads(domain) == {"domain": ["64", "512", "1500"]}


def test_series_and_panels_stand_by_the_numbers_in_them() -> None:
    marks = [Mark(1, 1.0, f"pairs {n}", f"{n}") for n in (10, 9, 1)]
    chart = of_kind("lines", *marks)
    assert chart.series_names() == ["pairs 1", "pairs 9", "pairs 10"]
    assert chart.panel_names() == ["1", "9", "10"]
    assert of_kind("lines", Mark(1, 1, "10a"), Mark(1, 1, "b")).series_names() == ["10a", "b"]


def test_several_charts_are_one_document_of_every_kind() -> None:
    whole = together([specification(chart) for chart in (KINDS["lines"], KINDS["bars"])])
    assert svg(whole).count("A title") >= 2
    assert pdf(whole).startswith(b"%PDF")
    assert png(whole).startswith(b"\x89PNG")


def test_a_curve_keeps_its_end_and_few_points() -> None:
    points = [(float(number), number / 10_000) for number in range(1, 10_001)]
    for most in (20, 300):
        thin = thinned(points, most)
        assert thin[-1] == (10_000.0, 1.0)
        assert most / 2 <= len(thin) <= 2 * most + 1


def test_colours_differ() -> None:
    assert len(set(COLOURS)) == len(COLOURS) >= 10


# --- what figures are held against -----------------------------------------------------------


def calibrated(number: int, rate_pps: float, **axes: Any) -> Record:
    """Return a record whose traffic program does so much on a cable."""
    cable = Calibration(
        switch="direct", rate_pps=(0.9 * rate_pps, rate_pps, 1.1 * rate_pps), sent_pps=rate_pps
    )
    test = Test(**{"search": "max", "frame_size": 64, **axes})
    return fresh(number, test=test, calibration=cable)


def test_one_cable_for_all_is_a_line_across_with_its_interval() -> None:
    records = [calibrated(n, 1.2e6, switch=name) for n, name in enumerate(SWITCHES, 1)]
    (held,) = drawn("figures", records).references
    assert (held.name, held.x) == ("baseline", None)
    assert (held.low, held.y, held.high) == pytest.approx((1.08, 1.2, 1.32))
    assert "dashed line: baseline 1.2" in svg(specification(drawn("figures", records)))


def test_sizes_and_mixes_of_sizes_are_on_one_axis() -> None:
    records = records_along("frame_size", [64, "imix", 1500])
    chart = drawn("rate-against-size", records)
    assert chart.x.categories == ("64", "imix", "1500")
    assert list(dict.fromkeys(mark.x for mark in chart.marks)) == ["64", "imix", "1500"]


def test_cables_of_several_sizes_are_a_line_along_them_in_the_unit_of_the_chart() -> None:
    sizes = {64: 1.5e6, 512: 1.2e6, 1500: 1e6}
    records = [
        calibrated(n, pps, frame_size=size) for n, (size, pps) in enumerate(sizes.items(), 1)
    ]
    assert {held.x: held.y for held in drawn("rate-against-size", records).references} == {
        str(size): pytest.approx(pps / 1e6) for size, pps in sizes.items()
    }
    in_bits = {held.x: held.y for held in drawn("gbps-against-size", records).references}
    assert in_bits["1500"] == pytest.approx(gbps_l1(1e6, 1500))
    assert "grey line: baseline" in svg(specification(drawn("gbps-against-size", records)))


def test_switches_that_had_cables_of_their_own_are_named_at_each() -> None:
    records = [
        calibrated(10 * n + m, 1e6 * n, switch=name, frame_size=size)
        for n, name in enumerate(("linux-bridge", "ovs"), 1)
        for m, size in enumerate((64, 1500))
    ]
    names = {held.name for held in drawn("rate-against-size", records).references}
    assert names == {"baseline (linux-bridge)", "baseline (ovs)"}


def test_a_measured_cable_is_a_grey_line_and_no_bar() -> None:
    records = [calibrated(1, 1.2e6, switch="ovs"), calibrated(2, 1.2e6, switch="direct")]
    chart = drawn("figures", records)
    assert [mark.x for mark in chart.marks] == ["ovs"]
    (line,) = chart.references
    assert (line.name, line.x, line.y) == ("baseline", None, metric("rx.mpps").of(records[1]))
    alone = drawn("figures", records[1:])
    assert ([mark.x for mark in alone.marks], alone.references) == (["direct"], ())


def test_a_measured_cable_is_a_line_along_the_sizes_and_only_in_panels_with_switches() -> None:
    sizes = (64, 128, 512, 1500)
    records = [
        fresh(n, test=Test(search="max", switch=switch, frame_size=size))
        for n, (switch, size) in enumerate(
            ((switch, size) for switch in ("direct", "ovs", "macvlan") for size in sizes), 1
        )
    ]
    chart = drawn("rate-against-size", records)
    assert (chart.kind, chart.series_names()) == ("lines", ["macvlan", "ovs"])
    assert {line.x: line.y for line in chart.references} == {
        record.test.frame_size: metric("rx.mpps").of(record) for record in records[:4]
    }
    far = fresh(30, test=Test(search="max", switch="direct", frame_size=64, engine="xdp"))
    assert drawn("figures", [*records[4:8], far]).panel_names() == [""]


def test_the_line_rate_is_of_all_senders_and_left_out_where_it_is_far_above() -> None:
    near = [
        fresh(n, test=Test(search="max", line_rate="1Gbps", frame_size=size, pairs=2))
        for n, size in enumerate((1000, 1500), 1)
    ]
    held = {reference.x: reference.y for reference in drawn("gbps-against-size", near).references}
    assert list(held.values()) == [pytest.approx(2.0)]  # Gbps L1, at every size
    for line_rate, sizes in (("100Gbps", (64, 128)), ("10Gbps", (64, 1500))):
        far = [
            fresh(n, test=Test(search="max", line_rate=line_rate, frame_size=size))
            for n, size in enumerate(sizes, 1)
        ]
        assert drawn("rate-against-size", far).references == ()


def test_loads_are_held_against_the_cable() -> None:
    rates = (100_000, 200_000, 400_000)
    records = [calibrated(n, 1e6, rate=str(r), search="fixed") for n, r in enumerate(rates, 1)]
    (held,) = drawn("received-against-offered", records).references
    assert (held.name, held.x) == ("baseline", None)
    assert drawn("loss-against-offered", records).references == ()


# --- units -----------------------------------------------------------------------------------


def test_rates_of_less_than_one_mpps_are_in_kpps_on_both_scales_alike() -> None:
    marks = (Mark(0.2, 0.1, low=0.05, high=0.15), Mark(0.5, 0.4))
    chart = of_kind("lines", *marks, x=Scale("offered (Mpps)"), y=Scale("received (Mpps)"))
    cable = Reference(0.6, "bare cable", "", None, 0.5, 0.7, unit="Mpps")
    chart = replace(chart, references=(cable,))
    handy = in_handy_units(chart)
    assert (handy.x.title, handy.y.title) == ("offered (kpps)", "received (kpps)")
    assert (handy.marks[0].x, handy.marks[0].low) == (200.0, 50.0)
    assert handy.references[0].high == pytest.approx(700)
    fast = replace(chart, marks=(*marks, Mark(2.0, 0.5)))
    assert in_handy_units(fast) is fast


def test_times_of_thousands_are_in_the_next_unit_and_what_is_stacked_counts_together() -> None:
    late = of_kind("bars", Mark("p", 3000.0), Mark("q", 40.0), y=Scale("median latency (us)"))
    assert in_handy_units(late).y.title == "median latency (ms)"
    assert [mark.y for mark in in_handy_units(late).marks] == [3.0, 0.04]
    marks = (Mark("p", 1200.0, "sender"), Mark("p", 1200.0, "receiver"))
    assert in_handy_units(of_kind("stacks", *marks, y=Scale("time (ns)"))).y.title == "time (us)"
    curve = of_kind("curves", Mark(1.0, 90_000.0), Mark(2.0, 99_000.0), y=Scale("latency (us)"))
    assert in_handy_units(curve) is curve


def test_a_logarithmic_scale_of_times_has_words_for_its_powers_of_ten() -> None:
    marks = tuple(Mark(float(n), 10.0**n) for n in range(1, 6))
    picture = svg(specification(of_kind("curves", *marks, y=Scale("latency (us)", log=True))))
    for text in ("10 us", "1 ms", "100 ms"):
        assert f">{text}<" in picture
    assert "(us)" not in picture


def test_no_tick_has_a_prefix_beside_that_of_its_unit() -> None:
    marks = tuple(Mark(float(n), 10.0**n) for n in range(-2, 5))
    chart = of_kind("lines", *marks, y=Scale("median latency (ms)", log=True))
    picture = svg(specification(chart))
    assert ">0.1<" in picture
    assert ">10k<" in picture
    assert "100m" not in picture


def test_counts_have_ticks_where_they_are() -> None:
    chart = drawn("rate-against-chain", SHOWN["rate-against-chain"])
    assert ">1.5<" not in svg(specification(chart))


def test_a_chain_is_shown_by_its_lines_first() -> None:
    assert charts(SHOWN["rate-against-chain"])[0].name == "rate-against-chain"


def test_the_legend_has_the_shapes_of_the_marks_once() -> None:
    picture = svg(specification(drawn("rate-against-size", SHOWN["rate-against-size"])))
    assert picture.count(">linux-bridge<") == 1


def test_loads_of_a_search_are_a_line_of_latencies() -> None:
    late = {"kind": "one-way", "count": 100, "min": 1, "mean": 2.0, "max": 9, "p50": 4000}
    goals = tuple(
        Goal(goal=f"{share}", loss_ratio=0.0, rate_pps=1e5 * share, latency_ns=late)
        for share in (0.1, 0.5, 0.99)
    )
    found = SearchResult(name="latency-at-load", trials=4, r_plus_pps=1e5, goals=goals)
    test = Test(search="latency-at-load", pairs=2)
    marks = drawn("latency-against-load", [fresh(1, test=test, search=found)]).marks
    assert [mark.x for mark in marks] == pytest.approx([0.02, 0.1, 0.198])
    assert [mark.y for mark in marks] == [4.0, 4.0, 4.0]


def test_cells_of_two_axes_are_named_as_their_values_are_written() -> None:
    chart = drawn("two-axes", SHOWN["two-axes"])
    assert {mark.x for mark in chart.marks} | {mark.series for mark in chart.marks} == {
        *("64", "128", "256"),
        *("1", "2", "3"),
    }


def test_a_cable_that_only_some_had_is_named_or_left_out() -> None:
    sizes = list(enumerate((64, 128)))
    one = [calibrated(10 + n, 1e6, switch="ovs", frame_size=size) for n, size in sizes]
    other = [
        fresh(20 + n, test=Test(switch="macvlan", frame_size=size, search="max"))
        for n, size in enumerate((64, 128))
    ]
    names = {held.name for held in drawn("rate-against-size", one + other).references}
    assert names == {"baseline (ovs)"}
    without = fresh(30, test=Test(switch="ovs", frame_size=512, search="max"))
    assert drawn("rate-against-size", [*one, without]).references == ()


def test_bars_along_numbers_stand_in_their_order_and_others_by_their_figures() -> None:
    records = records_along("chain", [1, 3, 2], scenario="loopback")[:3]
    chart = drawn("figures", records)
    assert chart.x.categories == ("chain 1", "chain 2", "chain 3")
    assert "the best first" not in chart.says
    assert "the best first" in drawn("figures", records_along("frame_size", [64])).says


def test_a_bar_that_is_alone_at_its_place_has_all_of_it() -> None:
    def beside(*marks: Mark) -> bool:
        x = Scale("switch", categories=("a", "b"))
        bars = Chart("c", "", "", "bars", x, Scale("y"), marks, series="engine")
        return "xOffset" in json.dumps(specification(bars))

    assert beside(Mark("a", 1.0, "raw"), Mark("a", 2.0, "dpdk"), Mark("b", 1.0, "raw"))
    assert not beside(Mark("a", 1.0, "raw"), Mark("b", 2.0, "dpdk"))


def test_a_logarithmic_scale_of_one_number_has_it_in_its_middle() -> None:
    marks = (Mark(500.0, 4.0, low=4.0, high=4.0),)
    x, y = Scale("burst", log=True), Scale("latency (us)", log=True)
    spec = specification(Chart("c", "", "", "points", x, y, marks))
    for axis, value in (("x", 500.0), ("y", 4.0)):
        scale = spec["layer"][1]["encoding"][axis]
        assert scale["scale"]["domain"] == [value / 2, value * 2]
        assert scale["axis"]["values"] == [value]


def test_what_is_pointed_at_is_named_with_its_unit() -> None:
    chart = in_handy_units(
        drawn("rate-against-size", records_along("frame_size", [64, 512, 1024, 1500]))
    )
    layers = json.loads(json.dumps(specification(chart)))["layer"]
    dots = next(layer for layer in layers if layer["mark"].get("filled"))
    tooltip = {entry["field"]: entry for entry in dots["encoding"]["tooltip"]}
    assert {name: entry["title"] for name, entry in tooltip.items()} == {
        "series": "switch",
        "x": "frame size (bytes)",
        "y": chart.y.title,
        "spread": "spread",
        "note": "note",
    }
    assert "(Mpps)" in chart.y.title


def test_panels_far_apart_have_separate_scales_and_say_so() -> None:
    def drawn_with(high: float) -> dict[str, Any]:
        marks = (Mark(1.0, 1.0, panel="kernel"), Mark(1.0, high, panel="dpdk"))
        return specification(Chart("c", "", "", "points", Scale("x"), Scale("y"), marks))

    far, near = drawn_with(20.0), drawn_with(2.0)
    assert far["resolve"] == {"scale": {"y": "independent"}}
    assert "each panel has its own scale" in far["title"]["subtitle"][0]
    assert "resolve" not in near
    assert near["title"]["subtitle"] == []


def costly(number: int, switch: str, sender: float | None) -> Record:
    """Return a record of a switch whose sender's time is known, or not."""
    record = fresh(number, test=Test(switch=switch, search="max"))
    parts = tuple(
        PartReport(part=role, roles=(role,), cpu=0, cores=cores)
        for role, cores in (("sender", sender), ("switch", 0.5))
    )
    return record.model_copy(
        update={"trials": tuple(t.model_copy(update={"parts": parts}) for t in record.trials)}
    )


def test_cpu_times_of_unequal_parts_do_not_stand_beside_each_other() -> None:
    measured, unknown = costly(1, "linux-bridge", 1.0), costly(2, "ovs", None)
    chart = in_handy_units(drawn("cost-of-a-frame", [measured, unknown]))
    assert {mark.x for mark in chart.marks} == {"linux-bridge"}
    assert chart.note == "without 1 test whose parts share a process"
    assert chart.says == "CPU time of each part per received frame (ns), of 1 test."
    assert {mark.x for mark in drawn("cost-of-a-frame", [unknown]).marks} == {"ovs"}


def test_a_picture_is_as_wide_as_it_is_asked_to_be() -> None:
    chart = drawn("figures", records_along("frame_size", [64]))
    picture = svg(specification(chart, 240, whole=True))
    assert re.search(r'<svg[^>]* width="240"', picture)


def values_shown(chart: Chart, width: int = 640) -> list[str]:
    """Return the texts at the bars of a picture."""
    picture = svg(specification(chart, width))
    return [text for text in re.findall(r">([0-9.]+)</text>", picture) if "." in text]


def test_labels_of_near_values_do_not_cover_each_other() -> None:
    sizes = (64, 128, 256, 512, 1024, 1518)
    picture = svg(specification(of_kind("lines", *(Mark(size, 1.0) for size in sizes)), 410))
    ticks = re.findall(r'<text[^>]*opacity="(0|1)">([0-9]+)</text>', picture)
    labels = [text for shown, text in ticks if shown == "1" and int(text) in sizes]
    assert labels[0] == "64"
    assert "128" not in labels


def test_bars_have_their_values_where_these_fit() -> None:
    marks = (Mark("p", 1.234), Mark("q", 5.678, bounded=True))
    chart = of_kind("bars", *marks)
    assert {"1.23", "5.68"} <= set(values_shown(chart))
    many = of_kind("bars", *(Mark(f"p{n}", 1.234) for n in range(30)))
    assert "1.23" not in values_shown(many)
    assert "1.23" in values_shown(many, 1200)
    layers = specification_of_page(many)["layer"]  # the script knows the width
    assert sum(str(layer.get("name")).startswith(VALUES) for layer in layers) == 2


def test_bars_have_no_values_where_marks_of_a_second_scale_would_cover_them() -> None:
    chart = of_kind("bars", Mark("p", 1.234), Mark("q", 5.678))
    both = replace(chart, second=(Mark("p", 70.0), Mark("q", 90.0)), y2=Scale("cores of all"))
    assert "1.23" in values_shown(chart)
    assert "1.23" not in values_shown(both)


def test_bars_of_several_series_have_their_values_where_all_of_them_fit() -> None:
    marks = tuple(Mark(x, 1.234, name) for x in "pqrstu" for name in "ab")
    assert "1.23" in values_shown(of_kind("bars", *marks))
    # A bar of a third series at one position makes the bars at all positions narrower.
    more = of_kind("bars", *marks, *(Mark("p", 1.234, name) for name in "cd"))
    assert "1.23" not in values_shown(more)


def test_panels_are_spread_evenly_over_rows() -> None:
    def columns(panels: int, width: int = 640) -> int:
        marks = (Mark("p", 1.0, panel=f"n{number}") for number in range(panels))
        count: int = specification(of_kind("bars", *marks), width)["columns"]
        return count

    assert [columns(panels, 900) for panels in (2, 3, 4, 5, 9)] == [2, 3, 2, 3, 3]


def test_few_places_of_a_number_have_bars_and_many_have_lines() -> None:
    few = drawn("rate-against-size", records_along("frame_size", [1500, 64, 512]))
    assert (few.kind, few.x.categories) == ("bars", ("64", "512", "1500"))
    many = records_along("frame_size", [64, 128, 512, 1500])
    assert drawn("rate-against-size", many).kind == "lines"
    names = [chart.name for chart in charts(records_along("frame_size", [64, 512]))]
    assert names[0] == "rate-against-size"
    assert "figures" not in names  # it would have the same bars


def test_intervals_of_several_series_stand_side_by_side() -> None:
    marks = [Mark(x, 1.0, name, low=0.5, high=2.0) for name in "abc" for x in (1, 2, 3, 4)]
    picture = svg(specification(of_kind("lines", *marks)))
    rules = re.findall(
        r'aria-roledescription="rule mark" transform="translate\(([0-9.]+),', picture
    )
    assert len(set(rules)) == len(rules) == 3 * 4


def test_error_bars_say_what_they_are() -> None:
    interval, few = (
        Mark("p", 1.0, low=0.5, high=2.0),
        Mark("q", 1.0, low=0.9, high=1.1, ranged=True),
    )
    values = {
        "error bars: 95 % interval of the median": (interval,),
        "error bars: minimum and maximum of few trials": (few,),
        "error bars: 95 % interval of the median or minimum and maximum of few trials": (
            *(interval, few),
        ),
    }
    for note, marks in values.items():
        chart = of_kind("bars", *marks)
        assert specification(chart)["title"]["subtitle"] == [note]
    assert [row["spread"] for row in rows_of(of_kind("bars", interval, few, Mark("r", 1.0)))] == [
        *("0.5 to 2 (95 % interval)", "0.9 to 1.1 (minimum and maximum)", ""),
    ]


def test_few_trials_are_points_and_many_are_boxes() -> None:
    spec, switch = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0), SyntheticSwitch(noise=0.05)
    many = tuple(switch(spec) for _ in range(10))
    assert drawn("trials", [fresh(1)]).kind == "points"
    assert drawn("trials", [fresh(1, trials=many)]).kind == "boxes"
    assert not drawn("trials", [fresh(1)]).y.zero


def test_the_tail_of_latencies_is_by_percentile() -> None:
    picture = svg(specification(drawn("latency-percentiles", loads())))
    assert {"p50", "p90", "p99"} <= set(re.findall(r">(p[0-9.]+)<", picture))


def test_a_legend_has_a_row_where_its_entries_fit() -> None:
    marks = [Mark(x, 1.0, name) for name in "abcdef" for x in (1, 2, 3, 4)]
    chart = of_kind("lines", *marks)
    legends = [specification(chart, width)["config"]["legend"] for width in (640, 120)]
    assert [legend["columns"] for legend in legends] == [17, 3]


def test_the_names_of_two_lines_do_not_cover_each_other() -> None:
    lines = (Reference(1.9, "low"), Reference(2.0, "high"))
    chart = replace(KINDS["lines"], references=lines)
    assert {row["label"]: row["side"] for row in rows_of(chart) if "label" in row} == {
        "high 2": "left",
        "low 1.9": "right",
    }
    assert all(name in svg(specification(chart)) for name in ("high 2", "low 1.9"))


def test_labels_of_words_are_rotated_where_they_do_not_fit() -> None:
    chart = of_kind("bars", Mark("linux-bridge", 1.0), Mark("ip-forward", 2.0))
    angles = [
        specification(chart, width)["config"]["axisXDiscrete"]["labelAngle"] for width in (640, 120)
    ]
    assert angles == [0, -40]


def test_a_picture_says_where_its_figures_are_from() -> None:
    chart = KINDS["lines"]
    specified = specification(chart, source=("a host, a day",))
    assert specified["title"]["subtitle"][-1] == "a host, a day"
    assert "a host, a day" in svg(specified)
