"""The answers to the claims of an experiment by measured points, and its published points.

Points of runs that repeat each other are judged together: each run is one value of a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from switchmark.errors import UsageError
from switchmark.metrics.family import Results
from switchmark.metrics.named import metric
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import is_lower_bound, loss_ratio
from switchmark.model.cable import Calibration
from switchmark.model.record import Record
from switchmark.model.units import gbps_l1, mean_frame_bytes
from switchmark.papers.asked import Asked
from switchmark.papers.claims import Claim
from switchmark.papers.experiment import Experiment
from switchmark.papers.judging import ClaimAnswer, Facts, answer_of
from switchmark.papers.points import OVERLOADED, At, Measured, Point, PointFigure
from switchmark.report.pairing import by_test

_CARRIED = 0.01
"""The share of frames that may be lost at a load that is carried."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An experiment with its measured points, their records, and the answers to its claims.

    A record of runs that repeat each other has the trials and doubts of all of them. `asked` are
    the options of the run; None for a run that does not know its experiment.
    """

    experiment: Experiment
    points: tuple[Point, ...]
    records: tuple[Record | None, ...]
    answers: tuple[tuple[Claim, ClaimAnswer], ...]
    asked: Asked | None = None

    def count(self, verdict: str) -> int:
        """Return the number of claims with this answer."""
        return sum(answer.verdict == verdict for _, answer in self.answers)

    @property
    def measured(self) -> list[Record]:
        """Return the records of the measured points."""
        return [
            record
            for point, record in zip(self.points, self.records, strict=True)
            if record is not None and point.measured
        ]

    def measured_at(self, at: At) -> list[tuple[Point, Record]]:
        """Return the measured points at these values of some axes, with their records."""
        return [
            (point, record)
            for point, record in zip(self.points, self.records, strict=True)
            if record is not None and point.figures and point.is_at(at)
        ]

    def records_of(self, claim: Claim) -> list[Record]:
        """Return the records of the points of a claim."""
        by_point = dict(zip(map(id, self.points), self.records, strict=True))
        members = (by_point[id(point)] for point in claim.members(self.points))
        return [record for record in members if record is not None]

    def doubts_of(self, claim: Claim) -> list[str]:
        """Return the distinct doubts about the points of a claim."""
        return sorted({doubt for record in self.records_of(claim) for doubt in record.doubts})


def judged(
    experiment: Experiment,
    results: Sequence[tuple[Point, Record | None]],
    kernel_options: frozenset[str] | None = frozenset(),
    runs: Sequence[Sequence[Record]] = (),
    *,
    left_out: Sequence[Point] = (),
    repeated: bool = False,
    asked: Asked | None = None,
) -> Judged:
    """Return an experiment judged by its points, with their records if they were run.

    `kernel_options` are the known options of the host's kernel, or None. `runs` have all records of
    the runs that the records belong to, because all results of a run are tested together. The
    default is the experiment's records. `left_out` are the points that a quick run leaves out. If
    the runs repeat each other (`repeated`), a point has the records of its test in all of them.
    """
    runs = runs or [[record for _, record in results if record is not None]]
    together = [by_test(runs, ()).values()] if repeated else [[(r,) for r in run] for run in runs]
    places = {
        id(record): (repeats, family)
        for results_of_run in together
        for family in [Results(results_of_run)]
        for repeats in results_of_run
        for record in repeats
    }
    points, records = [], []
    for point, record in results:
        repeats, family = places.get(id(record), ((record,) if record else (), None))
        points.append(measured_in_runs(point, repeats, experiment.metrics, family))
        records.append(_merged(repeats) if repeats else None)
    made = Judged(experiment, tuple(points), tuple(records), (), asked)
    answers = []
    for claim in experiment.claims:
        facts = _facts(made.records_of(claim), kernel_options)
        answers.append((claim, answer_of(claim, points, facts, left_out)))
    return replace(made, answers=tuple(answers))


def measured(
    point: Point, record: Record | None, metrics: Sequence[str], results: Results | None = None
) -> Point:
    """Return a point with the figures of its record. `results` are all results of the run; the
    default is the record alone."""
    return measured_in_runs(point, (record,) if record else (), metrics, results)


def measured_in_runs(
    point: Point,
    records: Sequence[Record],
    metrics: Sequence[str],
    results: Results | None = None,
) -> Point:
    """Return a point with the figures of its records: one, or one of each run. `results` are all
    results of the run or the runs; the default is the point alone."""
    done = tuple(record for record in records if record.status == "ok")
    if not done:
        first = next(iter(records), None)
        why = "not run" if first is None else f"{first.status}: {_first_line(first.error)}"
        return replace(point, untold=point.untold or why)
    if lost := _overload(done):
        return replace(point, untold=f"{OVERLOADED}: {100 * lost:.0f} % was lost")
    figures = {}
    for name in metrics:
        if (figure := _figure(done, name)) is not None:
            figures[name] = figure
    test, origin = done[0].test, done[0].origin
    size = mean_frame_bytes(test.frame_size)
    if test.line_pps is not None:
        line = gbps_l1(test.line_pps, size) * test.pairs
        line *= 2 if test.direction == "bi" else 1
        figures["line.gbps_l1"] = PointFigure(line, line, line)
    cables = [r.calibration for r in done if isinstance(r.calibration, Calibration)]
    if cables:
        lows, means, highs = zip(*(cable.rate_pps for cable in cables), strict=True)
        ends = min(lows), median(means), max(highs)
        low, mean, high = (gbps_l1(pps, size) for pps in ends)
        figures["cable.gbps_l1"] = PointFigure(mean, low, high)
    if cores := origin.host.get("cores_usable") if origin else None:
        figures["host.cores"] = PointFigure(cores, cores, cores)
    family = results or Results([done])
    return replace(point, figures=figures, measured=Measured(done[0], family, done))


def _merged(records: Sequence[Record]) -> Record:
    """Return one record with the trials and the doubts of all records of a test."""
    if len(records) == 1:
        return records[0]
    verdicts = {record.verdict for record in records}
    return records[0].model_copy(
        update={
            "trials": tuple(trial for record in records for trial in record.trials),
            "doubts": tuple(dict.fromkeys(doubt for r in records for doubt in r.doubts)),
            "verdict": records[0].verdict if len(verdicts) == 1 else "unknown",
        }
    )


def _overload(records: Sequence[Record]) -> float:
    """Return the lost share of frames if a latency was measured at a load of the paper that this
    host does not carry, so that it is the latency of full queues; 0 otherwise."""
    test, rate = records[0].test, records[0].test.parsed_rate
    if test.dimension != "latency" or rate.is_max or rate.share is not None:
        return 0.0
    lost = loss_ratio([trial for record in records for trial in record.trials], unsent=True)
    return lost if lost > _CARRIED else 0.0


def _facts(records: Sequence[Record], kernel_options: frozenset[str] | None) -> Facts:
    origins = [record.origin for record in records if record.origin]
    return Facts(
        origins[0].host.get("cores_usable") if origins else None,
        bool(records) and all(record.test.line_rate for record in records),
        frozenset(record.switch_mode for record in records),
        kernel_options,
    )


def _figure(records: Sequence[Record], name: str) -> PointFigure | None:
    """Return a metric of a record with its interval, or of several runs, with a value each; None if
    it is unknown or this build lacks the metric."""
    try:
        quantity = metric(name)
    except UsageError:
        return None
    bounded = name.startswith("rx.") and any(is_lower_bound(record.verdict) for record in records)
    values = [value for record in records if (value := quantity.of(record)) is not None]
    if not values:
        return None
    ends = quantity.interval(records[0]) if len(records) == 1 else median_interval(values)
    low, high = ends or (median(values),) * 2
    return PointFigure(median(values), low, high, bounded)


def _first_line(text: str | None) -> str:
    return (text or "unknown reason").partition("\n")[0]
