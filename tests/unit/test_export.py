"""These tests check what other programs get of records: tables, rows, LaTeX, documents of CSIT."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from recorded import FACTS, fresh, latency_trial, stored_lines_run, stored_run
from switchmark import __version__
from switchmark.campaign.store import read_records
from switchmark.cli.running import steps_of
from switchmark.errors import UsageError
from switchmark.metrics.named import METRICS
from switchmark.metrics.throughput import confidence, rates_pps
from switchmark.model.evidence import Evidence
from switchmark.model.record import Record, TrialSpec
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import AXES, Test
from switchmark.report import rows
from switchmark.report.csit import VERSION, as_csit
from switchmark.report.export import as_csv, as_objects, rows_as_csv, write_parquet
from switchmark.report.grid import cell, grid
from switchmark.report.json import to_object
from switchmark.report.latex import as_latex, escape
from switchmark.report.query import ask, columns_of_tables, opened
from switchmark.report.rows import TABLES, Tables, Unreadable, column_of

pytestmark = pytest.mark.usefixtures("undrawn")

FAILED = fresh(4, status="failed", error="a & b_c: 50% of it\nbroke", trials=())
REFUSED = fresh(5, status="refused", error="it cannot work", trials=())


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder with all stored records."""
    return stored_lines_run(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder with fresh records: two that ended well, one failed, one refused."""
    goals = tuple(
        Goal(goal=name, loss_ratio=0, rate_pps=rate, low_pps=rate, high_pps=None)
        for name, rate in (("ndr", 9e5), ("pdr", 9.5e5))
    )
    search = SearchResult(name="mlr", trials=9, goals=goals)
    found = fresh(2, test=Test(search="mlr"), search=search, verdict="sender", doubts=("short",))
    return stored_run(tmp_path_factory.mktemp("mixed"), [fresh(1), found, FAILED, REFUSED], tests=6)


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    with opened(Tables([folder])) as database:
        answer = ask(database, sql)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


# --- tables ----------------------------------------------------------------------------------

SAME = """run time status error semantics steering port memory engine_mode verdict lower_bound
doubts fairness repeats switch_version switch_mode reused setup_s start_s teardown_s stop_s lost_at
versions""".split()

GOAL = ("pps", "low_pps", "high_pps")

PRINTED: dict[str, str] = {
    **{name: name for name in SAME},
    **{
        axis.json_name or name: f"test.{axis.json_name or name}"
        for name, axis in AXES.items()
        if name not in ("semantics", "port", "memory", "frame_size")
    },
    "rate_pps": "test.rate_pps",
    "asked_port": "test.port",
    "asked_memory": "test.memory",
    "nics": "nics",
    "asked_semantics": "test.semantics",
    "tx_unsent_frames": "tx.unsent",
    **{f"tx_{name}": f"tx.{name}" for name in ("frames", "pps")},
    **{f"rx_{name}": f"rx.{name}" for name in ("frames", "pps", "gbps_l1", "gbps_l2")},
    "ci95_low_pps": "ci95_pps.0",
    "ci95_high_pps": "ci95_pps.1",
    "latency_ci95_low_ns": "ci95_ns.0",
    **{
        f"{name}_frames": name
        for name in ("lost", "unaccounted", "late", "duplicated", "reordered")
    },
    **{f"{name}_frames": name for name in ("corrupted", "foreign", "stray")},
    "latency_samples": "latency_ns.count",
    "latency_kind": "latency_ns.kind",
    "latency_ci95_high_ns": "ci95_ns.1",
    **{f"latency_ipdv_{name}_ns": f"latency_ns.ipdv.{name}" for name in ("p50", "p99")},
    **{f"latency_floor_{name}_ns": f"latency_floor_ns.{name}" for name in ("p50", "p99")},
    **{f"latency_{name}_ns": f"latency_ns.{name}" for name in ("p99999", "p999999")},
    **{
        f"latency_{name}_ns": f"latency_ns.{name}"
        for name in ("min", "mean", "p50", "p90", "p99", "p999", "p9999", "max", "pdv")
    },
    **{
        f"cpu_{name}_cores": f"cpu.{name}"
        for name in ("sender", "receiver", "client", "server", "forwarder", "function", "switch")
    },
    "cpu_softirq_cores": "cost.softirq_cores",
    "cpu_switch_busy_cores": "cost.switch_busy_cores",
    "cpu_total_cores": "cost.total_cores",
    "mpps_per_core": "cost.mpps_per_core",
    "placement_policy": "placement.policy",
    "search_trials": "search.trials",
    "r_plus_pps": "search.r_plus_pps",
    **{
        f"host_{name}": f"host.{name}"
        for name in (
            *("kernel", "cpu_model", "machine", "distribution", "cores_usable", "memory_kib"),
            "virtual",
        )
    },
}
"""Columns, and where the object of `--json` has the same."""


OTHERWISE: dict[str, str] = {
    **dict.fromkeys(
        map(column_of, METRICS), "contract/test_exports.py compares the metrics with the records"
    ),
    "lost_ratio": "contract/test_exports.py",
    **dict.fromkeys(("number", "key", "frame_size", "frame_bytes"), "the test of fresh records"),
    **dict.fromkeys(("cpus", "searches", "switchmark_version"), "tests of their own"),
    **{f"{goal}_{end}": "the test of fresh records" for goal in ("ndr", "pdr") for end in GOAL},
}
"""Columns that are tested otherwise, and where."""


def test_every_column_of_tests_is_held_against_something() -> None:
    names = {column.name for column in TABLES["tests"].columns}
    assert names - set(PRINTED) - set(OTHERWISE) == set()


def member(content: Any, path: str) -> Any:
    """Return the member of an object at a path; None where there is none."""
    for name in path.split("."):
        if content is None:
            return None
        content = content[int(name)] if name.isdigit() else content.get(name)
    return content


def differences(folder: Path) -> list[str]:
    """Return where the rows of a run are not what is printed of it."""
    wrong = []
    rows = rows_of(folder, "select * from tests order by number")
    for row, record in zip(rows, read_records(folder), strict=True):
        content = json.loads(json.dumps(to_object(record)))
        for name, path in PRINTED.items():
            value, printed = row[name], member(content, path)
            if isinstance(value, str) and isinstance(printed, dict):
                value = json.loads(value)
            if isinstance(printed, int | float) and not isinstance(value, str | bool | None):
                value = pytest.approx(value, rel=1e-9, abs=1e-8)
            if value != printed and str(value) != str(printed):
                wrong.append(f"{record.number} {name}: {row[name]!r} is not {printed!r}")
    return wrong


def test_a_row_says_what_is_printed_of_every_stored_record(stored: Path) -> None:
    assert differences(stored) == []


def test_a_row_says_what_is_printed_of_fresh_records(mixed: Path) -> None:
    assert differences(mixed) == []
    (row,) = rows_of(mixed, "select * from tests where number = 2")
    goals = {"ndr": 9e5, "pdr": 9.5e5}
    for goal, rate in goals.items():
        ends = {end: row[f"{goal}_{end}"] for end in GOAL}
        assert ends == {"pps": rate, "low_pps": rate, "high_pps": None}
    record = next(record for record in read_records(mixed) if record.number == 2)
    assert (row["key"], row["searches"]) == (record.key, 1)
    assert (row["frame_size"], row["frame_bytes"]) == (str(record.test.frame_size), 64)
    assert row["switchmark_version"] == "0.1.0"


def test_the_cpus_of_a_row_are_those_of_the_placement(stored: Path) -> None:
    rows = rows_of(stored, "select cpus from tests order by number")
    placements = [record.placement for record in read_records(stored)]
    assert any(placements)
    for row, placement in zip(rows, placements, strict=True):
        seats = placement.model_dump(mode="json")["seats"] if placement else {}
        assert json.loads(row["cpus"] or "{}") == seats


def test_latencies_of_several_trials_are_merged(tmp_path: Path) -> None:
    trials = tuple(latency_trial(1e3, range(low, low + 400)) for low in (1000, 5000, 9000))
    folder = stored_run(
        tmp_path, [fresh(1, test=Test(dimension="latency", rate="1000"), trials=trials)]
    )
    assert differences(folder) == []


def test_what_came_when_the_phase_was_over_is_no_rate_in_rows_either(tmp_path: Path) -> None:
    full = fresh(1, test=Test(rate="max"))
    spec = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
    changed = {"spec": spec, "evidence": Evidence(after_end=1000)}
    trials = tuple(trial.model_copy(update=changed) for trial in full.trials)
    folder = stored_run(tmp_path, [full.model_copy(update={"trials": trials})])
    assert differences(folder) == []
    (row, *_) = rows_of(folder, "select rx_pps, rx_frames - duplicated_frames as rx from trials")
    assert row["rx_pps"] == (row["rx"] - 1000) * 1e9 / trials[0].elapsed_ns


def test_a_record_without_an_axis_has_its_usual_value(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, [fresh(1)])
    path = folder / "records.jsonl"
    line = json.loads(path.read_text())
    line["record"]["test"] = {"dimension": "latency", "switch": "x", "rate": "50%"}
    path.write_text(json.dumps(line) + "\n")
    assert differences(folder) == []


def test_trials_flows_and_goals_have_rows(mixed: Path, stored: Path) -> None:
    trials = rows_of(mixed, "select number, trial, rx_pps, whole_pps from trials")
    assert [(row["number"], row["trial"]) for row in trials] == [
        (number, trial) for number in (1, 2) for trial in (1, 2, 3)
    ]
    finished = rows_of(mixed, "select number, rx_frames from all_trials")
    assert [row["number"] for row in finished] == [1] * 3 + [2] * 3
    goals = rows_of(mixed, "select goal, rate_pps from goals")
    assert goals == [{"goal": "ndr", "rate_pps": 9e5}, {"goal": "pdr", "rate_pps": 9.5e5}]
    flows = rows_of(stored, "select flow, tx_frames from flows where number = 1")
    assert flows == [{"flow": "f0-f1", "tx_frames": 812736}]


def test_records_are_there_as_json(mixed: Path) -> None:
    sql = "select record->>'$.status' as status from records order by number"
    assert [row["status"] for row in rows_of(mixed, sql)] == ["ok", "ok", "failed", "refused"]


def test_the_last_line_of_a_number_counts(tmp_path: Path) -> None:
    failed = fresh(1, status="failed", error="first", trials=())
    folder = stored_run(tmp_path, [failed, fresh(2), fresh(1)])
    rows = rows_of(folder, "select number, status from tests order by number")
    assert rows == [{"number": 1, "status": "ok"}, {"number": 2, "status": "ok"}]


def test_several_runs_are_asked_together(mixed: Path, stored: Path) -> None:
    sql = "select run, number, (record->>'$.number')::int as same from records order by all"
    with opened(Tables([mixed, stored, mixed])) as database:
        answer = ask(database, sql)
    assert len(answer.rows) == 8
    assert len({run for run, _, _ in answer.rows}) == 2
    assert [number for _, number, _ in answer.rows] == [same for _, _, same in answer.rows]


def test_the_last_line_counts_however_long_a_file_is(tmp_path: Path) -> None:
    failed = fresh(1, status="failed", error="x" * 100_000, trials=())
    first = [failed.model_copy(update={"number": number}) for number in range(1, 81)]
    folder = stored_run(tmp_path, [*first, *(fresh(number) for number in range(1, 41))])
    sql = "select number, status, (record->>'$.number')::int as same from records join tests"
    rows = rows_of(folder, f"{sql} using (number) order by number")
    assert [row["number"] for row in rows] == [row["same"] for row in rows] == [*range(1, 81)]
    assert [row["status"] for row in rows] == ["ok"] * 40 + ["failed"] * 40


def test_a_line_may_be_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    letters = rows._BUFFER_BYTES + 1
    failed = fresh(1, status="failed", error="x" * letters, trials=())
    folder = stored_run(tmp_path, [failed, fresh(2)])
    found = rows_of(folder, "select number, length(error) as letters from tests order by number")
    assert [row["letters"] for row in found] == [letters, None]


def test_every_column_has_a_type_and_a_description() -> None:
    described = columns_of_tables().rows
    assert {row[0] for row in described} == set(TABLES)
    assert [row for row in described if not (row[3] and row[2])] == []


@pytest.mark.parametrize(
    "sql",
    [
        "select * from 'records.jsonl'",
        "copy tests to 'out.csv'",
        "select * from read_csv('/etc/passwd')",
        "set enable_external_access = true",
        "install httpfs",
    ],
)
def test_a_query_reaches_no_file(sql: str, mixed: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="the query failed"):
        rows_of(mixed, sql)
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]


@pytest.mark.parametrize(
    "line", ["garbage", "[]", "{}", '{"schema":1,"record":{"key":"k"}}', '{"schema":2,"record":{}}']
)
def test_a_spoilt_line_is_not_passed_over(line: str, tmp_path: Path) -> None:
    folder = stored_run(tmp_path, [fresh(1)])
    with (folder / "records.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(Unreadable), opened(Tables([folder])):
        pass


def test_a_torn_last_line_is_left_out_and_the_file_stays(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, [fresh(1), fresh(2)])
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    before = path.read_bytes()
    assert [row["number"] for row in rows_of(folder, "select number from tests")] == [1]
    assert path.read_bytes() == before


def test_a_run_without_a_record_has_no_rows(tmp_path: Path) -> None:
    assert rows_of(stored_run(tmp_path, [], tests=1), "select * from tests") == []


# --- rows ------------------------------------------------------------------------------------


def test_csv_and_parquet_have_all_tests(mixed: Path, tmp_path: Path) -> None:
    import duckdb

    runs = Tables([mixed])
    text = rows_as_csv(runs)
    with opened(runs) as database:
        write_parquet(database, tmp_path / "it's.parquet")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    names = [column.name for column in TABLES["tests"].columns]
    assert list(rows[0]) == names
    assert [row["status"] for row in rows] == ["ok", "ok", "failed", "refused"]
    assert rows[2]["error"] == FAILED.error
    assert rows[2]["rx_pps"] == ""
    assert json.loads(rows[1]["doubts"]) == ["short"]
    with duckdb.connect() as database:
        result = database.read_parquet(str(tmp_path / "it's.parquet"))
        assert result.columns == names
        assert [row[0] for row in result.select("status").fetchall()] == [r["status"] for r in rows]
        pps = [row[0] for row in result.select("rx_pps").fetchall()]
    assert [value and f"{value}" for value in pps] == [row["rx_pps"] or None for row in rows]


def test_rows_as_json_have_no_nan() -> None:
    (line,) = as_objects(("a", "b", "c"), [(float("nan"), [1.0], {"x": None})])
    assert json.loads(line) == {"a": None, "b": [1], "c": {"x": None}}
    assert as_csv(("a", "b"), [(True, "x,y")]) == 'a,b\r\ntrue,"x,y"\r\n'


# --- a table on the terminal -----------------------------------------------------------------

values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)


@settings(max_examples=60)
@given(st.data(), st.integers(30, 120))
def test_a_table_is_no_wider_than_the_terminal(data: st.DataObject, width: int) -> None:
    count = data.draw(st.integers(1, 8))
    rows = data.draw(st.lists(st.tuples(*[values] * count), max_size=4))
    lines = list(grid([f"column{index}" for index in range(count)], rows, width))
    assert max(map(len, lines), default=0) <= width


def test_a_value_is_one_line() -> None:
    assert cell("a\nb") == "a b"
    assert cell([1.5, None]) == "1.5, -"
    assert cell(1234567.8) == "1234568"


# --- LaTeX -----------------------------------------------------------------------------------


def test_a_table_of_latex_is_whole(mixed: Path) -> None:
    text = as_latex(Tables([mixed]))
    inner = text.partition("\\begin{adjustbox}{max width=\\linewidth}")[2]
    assert "\\end{tabular}" in inner.partition("\\end{adjustbox}")[0]
    rows = re.findall(r"^    (?!\\)(.*) \\\\$", text, re.MULTILINE)
    assert len(rows) == 1 + 4
    (columns,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns)}
    for environment in re.findall(r"\\begin\{(\w+)\}", text):
        assert text.count(f"\\end{{{environment}}}") == 1
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert [text.count(rule) for rule in ("\\toprule", "\\midrule", "\\bottomrule")] == [1, 1, 1]
    assert rf"run {escape(mixed.name)}, a\_cpu, kernel 6.1, switchmark 0.1.0" in text
    assert r"linux-bridge failed: a \& b\_c: 50\% of it broke" in text
    assert r"$\geq$" in text
    assert "NDR [kpps]" in rows[0]
    assert "900.0" in rows[2]


def latex_cells(folder: Path) -> dict[str, list[str]]:
    """Return the columns of a table of LaTeX, by head."""
    lines = re.findall(r"^    (?!\\)(.*) \\\\$", as_latex(Tables([folder])), re.MULTILINE)
    head, *cells = (line.split(" & ") for line in lines)
    return dict(zip(head, map(list, zip(*cells, strict=True)), strict=True))


def test_repeats_too_few_for_an_interval_have_their_least_and_greatest_in_latex(
    tmp_path: Path,
) -> None:
    three = fresh(1)
    one, many = (
        fresh(number, trials=(three.trials * 9)[:count]) for number, count in ((2, 1), (3, 27))
    )
    cells = latex_cells(stored_run(tmp_path, [three, one, many, FAILED]))
    rates = [pps / 1e3 for pps in rates_pps(three)]
    ends = confidence(many)
    assert ends is not None
    assert min(rates) < max(rates)
    ranges = [f"{min(rates):.1f}--{max(rates):.1f}", "--", "--", "--"]
    assert cells["Min--max [kpps]"] == ranges
    interval = f"[{ends[0] / 1e3:.1f}, {ends[1] / 1e3:.1f}]"
    assert cells[r"95\,\% [kpps]"] == ["--", "--", interval, "--"]
    assert "Min--max [kpps]" not in latex_cells(stored_run(tmp_path / "one", [many]))


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=20))
def test_no_character_means_anything_to_latex(text: str) -> None:
    rest = re.sub(r"\\(text\w+\{\}|[&%$#_{}])", "", escape(text))
    assert not set(rest) & set("\\&%$#_{}~^")


# --- FD.io CSIT ------------------------------------------------------------------------------

MEMBERS = frozenset(
    """duration dut_type dut_version end_time hosts telemetry message passed result start_time tags
    test_documentation test_id test_name_long test_name_short test_type tg_type tg_version
    version""".split()
)
"""The members that version 1.5.1 of the CSIT model requires; no others are allowed."""


def check_document(content: dict[str, Any]) -> None:
    """Check a document against what their model says in prose and in JSON Schema."""
    assert set(content) == MEMBERS
    assert content["version"] == VERSION == "1.5.1"
    assert content["test_type"] in ("mrr", "ndrpdr")
    assert content["passed"] is (content["message"] == "")
    times = [datetime.fromisoformat(content[name]) for name in ("start_time", "end_time")]
    assert (times[1] - times[0]).total_seconds() == pytest.approx(content["duration"], abs=1e-5)
    for name in ("dut_type", "dut_version", "tg_type", "tg_version", "test_id", "test_name_long"):
        assert len(content[name]) >= 3 or name.endswith("version")
    for name in ("hosts", "telemetry", "tags"):
        assert all(isinstance(cell, str) for cell in content[name])
    for line in content["telemetry"]:
        assert re.fullmatch(r'\w+\{(\w+="(\\.|[^"\\])*",?)*\} \S+ \d+\.\d{3}', line), line


def documents(folder: Path) -> list[dict[str, Any]]:
    records = read_records(folder)
    results = [json.loads(json.dumps(as_csit(record, records))) for record in records]
    for document in results:
        check_document(document)
    return results


def test_documents_of_csit_are_made_of_every_record(stored: Path, mixed: Path) -> None:
    assert [document["result"]["type"] for document in documents(stored)][-1] == "mrr"
    most, searched, failed, refused = documents(mixed)
    assert most["result"]["receive_rate"]["rate"]["unit"] == "pps"
    assert len(most["result"]["receive_rate"]["rate"]["values"]) == 3
    assert searched["result"] == {
        "type": "ndrpdr",
        "ndr": {
            "lower": {
                "rate": {"value": 9e5, "unit": "pps"},
                "bandwidth": {"value": pytest.approx(9e5 * 84 * 8), "unit": "bps"},
            }
        },
        "pdr": {
            "lower": {
                "rate": {"value": 9.5e5, "unit": "pps"},
                "bandwidth": {"value": pytest.approx(9.5e5 * 84 * 8), "unit": "bps"},
            }
        },
    }
    assert [document["result"] for document in (failed, refused)] == [{"type": "unknown"}] * 2
    assert (failed["passed"], failed["message"]) == (False, FAILED.error)


def test_the_histogram_of_csit_is_in_microseconds(tmp_path: Path) -> None:
    goals = tuple(Goal(goal=name, loss_ratio=0, rate_pps=1e5) for name in ("ndr", "pdr"))
    search = SearchResult(name="mlr", trials=9, goals=goals)
    at_loads = [
        fresh(
            2 + number,
            test=Test(dimension="latency", rate=str(rate)),
            trials=(latency_trial(rate, range(10_000, 110_000, 100)),),
        )
        for number, rate in enumerate((9000, 10_000, 50_000, 90_000))
    ]
    searched = fresh(1, test=Test(search="mlr"), search=search)
    first, *_ = documents(stored_run(tmp_path / "all", [searched, *at_loads]))
    numbers = first["result"]["latency_forward"]
    assert set(numbers) == {"pdr_0", "pdr_10", "pdr_50", "pdr_90"}
    one = numbers["pdr_50"]
    assert (one["min"], one["avg"], one["max"], one["unit"]) == (10, 60, 110, "us")
    histogram = HdrHistogram.decode(one["hdrh"])
    assert histogram.get_total_count() == 1000
    assert histogram.get_value_at_percentile(50) == pytest.approx(60, abs=1)
    assert histogram.get_value_at_percentile(99) == pytest.approx(109, abs=1)
    first, *_ = documents(stored_run(tmp_path / "some", [searched, *at_loads[1:]]))
    assert "latency_forward" not in first["result"]
    (line,) = [
        document
        for document in documents(stored_run(tmp_path / "one", at_loads[:1]))[0]["telemetry"]
        if document.startswith("switchmark_latency_samples")
    ]
    assert re.search('hdrh="HISTF', line)


# --- commands --------------------------------------------------------------------------------


def test_a_query_prints_a_table_json_or_csv(cli: Any, mixed: Path) -> None:
    sql = "select number, status from tests order by number limit 2"
    status, out, err = cli("query", mixed, sql)
    assert (status, out.splitlines()) == (
        0,
        ["number  status", "──────────────", "     1  ok", "     2  ok"],
    )
    assert "4 of 6 tests have a record" in err
    assert cli("query", mixed, sql, "--json")[1].splitlines()[0] == '{"number": 1, "status": "ok"}'
    assert cli("query", mixed, sql, "--csv")[1] == "number,status\r\n1,ok\r\n2,ok\r\n"
    status, out, _ = cli("query", mixed)
    assert status == 0
    assert "rx_pps" in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_wrong_query_is_told(cli: Any, mixed: Path) -> None:
    status, _, err = cli("query", mixed, "select statuss from tests")
    assert status == 2
    assert '"status"' in err
    assert "hint: 'switchmark query' without a query" in err
    assert cli("query", "select 1")[0] == 2


def test_a_spoilt_line_is_told_with_its_place(cli: Any, tmp_path: Path) -> None:
    folder = stored_run(tmp_path, [fresh(1)])
    with (folder / "records.jsonl").open("a") as file:
        file.write("garbage\n")
    for command in (("query", folder, "select 1"), ("export", folder)):
        status, _, err = cli(*command)
        assert status == 2
        assert "records.jsonl:2: not a line of a record" in err


def test_a_torn_line_is_told(cli: Any, tmp_path: Path) -> None:
    folder = stored_run(tmp_path, [fresh(1), fresh(2)])
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    for form in ("csv", "latex"):
        status, _, err = cli("export", folder, "--format", form)
        assert status == 0
        assert "1 of 2 tests have a record" in err
        assert "its incomplete last line is ignored" in err


def test_every_form_is_written(cli: Any, mixed: Path, tmp_path: Path) -> None:
    for arguments in (("-o", "a.csv"), ("-o", "a.parquet"), ("-o", "a.tex"), ("-o", "folder")):
        assert cli("export", mixed, *arguments)[0] == 0
    names = sorted(path.name for path in (tmp_path / "folder" / mixed.name).iterdir())
    assert len(names) == 4
    assert all(name.endswith(".info.json") for name in names)
    assert (tmp_path / "a.csv").read_bytes() == cli("export", mixed)[1].encode()
    assert cli("export", mixed, "--format", "csit")[0] == 2
    assert cli("export", mixed, "--format", "xml")[0] == 2
    assert cli("export", mixed, "-o", "missing/a.csv")[0] != 0


def test_the_facts_of_the_host_are_columns(mixed: Path) -> None:
    (row,) = rows_of(mixed, "select host_cores_usable, host_virtual from tests where number = 1")
    assert row == {"host_cores_usable": FACTS["cores_usable"], "host_virtual": False}


def test_records_are_of_the_model(mixed: Path) -> None:
    rows = rows_of(mixed, "select record from records")
    assert [Record.model_validate_json(row["record"]).number for row in rows] == [1, 2, 4, 5]


# --- bundles ---------------------------------------------------------------------------------


def test_a_bundle_has_what_a_reviewer_asks_for(cli: Any, mixed: Path, tmp_path: Path) -> None:
    (mixed / "logs" / "steps.sh").write_text("# a reason\nip link add\n")
    status, out, err = cli("bundle", mixed)
    assert (status, out) == (0, f"{mixed.name}.tar.gz: 14 files of run {mixed.name}\n")
    assert err.count("4 of 6 tests have a record") == 1
    with tarfile.open(tmp_path / f"{mixed.name}.tar.gz") as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / mixed.name
    assert read_records(folder) == read_records(mixed)
    for name in ("campaign.yaml", "host.json", "records.jsonl", "trials.jsonl", "logs/steps.sh"):
        assert (folder / name).read_bytes() == (mixed / name).read_bytes()
    hashes = (line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines())
    sums = {name: content for content, name in hashes}
    there = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }
    assert sums == {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in there.items()
        if name != "SHA256SUMS"
    }
    page = (folder / "README.md").read_text()
    for name in there.keys() - {"README.md"}:
        assert any(f"`{part}`" in page for part in (name, f"{name.split('/')[0]}/"))
    assert "2 ok, 1 failed, 1 refused" in page
    assert "refused: it cannot work" in page
    assert json.loads((folder / "versions.json").read_text())["1"]["switchmark"] == "0.1.0"


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_the_same_run_makes_the_same_bundle(
    suffix: str, cli: Any, mixed: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    assert cli("bundle", mixed, "-o", first)[0] == 0
    for path in mixed.rglob("*"):
        os.utime(path)
    assert cli("bundle", mixed, "-o", second)[0] == 0
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["logs/steps.sh", "logs/more.txt", "logs", "elsewhere"])
def test_what_a_link_leads_to_is_neither_bundled_nor_reported(
    name: str, cli: Any, mixed: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "steps.sh").write_text("precious")
    link = mixed / name
    if name == "logs":
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(secret if name in ("logs", "elsewhere") else secret / "steps.sh")
    status, _, err = cli("bundle", mixed, "-o", tmp_path / "b.zip")
    assert (status, f"{link} is a symbolic link" in err) == (4, True)
    assert not (tmp_path / "b.zip").exists()
    assert "precious" not in steps_of(mixed)


def test_a_bundle_of_old_and_of_torn_records_has_whole_lines(
    cli: Any, stored: Path, tmp_path: Path
) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(stored, torn)
    path = torn / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    status, _, err = cli("bundle", torn, "-o", tmp_path / "torn.zip")
    assert (status, "its incomplete last line is ignored" in err) == (0, True)
    with zipfile.ZipFile(tmp_path / "torn.zip") as archive:
        lines = archive.read("torn/records.jsonl").decode().splitlines()
    assert [json.loads(line)["record"]["number"] for line in lines] == [1, 2, 3]
    assert cli("bundle", torn, "-o", tmp_path / "torn.rar")[0] == 2


def test_the_citation_names_this_version(repository: Path) -> None:
    citation = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_a_stored_fact_of_another_type_is_named(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, [fresh()])
    host = json.loads((folder / "host.json").read_text())
    spoiled = {**host, "cores_usable": {"all": 4}}
    (folder / "host.json").write_text(json.dumps(spoiled))
    with pytest.raises(Unreadable, match=r"host_cores_usable: \{'all': 4\}"):
        rows_as_csv(Tables([folder]))


def test_a_run_without_tests_has_no_picture(cli: Any, tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "runs", [fresh()])
    for stored_lines in folder.glob("*.jsonl"):
        stored_lines.write_text("")
    status, _, said = cli("report", folder, "-o", "r.svg")
    assert (status, said.splitlines()[0]) == (2, "error: no test has a figure to draw")
    assert not (tmp_path / "r.svg").exists()
