"""Further values of an experiment from a CSV file: read from a figure, from the authors, or from
another run.

A line is about the points at its values of the experiment's axes; an empty cell of an axis means
any value. The value is in the column of a metric, such as `rx.mpps`, with its error in
`rx.mpps error`. Or the columns `metric`, `value` and `error` have them, or `metric`, `low` and
`high`. `place` and `uncertain` are as in an experiment's file, and `origin` says where the value
comes from.

The table of values that `paper -o FOLDER` writes (`values.csv`) is such a file too.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from switchmark.errors import UsageError
from switchmark.metrics.named import metric
from switchmark.model.axis import key_of
from switchmark.papers.experiment import Published
from switchmark.papers.points import At
from switchmark.regular_file import read_regular

VALUES = (
    "experiment",
    "point",
    "metric",
    "unit",
    "published",
    "uncertain",
    "here",
    "low",
    "high",
    "lower_bound",
    "ratio",
    "doubts",
)
"""The columns of the table of values that `paper` writes."""

_ERROR = " error"
_LONG = ("metric", "value", "error", "low", "high")
_TEXTS = ("place", "uncertain", "origin")


def read_overlay(file: Path, axes: Sequence[str], name: str = "") -> list[Published]:
    """Return the values in a CSV file for an experiment with these axes, as `overlay_of`. Raise
    UsageError if it cannot be read."""
    try:
        text = read_regular(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    return overlay_of(str(file), text, axes, name)


def overlay_of(place: str, text: str, axes: Sequence[str], name: str = "") -> list[Published]:
    """Return the values in the text of a CSV file for an experiment with these axes and this name.
    Raise UsageError for a column that means nothing, and for a value that is no number, with its
    line. Of the values of a run, those of the experiment of that name are returned."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in reader.fieldnames or ()]
        of_run = tuple(columns) == VALUES
        if not of_run:
            _check_columns(place, columns, axes)
        rows: list[Published] = []
        for line in reader:
            at_line = f"{place}, line {reader.line_num}"
            if None in line or None in line.values():
                raise UsageError(f"{at_line}: {len(columns)} cells are needed")
            cells = {column.strip(): cell.strip() for column, cell in line.items()}
            if not of_run:
                rows += _rows(at_line, cells, axes)
            elif cells["experiment"] == name and cells["here"]:
                rows.append(_of_run(at_line, cells, axes))
    except csv.Error as error:
        raise UsageError(f"{place}, line {reader.line_num}: {error}") from None
    if of_run and not rows:
        raise UsageError(f"{place} has no measured values of {name}")
    return rows


def _of_run(place: str, cells: Mapping[str, str], axes: Sequence[str]) -> Published:
    """Return a measured value of a run, with the ends of its interval."""
    words = dict(re.findall(r"([a-z0-9-]+)=(.*?)(?: (?=[a-z0-9-]+=)|$)", cells["point"]))
    if {*words} != {*axes}:
        raise UsageError(f"{place}: '{cells['point']}' is no point of {', '.join(axes)}")
    ends = ("low",) if cells["lower_bound"] == "true" else ("low", "high")
    given = {name: cells[name] for name in ends} if all(map(cells.get, ends)) else {}
    at = {axis: "none" if word == "None" else word for axis, word in words.items()}
    value = _long(place, given or {"value": cells["here"]})
    return _row(place, {"at": at, "metric": cells["metric"], "origin": "own", **value})


def _check_columns(file: str, columns: Sequence[str], axes: Sequence[str]) -> None:
    allowed = {*axes, *_LONG, *_TEXTS}
    for name in columns:
        if key_of(name) in allowed or _is_metric(name.removesuffix(_ERROR)):
            continue
        raise UsageError(
            f"{file}: the column '{name}' is no axis of the experiment, no metric and none of "
            f"{', '.join((*_LONG, *_TEXTS))}",
            hint=f"its axes: {', '.join(axes)}; the metrics: docs/reference/metrics.md",
        )
    values = [name for name in columns if _is_metric(name)]
    if not values and "metric" not in columns:
        raise UsageError(f"{file} has no column of a metric, and none named 'metric'")


def _rows(place: str, cells: Mapping[str, str], axes: Sequence[str]) -> Iterator[Published]:
    at: At = {key_of(name): cell for name, cell in cells.items() if cell and key_of(name) in axes}
    texts: dict[str, Any] = {name: cells[name] for name in _TEXTS if cells.get(name)}
    shared = {"origin": "digitised", **texts, "at": at}
    if cells.get("metric"):
        yield _row(place, {**shared, "metric": cells["metric"], **_long(place, cells)})
    for name, cell in cells.items():
        if cell and _is_metric(name):
            value = {"value": _number(place, name, cell)}
            error = cells.get(f"{name}{_ERROR}")
            value |= {"error": _number(place, f"{name}{_ERROR}", error)} if error else {}
            yield _row(place, {**shared, "metric": name, **value})


def _long(place: str, cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the value in the columns `value`, `error`, `low` and `high`."""
    given = {
        name: _number(place, name, cells[name])
        for name in ("value", "error", "low", "high")
        if cells.get(name)
    }
    if "value" in given:
        if {"low", "high"} & {*given}:
            raise UsageError(f"{place}: a value has an error, or there are low and high")
        return {**given}
    if {"low", "high"} <= {*given}:
        low, high = given["low"], given["high"]
        return {"value": low} if low == high else {"between": (low, high)}
    if "low" in given or "high" in given:
        return {"min": given["low"]} if "low" in given else {"max": given["high"]}
    raise UsageError(f"{place} has neither a value nor a bound")


def _row(place: str, content: Mapping[str, Any]) -> Published:
    if not _is_metric(content["metric"]):
        metric(content["metric"])
    try:
        return Published.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{place}: {error.errors()[0]['msg']}") from None


def _number(place: str, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{place}: {name} is '{cell}', which is no number")
    return value


def _is_metric(name: str) -> bool:
    try:
        return metric(name).name == name
    except UsageError:
        return False
