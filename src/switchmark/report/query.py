"""SQL over what runs have recorded: DuckDB sees the tables of `report.rows`, and nothing else.

What is asked can neither open a file nor write one. A column is computed in Python, by
`report.rows`, when a query needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from switchmark.errors import SetupFailed, UsageError
from switchmark.report.rows import TABLES, FlatColumn, Tables, Unreadable
from switchmark.report.schema import as_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DIRECT = ("BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR")
"""Types of which Python hands values to DuckDB as they are; others are handed over as JSON."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer has columns, and rows with a value for each."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(repr=False)


@contextmanager
def opened(runs: Tables) -> Iterator[DuckDBPyConnection]:
    """Open what runs have recorded as the tables of `TABLES`. Unreadable if a line is not."""
    import duckdb

    failed: list[Unreadable] = []

    def value(name: str, row: int) -> Any:
        table, _, column = name.partition(".")
        try:
            found = runs.values(table, column)[row]
        except Unreadable as error:
            failed.append(error)
            raise
        return json.dumps(found) if isinstance(found, list | dict) else found

    with duckdb.connect() as database:
        try:
            database.execute("set autoinstall_known_extensions = false")
            _define(database, value, lambda table: len(runs.rows(table)))
            for name, table in TABLES.items():
                columns = ", ".join(_in_sql(name, column) for column in table.columns)
                rows = f"(select unnest(range(rows_of('{name}'))) as i)"
                database.execute(f"create view {name} as select {columns} from {rows}")
            yield database
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise SetupFailed(f"DuckDB cannot read the records: {error}") from error
        except (duckdb.Error, UsageError):
            if failed:
                raise failed[0] from None
            raise


def _define(database: Any, value: Callable[[str, int], Any], rows: Callable[[str], int]) -> None:
    """Define the functions of SQL that the views call: `bigint_of(COLUMN, ROW)` and so on, for each
    type that is handed over, and `rows_of(TABLE)`."""
    for kind in _DIRECT:
        takes = ["VARCHAR", "BIGINT"]
        database.create_function(f"{kind.lower()}_of", value, takes, kind, null_handling="special")
    database.create_function("rows_of", rows, ["VARCHAR"], "BIGINT", side_effects=True)


def _in_sql(table: str, column: FlatColumn) -> str:
    """Return the expression of SQL for a column of a view."""
    direct = column.kind if column.kind in _DIRECT else "VARCHAR"
    value = f"{direct.lower()}_of('{table}.{column.name}', i)"
    cast = "" if column.kind in _DIRECT else "::JSON"
    cast += f"::{column.kind}" if cast and column.kind != "JSON" else ""
    return f'{value}{cast} as "{column.name}"'


def ask(database: DuckDBPyConnection, sql: str) -> Answer:
    """Return the answer to a query; UsageError with what DuckDB says of a wrong one."""
    import duckdb

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


def columns_of_tables() -> Answer:
    """Return what there is to ask: each column with its type, and what it is."""
    rows: list[tuple[Any, ...]] = [
        (name, column.name, _short(column.kind), _as_words(column.description))
        for name, table in TABLES.items()
        for column in table.columns
    ]
    return Answer(("table", "column", "type", "what it is"), rows)


def _short(kind: str) -> str:
    """Return a type without what is in it."""
    return "STRUCT" + "[]" * kind.endswith("[]") if kind.startswith("STRUCT") else kind


def _as_words(words: str) -> str:
    """Return what a column is without the capital and the full stop of a docstring."""
    text = as_json(words).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
