"""The command `gallery`: it draws the experiments of the literature on one page, with the results
of stored runs.

It measures nothing and does not probe the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from switchmark.cli.arguments import PATH, experiment_folders
from switchmark.cli.help import GroupedCommand

if TYPE_CHECKING:
    from switchmark.model.record import Record
    from switchmark.papers.experiment import Experiment
    from switchmark.report.judged import Judged
    from switchmark.report.matrix import RunSide


@click.command("gallery", cls=GroupedCommand)
@click.argument(
    "runs",
    metavar="[RUN]...",
    nargs=-1,
    type=PATH,
    help="run folders of `paper`, or of any campaign",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=Path("gallery.html"),
    type=PATH,
    help="the page",
)
@click.option("--only", metavar="PATTERN", default="*", help="such as 'ara-2021/*'")
@experiment_folders
def gallery(runs: tuple[Path, ...], output: Path, only: str, folders: tuple[Path, ...]) -> int:
    """Draw all experiments from the literature on one page, with the results of runs.

    Each figure is drawn as its paper drew it, with the published values and the results of every
    run; its claims are answered by run. Three or more runs of the same tests on the same host with
    the same versions are judged together. Where runs were made for an experiment, those that only
    share some of its tests are not shown with it.
    """
    from switchmark.campaign.asked import paper_points
    from switchmark.cli.experiment_checks import chosen_experiments
    from switchmark.report.gallery import GalleryEntry, check_gallery, write_gallery

    check_gallery(output)
    groups = _groups(runs)
    shown = []
    for experiment in chosen_experiments(only, folders):
        results = {side.label: _judged(experiment, column) for side, column in groups}
        measured = {label: result for label, result in results.items() if result.measured}
        made_for = {label: result for label, result in measured.items() if result.asked}
        every = made_for or measured or {"": _judged(experiment, _Runs((), ()))}
        shown.append(GalleryEntry(every, paper_points(experiment)))
    write_gallery(output, shown, [side for side, _ in groups])
    begun = sum(entry.is_measured for entry in shown)
    print(f"{output}: {len(shown)} experiments, {begun} of them measured")
    return 0


@dataclass(frozen=True)
class _Runs:
    """Runs of one column: those that repeat each other, or that have different tests of one
    host."""

    folders: tuple[Path, ...]
    by_run: tuple[list[Record], ...]
    repeated: bool = False

    @property
    def records(self) -> list[Record]:
        return [record for records in self.by_run for record in records]

    @property
    def started(self) -> str:
        return min((record.started or "" for record in self.records), default="")

    @cached_property
    def tests(self) -> frozenset[str]:
        """Return the identities of the tests, for any duration."""
        from switchmark.campaign.asked import meant

        return frozenset(meant(record.test) for record in self.records)

    @cached_property
    def side(self) -> RunSide:
        from switchmark.campaign.asked import read_asked
        from switchmark.campaign.store import read_host
        from switchmark.report.matrix import RunSide

        asked = [read_asked(folder) for folder in self.folders]
        names = tuple(folder.resolve().name for folder in self.folders)
        is_quick = any(entry is not None and entry.asked.quick for entry in asked)
        host = read_host(self.folders[0])
        return RunSide("", names, host, self.records, is_quick, self.repeated)

    def completes(self, other: _Runs) -> bool:
        """Return whether the runs have other tests than these, of the same host with the same
        versions."""
        if self.repeated or other.repeated or self.tests & other.tests:
            return False
        mine, theirs = self.side.versions, other.side.versions
        shared = mine.keys() & theirs.keys()
        is_same = all(mine[name] == theirs[name] for name in shared)
        return is_same and self.side.machine == other.side.machine


def _groups(runs: Sequence[Path]) -> list[tuple[RunSide, _Runs]]:
    """Return the columns in the order of time.

    Runs that repeat each other are a column if they are enough for a judgement. Runs of other tests
    on the same host with the same versions complete a column. All others have their own.
    """
    from switchmark.campaign.store import read_records
    from switchmark.metrics.difference import MIN_REPEATS
    from switchmark.report.pairing import identity

    alike: dict[str, list[_Runs]] = {}
    for run in runs:
        one = _Runs((run,), (read_records(run),))
        tests = sorted(repr(identity(record.test)) for record in one.records)
        alike.setdefault(repr((one.side.machine, one.side.versions, tests)), []).append(one)
    columns: list[_Runs] = []
    singles: list[_Runs] = []
    for group in alike.values():
        if len(group) >= MIN_REPEATS:
            columns.append(_joined(group, repeated=True))
        else:
            singles += group
    for single in sorted(singles, key=lambda one: one.started):
        column = next((entry for entry in columns if single.completes(entry)), None)
        if column is not None:
            columns[columns.index(column)] = _joined([column, single])
        else:
            columns.append(single)
    columns.sort(key=lambda entry: entry.started)
    return [
        (replace(entry.side, label=_label(number)), entry) for number, entry in enumerate(columns)
    ]


def _joined(runs: Sequence[_Runs], *, repeated: bool = False) -> _Runs:
    return _Runs(
        tuple(folder for entry in runs for folder in entry.folders),
        tuple(records for entry in runs for records in entry.by_run),
        repeated,
    )


def _label(number: int) -> str:
    """Return A to Z, then A2 to Z2, and so on."""
    letters = 26
    turn = str(number // letters + 1) if number >= letters else ""
    return chr(ord("A") + number % letters) + turn


def _judged(experiment: Experiment, runs: _Runs) -> Judged:
    """Return an experiment judged by the records of a column."""
    from switchmark.campaign.asked import kernel_options_of, points_by_tests, read_asked
    from switchmark.report.judged import judged

    every = runs.by_run[:1] if runs.repeated else runs.by_run
    options = [
        kernel_options_of(folder, of_run)
        for folder, of_run in zip(runs.folders, runs.by_run, strict=True)
    ]
    kernel = options[0] if options and all(other == options[0] for other in options) else None
    asked = (read_asked(folder) for folder in runs.folders)
    own = {experiment.name, experiment.same_runs_as}
    own_options = next((a.asked for a in asked if a and own & {*a.asked.experiments}), None)
    quick = own_options is not None and own_options.quick
    records = [record for entry in every for record in entry]
    points = points_by_tests(experiment, records, quick=quick)
    return judged(
        experiment, points, kernel, runs.by_run, repeated=runs.repeated, asked=own_options
    )
