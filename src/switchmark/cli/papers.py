"""This module runs experiments of the literature, and says of each what this host can run of it."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from switchmark.campaign.duration import expected_s
from switchmark.campaign.experiments import PlannedPoint, campaign_of, planned
from switchmark.cli.progress import clock
from switchmark.cli.running import Shown, measure, new_run, print_json
from switchmark.errors import SwitchmarkError
from switchmark.lab.drawing import sketch
from switchmark.lab.probes import Probes
from switchmark.layout.resolve import check
from switchmark.machine.facts import kernel_options
from switchmark.machine.hosts import Hosts
from switchmark.model.plan import HOST
from switchmark.model.record import Record
from switchmark.model.refusal import Refusal
from switchmark.model.spec import AXES, Test
from switchmark.papers.claims import Facts
from switchmark.papers.experiment import Experiment, matching, names, read
from switchmark.papers.points import Point
from switchmark.report.drawn import check_drawing, write_papers
from switchmark.report.paper import Judged, as_object, judged, print_judged, print_summary

__all__ = ["HOW_LONG", "ThisHost", "listed_papers", "print_papers", "run_papers"]

_WIDTH, _SHOWN_REASONS = 100, 5

HOW_LONG = {
    name for name, axis in AXES.items() if axis.of == "method" and axis.left_out and not axis.table
}
"""The axes on which it does not depend whether a test can work."""

_OF_THE_PATH = [name for name, axis in AXES.items() if axis.changes != "trial"]
"""The axes on which it depends whether a host can run a test."""


@dataclass(frozen=True, slots=True)
class _Path:
    """This says what this host makes of a path: why it cannot have it, or the doubts of its
    placement and the mode of its switch."""

    waits: str
    doubts: tuple[str, ...] = ()
    mode: str | None = None


class ThisHost:
    """This object says which tests this host can run; it asks once for each path."""

    def __init__(self) -> None:
        self._hosts = Hosts()
        self._probes = Probes(self._hosts)
        self._refusals: dict[str, Sequence[Refusal]] = {}
        self._paths: dict[tuple[object, ...], _Path] = {}

    def close(self) -> None:
        """End the connections to other hosts."""
        self._hosts.close()

    def find(self, test: Test) -> _Path:
        """Return what this host makes of the path of a test."""
        key = tuple(getattr(test, name) for name in _OF_THE_PATH)
        if key not in self._paths:
            self._paths[key] = self._ask(test)
        return self._paths[key]

    def check(self, test: Test) -> Sequence[Refusal]:
        """Return why a test can never work, asked once for tests that differ only in how long and
        how often they are measured."""
        key = test.model_dump(exclude=HOW_LONG)
        known = repr(key)
        if known not in self._refusals:
            self._refusals[known] = check(test)
        return self._refusals[known]

    def points(self, points: Sequence[PlannedPoint]) -> list[PlannedPoint]:
        """Return the points, with what those wait for that this host cannot run."""
        return [self._seen(point) for point in points]

    def facts(self, tests: Sequence[Test]) -> Facts:
        """Return the facts that the needs of claims are held against."""
        return Facts(
            len(os.sched_getaffinity(0)),
            bool(tests) and all(test.line_rate for test in tests),
            frozenset(self.find(test).mode for test in tests),
            self.kernel_options,
        )

    @cached_property
    def kernel_options(self) -> frozenset[str]:
        """Return the options that the kernel is known to have."""
        return kernel_options(self._hosts[HOST.host])

    def _seen(self, planned_point: PlannedPoint) -> PlannedPoint:
        test = planned_point.test
        waits = self.find(test).waits if test is not None else ""
        if not waits:
            return planned_point
        return PlannedPoint(replace(planned_point.point, untold=f"waiting for {waits}"), None)

    def _ask(self, test: Test) -> _Path:
        try:
            self._probes.versions(test)
            layout, placement = sketch(test, self._probes)
        except SwitchmarkError as error:
            return _Path(error.message.partition("\n")[0])
        emulated = "emulated" in (layout.modes.get(test.environment) or "")
        doubts = (*placement.doubts, *(["emulated"] if emulated else []))
        return _Path("", doubts, self._probes.of_switch(test).mode)


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
) -> int:
    """Run the experiments that a pattern means, each campaign once; print what came of each, and
    draw them into a file where one is named."""
    check_drawing(output)
    host, results, statuses = ThisHost(), [], []
    chosen = [read(name) for name in matching(pattern)]
    for owner in dict.fromkeys(experiment.owner.name for experiment in chosen):
        sharing = [each for each in chosen if each.owner.name == owner]
        points = {
            each.name: host.points(
                planned(each, check, axes, quick=quick, as_published=as_published)
            )
            for each in sharing
        }
        records, status = _measured(owner, [*_all(points)], out, show, lab, strict=strict)
        statuses.append(status)
        for each in sharing:
            result = judged(each, _with_records(points[each.name], records), host.kernel_options)
            results.append(result)
            _print(result, show)
    host.close()
    if len(results) > 1 and not show.as_json:
        print()
        print_summary(results, sys.stdout)
    if output is not None:
        write_papers(output, results)
    return max(statuses)


def _all(points: Mapping[str, Sequence[PlannedPoint]]) -> list[PlannedPoint]:
    return [point for each in points.values() for point in each]


def _measured(
    name: str,
    points: Sequence[PlannedPoint],
    out: Path,
    show: Shown,
    lab: dict[str, Any],
    *,
    strict: bool,
) -> tuple[list[Record], int]:
    """Run the tests of some points; return their records and the exit status."""
    campaign = campaign_of(name.replace("/", "-"), points)
    if not campaign.tests:
        return [], 0
    if not show.quiet:
        told = f"{name}: {len(campaign.tests)} tests, about {clock(expected_s(campaign.tests))}"
        print(told, file=sys.stderr)
    folder = new_run(campaign, out)
    status = measure(
        folder, replace(show, only_progress=not (show.wide or show.as_json)), lab, strict
    )
    return folder.latest, status


def _with_records(
    points: Sequence[PlannedPoint], records: Sequence[Record]
) -> list[tuple[Point, Record | None]]:
    by_test = {record.test: record for record in records}
    return [(each.point, by_test.get(each.test) if each.test else None) for each in points]


def _print(result: Judged, show: Shown) -> None:
    if show.as_json:
        print_json(as_object(result))
    else:
        print()
        print_judged(result, sys.stdout)


# --- what there is ---------------------------------------------------------------------------


def listed_papers() -> list[dict[str, Any]]:
    """Return one object for each experiment: its points and claims, how many of them this host can
    run and tell, what the others wait for, and how long it takes."""
    host = ThisHost()
    return [_listed(read(name), host) for name in names()]


def _listed(experiment: Experiment, host: ThisHost) -> dict[str, Any]:
    points = host.points(planned(experiment, host.check, {}))
    quick = host.points(planned(experiment, host.check, {}, quick=True))
    tests = [point.test for point in points if point.test is not None]
    waiting = Counter(
        point.point.untold.removeprefix("waiting for ") for point in points if point.test is None
    )
    return {
        "name": experiment.name,
        "summary": experiment.summary,
        "usable": bool(tests),
        "place": experiment.place,
        "points": len(points),
        "points_here": len(tests),
        "waiting": dict(waiting.most_common()),
        "claims": len(experiment.claims),
        "claims_here": _told_here(experiment, points, host),
        "published_values": len(experiment.published),
        "seconds": round(expected_s(tests)),
        "quick_seconds": round(expected_s([each.test for each in quick if each.test is not None])),
        "same_runs_as": experiment.same_runs_as or None,
    }


def _told_here(experiment: Experiment, points: Sequence[PlannedPoint], host: ThisHost) -> int:
    """Return how many claims have all of their points on this host, and what else they need."""
    tests = {id(each.point): each.test for each in points}
    told = 0
    for claim in experiment.claims:
        members = claim.members([each.point for each in points])
        member_tests = [tests[id(member)] for member in members]
        here = [test for test in member_tests if test is not None]
        spoiled = {"cores-overcommitted", "emulated"} if not claim.subject else set()
        doubts = {doubt for test in here for doubt in host.find(test).doubts}
        if here and len(here) == len(member_tests) and not claim.needs.unmet(host.facts(here)):
            told += not doubts & spoiled
    return told


def print_papers(entries: Sequence[Mapping[str, Any]], stream: IO[str]) -> None:
    """Print two lines for each experiment."""
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
        for reason, count in waiting[:_SHOWN_REASONS]:
            print(*textwrap.wrap(f"{count} wait for {reason}", _WIDTH, initial_indent=" " * 4,
                                 subsequent_indent=" " * 6), sep="\n", file=stream)  # fmt: skip
        if rest := sum(count for _, count in waiting[_SHOWN_REASONS:]):
            print(f"    {rest} wait for something else (--json tells all)", file=stream)
