"""These tests read run folders whose lines are JSON, but say what no program has written, or what
another program would take for a command."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pydantic import TypeAdapter, ValidationError

from recorded import RECORDINGS, fresh, latency_trial, recorded_lines, stored_run
from switchmark.campaign.store import RunFolder, read_host, read_lab, read_records
from switchmark.errors import UsageError
from switchmark.metrics.latency import latency_of
from switchmark.model.cost import TrialCost
from switchmark.model.counters import WrittenCounters
from switchmark.model.evidence import Evidence
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.plots import charts
from switchmark.plots.render import svg
from switchmark.plots.vega import specification
from switchmark.report.bundle import packed
from switchmark.report.cells import in_csv, in_markdown
from switchmark.report.compare import compared
from switchmark.report.export import rows_as_csv
from switchmark.report.files import as_csv, as_markdown
from switchmark.report.junit import junit
from switchmark.report.query import opened
from switchmark.report.rows import Tables, Unreadable

HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script>\x1b[31m\x01\nsecond"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return stored_run(tmp_path, [fresh(1, trials=(latency_trial(1e5, [900, 950, 1000]),))])


def spoil(run: Path, change: Callable[[dict[str, Any]], object], name: str = "records") -> None:
    """Change the content of the first line."""
    path = run / f"{name}.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    change(line)
    path.write_text(json.dumps(line) + "\n")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_records_that_never_end_are_not_read(run: Path, make: Callable[[Path], None]) -> None:
    path = run / "records.jsonl"
    path.unlink()
    make(path)
    with pytest.raises(UsageError, match="records.jsonl cannot be read"):
        read_records(run)
    with pytest.raises(UsageError, match="records.jsonl cannot be read"):
        RunFolder(run)
    with pytest.raises(Unreadable, match="records.jsonl cannot be read"), opened(Tables([run])):
        pass


@pytest.mark.parametrize("name", ["campaign.yaml", "records.jsonl", "trials.jsonl"])
def test_a_link_in_a_run_folder_is_not_followed(run: Path, name: str, tmp_path: Path) -> None:
    away = tmp_path / "away"
    content = (run / name).read_bytes() + b"precious"  # what is torn would be cut off
    away.write_bytes(content)
    (run / name).unlink()
    (run / name).symlink_to(away)
    expected = f"{name} cannot be read: it is a symbolic link"
    if name != "trials.jsonl":
        with pytest.raises(UsageError, match=expected):
            read_records(run)
    if name != "campaign.yaml":
        with pytest.raises(Unreadable, match=expected), opened(Tables([run])):
            pass
    with pytest.raises(UsageError, match=expected):
        RunFolder(run)
    assert away.read_bytes() == content


@pytest.mark.parametrize("name", ["host.json", "testbeds.json"])
def test_facts_that_a_link_leads_to_are_none(run: Path, name: str, tmp_path: Path) -> None:
    (tmp_path / "away").write_text('{"kernel": "precious", "testbeds": {"precious": {}}}')
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "away")
    assert read_host(run) == {} or name != "host.json"
    assert read_lab(run) == {}
    with opened(Tables([run])) as database:
        assert "precious" not in str(database.execute("select * from tests").fetchall())


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_facts_of_a_host_that_never_end_are_none(run: Path, make: Callable[[Path], None]) -> None:
    (run / "host.json").unlink()
    make(run / "host.json")
    assert read_host(run) == {}
    with opened(Tables([run])) as database:
        assert database.execute("select host_cpu_model from tests").fetchall() == [(None,)]


@pytest.mark.parametrize("text", ['{"kernel": "\\ud800"}', "[1]", '{"a": ' + "[" * 5000])
def test_facts_of_a_host_that_are_no_text_are_none(run: Path, text: str) -> None:
    (run / "host.json").write_text(text)
    assert read_host(run) == {}


@pytest.mark.parametrize(
    "lab", [{"testbeds": []}, {"testbeds": {"a": 1}}, {"groups": [1, 2]}, {"differences": {"a": 1}}]
)
def test_testbeds_that_are_something_else_are_none(run: Path, lab: dict[str, Any]) -> None:
    (run / "testbeds.json").write_text(json.dumps(lab))
    assert read_lab(run) == {}
    assert len(read_records(run)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("started", "yesterday"),
        ("started", "2026-11-22T01:02:03"),
        ("started", "0001-01-01T00:00:00+14:00"),
        ("key", "x onwheel=alert()"),
    ],
)
def test_a_field_that_is_spoilt_is_told_with_its_line(run: Path, field: str, value: str) -> None:
    spoil(run, lambda line: line["record"].update({field: value}))
    with pytest.raises(UsageError, match=rf"records.jsonl:1: not readable: {field}"):
        read_records(run)


@pytest.mark.parametrize("value", [None, True, {"a": 1}, ...], ids=str)
def test_any_member_may_be_spoilt_or_missing(value: object) -> None:
    """A record with a member of the wrong type, or without it, is valid or refused. No other error
    is raised."""
    (line, *_) = recorded_lines(RECORDINGS / "profiled.records.jsonl")
    refused = 0
    for holder, key in first_of_each(line["record"]):
        before = holder[key]
        if value is not ...:
            holder[key] = value
        elif isinstance(holder, dict):
            del holder[key]
        try:
            Record.model_validate_json(json.dumps(line["record"]))
        except (ValidationError, UsageError):
            refused += 1
        holder[key] = before
    assert refused > 20
    Record.model_validate_json(json.dumps(line["record"]))


def first_of_each(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the place of each value below, but only of the first item of a list."""
    if isinstance(content, dict | list):
        for key in list(content) if isinstance(content, dict) else range(len(content[:1])):
            yield from first_of_each(content[key])
            yield content, key


@pytest.mark.parametrize(
    ("seat", "place"),
    [
        ({"cpus": False, "yield": True}, "Pin.cpus"),
        ({"cpus": ["x"], "yield": True}, "Pin.cpus.0"),
        ({"cpus": [1]}, "Pin.yield_"),
        ({"cpus": [1], "yield": "so"}, "Pin.yield_"),
        (7, "Pin"),
    ],
)
def test_a_seat_that_is_spoilt_is_named_with_its_line(run: Path, seat: object, place: str) -> None:
    placement = {"policy": "pinned", "seats": {"f0": seat}}
    spoil(run, lambda line: line["record"].update(placement=placement))
    place = rf"records.jsonl:1: not readable: placement\.seats\.f0\.{place}: "
    with pytest.raises(UsageError, match=place):
        read_records(run)
    with pytest.raises(Unreadable):
        Tables([run])


@pytest.mark.parametrize("counts", [{"in": 1}, {"in": 1, "out": "x"}, {"in": [], "out": 1}])
def test_a_balance_has_two_counts(counts: object) -> None:
    with pytest.raises(ValidationError, match=r"balance\.to switch\.(entered|left)"):
        Evidence.model_validate({"balance": {"to switch": counts}})


@pytest.mark.parametrize("counts", [{"rx": "x"}, {"rx": True}, {"rx": 1.5}, {"rx": [1]}, 7])
def test_counters_are_numbers(counts: object) -> None:
    with pytest.raises(ValidationError, match="no counters by place"):
        TypeAdapter(WrittenCounters).validate_python({"f0@switch": counts})


def test_an_axis_that_is_spoilt_is_named_with_its_line(run: Path) -> None:
    spoil(run, lambda line: line["record"]["test"].update(rate=True))
    with pytest.raises(UsageError, match=r"records.jsonl:1: not readable: 'True' is not a rate"):
        read_records(run)
    with pytest.raises(Unreadable):
        Tables([run])


def test_a_load_is_of_a_cpu() -> None:
    with pytest.raises(ValidationError, match="load.x"):
        TrialCost.model_validate({"load": {"x": 1.0}})


@pytest.mark.parametrize("text", ["", "x", "AAAA", "HISTFAAAAB542pNpmSzMwMDAxQAA"])
def test_a_histogram_that_is_spoilt_is_told(text: str) -> None:
    trial = latency_trial(1e5, [900, 950, 1000])
    assert trial.latency is not None
    spoilt = trial.model_copy(
        update={"latency": trial.latency.model_copy(update={"histogram": text})}
    )
    with pytest.raises(UsageError, match="a stored histogram of latencies cannot be read"):
        latency_of([spoilt, spoilt])


def test_what_duckdb_cannot_read_is_a_line_that_is_spoilt(run: Path) -> None:
    spoil(run, lambda line: line["record"].update({"doubts": 7}))
    with pytest.raises(Unreadable):
        Tables([run])


def test_a_run_of_names_that_are_not_known_here_is_read_but_not_gone_on_with(run: Path) -> None:
    text = (run / "campaign.yaml").read_text()
    (run / "campaign.yaml").write_text(text.replace("switch: linux-bridge", "switch: nosuch"))
    assert len(read_records(run)) == 1
    with pytest.raises(UsageError, match="there is no switch named 'nosuch'"):
        RunFolder(run)


# --- in other programs -----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1+1", "+1", "@a", "-a", "-1+cmd", "\t=1", "\r=1"])
def test_a_text_is_no_formula_in_csv(text: str) -> None:
    assert in_csv(text) == f"'{text}"


@pytest.mark.parametrize("text", ["a=1", "-5", "-0.5", "64", "", "null"])
def test_a_text_that_is_no_formula_stays_as_it_is(text: str) -> None:
    assert in_csv(text) == text


def test_a_text_is_no_markup_in_markdown() -> None:
    text = in_markdown(HOSTILE)
    assert "<script" not in text.replace("\\<", "")
    assert "\n" not in text
    assert "\x1b" not in text


def test_reports_and_bundles_hold_hostile_texts_as_text(tmp_path: Path) -> None:
    record = fresh(1, status="failed", trials=(), error=HOSTILE, switch_version=HOSTILE)
    named = [
        fresh(number, test=Test(search="max", switch=switch))
        for number, switch in ((2, "<script>a"), (3, "<script>b"))
    ]
    runs = [(HOSTILE, [record, *named])]
    path = stored_run(tmp_path, [record])
    exported = rows_as_csv(Tables([path]))
    for text in (as_csv(runs), exported):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert any(cell.startswith("'=cmd") for cell in cells)
        assert not any(cell.startswith("=") for cell in cells)
    readme = packed(path, [record], "")["README.md"].decode()
    for page in (as_markdown(runs), readme):
        assert "<script" not in page.replace("\\<", "")
        assert "\x1b" not in page


def test_junit_is_well_formed_whatever_records_say() -> None:
    bad = fresh(1, status="failed", trials=(), error=HOSTILE, switch_version="\ufffe\x0b")
    good = fresh(1, test=Test(search="max", frame_size=64))
    result = compared(_sides(good, bad), ())
    root = ElementTree.fromstring(junit(result, [], [HOSTILE, "b"]))
    assert root.find(".//error") is not None


def _sides(before: Any, after: Any) -> Any:
    from switchmark.cli.comparing import _sides as sides_of

    return sides_of([("a", [[before]]), ("b", [[after]])], None, ())


def test_a_picture_is_drawn_of_a_name_with_control_characters() -> None:
    records = [
        fresh(number, test=Test(search="max", switch=switch), switch_version="\x01")
        for number, switch in enumerate(("linux-bridge", "ovs"), 1)
    ]
    spec = json.loads(json.dumps(specification(charts(records)[0])).replace("ovs", "o\\u0001vs"))
    assert "o\\x01vs" in svg(spec)
