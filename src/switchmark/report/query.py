"""SQL queries on the records of runs: DuckDB sees the tables of `report.rows` only.

A query can neither read nor write files. `report.rows` computes a column in Python when a query
needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from switchmark.errors import SetupFailed, UsageError
from switchmark.extras import QUERY
from switchmark.report.rows import TABLES, FlatColumn, Tables, Unreadable
from switchmark.report.schema import as_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DIRECT = ("BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR")
"""Types that Python passes to DuckDB directly. Other types are passed as JSON."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query: columns and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(repr=False)


@contextmanager
def opened(runs: Tables) -> Iterator[DuckDBPyConnection]:
    """Open the records of runs as the tables of `TABLES`. Raise Unreadable for an unreadable
    line, and Unavailable without DuckDB."""
    try:
        import duckdb
    except ImportError as error:
        raise QUERY.missing("SQL queries and Parquet files need DuckDB") from error

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
    """Define the SQL functions of the views: `rows_of(TABLE)`, and for each direct type a function
    such as `bigint_of(COLUMN, ROW)`."""
    for kind in _DIRECT:
        takes = ["VARCHAR", "BIGINT"]
        database.create_function(f"{kind.lower()}_of", value, takes, kind, null_handling="special")
    database.create_function("rows_of", rows, ["VARCHAR"], "BIGINT", side_effects=True)


def _in_sql(table: str, column: FlatColumn) -> str:
    """Return the SQL expression for a column of a view."""
    direct = column.kind if column.kind in _DIRECT else "VARCHAR"
    value = f"{direct.lower()}_of('{table}.{column.name}', i)"
    cast = "" if column.kind in _DIRECT else "::JSON"
    cast += f"::{column.kind}" if cast and column.kind != "JSON" else ""
    return f'{value}{cast} as "{column.name}"'


def ask(database: DuckDBPyConnection, sql: str) -> QueryResult:
    """Return the result of a query. Raise UsageError with DuckDB's message for an invalid query."""
    import duckdb

    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")
    try:
        result = database.execute(sql)
        described = result.description or []
        rows = result.fetchall()
    except duckdb.Error as error:
        raise UsageError(
            f"the query failed: {error}",
            hint="'switchmark query' without a query lists the tables and their columns",
        ) from error
    return QueryResult(tuple(str(column[0]) for column in described), rows)


def columns_of_tables() -> QueryResult:
    """Return all columns with their types and descriptions."""
    rows: list[tuple[Any, ...]] = [
        (name, column.name, _short(column.kind), _as_phrase(column.description))
        for name, table in TABLES.items()
        for column in table.columns
    ]
    return QueryResult(("table", "column", "type", "what it is"), rows)


def _short(kind: str) -> str:
    """Return a type without its members."""
    return "STRUCT" + "[]" * kind.endswith("[]") if kind.startswith("STRUCT") else kind


def _as_phrase(description: str) -> str:
    """Return a description without the capital letter and full stop of a docstring."""
    text = as_json(description).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
