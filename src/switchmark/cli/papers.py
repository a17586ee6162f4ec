"""Runs of the literature's experiments, and the share of each experiment that this host can run."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from switchmark.campaign.duration import expected_s
from switchmark.campaign.experiments import PlannedPoint, campaign_of, left_out, planned
from switchmark.cli.benches import ThisHost, bench_of_papers
from switchmark.cli.experiment_checks import check_experiment
from switchmark.cli.progress import clock
from switchmark.cli.running import Shown, status_of
from switchmark.errors import UsageError
from switchmark.hosts.hosts import Hosts
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.papers.experiment import Experiment
from switchmark.papers.library import folders_of, library, located
from switchmark.papers.overlay import as_csv, read_overlay
from switchmark.papers.points import WAITING, Point
from switchmark.report.drawn import check_drawing, write_papers
from switchmark.report.files import write_file
from switchmark.report.paper import Judged, as_object, judged, print_judged, print_summary
from switchmark.runs.jsonl import to_line
from switchmark.runs.own_run import OwnRun

_WIDTH, _SHOWN_REASONS = 100, 5


def run_papers(
    pattern: str,
    axes: Mapping[str, str],
    out: Path,
    show: Shown,
    lab: dict[str, Any],
    *,
    quick: bool,
    as_published: bool,
    strict: bool,
    output: Path | None = None,
    cluster: str | None = None,
    spread: bool = False,
    folders: Sequence[Path] = (),
    data: Sequence[Path] = (),
) -> int:
    """Run the experiments that match a pattern, or that a path names, each campaign once, here or
    on a lab. Print their results, and draw them into a file if `output` is set.

    `folders` have further experiments, and `data` are CSV files with further published values."""
    is_table = output is not None and output.suffix.lower() == ".csv"
    if not is_table:
        check_drawing(output)
    engine = AXES["engine"]
    if engine.chosen in axes.get(engine.name, "").split(","):
        raise UsageError(
            f"{engine.option} {engine.chosen} is of run and plan: an experiment is measured with "
            f"the engine that it names, or {engine.default}",
            hint=f"{engine.option} with the name of an engine: switchmark list engines",
        )
    results, statuses = [], []
    chosen = _chosen(pattern, folders, data)
    if is_table and len({experiment.axes for experiment in chosen}) > 1:
        raise UsageError(
            "a CSV file has the values of experiments with the same axes, and these differ",
            hint="a file for each: switchmark paper NAME -o NAME.csv",
        )
    shared = lab["share_machine"]
    with bench_of_papers(cluster, show, share_machine=shared, spread=spread) as there:
        for owner in dict.fromkeys(experiment.owner.name for experiment in chosen):
            sharing = [experiment for experiment in chosen if experiment.owner.name == owner]
            points = {
                experiment.name: there.points(
                    planned(
                        experiment,
                        there.check,
                        axes,
                        quick=quick,
                        as_published=as_published,
                        cores=there.cpus,
                    )
                )
                for experiment in sharing
            }
            records = _measured(owner, [*_all(points)], out, show, lab, there)
            statuses.append(status_of(records, strict))
            for paper_experiment in sharing:
                measured = _with_records(points[paper_experiment.name], records)
                result = judged(
                    paper_experiment,
                    measured,
                    there.kernel_options or None,
                    [records] if records else [],
                    left_out(
                        paper_experiment,
                        there.check,
                        axes,
                        as_published=as_published,
                        cores=there.cpus,
                    )
                    if quick
                    else (),
                )
                results.append(result)
                _print(result, show)
    if len(results) > 1 and not show.as_json:
        print()
        print_summary(results, sys.stdout)
    if output is not None:
        if is_table:
            _write_table(output, results)
        else:
            write_papers(output, results)
        if not show.quiet:
            print(f"drawn: {output}", file=sys.stderr)
    return max(statuses)


def _chosen(pattern: str, folders: Sequence[Path], data: Sequence[Path]) -> list[Experiment]:
    """Return the experiments of a pattern or a path, with the values of CSV files. Raise UsageError
    for mistakes in the files of experiments from outside of the package."""
    found, meant = located(pattern, folders_of(folders))
    chosen = [found.read(name) for name in meant]
    for experiment in chosen:
        if experiment.name not in library().names:
            check_experiment(experiment)
    if not data:
        return chosen
    if len(chosen) > 1:
        raise UsageError(
            f"--data is about one experiment, and {len(chosen)} are meant",
            hint=f"switchmark paper {chosen[0].name} --data {data[0]}",
        )
    (experiment,) = chosen
    rows = [row for file in data for row in read_overlay(file, experiment.axes)]
    return [experiment.with_rows(rows)]


def _write_table(output: Path, results: Sequence[Judged]) -> None:
    """Write the measured values of experiments to a CSV file that `--data` reads."""
    points = [point for result in results for point in result.points]
    metrics = dict.fromkeys(name for result in results for name in result.experiment.metrics)
    write_file(output, as_csv(points, list(metrics), results[0].experiment.axes))


def _all(points: Mapping[str, Sequence[PlannedPoint]]) -> list[PlannedPoint]:
    return [point for group in points.values() for point in group]


def _measured(
    name: str,
    points: Sequence[PlannedPoint],
    out: Path,
    show: Shown,
    lab: dict[str, Any],
    there: ThisHost,
) -> list[Record]:
    """Run the tests of some points; return their records."""
    campaign = campaign_of(name.replace("/", "-"), points)
    if not campaign.tests:
        return []
    if not show.quiet:
        message = f"{name}: {len(campaign.tests)} tests, about {clock(expected_s(campaign.tests))}"
        print(message, file=sys.stderr)
    shown = replace(show, only_progress=not (show.wide or show.as_json))
    return there.measure(campaign, out, shown, lab)


def _with_records(
    points: Sequence[PlannedPoint], records: Sequence[Record]
) -> list[tuple[Point, Record | None]]:
    by_test = {record.test: record for record in records}
    return [(point.point, by_test.get(point.test) if point.test else None) for point in points]


def _print(result: Judged, show: Shown) -> None:
    if show.as_json:
        print(to_line(as_object(result)))
    else:
        print()
        print_judged(result, sys.stdout)


# --- listing ---------------------------------------------------------------------------


def listed_papers(folders: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return one object per experiment: its points and claims, how many of them this host can run
    and decide, the reasons for the missing ones, and the duration. `folders` have further
    experiments."""
    every = library(*folders_of(folders))
    for why in every.unusable.values():
        print(f"warning: {why}", file=sys.stderr)
    with Hosts(OwnRun) as hosts:
        host = ThisHost(hosts)
        return [_listed(every.read(name), host) for name in every.names]


def _listed(experiment: Experiment, host: ThisHost) -> dict[str, Any]:
    points = host.points(planned(experiment, host.check, {}, cores=host.cpus))
    quick = host.points(planned(experiment, host.check, {}, quick=True, cores=host.cpus))
    tests = [point.test for point in points if point.test is not None]
    reasons = Counter(point.point.untold for point in points if point.test is None)
    waiting = {why: n for why, n in reasons.most_common() if why.startswith(WAITING)}
    unable = {why: n for why, n in reasons.most_common() if not why.startswith(WAITING)}
    return {
        "name": experiment.name,
        "summary": experiment.summary,
        "usable": bool(tests),
        "place": experiment.place,
        "points": len(points),
        "points_here": len(tests),
        "impossible": unable,
        "waiting": {why.removeprefix(WAITING): count for why, count in waiting.items()},
        "claims": len(experiment.claims),
        "claims_here": _decidable_here(experiment, points, host),
        "published_values": len(experiment.published),
        "seconds": round(expected_s(tests)),
        "quick_seconds": round(
            expected_s([point.test for point in quick if point.test is not None])
        ),
        "same_runs_as": experiment.same_runs_as or None,
    }


def _decidable_here(experiment: Experiment, points: Sequence[PlannedPoint], host: ThisHost) -> int:
    """Return how many claims this host can decide: all of their points can run here, and their
    other needs are met."""
    tests = {id(point.point): point.test for point in points}
    count = 0
    for claim in experiment.claims:
        members = claim.members([point.point for point in points])
        member_tests = [tests[id(member)] for member in members]
        here = [test for test in member_tests if test is not None]
        spoiled = {"cores-overcommitted", "emulated"} if not claim.subject else set()
        doubts = {doubt for test in here for doubt in host.find(test).doubts}
        if here and len(here) == len(member_tests) and not claim.needs.unmet(host.facts(here)):
            count += not doubts & spoiled
    return count


def print_papers(entries: Sequence[Mapping[str, Any]], stream: IO[str]) -> None:
    """Print two lines per experiment, and a legend for the marks."""
    for entry in entries:
        mark = "✓" if entry["points_here"] == entry["points"] else "·"
        mark = mark if entry["points_here"] else "✗"
        print(f"{mark} {entry['name']}: {entry['summary']}", file=stream)
        here = f"{entry['points_here']} of {entry['points']} points"
        claims = f"{entry['claims_here']} of {entry['claims']} claims"
        times = f"{clock(entry['seconds'])}, --quick {clock(entry['quick_seconds'])}"
        shared = f", the runs of {entry['same_runs_as']}" if entry["same_runs_as"] else ""
        print(f"    here: {here}, {claims}; {times}{shared}", file=stream)
        waiting = list(entry["waiting"].items())
        told = [f"{count}: {reason}" for reason, count in entry["impossible"].items()]
        told += [f"{count} wait: {reason}" for reason, count in waiting[:_SHOWN_REASONS]]
        for line in told:
            print(*textwrap.wrap(line, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 6),
                  sep="\n", file=stream)  # fmt: skip
        if rest := sum(count for _, count in waiting[_SHOWN_REASONS:]):
            print(f"    {rest} wait for other reasons (--json has all)", file=stream)
    print("\n✓ all points can be measured here   · some of them   ✗ none", file=stream)
