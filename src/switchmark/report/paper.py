"""This module shows an experiment's results beside the published values, and which of the paper's
claims hold.

Hardware differs, so it is ratios to the first row and orders that are compared, not values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Literal

from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import MIN_REPEATS, confidence, is_lower_bound, received
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.papers.experiment import Claim, Experiment, Row
from switchmark.report.figures import BOUND_MARK, DOUBT_MARK
from switchmark.report.json import to_object

__all__ = ["Beside", "beside", "holds", "print_beside"]

_FUNCTIONAL = "cores-overcommitted"
"""The doubt of figures that are left out of rankings."""

Holding = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, slots=True)
class Beside:
    """A row of the paper's table stands beside what was measured here, in the paper's unit; None
    where nothing was. Ratios are to the first row of the same column."""

    name: str
    published: float
    published_ratio: float
    measured: float | None
    measured_ratio: float | None
    record: Record | None


def beside(experiment: Experiment, records: Sequence[Record]) -> list[Beside]:
    """Return the rows of the experiment, in the paper's order."""
    measured = [_record(row, records) for row in experiment.rows]
    figures = [_figure(record, experiment.unit) for record in measured]
    return [
        Beside(
            row.name,
            row.published,
            row.published / experiment.rows[0].published,
            figure,
            figure / figures[0] if figure is not None and figures[0] else None,
            record,
        )
        for row, figure, record in zip(experiment.rows, figures, measured, strict=True)
    ]


def holds(claim: Claim, rows: Sequence[Beside], unit: str) -> Holding:
    """Say whether the claim's order is found here. It cannot be told where a value is missing,
    where two 95 % intervals of the figures meet, where a rate that only bounds the switch may be
    the greater one, or where too few cores made a figure a functional result."""
    verdicts = [_greater(more, less, unit) for more, less in _compared(claim, rows)]
    if "does not hold" in verdicts:
        return "does not hold"
    return "cannot be told" if "cannot be told" in verdicts else "holds"


def _compared(claim: Claim, rows: Sequence[Beside]) -> list[tuple[Beside, Beside]]:
    by_name = {row.name: row for row in rows}
    return [(by_name[more], by_name[less]) for more in claim.order[0] for less in claim.order[1]]


def print_beside(experiment: Experiment, records: Sequence[Record], stream: IO[str]) -> None:
    """Print the paper's table with a column of what was measured here, then each claim."""
    rows = beside(experiment, records)
    width = max((len(row.name) for row in rows), default=0)
    unit = experiment.unit
    print(f"{experiment.name}: {experiment.summary}\n{experiment.source}\n", file=stream)
    if not rows:
        return
    print(f"{'':{width}}  published {unit:5}  ratio    here {unit:12}  ratio", file=stream)
    for row in rows:
        ratio = "-" if row.measured_ratio is None else f"{row.measured_ratio:.2f}"
        print(
            f"{row.name:{width}}  {row.published:15g}  {row.published_ratio:5.2f}"
            f"  {_measured(row):>17}  {ratio:>5}",
            file=stream,
        )
    print(file=stream)
    doubted = False
    for claim in experiment.claims:
        doubts = any(
            row.record and row.record.doubts for pair in _compared(claim, rows) for row in pair
        )
        doubted = doubted or doubts
        mark = DOUBT_MARK if doubts else " "
        print(f"{mark} {holds(claim, rows, unit):14}  {claim.says}", file=stream)
    if doubted:
        print(f"\n{DOUBT_MARK} rests on figures that are doubted", file=stream)


def _measured(row: Beside) -> str:
    if row.record is None or row.measured is None:
        return row.record.status if row.record else "not run"
    bound = BOUND_MARK if is_lower_bound(row.record.verdict) else ""
    return f"{DOUBT_MARK + ' ' if row.record.doubts else ''}{bound}{row.measured:.4g}"


def _greater(more: Beside, less: Beside, unit: str) -> Holding:
    if more.record is None or less.record is None:
        return "cannot be told"
    if more.measured is None or less.measured is None:
        return "cannot be told"
    if any(_FUNCTIONAL in record.doubts for record in (more.record, less.record)):
        return "cannot be told"
    high, low = _interval(more.record, unit), _interval(less.record, unit)
    high, low = high or (more.measured,) * 2, low or (less.measured,) * 2
    if high[0] <= low[1] and low[0] <= high[1]:
        return "cannot be told"
    holding: Holding = "holds" if more.measured > less.measured else "does not hold"
    may_be_greater = less.record if holding == "holds" else more.record
    if unit != "us" and is_lower_bound(may_be_greater.verdict):
        return "cannot be told"
    return holding


def _interval(record: Record, unit: str) -> tuple[float, float] | None:
    """Return the 95 % interval of a record's figure, in the paper's unit; None with too few
    repeats."""
    if unit == "us":
        means = [trial.latency.mean / 1e3 for trial in record.trials if trial.latency]
        return median_interval(means) if len(means) >= MIN_REPEATS else None
    interval, rx = confidence(record), received(record)
    figure = _figure(record, unit)
    if interval is None or rx is None or not rx["pps"] or figure is None:
        return None
    scale = figure / rx["pps"]
    return interval[0] * scale, interval[1] * scale


def _record(row: Row, records: Sequence[Record]) -> Record | None:
    return next((record for record in records if row.picks(record.test)), None)


def _figure(record: Record | None, unit: str) -> float | None:
    content: Printed = to_object(record) if record and record.status == "ok" else {}
    rx, latency = content.get("rx"), content.get("latency_ns")
    if unit == "us":
        return latency["mean"] / 1e3 if latency else None
    if rx is None:
        return None
    if unit == "Gbps L1":
        return float(rx["gbps_l1"])
    return float(rx["pps"]) / {"kpps": 1e3, "Mpps": 1e6}[unit]
