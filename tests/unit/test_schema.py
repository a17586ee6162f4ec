"""These tests validate stored records and printed objects with the published schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from switchmark.model.record import SCHEMA, Record, TrialSpec
from switchmark.model.test import Test
from switchmark.report.json import to_object
from switchmark.report.schema import SCHEMAS, schema
from synthetic import SyntheticSwitch

DATA = Path(__file__).parent / "data"


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def wrong(name: str, content: Any) -> list[str]:
    """Return the violations of a schema in some content."""
    found = validator(name).iter_errors(content)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def lines() -> Iterator[Any]:
    """Yield the stored lines of records of every version of the program, with their names."""
    for path in sorted(DATA.glob("records-*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield pytest.param(json.loads(line), id=f"{path.stem}:{number}")


def fresh(**changes: Any) -> Record:
    """Return a record that this version has made."""
    switch = SyntheticSwitch(noise=0.01)
    trials = tuple(switch(TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)) for _ in range(3))
    content = {"key": "k", "number": 1, "status": "ok", "error": None, "test": Test()}
    return Record(**{**content, "trials": trials, **changes})


def as_stored(record: Record) -> Any:
    content = {"schema": SCHEMA, "versions": {}, "record": record.model_dump(mode="json")}
    return json.loads(json.dumps(content))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("line", list(lines()))
def test_a_stored_record_is_valid_as_it_was_written_and_as_it_is_written_now(line: Any) -> None:
    record = Record.model_validate(line["record"])
    assert wrong("records", line) == []
    assert wrong("records", as_stored(record)) == []
    assert wrong("json", json.loads(json.dumps(to_object(record)))) == []
    for trial in line["record"]["trials"]:
        assert wrong("trials", {"schema": SCHEMA, "key": "k", "number": 1, "trial": trial}) == []


@pytest.mark.parametrize("path", sorted(DATA.glob("object*.json*")), ids=lambda path: path.stem)
def test_what_was_printed_is_valid(path: Path) -> None:
    text = path.read_text()
    documents = text.splitlines() if path.suffix == ".jsonl" else [text]
    assert [wrong("json", json.loads(one)) for one in documents] == [[]] * len(documents)


@pytest.mark.parametrize(
    "record",
    [
        fresh(),
        fresh(status="failed", error="a switch did not start", trials=()),
        fresh(status="refused", error="it cannot work", trials=()),
    ],
    ids=lambda record: record.status,
)
def test_a_fresh_record_is_valid(record: Record) -> None:
    assert wrong("records", as_stored(record)) == []
    assert wrong("json", json.loads(json.dumps(to_object(record)))) == []


def test_every_member_is_told() -> None:
    def silent(part: dict[str, Any], path: str) -> Iterator[str]:
        for name, member in part.get("properties", {}).items():
            if "description" not in member:
                yield f"{path}.{name}"

    for name in SCHEMAS:
        document = schema(name)
        found = [problem for part, of in document["$defs"].items() for problem in silent(of, part)]
        if name == "json":
            found += silent(document, name)
        assert found == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("number", "1"), ("status", "fine"), ("verdict", None), ("trials", {}), ("key", 1)],
)
def test_a_member_of_another_type_is_not_valid(name: str, value: object) -> None:
    line = as_stored(fresh())
    line["record"][name] = value
    assert wrong("records", line) != []
