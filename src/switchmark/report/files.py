"""This module writes reports as files: the name's suffix says which kind."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from switchmark.errors import RecordFailed, UsageError
from switchmark.model.record import Record
from switchmark.report.json import to_object
from switchmark.report.page import page

__all__ = ["Runs", "as_csv", "writer_of"]

Runs = Sequence[tuple[str, Sequence[Record]]]
"""Runs by their names."""


def as_csv(runs: Runs) -> str:
    """Return all tests of some runs as CSV (RFC 4180), a row each.

    The columns are the fields of `--json` by their path, such as `rx.pps` and `test.burst`, but for
    the evidence of each trial. A field that is null is empty; a list is JSON.
    """
    objects = [to_object(record) for _, records in runs for record in records]
    rows = [_flat(content | {"evidence": {}}) for content in objects]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def writer_of(path: Path) -> Callable[[Runs], None]:
    """Return what writes a report to a file of this name; UsageError for a suffix that says
    nothing."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"a report cannot be written as '{path.name}': the suffix says which kind it is",
            hint=f"-o {path.stem or 'report'}.html for a page, .csv for a table, or --json",
        )
    return partial(_write, path, form)


def _write(path: Path, form: Callable[[Runs], str], runs: Runs) -> None:
    try:
        path.write_text(form(runs), encoding="utf-8", newline="")
    except OSError as error:
        raise RecordFailed(f"{path} cannot be written: {error.strerror}") from error


def _flat(content: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            fields |= _flat(value, f"{before}{name}.")
        else:
            fields[before + name] = json.dumps(value) if isinstance(value, list) else value
    return fields


_FORMS: Mapping[str, Callable[[Runs], str]] = {".html": page, ".htm": page, ".csv": as_csv}
