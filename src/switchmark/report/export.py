"""Flat rows for other programs: CSV, Parquet, and JSON lines.

All formats have the rows of the table `tests` of `report.rows`, including failed and refused tests.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.errors import RecordFailed
from switchmark.report.cells import in_csv
from switchmark.report.json import plain
from switchmark.report.rows import TABLES, Tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as CSV (RFC 4180). Null is empty, and a list or an object is JSON. Texts cannot
    act as formulas."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows([_flat(value) for value in row] for row in rows)
    return stream.getvalue()


def as_objects(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield a JSON object for each row, on a separate line."""
    for row in rows:
        content = dict(zip(columns, map(plain, row), strict=True))
        yield json.dumps(content, default=str, allow_nan=False)


def rows_as_csv(runs: Tables, table: str = "tests") -> str:
    """Return all rows of a table as CSV."""
    columns = TABLES[table].columns
    rows = [[column.value(row) for column in columns] for row in runs.rows(table)]
    return as_csv([column.name for column in columns], rows)


def write_parquet(database: DuckDBPyConnection, path: Path, table: str = "tests") -> None:
    """Write all rows of a table to a Parquet file."""
    import duckdb

    try:
        database.execute(f"copy {table} to ? (format parquet, compression zstd)", [str(path)])
    except duckdb.IOException as error:
        raise RecordFailed(f"{path} cannot be written: {error}") from error


def _flat(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value)
    return in_csv(value) if isinstance(value, str) else value
