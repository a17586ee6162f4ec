"""An experiment's results beside the published values, and which of the paper's claims hold.

Hardware differs, so it is ratios to the first row and orders that are compared, not values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

from switchmark.metrics.throughput import is_lower_bound
from switchmark.model.record import Record
from switchmark.papers.experiment import Claim, Experiment, Row
from switchmark.report.json import to_object
from switchmark.report.table import BOUND_MARK, DOUBT_MARK

__all__ = ["Beside", "beside", "holds", "print_beside"]

Holding = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, slots=True)
class Beside:
    """A row of the paper's table and what was measured here, in the paper's unit; None where
    nothing was. Ratios are to the first row of the same column."""

    name: str
    published: float
    published_ratio: float
    measured: float | None
    measured_ratio: float | None
    record: Record | None


def beside(experiment: Experiment, records: Sequence[Record]) -> list[Beside]:
    """The rows of the experiment, in the paper's order."""
    found = [_record(row, records) for row in experiment.rows]
    figures = [_figure(record, experiment.unit) for record in found]
    first = experiment.rows[0].published
    return [
        Beside(
            row.name,
            row.published,
            row.published / first,
            figure,
            figure / figures[0] if figure is not None and figures[0] else None,
            record,
        )
        for row, figure, record in zip(experiment.rows, figures, found, strict=True)
    ]


def holds(claim: Claim, rows: Sequence[Beside]) -> Holding:
    """Whether the claim's order is found here. It cannot be told where a value is missing, or
    where two 95 % intervals meet."""
    by_name = {row.name: row for row in rows}
    pairs = [(by_name[more], by_name[less]) for more in claim.order[0] for less in claim.order[1]]
    verdicts = [_greater(more, less) for more, less in pairs]
    if "does not hold" in verdicts:
        return "does not hold"
    return "cannot be told" if "cannot be told" in verdicts else "holds"


def print_beside(experiment: Experiment, records: Sequence[Record], stream: IO[str]) -> None:
    """The paper's table with a column of ours, then each claim."""
    rows = beside(experiment, records)
    width = max(len(row.name) for row in rows)
    unit = experiment.unit
    print(f"{experiment.name}: {experiment.summary}\n{experiment.source}\n", file=stream)
    print(f"{'':{width}}  published {unit:5}  ratio    here {unit:12}  ratio", file=stream)
    for row in rows:
        ratio = "-" if row.measured_ratio is None else f"{row.measured_ratio:.2f}"
        print(
            f"{row.name:{width}}  {row.published:15g}  {row.published_ratio:5.2f}"
            f"  {_measured(row):>17}  {ratio:>5}",
            file=stream,
        )
    print(file=stream)
    for claim in experiment.claims:
        print(f"{holds(claim, rows):14}  {claim.says}", file=stream)


def _measured(row: Beside) -> str:
    if row.record is None or row.measured is None:
        return row.record.status if row.record else "not run"
    bound = BOUND_MARK if is_lower_bound(row.record.verdict) else ""
    return f"{DOUBT_MARK + ' ' if row.record.doubts else ''}{bound}{row.measured:.4g}"


def _greater(more: Beside, less: Beside) -> Holding:
    if more.measured is None or less.measured is None:
        return "cannot be told"
    high, low = _interval(more), _interval(less)
    if high and low and high[0] <= low[1] and low[0] <= high[1]:
        return "cannot be told"
    return "holds" if more.measured > less.measured else "does not hold"


def _interval(row: Beside) -> Sequence[float] | None:
    return to_object(row.record)["ci95_pps"] if row.record else None


def _record(row: Row, records: Sequence[Record]) -> Record | None:
    axes = {axis.replace("-", "_"): str(value) for axis, value in row.axes.items()}
    for record in records:
        if all(str(getattr(record.test, axis)) == value for axis, value in axes.items()):
            return record
    return None


def _figure(record: Record | None, unit: str) -> float | None:
    content: dict[str, Any] = to_object(record) if record and record.status == "ok" else {}
    rx, latency = content.get("rx"), content.get("latency_ns")
    if unit == "us":
        return latency["mean"] / 1e3 if latency else None
    if rx is None:
        return None
    if unit == "Gbps L1":
        return float(rx["gbps_l1"])
    return float(rx["pps"]) / {"kpps": 1e3, "Mpps": 1e6}[unit]
