"""Every export agrees with the records, for every metric: CSV, Parquet, SQL, LaTeX, CSIT, `--json`.

One run folder holds tests of all kinds: stored ones of real switches, with costs, searches, and
some that failed.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from recorded import DATA, fresh, gap, interrupted_trial, latency_trial, stored_run
from switchmark.campaign.store import read_records
from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.loss import lost_share
from switchmark.metrics.named import METRICS, metric
from switchmark.metrics.searched import precision_of
from switchmark.metrics.throughput import MIN_REPEATS
from switchmark.model.cost import (
    InterruptCost,
    PerfCost,
    ProcessorCounts,
    Profile,
    Shares,
    TrialCost,
)
from switchmark.model.record import PartReport, Record
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.report.csit import as_csit
from switchmark.report.export import rows_as_csv, write_parquet
from switchmark.report.json import to_object
from switchmark.report.latex import as_latex
from switchmark.report.query import ask, opened
from switchmark.report.rows import TABLES, Tables, column_of


def _records() -> Iterator[Record]:
    """Yield tests of all kinds."""
    with gzip.open(DATA / "answered.jsonl.gz", "rt") as lines:
        for line in lines:
            yield Record.model_validate(json.loads(line)["record"])
    goals = (Goal(goal="ndr", loss_ratio=0, rate_pps=9e5, low_pps=9e5, high_pps=1e6),)
    search = SearchResult(name="ndr", trials=9, goals=goals)
    yield fresh(test=Test(search="ndr"), search=search, verdict="sender", doubts=("short",))
    counted = ProcessorCounts(
        by="cpu", roles=(), cpus=(1,), cycles=9, ref_cycles=8, instructions=7, cache_misses=6
    )
    whole = Shares(samples=10, groups={"user": 0.25, "locks": 0.5}, symbols={"schedule": 0.1})
    cost = TrialCost(
        elapsed_ns=10**9,
        softirq=InterruptCost(cpus={}, outside=0.5),
        tsc_hz=10**9,
        load={"1": 0.75},
        perf=PerfCost(user_only=False, parts={"cpus": counted}),
        profile=Profile(event="cycles", hz=99, whole=whole),
    )
    trials = fresh().trials * 5
    yield fresh(trials=tuple(trial.model_copy(update={"cost": cost}) for trial in trials))
    roles = ("sender", "receiver", "client", "server", "forwarder", "function", "switch")
    parts = tuple(
        PartReport(part=role, roles=(role,), cpu=1, cores=0.125 * index)
        for index, role in enumerate(roles)
    )
    delayed = latency_trial(1e3, range(1000, 3000))
    yield fresh(
        test=Test(dimension="latency", rate="1000", copies=2),
        trials=(delayed.model_copy(update={"parts": parts, "lost": 7}),),
    )
    yield fresh(
        test=Test(dimension="outage", event="kill@0.3", rate="1000", duration=1),
        trials=(interrupted_trial((gap(301, 502, lost=200),), lost=200),),
    )
    recovered = Goal(goal="recovery", loss_ratio=0.1, rate_pps=1e5, recovery_s=0.25)
    yield fresh(
        test=Test(search="recovery"),
        search=SearchResult(name="recovery", trials=1, goals=(recovered,)),
    )
    yield fresh(status="failed", error="it broke", trials=())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbered = [
        record.model_copy(update={"number": number, "key": f"k{number}"})
        for number, record in enumerate(_records(), 1)
    ]
    return stored_run(tmp_path_factory.mktemp("exports"), numbered)


@pytest.fixture(scope="module")
def records(folder: Path) -> Sequence[Record]:
    return read_records(folder)


def _csv(folder: Path) -> list[dict[str, Any]]:
    text = rows_as_csv(Tables([folder]))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _parquet(folder: Path) -> list[dict[str, Any]]:
    path = folder.parent / "tests.parquet"
    with opened(Tables([folder])) as database:
        write_parquet(database, path)
    with duckdb.connect() as database:
        result = database.read_parquet(str(path))
        return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _sql(folder: Path) -> list[dict[str, Any]]:
    with opened(Tables([folder])) as database:
        answer = ask(database, "select * from tests order by number")
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


@pytest.mark.parametrize("export", [_csv, _parquet, _sql])
def test_every_metric_is_a_column_with_its_value(
    export: Callable[[Path], list[dict[str, Any]]], folder: Path, records: Sequence[Record]
) -> None:
    for row, record in zip(export(folder), records, strict=True):
        cells = {name: row[column_of(name)] for name in METRICS}
        expected = {name: metric.of(record) for name, metric in METRICS.items()}
        assert {
            name: None if value in ("", None) else float(value) for name, value in cells.items()
        } == expected


@pytest.mark.parametrize("table", TABLES)
def test_no_two_columns_of_a_table_have_one_name(table: str) -> None:
    names = [column.name for column in TABLES[table].columns]
    assert len(set(names)) == len(names)


def test_every_metric_is_known_of_some_record(records: Sequence[Record]) -> None:
    """Else a column of nothing but nulls would pass the tests above."""
    unknown = [
        name
        for name, value in METRICS.items()
        if all(value.of(record) is None for record in records)
    ]
    assert unknown == []


def test_columns_of_another_name_have_the_metric_of_json(
    folder: Path, records: Sequence[Record]
) -> None:
    for row, record in zip(_sql(folder), records, strict=True):
        content = to_object(record)
        rx, tx = content["rx"] or {}, content["tx"] or {}
        for name in ("pps", "gbps_l1", "gbps_l2"):
            assert (
                rx.get(name) == pytest.approx(row[f"rx_{name}"]) == METRICS[f"rx.{name}"].of(record)
            )
        assert tx.get("pps") == pytest.approx(row["tx_pps"])
        assert row["lost_ratio"] == lost_share(record)
        assert row["lower_bound"] is content["lower_bound"]
        for name in ("p50", "p99"):
            us = metric(f"latency.{name}_us").of(record)
            if len(record.trials) < MIN_REPEATS:
                assert us == (row[f"latency_{name}_ns"] and row[f"latency_{name}_ns"] / 1e3)


def _of_latex(folder: Path) -> Iterator[Mapping[str, str]]:
    lines = re.findall(r"^    (?!\\)(.*) \\\\$", as_latex(Tables([folder])), re.MULTILINE)
    head, *rows = (line.split(" & ") for line in lines)
    for row in rows:
        yield dict(zip(head, row, strict=True))


def test_the_table_of_latex_has_the_figures_of_the_records(
    folder: Path, records: Sequence[Record]
) -> None:
    for row, record in zip(_of_latex(folder), records, strict=True):
        content = to_object(record)
        latency = content["latency_ns"] or {}
        goals = record.search.goals if record.search else ()
        ndr = next((goal for goal in goals if goal.goal == "ndr"), None)
        within = ndr and precision_of(ndr)
        ends, share = content["ci95_pps"], lost_share(record)
        expected = {
            r"Received [kpps]": content["rx"] and f"{content['rx']['pps'] / 1e3:.1f}",
            r"95\,\% [kpps]": ends and f"[{ends[0] / 1e3:.1f}, {ends[1] / 1e3:.1f}]",
            r"Lost [\%]": None if share is None else f"{100 * share:.3f}",
            r"p50 [$\mu$s]": latency.get("p50") and f"{latency['p50'] / 1e3:.1f}",
            r"p99 [$\mu$s]": latency.get("p99") and f"{latency['p99'] / 1e3:.1f}",
            r"NDR [kpps]": ndr and f"{(ndr.rate_pps or 0) / 1e3:.1f}",
            r"NDR within [\%]": within and f"{100 * within:.2g}",
        }
        cells = {head: re.sub(r"\$.*?\$", "", row[head]) for head in expected}
        assert cells == {head: text or "--" for head, text in expected.items()}
        received = row[r"Received [kpps]"]
        assert received.startswith(r"$\geq$") is content["lower_bound"]
        assert received.endswith(r"$^{\circ}$") is is_doubtful(content["doubts"])


def test_the_telemetry_of_csit_has_the_figures_of_the_records(records: Sequence[Record]) -> None:
    for record in records:
        lines = [
            re.fullmatch(r"switchmark_(\w+)\{(.*)\} (\S+) \S+", line)
            for line in as_csit(record)["telemetry"]
        ]
        values = {(line[1], line[2]): float(line[3]) for line in lines if line}
        content = to_object(record)
        for name in ("pps", "gbps_l1", "gbps_l2"):
            value = METRICS[f"rx.{name}"].of(record)
            assert values.get((f"rx_{name}", "")) == (value and pytest.approx(value))
        assert values.get(("lost_frames", "")) == content["lost"]
        for role in ("sender", "receiver", "switch"):
            assert values.get(("cpu_cores", f'role="{role}"')) == (
                pytest.approx(content["cpu"][role]) if content["cpu"][role] is not None else None
            )
