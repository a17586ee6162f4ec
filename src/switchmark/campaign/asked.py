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
from switchmark.campaign.experiments import PlannedPoint, planned
from switchmark.campaign.store import read_host, read_lab
from switchmark.errors import RecordFailed, UsageError
from switchmark.model.record import Record
from switchmark.model.refusal import Refusal
from switchmark.model.test import AXES, Test
from switchmark.papers.asked import Asked, digest, experiments_of
from switchmark.papers.experiment import Experiment, files_of
from switchmark.papers.points import Point
from switchmark.regular_file import read_object, read_within

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
            return experiments_of(self.asked, files)
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
        )
        return with_records([_waiting(point, waiting) for point in points], records)

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
) -> None:
    """Store the experiments of a new run with their points, and the options of `paper`."""
    files = files_of(experiment for experiment, _ in experiments)
    asked = Asked.model_validate(
        {
            "schema": 1,
            "experiments": [experiment.name for experiment, _ in experiments],
            "files": {path: digest(text) for path, text in files.items()},
            "waiting": {
                experiment.name: {
                    entry.point.name: entry.point.untold for entry in points if entry.point.untold
                }
                for experiment, points in experiments
            },
            "switchmark": __version__,
            **options,
        }
    )
    try:
        for path, text in files.items():
            (folder / _FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / _FOLDER / path).write_text(text)
        written = json.dumps(asked.model_dump(mode="json", by_alias=True), indent=2)
        (folder / _FILE).write_text(written + "\n")
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


def kernel_options_of(folder: Path) -> frozenset[str] | None:
    """Return the known build options of the kernel of a run's host, or of all its testbeds; None if
    they are unknown or differ."""
    testbeds = read_lab(folder).get("testbeds", {}).values()
    every = [testbed.get("facts", {}) for testbed in testbeds] or [read_host(folder)]
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
    experiment: Experiment, records: Sequence[Record]
) -> list[tuple[Point, Record | None]]:
    """Return the points of an experiment with the records of any run that match them, for any
    duration and number of trials. The points have the paper's rates, unless more records match at
    rates relative to the host."""
    by_test = {meant(record.test): record for record in records}
    plans = [planned(experiment, _anything, {}, as_published=True)]
    plans += [planned(experiment, _anything, {})] if experiment.owner.scale else []
    matched = [
        [(entry.point, by_test.get(meant(entry.test)) if entry.test else None) for entry in plan]
        for plan in plans
    ]
    return max(matched, key=lambda points: sum(record is not None for _, record in points))


def paper_points(experiment: Experiment) -> list[Point]:
    """Return the points of an experiment at the paper's rates and at rates relative to a host, for
    its published values."""
    plans = [planned(experiment, _anything, {}, as_published=True)]
    plans += [planned(experiment, _anything, {})] if experiment.owner.scale else []
    return [entry.point for plan in plans for entry in plan]


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
