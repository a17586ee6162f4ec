"""Results of an experiment next to the published values, and the answers to the paper's claims.

Hardware differs, so values are only shown, and claims are about orders, ratios and shapes.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

from switchmark.errors import UsageError
from switchmark.metrics.difference import MIN_REPEATS
from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.family import Results
from switchmark.metrics.named import metric
from switchmark.metrics.throughput import is_lower_bound, loss_ratio
from switchmark.model.cable import Calibration
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.units import gbps_l1, mean_frame_bytes
from switchmark.papers.claims import Claim
from switchmark.papers.experiment import Experiment, Published
from switchmark.papers.judging import ClaimAnswer, Facts, answer_of
from switchmark.papers.points import OVERLOADED, Measured, Point, PointFigure
from switchmark.report.figures import MARKS, doubt_mark
from switchmark.report.table import columns_of, drawn

_WIDTH = 100
_BESIDE = " " * 18

_CARRIED = 0.01
"""The share of frames that may be lost at a load that is carried."""

ODDS = (
    f"All results of a run are tested together: with {MIN_REPEATS} or more repeats per result, "
    "chance shows a difference between equal results in at most one run of 20."
)
"""The error rate of the answers."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An experiment with its measured points, their records, and the answers to its claims."""

    experiment: Experiment
    points: tuple[Point, ...]
    records: tuple[Record | None, ...]
    answers: tuple[tuple[Claim, ClaimAnswer], ...]

    def count(self, verdict: str) -> int:
        """Return the number of claims with this answer."""
        return sum(answer.verdict == verdict for _, answer in self.answers)


def judged(
    experiment: Experiment,
    results: Sequence[tuple[Point, Record | None]],
    kernel_options: frozenset[str] | None = frozenset(),
    runs: Sequence[Sequence[Record]] = (),
    left_out: Sequence[Point] = (),
) -> Judged:
    """Return an experiment judged by its points, with their records if they were run.

    `kernel_options` are the known options of the host's kernel, or None. `runs` have all records of
    the runs that the records belong to, because all results of a run are tested together. The
    default is the experiment's records. `left_out` are the points that a quick run leaves out.
    """
    of_experiment = [record for _, record in results if record is not None]
    together = {
        id(record): results
        for run in runs or [of_experiment]
        for results in [Results.of(run)]
        for record in run
    }
    points = tuple(
        measured(point, record, experiment.metrics, together.get(id(record)))
        for point, record in results
    )
    records = tuple(record for _, record in results)
    by_point = {id(point): record for point, record in zip(points, records, strict=True)}
    answers = []
    for claim in experiment.claims:
        of_claim = (by_point[id(point)] for point in claim.members(points))
        facts = _facts([record for record in of_claim if record], kernel_options)
        answers.append((claim, answer_of(claim, points, facts, left_out)))
    return Judged(experiment, points, records, tuple(answers))


def measured(
    point: Point, record: Record | None, metrics: Sequence[str], results: Results | None = None
) -> Point:
    """Return a point with the figures of its record. `results` are all results of the run; the
    default is the record alone."""
    if record is None or record.status != "ok":
        why = "not run" if record is None else f"{record.status}: {_first_line(record.error)}"
        return replace(point, untold=point.untold or why)
    if _is_overloaded(record):
        lost = loss_ratio(record.trials, unsent=True)
        return replace(point, untold=f"{OVERLOADED}: {100 * lost:.0f} % was lost")
    figures = {}
    for name in metrics:
        if (figure := _figure(record, name)) is not None:
            figures[name] = figure
    size = mean_frame_bytes(record.test.frame_size)
    if record.test.line_pps is not None:
        line = gbps_l1(record.test.line_pps, size) * record.test.pairs
        line *= 2 if record.test.direction == "bi" else 1
        figures["line.gbps_l1"] = PointFigure(line, line, line)
    if isinstance(record.calibration, Calibration):
        low, mean, high = (gbps_l1(pps, size) for pps in record.calibration.rate_pps)
        figures["cable.gbps_l1"] = PointFigure(mean, low, high)
    cores = record.origin.host.get("cores_usable") if record.origin else None
    if cores:
        figures["host.cores"] = PointFigure(cores, cores, cores)
    return replace(
        point, figures=figures, measured=Measured(record, results or Results.of([record]))
    )


def _is_overloaded(record: Record) -> bool:
    """Return whether a latency was measured at a load of the paper that this host does not carry,
    so that it is the latency of full queues."""
    rate = record.test.parsed_rate
    is_published = not rate.is_max and rate.share is None
    lost = loss_ratio(record.trials, unsent=True)
    return record.test.dimension == "latency" and is_published and lost > _CARRIED


def as_object(result: Judged) -> Printed:
    """Return the outcome of an experiment as JSON."""
    return {
        "experiment": result.experiment.name,
        "points": len(result.points),
        "measured": sum(bool(point.figures) for point in result.points),
        "waiting": dict(Counter(point.untold for point in result.points if point.untold)),
        "claims": [
            {
                "id": claim.id,
                "says": claim.says,
                "said": claim.said,
                "answer": answer.verdict,
                "why": answer.why,
                "rounds_needed": answer.needed,
                "contradicted": claim.contradicted or None,
            }
            for claim, answer in result.answers
        ],
    }


def print_judged(result: Judged, stream: IO[str]) -> None:
    """Print measured and published values, then the answers to the claims."""
    experiment, paper = result.experiment, result.experiment.source
    head = [f"{experiment.name}: {experiment.summary}"]
    head += [f"{paper.authors}, {paper.year}, {experiment.place}"]
    head += [f"assumed: {axis}: {why}" for axis, why in experiment.assumptions.items()]
    for text in head:
        print(*_folded(text, ""), sep="\n", file=stream)
    print(file=stream)
    for line in _tables(result):
        print(line, file=stream)
    waiting = Counter(point.untold for point in result.points if point.untold)
    for why, count in waiting.most_common():
        print(
            *_folded(f"{count} of {len(result.points)} points: {why}", "  "), sep="\n", file=stream
        )
    if result.answers:
        print("\nthe paper's claims, here:", file=stream)
    for claim, answer in result.answers:
        doubted = MARKS["caution"] if _is_doubted(claim, result) else " "
        deduced = "" if claim.said else " (deduced from its values)"
        lines = [*_folded(claim.says + deduced, _BESIDE), *_folded(answer.why, _BESIDE + "  ")]
        if claim.contradicted:
            note = f"contradicted by the paper's own values: {claim.contradicted}"
            lines += _folded(note, _BESIDE + "  ")
        lines[0] = f"{doubted} {answer.verdict:14}  {lines[0].lstrip()}"
        print(*lines, sep="\n", file=stream)
    if result.answers and any(point.measured for point in result.points):
        print("", *_folded(ODDS, ""), sep="\n", file=stream)
    if any(_is_doubted(claim, result) for claim, _ in result.answers):
        print(f"\n{MARKS['caution']} based on figures that may be wrong", file=stream)


def print_summary(results: Sequence[Judged], stream: IO[str]) -> None:
    """Print a line for each experiment."""
    verdicts = ("holds", "does not hold", "cannot be told")
    rows = [
        (
            result.experiment.name,
            f"{sum(bool(point.figures) for point in result.points)} of {len(result.points)}",
            *(str(result.count(verdict)) for verdict in verdicts),
        )
        for result in results
    ]
    headings = ("", "measured", "hold", "do not hold", "cannot be told")
    print(*drawn(columns_of(headings, rows, left=1), rule=False), sep="\n", file=stream)


def _facts(records: Sequence[Record], kernel_options: frozenset[str] | None) -> Facts:
    origins = [record.origin for record in records if record.origin]
    return Facts(
        origins[0].host.get("cores_usable") if origins else None,
        bool(records) and all(record.test.line_rate for record in records),
        frozenset(record.switch_mode for record in records),
        kernel_options,
    )


def _figure(record: Record, name: str) -> PointFigure | None:
    """Return a metric of a record with its interval; None if it is unknown or this build lacks the
    metric."""
    try:
        quantity = metric(name)
    except UsageError:
        return None
    value = quantity.of(record)
    if value is None:
        return None
    low, high = quantity.interval(record) or (value, value)
    return PointFigure(value, low, high, name.startswith("rx.") and is_lower_bound(record.verdict))


def _tables(result: Judged) -> list[str]:
    """Return the lines of one table of all metrics, or of a table for each metric if that is too
    wide."""
    experiment = result.experiment
    metrics = list(dict.fromkeys(row.metric for row in experiment.published))
    metrics = metrics or [figure.y for figure in experiment.figures][:1]
    together = _table(result, metrics)
    if len(metrics) == 1 or max(map(len, together), default=0) <= _WIDTH:
        return together
    return [line for name in metrics for line in _table(result, [name])]


def _table(result: Judged, metrics: Sequence[str]) -> list[str]:
    """Return a line for each point with a measured or published metric: its position, then the
    published and the measured value of each metric."""
    experiment = result.experiment
    published = [row for row in experiment.published if row.metric in metrics]
    heads = [*experiment.axes]
    for name in metrics:
        heads += [f"published {name}"] if published else []
        heads += [f"here {name}"]
    rows = []
    for point, record in zip(result.points, result.records, strict=True):
        near = [row for row in published if point.is_at(row.at)]
        is_open = not point.figures and (record is None or record.status == "ok")
        if is_open and all(set(row.at) < set(experiment.axes) for row in near):
            continue  # no value was published for exactly this point
        cells = ["none" if value is None else str(value) for value in point.axes.values()]
        for name in metrics:
            cells += [_published(name, near)] if published else []
            cells += [_here(point, record, name)]
        rows.append(cells)
    return [*drawn(columns_of(heads, rows), rule=False), ""] if rows else []


def _published(name: str, rows: Sequence[Published]) -> str:
    marks = (f"{row}{' ?' if row.uncertain else ''}" for row in rows if row.metric == name)
    return "; ".join(marks) or "-"


def _here(point: Point, record: Record | None, name: str) -> str:
    if name not in point.figures:
        return "-" if record is None or record.status == "ok" else record.status
    mark = doubt_mark(record.doubts) if record else ""
    return f"{mark}{point.figures[name]}"


def _is_doubted(claim: Claim, result: Judged) -> bool:
    """Return whether a claim uses a record whose figures may be wrong."""
    by_point = {
        id(point): record for point, record in zip(result.points, result.records, strict=True)
    }
    members = (by_point[id(point)] for point in claim.members(result.points))
    return any(record is not None and is_doubtful(record.doubts) for record in members)


def _folded(text: str, indent: str) -> list[str]:
    wrapped = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False)
    return [indent + line for line in wrapped]


def _first_line(text: str | None) -> str:
    return (text or "unknown reason").partition("\n")[0]
