"""The command `gallery`: it draws the experiments of the literature on one page, with the results
of stored runs.

It measures nothing and does not probe the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from switchmark.cli.arguments import PATH, experiment_folders
from switchmark.cli.help import GroupedCommand

if TYPE_CHECKING:
    from switchmark.campaign.experiments import PlannedPoint
    from switchmark.model.record import Record
    from switchmark.model.refusal import Refusal
    from switchmark.model.test import Test
    from switchmark.papers.experiment import Experiment
    from switchmark.papers.points import Point


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

    Each figure is drawn as its paper drew it, with the published values; its claims are answered.
    """
    from switchmark.campaign.store import read_host, read_records
    from switchmark.papers.library import folders_of, located
    from switchmark.report.gallery import check_gallery, write_gallery
    from switchmark.report.paper import judged

    check_gallery(output)
    by_run = [read_records(run) for run in runs]
    records = {_meant(record.test): record for run in by_run for record in run}
    kernel_options = _kernel_options([read_host(run) for run in runs])
    results, own_options = [], {}
    library, chosen = located(only, folders_of(folders))
    for experiment in map(library.read, chosen):
        points, published = _points(experiment, records)
        results.append(judged(experiment, points, kernel_options, by_run))
        own_options[experiment.name] = published
    write_gallery(output, results, own_options, [run.resolve().name for run in runs])
    measured = sum(any(record for record in result.records) for result in results)
    print(f"{output}: {len(results)} experiments, {measured} of them measured")
    return 0


def _kernel_options(hosts: Sequence[Mapping[str, Any]]) -> frozenset[str] | None:
    """Return the known kernel options of these hosts, as their runs recorded them; None if a run
    has no record, or if the hosts differ."""
    options = [host.get("kernel_options") for host in hosts]
    if not options or None in options or any(other != options[0] for other in options):
        return None
    return frozenset(options[0] or ())


def _points(
    experiment: Experiment, records: Mapping[str, Record]
) -> tuple[list[tuple[Point, Record | None]], list[Point]]:
    """Return the points of an experiment with their records, and the points of the paper's
    published values. The points have the paper's rates, unless more measurements exist at rates
    relative to the host."""
    from switchmark.campaign.experiments import planned

    points_here = planned(experiment, _anything, {}, as_published=True)
    published = [entry.point for entry in points_here]
    matched = _matched(points_here, records)
    if experiment.owner.scale:
        cores = [_cores(record) for record in records.values()]
        relative = planned(experiment, _anything, {}, cores=max(cores, default=0) or None)
        published += [entry.point for entry in relative]
        other = _matched(relative, records)
        if _count(other) > _count(matched):
            matched = other
    return matched, published


def _cores(record: Record) -> int:
    """Return the number of CPUs of a record's host; 0 if it is unknown."""
    return (record.origin.host.get("cores_usable") or 0) if record.origin else 0


def _count(matched: Sequence[tuple[Point, Record | None]]) -> int:
    return sum(record is not None for _, record in matched)


def _matched(
    points: Sequence[PlannedPoint], records: Mapping[str, Record]
) -> list[tuple[Point, Record | None]]:
    return [
        (point.point, records.get(_meant(point.test)) if point.test is not None else None)
        for point in points
    ]


def _meant(test: Test) -> str:
    """Return the identity of a test without its duration and repetition, so that quick trials match
    the same point."""
    from switchmark.cli.benches import HOW_LONG

    return repr(test.model_dump(exclude=HOW_LONG))


def _anything(test: Test) -> Sequence[Refusal]:
    """Return no refusal: a test that this build cannot run has no record."""
    del test
    return ()
