"""The experiments of a run: stored in its folder when it begins, and matched with its records.

A run folder may come from somebody else: its files are read without following links, and checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from switchmark import __version__
from switchmark.campaign.experiments import PlannedPoint, is_kept, left_out, planned
from switchmark.campaign.store import read_host, read_lab
from switchmark.errors import RecordFailed, UsageError
from switchmark.model.record import Record
from switchmark.model.refusal import Refusal
from switchmark.model.test import AXES, Test
from switchmark.papers.asked import Asked, digest, experiments_of
from switchmark.papers.experiment import Experiment, files_of
from switchmark.papers.points import LEFT_OUT, Point
from switchmark.path.hosts import hosts_of
from switchmark.regular_file import read_object, read_regular, read_within

_FILE, _FOLDER = "experiment.json", "experiment"

HOW_LONG = {
    name for name, axis in AXES.items() if axis.of == "method" and axis.left_out and not axis.table
}
"""The axes that do not affect whether a test can run."""


@dataclass(frozen=True)
class AskedRun:
    """The request of a run, with its experiments as they were at that time."""

    folder: Path
    asked: Asked

    @cached_property
    def experiments(self) -> list[Experiment]:
        """Return the experiments of the run from its own files. Raise UsageError if a file is
        missing, changed or invalid."""
        files = {}
        for path, expected in self.asked.files.items():
            try:
                files[path] = read_within(self.folder, f"{_FOLDER}/{path}").decode()
            except (OSError, ValueError) as error:
                raise self._unreadable(path, error) from error
            if digest(files[path]) != expected:
                raise self._unreadable(path, f"it is not the file of the run ({_FILE})")
        try:
            return experiments_of(self.asked, files, self.folder / _FOLDER)
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreadable("", error) from error

    def points_of(
        self, experiment: Experiment, records: Sequence[Record]
    ) -> list[tuple[Point, Record | None]]:
        """Return the points of an experiment with their records. Points that were not measured
        carry the reason."""
        waiting = self.asked.waiting.get(experiment.name, {})
        points = planned(
            experiment,
            _anything,
            self.asked.axes,
            quick=self.asked.quick,
            as_published=self.asked.as_published,
            cores=self.asked.cores,
        )
        return with_records([_waiting(point, waiting) for point in points], records)

    def left_out_of(self, experiment: Experiment) -> list[Point]:
        """Return the points of an experiment that the run left out because it is quick."""
        if not self.asked.quick:
            return []
        waiting = self.asked.waiting.get(experiment.name, {})
        points = left_out(
            experiment,
            _anything,
            self.asked.axes,
            as_published=self.asked.as_published,
            cores=self.asked.cores,
        )
        return [Point(p.axes, untold=waiting.get(p.name, p.untold)) for p in points]

    def _unreadable(self, path: str, error: object) -> UsageError:
        place = self.folder / _FOLDER / path
        return UsageError(
            f"{place} cannot be read: {error}",
            hint=f"switchmark paper --from {self.folder} NAME judges the run by an experiment of "
            "this build",
        )


def keep(
    folder: Path,
    experiments: Sequence[tuple[Experiment, Sequence[PlannedPoint]]],
    options: Mapping[str, Any],
    missing: Mapping[str, Sequence[Point]] | None = None,
    data: Sequence[Path] = (),
) -> None:
    """Store the experiments of a new run with their points, and the options of `paper`.

    `missing` are the points that a quick run leaves out, by experiment. `data` are CSV files with
    further published values."""
    files = files_of(experiment for experiment, _ in experiments)
    further = {f"data/{n}-{file.name}": read_regular(file).decode() for n, file in enumerate(data)}
    files |= further
    untold = {
        experiment.name: [
            *(entry.point for entry in points),
            *(missing or {}).get(experiment.name, ()),
        ]
        for experiment, points in experiments
    }
    asked = Asked.model_validate(
        {
            "schema": 1,
            "experiments": [experiment.name for experiment, _ in experiments],
            "files": {path: digest(text) for path, text in files.items()},
            "data": [*further],
            "waiting": {
                name: {point.name: point.untold for point in points if point.untold}
                for name, points in untold.items()
            },
            "switchmark": __version__,
            **options,
        }
    )
    try:
        for path, text in files.items():
            (folder / _FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / _FOLDER / path).write_text(text, encoding="utf-8")
        written = json.dumps(asked.model_dump(mode="json", by_alias=True), indent=2)
        (folder / _FILE).write_text(written + "\n", encoding="utf-8")
    except OSError as error:
        raise RecordFailed(f"{folder / _FILE} cannot be written: {error.strerror}") from error


def read_asked(folder: Path) -> AskedRun | None:
    """Return what a run was asked for by `paper`; None for other runs. Raise UsageError for an
    invalid file."""
    content = read_object(folder / _FILE)
    if not content:
        return None
    try:
        return AskedRun(folder, Asked.model_validate(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{folder / _FILE}: not readable: {where}: {first['msg']}") from error


def kernel_options_of(folder: Path, records: Sequence[Record]) -> frozenset[str] | None:
    """Return the known build options of the kernels that some records of a run were measured on:
    those of this host, of the hosts that tests name, or of all testbeds. Return None if they are
    unknown or differ."""
    here = read_host(folder)
    testbeds = read_lab(folder).get("testbeds", {}).values()
    every = [testbed.get("facts", {}) for testbed in testbeds]
    if not every:
        names = {name for record in records for name in hosts_of(record.test) or (None,)}
        every = [here.get("hosts", {}).get(name, here) for name in names or {None}]
    options = [facts.get("kernel_options") for facts in every]
    if None in options or any(entry != options[0] for entry in options):
        return None
    return frozenset(options[0] or ())


def with_records(
    points: Sequence[PlannedPoint], records: Sequence[Record]
) -> list[tuple[Point, Record | None]]:
    """Return points with the records of their tests."""
    by_test = {record.test: record for record in records}
    return [(entry.point, by_test.get(entry.test) if entry.test else None) for entry in points]


def points_by_tests(
    experiment: Experiment, records: Sequence[Record], *, quick: bool = False
) -> list[tuple[Point, Record | None]]:
    """Return the points of an experiment with the records of any run that match them, for any
    duration and number of trials. The points have the paper's rates, unless more records match at
    rates relative to the host. With `quick`, missing points that a quick run leaves out say so."""
    by_test = {meant(record.test): record for record in records}
    cores = [record.origin.host.get("cores_usable") or 0 for record in records if record.origin]
    matched = [
        [(entry.point, by_test.get(meant(entry.test)) if entry.test else None) for entry in plan]
        for plan in _plans(experiment, max(cores, default=0) or None)
    ]
    points = max(matched, key=lambda points: sum(record is not None for _, record in points))
    if not quick:
        return points
    return [
        (point, record)
        if record or point.untold or is_kept(experiment, point)
        else (Point(point.axes, untold=LEFT_OUT), None)
        for point, record in points
    ]


def paper_points(experiment: Experiment) -> list[Point]:
    """Return the points of an experiment at the paper's rates and at rates relative to a host, for
    its published values."""
    return [entry.point for plan in _plans(experiment, None) for entry in plan]


def _plans(experiment: Experiment, cores: int | None) -> list[list[PlannedPoint]]:
    plans = [planned(experiment, _anything, {}, as_published=True)]
    plans += [planned(experiment, _anything, {}, cores=cores)] if experiment.owner.scale else []
    return plans


def meant(test: Test) -> str:
    """Return the identity of a test without its duration and repetition."""
    return repr(test.model_dump(exclude=HOW_LONG))


def _waiting(planned_point: PlannedPoint, reasons: Mapping[str, str]) -> PlannedPoint:
    reason = reasons.get(planned_point.point.name)
    if reason is None:
        return planned_point
    point = Point(planned_point.point.axes, untold=reason)
    return PlannedPoint(point, planned_point.test)


def _anything(test: Test) -> Sequence[Refusal]:
    """Return no refusal: a test that this build cannot run has no record."""
    del test
    return ()
