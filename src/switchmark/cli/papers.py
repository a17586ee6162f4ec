"""Runs of the literature's experiments, and the share of each experiment that this host can run."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from switchmark.campaign.asked import keep, kernel_options_of, with_records
from switchmark.campaign.duration import expected_s
from switchmark.campaign.experiments import PlannedPoint, campaign_of, left_out, planned
from switchmark.campaign.store import read_records
from switchmark.cli.benches import ThisHost, bench_of_papers
from switchmark.cli.experiment_checks import chosen_experiments
from switchmark.cli.judging import judged_run
from switchmark.cli.progress import clock
from switchmark.cli.running import Shown, status_of
from switchmark.errors import Exit, UsageError
from switchmark.extras import PLOTS
from switchmark.hosts.hosts import Hosts
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.papers.asked import Asked
from switchmark.papers.experiment import Experiment
from switchmark.papers.library import folders_of, library
from switchmark.papers.overlay import read_overlay
from switchmark.papers.points import WAITING
from switchmark.report.drawn import Mode
from switchmark.report.files import write_file
from switchmark.report.judged import Judged, judged
from switchmark.report.paper import as_object, print_judged, print_summary
from switchmark.report.paper_files import check_drawing, write_papers
from switchmark.report.paper_page import paper_page
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
    mode: Mode | None = None,
    cluster: str | None = None,
    spread: bool = False,
    folders: Sequence[Path] = (),
    data: Sequence[Path] = (),
) -> int:
    """Run the experiments that match a pattern, or that a path names, each campaign once, here or
    on a lab. Print their results, and draw them into a file if `output` is set.

    `folders` have further experiments, and `data` are CSV files with further published values."""
    check_drawing(output)
    engine = AXES["engine"]
    if engine.chosen in axes.get(engine.name, "").split(","):
        raise UsageError(
            f"{engine.option} {engine.chosen} is of run and plan: an experiment is measured with "
            f"the engine that it names, or {engine.default}",
            hint=f"{engine.option} with the name of an engine: switchmark list engines",
        )
    results: list[Judged] = []
    chosen = _chosen(pattern, folders, data)
    shared = lab["share_machine"]
    options: dict[str, Any] = {"quick": quick, "as_published": as_published, "axes": dict(axes)}
    with bench_of_papers(cluster, show, share_machine=shared, spread=spread) as there:
        for owner in dict.fromkeys(experiment.owner.name for experiment in chosen):
            sharing = [entry for entry in chosen if entry.owner.name == owner]
            points = [
                (
                    entry,
                    there.points(
                        planned(
                            entry,
                            there.check,
                            axes,
                            quick=quick,
                            as_published=as_published,
                            cores=there.cpus,
                        )
                    ),
                )
                for entry in sharing
            ]
            missing = {
                entry.name: left_out(
                    entry, there.check, axes, as_published=as_published, cores=there.cpus
                )
                for entry in (sharing if quick else ())
            }
            options["cores"] = there.cpus
            keep_them = partial(
                keep, experiments=points, options=options, missing=missing, data=data
            )
            tests = [entry for _, of_entry in points for entry in of_entry]
            folder, records = _measured(owner, tests, keep_them, out, show, lab, there)
            asked = Asked.model_validate({"schema": 1, "experiments": (), "files": {}, **options})
            made = [
                judged(
                    entry,
                    with_records(of_entry, records),
                    kernel_options_of(folder, records) if folder is not None else None,
                    [records] if records else [],
                    left_out=missing.get(entry.name, ()),
                    asked=asked,
                )
                for entry, of_entry in points
            ]
            for result in made:
                _print(result, show)
            if folder is not None and not (show.as_json or show.quiet):
                if PLOTS.installed:
                    write_file(folder / "report.html", paper_page(made))
                    print(f"report: {folder / 'report.html'}", file=sys.stderr)
                else:
                    print(PLOTS.left_out("report"), file=sys.stderr)
            results += made
    return _finish(results, show, strict, output, mode)


def judge_runs(
    folders: Sequence[Path],
    pattern: str,
    show: Shown,
    *,
    strict: bool,
    output: Path | None,
    mode: Mode | None,
    experiments: Sequence[Path] = (),
    data: Sequence[Path] = (),
) -> int:
    """Judge stored runs again, by their own experiments, or by those that match a pattern or that a
    path names. Print the results, and draw them into a file if `output` is set.

    `experiments` are folders with further experiments, and `data` are CSV files with further
    published values."""
    check_drawing(output)
    if data and not pattern:
        raise UsageError(
            "--data is about one experiment, and none is named",
            hint=f"switchmark paper NAME --from {folders[0]} --data {data[0]}",
        )
    chosen = _chosen(pattern, experiments, data) if pattern else []
    results = []
    for folder in folders:
        made = judged_run(folder, read_records(folder), chosen)
        if not made:
            raise UsageError(
                f"{folder} does not know an experiment: it was not made by 'switchmark paper'",
                hint=f"name one: switchmark paper --from {folder} ara-2021/fig4a",
            )
        for result in made:
            _print(result, show)
        results += made
    return _finish(results, show, strict, output, mode)


def _finish(
    results: Sequence[Judged], show: Shown, strict: bool, output: Path | None, mode: Mode | None
) -> int:
    """Print a summary of several experiments, draw them, and return the exit code."""
    if len(results) > 1 and not show.as_json:
        print()
        print_summary(results, sys.stdout)
    if output is not None:
        write_papers(output, results, mode)
        if not show.quiet:
            print(f"drawn: {output}", file=sys.stderr)
    records = [record for result in results for record in result.records if record is not None]
    if not any(result.measured for result in results):
        if not show.quiet:
            print("nothing could be measured: see the reasons above", file=sys.stderr)
        return status_of(records, strict) or Exit.UNAVAILABLE
    return status_of(records, strict)


def _chosen(pattern: str, folders: Sequence[Path], data: Sequence[Path]) -> list[Experiment]:
    """Return the experiments of a pattern or a path, with the values of CSV files."""
    chosen = chosen_experiments(pattern, folders)
    if not data:
        return chosen
    if len(chosen) > 1:
        raise UsageError(
            f"--data is about one experiment, and {len(chosen)} are meant",
            hint=f"switchmark paper {chosen[0].name} --data {data[0]}",
        )
    (experiment,) = chosen
    rows = [row for file in data for row in read_overlay(file, experiment.axes, experiment.name)]
    return [experiment.with_rows(rows)]


def _measured(
    name: str,
    points: Sequence[PlannedPoint],
    keep_asked: Callable[[Path], None],
    out: Path,
    show: Shown,
    lab: dict[str, Any],
    there: ThisHost,
) -> tuple[Path | None, list[Record]]:
    """Run the tests of some points; return the run folder and its records. `keep_asked` stores what
    was asked for in the folder. No folder is made if no test can run."""
    campaign = campaign_of(name.replace("/", "-"), points)
    if not campaign.tests:
        return None, []
    if not show.quiet:
        message = f"{name}: {len(campaign.tests)} tests, about {clock(expected_s(campaign.tests))}"
        print(message, file=sys.stderr)
    shown = replace(show, only_progress=not (show.wide or show.as_json))
    folder = there.new_run(campaign, out)
    keep_asked(folder.path)
    return folder.path, there.measure(folder, shown, lab)


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
