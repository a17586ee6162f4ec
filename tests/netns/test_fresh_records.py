"""These tests take a record that was just measured to every form in which records are handed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from real_frames import Measure
from recorded import stored_run
from switchmark.campaign.store import read_records
from switchmark.model.record import SCHEMA
from switchmark.report.bundle import packed
from switchmark.report.csit import as_csit
from switchmark.report.export import rows_as_csv
from switchmark.report.json import to_object
from switchmark.report.latex import as_latex
from switchmark.report.query import ask, opened
from switchmark.report.rows import Tables
from switchmark.report.schema import schema


def test_a_fresh_record_is_valid_and_goes_into_every_form(measure: Measure, tmp_path: Path) -> None:
    record = measure(switch="linux-bridge", repeat=13, duration=0.02)
    stored = {"schema": SCHEMA, "versions": {}, "record": record.model_dump(mode="json")}
    Draft202012Validator(schema("records")).validate(json.loads(json.dumps(stored)))
    Draft202012Validator(schema("json")).validate(json.loads(json.dumps(to_object(record))))

    folder = stored_run(tmp_path, [record])
    (again,) = read_records(folder)
    runs = Tables([folder])
    rows = rows_as_csv(runs)
    with opened(runs) as database:
        answer = ask(database, "select rx_pps, ci95_low_pps, latency_p50_ns from tests")
    content = to_object(again)
    low, _ = content["ci95_pps"]
    (row,) = answer.rows
    assert row == pytest.approx((content["rx"]["pps"], low, content["latency_ns"]["p50"]))
    assert rows.count("\r\n") == 2
    assert "linux-bridge" in as_latex(runs)
    assert as_csit(again)["passed"] is True
    assert "report.html" in packed(folder, [again], rows)
