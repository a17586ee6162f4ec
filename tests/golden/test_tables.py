"""These tests compare the flat tables with stored texts: each column with its type, its description
and its values in recorded runs.

A run gives more values than a reader can check, so a line has how many are known, their sum, and
the sum weighted by their place, as in tests/golden/test_figures.py."""

from __future__ import annotations

import copy
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from golden.test_figures import summed
from recorded import FACTS, RECORDINGS, interrupted_trial, stored_run
from switchmark.model.record import SCHEMA
from switchmark.model.search import Goal
from switchmark.report.rows import TABLES, FlatColumn, Tables, Unreadable, kind_of

Golden = Callable[[str, str], None]

CHOSEN = """corrupt drop-and-duplicate failing-step flows-mixed latency outage profile search-mlr
search-ndr share-of-r-plus turns-idle bridge-poisson-imix""".split()
"""The recorded runs whose values are summed: those whose records differ most."""

OUTCOME: Mapping[str, Any] = {
    "experiment": "a-2026/fig1",
    "claims": [
        {
            "id": "faster",
            "kind": "order",
            "metric": "rx.pps",
            "says": "a is faster than b",
            "said": True,
            "place": "section 4",
            "answer": "holds",
            "why": "the intervals",
            "rounds_needed": 7,
            "contradicted": None,
            "doubts": ["short"],
            "compared": [1, 2],
        }
    ],
    "values": [
        {
            "at": {"switch": "a"},
            "metric": "rx.pps",
            "unit": "pps",
            "published": [5e6],
            "value": 4e6,
            "low": 3e6,
            "high": 4.5e6,
            "lower_bound": False,
            "ratio": 0.8,
            "doubts": [],
        }
    ],
}


FIGURES = "count min mean p50 p90 p99 p999 p9999 p99999 p999999 max".split()


@cache
def lines() -> tuple[dict[str, Any], ...]:
    """Return the stored lines of the chosen runs."""
    found = [
        json.loads(line)
        for name in CHOSEN
        for line in (RECORDINGS / f"{name}.records.jsonl").read_text().splitlines()
    ]
    for number, line in enumerate(found, 1):
        line["record"] |= {"key": f"k{number}", "number": number}
        line["versions"] = {"switchmark": "0.1.0", "linux": f"6.{number}"}
    return tuple(found)


def fill(record: dict[str, Any]) -> None:
    """Give a stored record the figures that no recorded run has: those of other searches, and the
    latency of flows."""
    search = record["search"] or {"goals": ()}
    searches = [search, *search.get("results", ())]
    for place, goal in enumerate(goal for search in searches for goal in search["goals"]):
        for number, (name, field) in enumerate(Goal.model_fields.items(), 1 + 100 * place):
            if goal.get(name) is None and kind_of(field.annotation) in ("BIGINT", "DOUBLE"):
                goal[name] = number
        goal["latency_ns"] = {"kind": "rtt", **dict.fromkeys(FIGURES, place)}
    for trial in record["trials"]:
        if trial["latency"]:
            trial["latency"] |= {"p9999": 3, "p99999": 5, "p999999": 7}
            for place, flow in enumerate(trial["per_flow"]):
                flow["latency"] = {**trial["latency"], "p50": place}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run folder with the chosen records, of two testbeds and a host, with a superseded
    record and a trial whose test has not finished."""
    folder = stored_run(tmp_path / "first", [], tests=len(lines()) + 1)
    stored = copy.deepcopy(list(lines()))
    for line in stored:
        fill(line["record"])
    for place, testbed in ((0, "east"), (1, "nameless")):
        for trial in stored[place]["record"]["trials"]:
            trial["evidence"]["testbed"] = testbed
    stored.insert(0, {**stored[0], "record": {**stored[0]["record"], "error": "superseded"}})
    trial = interrupted_trial(lost=7).model_dump(mode="json", by_alias=True)
    unfinished = {"schema": SCHEMA, "key": "u", "number": len(lines()) + 1, "trial": trial}
    finished = [
        {"key": "t", "number": line["record"]["number"], "trial": one}
        for line in stored
        for one in line["record"]["trials"]
    ]
    for name, content in (("records", stored), ("trials", [*finished, unfinished])):
        text = "".join(json.dumps(line) + "\n" for line in content)
        (folder / f"{name}.jsonl").write_text(text + '{"schema"')
    facts = {**FACTS, "machine": "x86_64", "distribution": "Debian 12", "memory_kib": 4096}
    (folder / "host.json").write_text(json.dumps(facts))
    beds = {"east": {"facts": {"kernel": "6.6", "virtual": True}}, "nameless": {"facts": {}}}
    (folder / "testbeds.json").write_text(json.dumps({"testbeds": beds}))
    return folder


def brief(value: Any) -> Any:
    """Return a long text as its checksum, which takes less time than its letters."""
    long = isinstance(value, str) and len(value) > 40
    return zlib.crc32(value.encode()) if long else value


def told(column: FlatColumn, values: Sequence[Any]) -> str:
    """Return the line of a column. The name of the run, which is a moment, counts as nothing."""
    shown = summed("", ["" if column.name == "run" else brief(value) for value in values])
    return f"{column.name} {column.kind}{shown}\n  {column.description}"


def test_every_column_of_every_table(run: Path, golden: Golden) -> None:
    tables = Tables([run], lambda folder: [OUTCOME])
    for table, content in TABLES.items():
        text = [f"{table}: {content.row}, {len(tables.rows(table))} rows"]
        text += [told(column, tables.values(table, column.name)) for column in content.columns]
        golden(f"tables/{table}.txt", "\n".join([*text, ""]))


def test_runs_of_one_name_and_what_cannot_be_read(golden: Golden, tmp_path: Path) -> None:
    text = []
    one, other, third = (tmp_path / name for name in ("a/run", "b/run", "c"))
    for folder in (one, other, third):
        folder.mkdir(parents=True)
        stored = [json.dumps(line) for line in lines()[:2]]
        (folder / "records.jsonl").write_text("\n".join([*stored, ""]))
    tables = Tables([third, one, other, one])
    text += [f"{result.run} {result['number']} {result['status']}" for result in tables.results]
    text += [f"{tables.name(folder)}: {tables.finished(folder)}" for folder in (one, third)]
    (third / "records.jsonl").write_text("\n" * 5000)
    broken = {"no JSON": "{]\n", "no record": "{}\n", "a newer schema": '{"schema": 10000}\n'}
    for name, content in broken.items():
        (one / "records.jsonl").write_text(content)
        text.append(f"{name}: {refused(lambda: Tables([one]))}")
    text.append(f"changed since: {refused(lambda: tables.results[-1].metrics)}")
    for name in ("records.jsonl", "trials.jsonl"):
        (other / name).unlink(missing_ok=True)
        (other / name).mkdir()
        text.append(f"a folder {name}: {refused(lambda: Tables([other]))}")
    for kind, value in (("BIGINT", "x"), ("BOOLEAN", ""), ("DOUBLE", math.inf), ("VARCHAR", 3)):
        column = FlatColumn("c", kind, "a value", lambda row: row)
        text.append(f"{kind} {value!r}: {refused(partial(column.value, value))}")
    golden("tables/unreadable.txt", "\n".join([*text, ""]).replace(str(tmp_path), "TMP"))


def refused(read: Callable[[], Any]) -> str:
    """Return the refusal of a reader, or what it returned."""
    try:
        return repr(read())
    except Unreadable as error:
        return f"refused: {error.message}"
