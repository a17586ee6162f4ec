"""This module lets DuckDB read the records of runs as tables, and asks it.

It reads run folders, and nothing else: what is asked can neither open a file nor write one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.errors import SetupFailed, UsageError
from switchmark.metrics.cpu import cost
from switchmark.metrics.latency import figures_of
from switchmark.metrics.loss import losses
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import fairness, steady_rate_pps
from switchmark.model.latency import Latency
from switchmark.model.record import SCHEMA, Record, TrialResult
from switchmark.model.test import Test
from switchmark.regular_file import open_regular, read_object
from switchmark.report.json import plain
from switchmark.report.schema import as_json
from switchmark.report.structure import HOST, in_sql, structure
from switchmark.report.views import VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_USUAL_LINE = 1 << 20
"""No usual line is longer. DuckDB reads twice as much at once, by as many threads as there are such
pieces."""

_TRIALS = "all_trials"


class Unreadable(UsageError):
    """A stored line cannot be read; `campaign.store` tells which."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer has columns, and rows with a value for each."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(repr=False)


@contextmanager
def opened(folders: Sequence[Path]) -> Iterator[DuckDBPyConnection]:
    """Open the records of run folders, as the tables of `VIEWS`. Unreadable if a line is not."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="switchmark-") as scratch, duckdb.connect() as database:
        database.execute("set autoinstall_known_extensions = false")
        database.execute("set preserve_insertion_order = true")  # of a number the last line counts
        _make_known(database)
        try:
            _load(database, folders, Path(scratch))
            for name, view in VIEWS.items():
                database.execute(f"create view {name} as {view.sql}")
            yield database
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise SetupFailed(f"DuckDB cannot read the records: {error}") from error
        except (duckdb.InvalidInputException, duckdb.DataError) as error:
            raise Unreadable(f"a stored line cannot be read: {error}") from error


def ask(database: DuckDBPyConnection, sql: str) -> Answer:
    """Return the answer to a query; UsageError with what DuckDB says of a wrong one."""
    import duckdb

    if _TRIALS in sql.lower():  # they are read for those only who ask for them
        database.execute("create temp table trials_read as select * from stored.trials")
        database.execute("create or replace view stored.trials as from trials_read")
    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")
    try:
        result = database.execute(sql)
        described = result.description or []
        rows = result.fetchall()
    except duckdb.Error as error:
        raise UsageError(
            f"the query cannot be answered: {error}",
            hint="'switchmark query' without a query lists the tables and their columns",
        ) from error
    return Answer(tuple(str(each[0]) for each in described), rows)


def columns_of_tables(database: DuckDBPyConnection) -> Answer:
    """Return what there is to ask: each column with its type, and what it is."""
    rows: list[tuple[Any, ...]] = []
    for name, view in VIEWS.items():
        kinds = database.execute(f"describe {name}").fetchall()
        words = {column.name: column.told for column in view.columns}
        rows += [(name, each[0], _short(each[1]), _told(words[each[0]])) for each in kinds]
    return Answer(("table", "column", "type", "what it is"), rows)


def counted(database: DuckDBPyConnection, folders: Sequence[Path]) -> list[int]:
    """Return how many tests of each run have a record."""
    query = "select folder, count(*) from stored.records group by folder"
    known = dict(database.execute(query).fetchall())
    return [known.get(str(folder.resolve()), 0) for folder in folders]


def _short(kind: str) -> str:
    """Return a type without what is in it."""
    return "STRUCT" + "[]" * kind.endswith("[]") if kind.startswith("STRUCT") else kind


def _told(words: str) -> str:
    """Return what a column is without the capital and the full stop of a docstring."""
    text = as_json(words).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


# --- what is stored --------------------------------------------------------------------------


def _load(database: DuckDBPyConnection, folders: Sequence[Path], scratch: Path) -> None:
    """Make the tables `stored.records` and `stored.trials`. The last line of a number counts."""
    records: list[str] = []
    trials: list[str] = []
    runs: list[list[Any]] = []
    known = list({folder.resolve(): None for folder in folders})
    for number, folder in enumerate(known):
        facts = read_object(folder / "host.json")
        for name, paths in (("records", records), ("trials", trials)):
            path = _whole(folder / f"{name}.jsonl", scratch / f"{number}-{name}.jsonl")
            paths.append(str(path))
            runs.append([str(path), str(folder), _name(folder, known), *map(facts.get, HOST)])
    form = _form(_longest([*records, *trials]))
    columns = ", ".join(f"host_{name} {kind}" for name, kind in HOST.items())
    database.execute("create schema stored")
    database.execute(
        f"create table stored.runs (filename VARCHAR, folder VARCHAR, run VARCHAR, {columns})"
    )
    database.executemany(
        f"insert into stored.runs values ({', '.join('?' * (len(HOST) + 3))})", runs
    )
    database.execute(
        "create table stored.lines as select filename, schema, versions, record as r from"
        " read_json(?, columns = {schema: 'BIGINT', versions: 'MAP(VARCHAR, VARCHAR)',"
        f" record: '{in_sql(structure(Record))}'}}, {form})",
        [records],
    )
    database.create_function("text_of", _Texts().of, ["VARCHAR", "BIGINT"], "VARCHAR")
    spoilt = "schema is null or schema > ? or r.number is null or r.status is null"
    query = f"select count(*) from stored.lines where {spoilt}"
    if database.execute(query, [SCHEMA]).fetchall() != [(0,)]:
        raise Unreadable("a stored line is no record")
    latest = "select max(rowid) from stored.lines group by filename, r.number"
    database.execute(
        "create view stored.records as select * replace (coalesce(versions, map()) as versions),"
        " text_of(filename, r.number) as record"
        f" from stored.lines join stored.runs using (filename) where lines.rowid in ({latest})"
        " order by run, r.number"
    )
    files = ", ".join(f"'{path.replace(chr(39), chr(39) * 2)}'" for path in trials)
    database.execute(
        f"create view stored.trials as select run, number, trial as t from read_json([{files}],"
        f" columns = {{number: 'BIGINT', trial: '{in_sql(structure(TrialResult))}'}}, {form})"
        " join stored.runs using (filename)"
    )


def _name(folder: Path, among: Sequence[Path]) -> str:
    """Return a run's name: that of its folder, with the path to it where two have one name, as runs
    of two hosts that began in one second."""
    same = [each for each in among if each.name == folder.name]
    return folder.name if len(same) == 1 else str(folder)


def _form(line_bytes: int) -> str:
    return f"format = 'newline_delimited', filename = true, maximum_object_size = {line_bytes}"


def _longest(paths: Sequence[str]) -> int:
    """Return how long a line of these files may be, in bytes; it is not looked for in files that
    are shorter than a usual line may be."""
    longest = _USUAL_LINE
    for path in map(Path, paths):
        if path.stat().st_size > longest:
            with path.open("rb") as file:
                longest = max(longest, *map(len, file))
    return longest


class _Texts:
    """Texts are records as they are stored, which are read when one is asked for: by its file and
    its number, of which the last line counts."""

    def __init__(self) -> None:
        self._places: dict[str, dict[int, int]] = {}

    def of(self, path: str, number: int) -> str:
        """Return a record."""
        if path not in self._places:
            self._places[path] = _places(path)
        with Path(path).open("rb") as file:
            file.seek(self._places[path][number])
            return json.dumps(json.loads(file.readline())["record"])


def _places(path: str) -> dict[int, int]:
    """Return where the last line of each record of a file begins, by the number of the record."""
    places, at = {}, 0
    with Path(path).open("rb") as file:
        for line in file:
            if line.strip():
                places[json.loads(line)["record"]["number"]] = at
            at += len(line)
    return places


def _whole(path: Path, copy: Path) -> Path:
    """Return a file of whole lines: this one, or a copy without the torn last line."""
    try:
        with open_regular(path, sys.maxsize, links=False) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            if file.read() in (b"", b"\n"):
                return path
            file.seek(0)
            content = file.read()
    except FileNotFoundError:
        copy.touch()
        return copy
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from error
    copy.write_bytes(content[: content.rfind(b"\n") + 1])
    return copy


# --- what SQL cannot compute -----------------------------------------------------------------


def _make_known(database: Any) -> None:
    """Add the functions of `metrics` that the views call to those of SQL."""
    known: Sequence[tuple[str, Callable[..., Any], list[str], str]] = [
        ("steady_pps", _steady_pps, ["VARCHAR", "BIGINT", "BIGINT"], "DOUBLE"),
        ("median_interval", _interval, ["DOUBLE[]"], "DOUBLE[]"),
        ("asked_pps", _asked_pps, ["VARCHAR", "VARCHAR", "VARCHAR"], "DOUBLE"),
        ("latency_of", _latency_of, ["VARCHAR"], "VARCHAR"),
        ("figure", _figure, ["VARCHAR", "VARCHAR"], "VARCHAR"),
    ]
    for name, function, takes, gives in known:
        database.create_function(name, function, takes, gives, null_handling="special")


def _steady_pps(intervals: str | None, elapsed_ns: int, interval_ns: int) -> float | None:
    return steady_rate_pps(json.loads(intervals or "[]"), elapsed_ns, interval_ns)


def _interval(values: list[float] | None) -> list[float] | None:
    ends = _interval_of(tuple(values or ()))
    return ends and list(ends)


@lru_cache(4096)
def _interval_of(values: tuple[float, ...]) -> tuple[float, float] | None:
    return median_interval(values)


@lru_cache(4096)
def _asked_pps(rate: str | None, line_rate: str | None, size: str | None) -> float | None:
    asked = Test(rate=rate or Test().rate, line_rate=line_rate)
    return asked.rate_pps if size is None else Test(**{**dict(asked), "frame_size": size}).rate_pps


def _latency_of(text: str | None) -> str | None:
    """Return the latency of several trials, from theirs, all in JSON."""
    if text is None:
        return None
    each = [Latency.model_validate(one) for one in json.loads(text) if one is not None]
    latency = figures_of(each)
    return None if latency is None else latency.model_dump_json()


@lru_cache(64)
def _record(text: str) -> Record:
    return Record.model_validate_json(text)


def _figure(text: str | None, name: str | None) -> str | None:
    """Return a figure of a record, which is JSON, as JSON; None for what it has not."""
    if text is None or name is None:
        return None
    content = plain(_FIGURES[name](_record(text)))
    return None if content is None else json.dumps(content)


_FIGURES: Mapping[str, Callable[[Record], Any]] = {
    "cost": cost,
    "fairness": fairness,
    "lost_at": lambda record: losses(record)["lost_at"],
    "unaccounted": lambda record: losses(record)["unaccounted"],
}
