"""These tests draw tables, bars, pages and comparisons from records alone."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import RecordFailed, UsageError
from switchmark.model.cable import CableLatency, NoCableLatency
from switchmark.model.record import PlacementRecord, Record
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.report.bars import bars
from switchmark.report.figures import format_ns, outcome, rate, share, with_interval
from switchmark.report.files import writer_of
from switchmark.report.json import to_object
from switchmark.report.notes import footnotes
from switchmark.report.page import page
from switchmark.report.sections import sections
from switchmark.report.table import Column, Section, folded, table_lines

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
SURE = RECORD.model_copy(update={"doubts": ()})
STOLEN = RECORD.model_copy(update={"doubts": ("cpu-stolen",)})
VERSIONS = "versions: linux-bridge 6.1.0"


def record(base: Record = SURE, number: int = 1, pps: int | None = None, **test: object) -> Record:
    """Return a record of another test; `pps` frames arrive in every second of each trial."""
    changes = {"number": number, "test": base.test.model_copy(update=test)}
    if pps is not None:
        trials = tuple(
            trial.model_copy(update={"intervals": (pps // 10,) * 10}) for trial in base.trials
        )
        changes["trials"] = trials
    return base.model_copy(update=changes)


FAILED = RECORD.model_copy(
    update={"number": 9, "status": "failed", "error": "no link\n  in b0", "trials": ()}
)


def columns_and_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of the first section, and its rows."""
    columns = sections(records)[0].columns
    rows = zip(*(column.cells for column in columns), strict=True)
    return [column.name for column in columns], [list(row) for row in rows]


# --- JSON ------------------------------------------------------------------------------------


def test_a_failed_test_has_the_same_fields_without_figures() -> None:
    content = to_object(FAILED)
    assert list(content) == list(to_object(RECORD))
    assert (content["status"], content["error"]) == ("failed", "no link\n  in b0")
    assert content["tx"] is content["rx"] is content["lost"] is content["latency_ns"] is None
    assert content["per_flow"] == []


def test_a_whole_number_is_written_as_one() -> None:
    text = json.dumps(to_object(record(pps=500_000)))
    assert '"pps": 500000,' in text
    assert "NaN" not in text


def test_the_rate_asked_for_is_told_as_written_and_in_frames() -> None:
    test = to_object(record(rate="1Gbps", frame_size=1518))["test"]
    assert (test["rate"], test["frame_bytes"]) == ("1Gbps", 1518)
    assert test["rate_pps"] == pytest.approx(81274.382315, abs=1e-6)


# --- table -----------------------------------------------------------------------------------


def test_a_doubted_rate_is_marked() -> None:
    assert rate(to_object(STOLEN)) == "! 500 kpps"
    assert rate(to_object(RECORD)) == rate(to_object(SURE)) == "500 kpps"
    wrong = RECORD.model_copy(update={"doubts": ("cpu-stolen", "past-switch")})
    assert rate(to_object(wrong)) == "✗ 500 kpps"
    head, shared, stolen, versions = footnotes([RECORD, SURE, STOLEN])
    assert versions == VERSIONS
    assert head == "doubts (! the figure may be wrong, ✗ do not use it):"
    assert shared.startswith(
        "    cores-shared: busy processes wait for each other's time slice. Fix: use a"
    )
    assert stolen.startswith("  ! cpu-stolen: ")
    older = RECORD.model_copy(update={"doubts": ("of-another-version",)})
    assert footnotes([older])[:-1] == [head]
    assert rate(to_object(older)) == "! 500 kpps"


def test_doubts_stand_at_their_rows_and_those_of_all_above() -> None:
    def doubted(*doubts: str, **test: Any) -> Record:
        return record(RECORD.model_copy(update={"doubts": doubts}), **test)

    records = [doubted("short", "clock", burst=1), doubted("clock", burst=2)]
    (section,) = sections(records)
    assert "doubts of all tests: clock" in section.below
    headings, rows = columns_and_rows(records)
    assert [row[headings.index("doubts")] for row in rows] == ["short", ""]
    (section,) = sections(records, wide=True)
    assert section.below == ()
    doubts = next(column for column in section.columns if column.name == "doubts")
    assert doubts.cells == ("short, clock", "clock")
    (section,) = sections(records[:1])
    assert section.columns[-1].cells == ("short, clock",)
    failed = FAILED.model_copy(update={"doubts": ("not-equivalent",)})
    assert columns_and_rows([*records, failed])[1][2][-1] == "not-equivalent"


@pytest.mark.parametrize("verdict", ["sender", "receiver"])
def test_a_rate_that_bounds_the_traffic_program_is_no_rate_of_the_switch(verdict: str) -> None:
    bound = SURE.model_copy(update={"verdict": verdict})
    assert rate(to_object(bound)) == ">= 500 kpps"
    note = ">= the traffic generator was the limit; the switch may be faster"
    assert footnotes([bound]) == [note, VERSIONS]
    headings, (row,) = columns_and_rows([bound])
    assert row[headings.index("Gbps L1")].startswith(">= ")
    assert "&gt;= 500 kpps" in page([("one", [bound])]).replace("\N{NO-BREAK SPACE}", " ")
    assert (to_object(bound)["lower_bound"], to_object(SURE)["lower_bound"]) == (True, False)


@pytest.mark.parametrize(
    ("axes", "columns"),
    [
        (("auto", "auto"), {"semantics": ["learning", "routed"]}),
        (("learning", "routed"), {"semantics": ["learning", "routed"]}),
        (
            ("auto", "routed"),
            {"semantics": ["auto", "routed"], "actual semantics": ["learning", "routed"]},
        ),
    ],
)
def test_no_column_of_semantics_stands_twice(
    axes: tuple[str, str], columns: dict[str, list[str]]
) -> None:
    semantics = ("learning", "routed")
    records = [
        record(SURE.model_copy(update={"semantics": kind}), semantics=axis)
        for kind, axis in zip(semantics, axes, strict=True)
    ]
    (section,) = sections(records)
    semantics_columns = [column for column in section.columns if "semantics" in column.name]
    assert [column.name for column in semantics_columns] == [*columns]
    assert {column.name: list(column.cells) for column in semantics_columns} == columns


def test_semantics_are_shown_where_they_differ() -> None:
    routed = record(SURE.model_copy(update={"semantics": "routed"}), switch="other")
    headings, rows = columns_and_rows([SURE, routed])
    assert [row[headings.index("semantics")] for row in rows] == ["learning", "routed"]


FLOOR = CableLatency(
    switch="direct", rate_pps=1000, trials=1, kind="rtt", count=400, min=1, mean=1.0, max=10**6
)


def test_the_floor_stands_beside_a_latency() -> None:
    late = record(dimension="latency")
    floor = FLOOR.model_copy(update={"p50": 850})
    headings, rows = columns_and_rows([late.model_copy(update={"floor": floor})])
    assert rows[0][headings.index("floor p50")] == "850 ns"
    assert "floor p50" not in columns_and_rows([late])[0]
    failed = late.model_copy(update={"floor": NoCableLatency(switch="direct", error="no root")})
    assert "floor p50" not in columns_and_rows([failed])[0]


@pytest.mark.parametrize(("above_ns", "holds"), [(0, True), (1, False)])
def test_a_floor_above_the_latency_is_not_printed_as_one(above_ns: int, holds: bool) -> None:
    latency = to_object(SURE)["latency_ns"]["p50"]
    floor = FLOOR.model_copy(update={"p50": latency + above_ns})
    found = record(dimension="latency").model_copy(update={"floor": floor})
    assert to_object(found)["latency_floor_ns"]["holds"] is holds
    headings, rows = columns_and_rows([found])
    assert (rows[0][headings.index("floor p50")] == "above") is not holds
    assert ("(baseline " in outcome(found)) is holds
    notes = "\n".join(footnotes([found]))
    assert ("no baseline, as the cable was slower than the switch (" in notes) is not holds


def test_what_auto_placed_in_one_process_is_named() -> None:
    pinned = record(switch="a", placement="auto")
    together = record(switch="b", placement="auto").model_copy(
        update={"placement": PlacementRecord(policy="shared-process", seats={})}
    )
    asked_for = together.model_copy(update={"test": record(placement="shared-process").test})
    note = "too few cores: sender and receiver share one process (--placement auto): b"
    assert note in footnotes([pinned, together])
    assert not any("in one process" in line for line in footnotes([pinned, asked_for]))


def test_a_column_tells_tests_apart_or_is_not_there() -> None:
    headings, rows = columns_and_rows([record(burst=1), record(burst=32)])
    assert [row[headings.index("burst")] for row in rows] == ["1", "32"]
    assert "burst" not in columns_and_rows([SURE])[0]


def test_what_all_tests_have_in_common_is_said_once() -> None:
    usual: dict[str, Any] = {"port": "auto", "placement": Test().placement}
    records = [record(switch=switch, pairs=4, **usual) for switch in ("a", "b")]
    (section,) = sections(records)
    assert section.caption == (
        "throughput: v2v, in netns, engine raw-mmsg, 64 B, search max, learning, pairs 4, "
        "3 trials of 1 s, lost 0.19 %, verdict switch"
    )
    assert [column.name for column in section.columns][:2] == ["switch", "received (min..max)"]
    (section,) = sections(records, wide=True)
    assert {"lost", "verdict"} <= {column.name for column in section.columns}
    (section,) = sections([record(engine="udp"), record(engine="raw", direction="bi")])
    assert "engine" not in section.caption
    assert "bidirectional" not in section.caption
    assert [column.name for column in section.columns][:3] == ["switch", "engine", "direction"]


def searched(name: str, *goals: dict[str, Any], r_plus_pps: float | None = None) -> Record:
    found = {"loss_ratio": 0, "latency_ns": None, "verdict": "switch"}
    results = tuple(Goal.model_validate(found | goal) for goal in goals)
    search = SearchResult(name=name, trials=7, r_plus_pps=r_plus_pps, goals=results)
    return record(SURE.model_copy(update={"search": search}), search=name)


def rows_of_goals(one: Record) -> list[list[str]]:
    (section,) = sections([one], wide=True)
    compared = [
        column for column in section.columns if column.name in ("goal", "lost", "p50", "p99")
    ]
    compared += [
        column for column in section.columns if column.name.startswith(("found", "precision"))
    ]
    return [list(row) for row in zip(*(column.cells for column in compared), strict=True)]


LATENCY = {"kind": "rtt", "count": 1, "min": 1, "mean": 1, "max": 9, "p50": 1200, "p99": 34_000}


def test_the_goals_of_a_search_are_rows() -> None:
    mlr = searched(
        "mlr",
        {"goal": "ndr", "rate_pps": 236e3, "low_pps": 236e3, "high_pps": 237e3},
        {"goal": "pdr", "loss_ratio": 0.005, "rate_pps": 1e6, "low_pps": 1e6, "high_pps": None},
        r_plus_pps=2e6,
    )
    assert rows_of_goals(mlr) == [
        ["NDR", "236 kpps", "0.42 %"],
        ["PDR 0.5 %", "1 Mpps", ""],
        ["R+", "2 Mpps", ""],
    ]
    assert "linux-bridge: 7 trials" in footnotes([mlr])
    at_loads = [
        {"goal": "0.1", "rate_pps": 34.8e3, "latency_ns": LATENCY},
        {"goal": "0.99", "rate_pps": 344e3, "latency_ns": LATENCY, "loss_ratio": 0.00251},
    ]
    assert rows_of_goals(searched("latency-at-load", *at_loads, r_plus_pps=348e3)) == [
        ["10 % of R+", "0 %", "1.2 us", "34 us", "34.8 kpps"],
        ["99 % of R+", "0.25 %", "1.2 us", "34 us", "344 kpps"],
        ["R+", "", "", "", "348 kpps"],
    ]


def test_a_goal_that_no_rate_met_is_said_to_be_none() -> None:
    none = searched("ndr", {"goal": "ndr", "rate_pps": None, "high_pps": 9})
    assert rows_of_goals(none) == [["NDR", "none"]]
    assert "linux-bridge: 7 trials, no rate met NDR" in footnotes([none])


def test_fewer_bursts_than_asked_for_are_told() -> None:
    goal = {"goal": "back-to-back", "rate_pps": 1e6, "burst_frames": 9, "bursts": 2}
    one = searched("back-to-back", goal)
    for finals, note in ((2, "7 trials"), (5, "7 trials, mean of 2 of 5 bursts")):
        test = one.test.model_copy(update={"finals": finals})
        assert f"linux-bridge: {note}" in footnotes([one.model_copy(update={"test": test})])


def test_the_length_of_a_burst_is_a_row_too() -> None:
    goal = {"goal": "back-to-back", "rate_pps": 1e6, "burst_frames": 1500.0, "burst_low": 1400}
    burst = searched("back-to-back", goal | {"burst_high": 1600, "corrected_buffer_s": 0.002})
    assert rows_of_goals(burst) == [["back-to-back", "1500 frames", "12.5 %"]]
    assert "linux-bridge: 7 trials, buffer time 2 ms" in footnotes([burst])


def test_searches_that_failed_and_other_tests_have_their_rows() -> None:
    ndr = searched("ndr", {"goal": "ndr", "rate_pps": 5e5, "low_pps": 5e5, "verdict": "sender"})
    failed = ndr.model_copy(update={"status": "failed", "trials": (), "search": None})
    search, other = sections([ndr, failed, SURE])
    (found,) = (column for column in search.columns if column.name == "found")
    assert found.cells == (">= 500 kpps", "failed")
    assert "received (min..max)" in {column.name for column in other.columns}


def test_a_test_that_was_measured_and_failed_shows_both() -> None:
    headings, rows = columns_and_rows([SURE.model_copy(update={"status": "failed"})])
    row = dict(zip(headings, rows[0], strict=True))
    assert row["received (min..max)"].startswith("500 kpps")
    assert row["verdict"] == "failed"


def test_latency_has_a_table_of_its_own() -> None:
    one, other = sections([SURE, record(dimension="latency", rate="1000", search="fixed")])
    assert one.caption.startswith("throughput: v2v, ")
    assert other.caption.startswith("latency: v2v, ")
    assert "rate 1000" in other.caption
    assert [column.name for column in other.columns][:2] == ["switch", "p50 (min..max)"]


SLOW = [1_000_000, 1_010_000, 990_000, 1_005_000, 995_000]


def repeats(rates: list[int], **test: Any) -> Record:
    trials = tuple(
        SURE.trials[0].model_copy(update={"intervals": (rate // 10,) * 10}) for rate in rates
    )
    return record(SURE.model_copy(update={"trials": trials}), **test)


def test_the_interval_of_the_repeats_stands_beside_the_figure() -> None:
    many = [1_000_000, 1_010_000, 990_000] * 5
    headings, rows = columns_and_rows([repeats(many), repeats(SLOW[:3])])
    received = headings.index("received [95 %]")
    assert [row[received] for row in rows] == ["1 Mpps [0.99, 1.01]", "1 Mpps (0.99..1.01 of 3)"]
    headings, rows = columns_and_rows([repeats(SLOW[:3]), repeats(SLOW[2:])])
    received = headings.index("received (min..max)")
    assert [row[received] for row in rows] == ["1 Mpps (0.99..1.01)", "995 kpps (990..1005)"]
    late = repeats(many, dimension="latency")
    headings, rows = columns_and_rows([late])
    assert rows[0][headings.index("p50 [95 %]")] == "13.3 us [13.3, 13.3]"
    assert with_interval(326e3, 274e3, 368.4e3, "pps") == "326 kpps [274, 368]"
    assert with_interval(1e6, 999.7e3, 1.2e6, "pps") == "1 Mpps [1, 1.2]"
    assert with_interval(999.0, None, None, "ns") == "999 ns"
    assert with_interval(12.0, 10, None, "frames") == "12 frames [10, …]"


def test_unsent_frames_are_shown_where_there_are_any() -> None:
    short = SURE.trials[0].model_copy(update={"tx_frames": 900, "tx_unsent": 100})
    starved = SURE.model_copy(update={"trials": (short,)})
    headings, rows = columns_and_rows([starved])
    assert rows[0][headings.index("unsent")] == "10 %"
    whole = SURE.trials[0].model_copy(update={"tx_unsent": 0})
    assert "unsent" not in columns_and_rows([SURE.model_copy(update={"trials": (whole,)})])[0]
    shares = [share(0, 10), share(1, 10**9), share(0, 0), share(1, 80), share(7, 7)]
    assert shares == ["0 %", "<0.01 %", "", "1.25 %", "100 %"]


def test_a_failed_test_has_its_row_and_its_reason() -> None:
    headings, rows = columns_and_rows([SURE, FAILED])
    assert rows[1][headings.index("received (min..max)")] == "failed"
    assert "test 9 failed: no link\n  in b0" in footnotes([SURE, FAILED])
    assert outcome(FAILED) == "failed: no link"


def test_a_table_is_as_wide_as_it_needs_to_be_unless_it_must_not() -> None:
    records = [
        record(switch="a-switch-with-a-long-name", engine="raw", rate="123456pps"),
        record(switch="ovs", engine="udp-mmsg", semantics="routed", frame_size=1518),
        FAILED,
    ]
    (wide,) = sections(records, wide=True)
    whole = table_lines(wide)
    assert "a-switch-with-a-long-name" in whole[4]
    assert not any("no room" in line for line in whole)
    assert whole[1].split() == ["cores", "seconds", "seconds"]
    (section,) = sections(records)
    for width in (88, 100, 120, 160):
        lines = table_lines(section, width)
        assert max(map(len, lines)) <= width
        assert sum("a-switch-with-a-long-name" in line for line in lines) == 1
        assert "min..max" in "".join(lines)
    assert any(line.startswith("hidden columns: ") for line in table_lines(section, 88))


def test_cores_are_ranges_above_and_columns_where_all_is_shown() -> None:
    (section,) = sections([SURE])
    assert any(re.match(r"cores: sender \d\.\d\d", line) for line in section.below)
    assert not any(column.above == "cores" for column in section.columns)
    (section,) = sections([SURE], wide=True)
    assert any(column.above == "cores" for column in section.columns)


def test_what_wraps_gets_the_room_that_is_left() -> None:
    doubts = Column("doubts", ("short, not-isolated, clock", "", "short"), wraps=True)
    section = Section("caption", (Column("switch", ("a", "b", "c")), doubts))
    assert table_lines(section, 23)[3:] == [
        "a       short,",
        "        not-isolated,",
        "        clock",
        "b",
        "c       short",
    ]
    assert table_lines(section, 40)[3] == "a       short, not-isolated, clock"


def test_a_column_of_one_value_is_said_once_above() -> None:
    same = Column("lost", ("0 %", "0 %"), folds=True)
    section = Section("all", (Column("switch", ("a", "b")), same))
    assert folded(section).caption == "all, lost 0 %"
    assert [column.name for column in folded(section).columns] == ["switch"]
    alone = Section("all", (Column("lost", ("0 %",), folds=True),))
    assert folded(alone) == alone


def test_what_matters_least_is_left_out_first() -> None:
    section = Section(
        "caption",
        (
            Column("switch", ("x" * 20,)),
            Column("a", ("1",), expendable=1),
            Column("b", ("2",), expendable=3),
            Column("c", ("3",), expendable=3),
        ),
    )
    assert [table_lines(section, width)[1].split()[1:] for width in (29, 28, 25, 22, 10)] == [
        *(["a", "b", "c"], ["a", "b"], ["a"], [], []),
    ]
    assert table_lines(section, 28)[4].startswith("hidden columns: c ")


def test_an_outcome_is_one_line() -> None:
    assert outcome(STOLEN) == "! 500 kpps, median 13.4 us, switch"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        *((None, ""), (850, "850 ns"), (12_400, "12.4 us"), (3.21e6, "3.21 ms")),
        *((999.6, "1 us"), (999_600, "1 ms"), (999.6e6, "1 s"), (1234e9, "1234 s")),
    ],
)
def test_a_latency_is_shown_with_three_digits(ns: float | None, text: str) -> None:
    assert format_ns(ns) == text


# --- bars ------------------------------------------------------------------------------------


def test_a_bar_is_as_long_as_its_rate() -> None:
    lines = bars([record(burst=1, pps=10**6), record(burst=32, pps=5 * 10**5)], width=60)
    assert lines[0] == "learning: received rate"
    assert lines[1].count("█") // 2 == lines[2].count("█") > 10
    assert lines[1].endswith(" 1 Mpps")


def test_a_doubted_bar_is_hollow() -> None:
    lines = bars([STOLEN])
    assert "░" in lines[1]
    assert "█" not in lines[1]
    assert "█" in bars([RECORD])[1]


def test_each_semantics_and_dimension_has_a_chart_of_its_own() -> None:
    routed = record(SURE.model_copy(update={"semantics": "routed"}), switch="other")
    latency = record(dimension="latency")
    lines = bars([SURE, routed, latency, FAILED])
    assert [line for line in lines if line and line[0] != " "] == [
        "learning: received rate",
        "routed: received rate",
        "learning: median latency, less is better",
    ]


def test_nothing_is_drawn_of_nothing() -> None:
    assert bars([]) == bars([FAILED]) == []


def test_a_rate_of_zero_is_drawn() -> None:
    assert bars([record(pps=0)])[1].endswith("0 pps")


# --- page and comparison ---------------------------------------------------------------------


def test_a_page_is_whole_and_escaped(tmp_path: Path) -> None:
    text = page([("a<b", [STOLEN, FAILED])], {})
    assert "<title>switchmark: a&lt;b</title>" in text
    assert "! 500\N{NO-BREAK SPACE}kpps" in text
    assert text.endswith("</html>\n")
    writer_of(tmp_path / "x.html")([("a<b", [STOLEN, FAILED])], {})
    assert (tmp_path / "x.html").read_text() == text
    with pytest.raises(RecordFailed, match="cannot be written"):
        writer_of(tmp_path / "no/x.html")([], {})


def test_a_row_of_csv_has_the_fields_of_a_test(tmp_path: Path) -> None:
    failed = FAILED.model_copy(update={"error": 'no "link",\n  in b0'})
    writer_of(tmp_path / "x.csv")([("one", [RECORD]), ("two", [failed])], {})
    with (tmp_path / "x.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    content = to_object(RECORD)
    assert float(first["rx.pps"]) == content["rx"]["pps"]
    assert first["test.frame_bytes"] == "64"
    assert content["ci95_pps"] is None
    assert first["ci95_pps"] == ""
    assert json.loads(first["range_pps"]) == [500_000, 500_200]
    assert (second["status"], second["error"], second["rx.pps"]) == ("failed", failed.error, "")


@pytest.mark.parametrize("name", ["x.gif", "x.json", "x", "x.html.gz", ".csv"])
def test_a_kind_of_report_that_there_is_not_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"'{re.escape(name)}' has no suffix") as caught:
        writer_of(tmp_path / name)
    assert ".html for a page, .svg, .pdf or .png for a picture" in (caught.value.hint or "")


def test_versions_are_told_below_a_table() -> None:
    def of(switch: str, version: str, mode: str | None = None) -> Record:
        measured = SURE.model_copy(update={"switch_version": version, "switch_mode": mode})
        return record(measured, switch=switch)

    records = [of("vpp@26.10", "26.10-rc0"), of("vpp@24.06", "24.06.0"), of("ovs", "3.1", "kernel")]
    assert footnotes(records)[-1] == (
        "versions: vpp@26.10 26.10-rc0, vpp@24.06 24.06.0, ovs 3.1 kernel"
    )


def test_what_setting_up_took_stands_in_a_wide_table_with_the_switchs_own() -> None:
    records = [
        record().model_copy(update={"setup_s": 2.5, "start_s": 1.25, "teardown_s": 0.5}),
        record(switch="ovs").model_copy(update={"setup_s": None, "teardown_s": None}),
    ]
    (section,) = sections(records, wide=True)
    last = {column.name: column.cells for column in section.columns[-2:]}
    assert last == {"seconds set-up": ("2.50 (1.25)", ""), "seconds tear-down": ("0.50", "")}
    (section,) = sections(records)
    assert not any(column.above == "seconds" for column in section.columns)
