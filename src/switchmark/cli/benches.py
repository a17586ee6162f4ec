"""The benches for experiments of the literature: this host, or the testbeds of a lab; and the
experiments that can run there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from switchmark.campaign.asked import HOW_LONG
from switchmark.campaign.experiments import PlannedPoint
from switchmark.campaign.load import Campaign
from switchmark.campaign.store import RunFolder
from switchmark.cli.labs import LabBench, open_lab
from switchmark.cli.running import Bench, HostBench, Shown, measure
from switchmark.cluster.ability import OF_THE_PATH, Ability, ability
from switchmark.hosts.hosts import Hosts
from switchmark.lab.probes import Probes
from switchmark.model.plan import HOST
from switchmark.model.record import Record
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.observe.facts import kernel_options
from switchmark.papers.judging import Facts
from switchmark.papers.points import WAITING
from switchmark.path.hosts import hosts_of
from switchmark.path.refusals import check
from switchmark.runs.own_run import OwnRun


class ThisHost:
    """Finds the tests that this host can run, and runs them; every path is probed once."""

    def __init__(self, hosts: Hosts, bench: Bench | None = None) -> None:
        self._bench = bench or HostBench(hosts)
        self._refusals: dict[str, Sequence[Refusal]] = {}
        self._paths: dict[tuple[object, ...], Ability] = {}
        self._hosts = hosts
        self._probes = Probes(hosts, keep_missing=True)
        self.cpus = len(os.sched_getaffinity(0))

    def find(self, test: Test) -> Ability:
        """Return whether and how the path of a test can be set up here."""
        self._learn([test])
        return self._paths[_path_of(test)]

    def check(self, test: Test) -> Sequence[Refusal]:
        """Return why a test can never run. Tests that differ only in duration and repetition share
        an answer."""
        key = test.model_dump(exclude=HOW_LONG)
        known_key = repr(key)
        if known_key not in self._refusals:
            self._refusals[known_key] = check(test, suggest=False)
        return self._refusals[known_key]

    def points(self, points: Sequence[PlannedPoint]) -> list[PlannedPoint]:
        """Return the points; a point that cannot run here carries the reason for which it waits."""
        self._learn([point.test for point in points if point.test is not None])
        return [self._seen(point) for point in points]

    def facts(self, tests: Sequence[Test]) -> Facts:
        """Return the facts that decide whether the needs of claims are met."""
        return Facts(
            self.cpus,
            bool(tests) and all(test.line_rate for test in tests),
            frozenset(self.find(test).mode for test in tests),
            self._known_options(tests),
        )

    def new_run(self, campaign: Campaign, out: Path) -> RunFolder:
        """Return a new run folder for a campaign."""
        return self._bench.new_run(campaign, out)

    def measure(self, folder: RunFolder, show: Shown, options: dict[str, Any]) -> list[Record]:
        """Measure the tests of a run folder; return its records."""
        return [*measure(self._bench, folder, show, options)]

    def _learn(self, tests: Sequence[Test]) -> None:
        unknown = {_path_of(test): test for test in tests if _path_of(test) not in self._paths}
        self._paths |= zip(unknown, self._ask([*unknown.values()]), strict=True)

    def _ask(self, tests: Sequence[Test]) -> list[Ability]:
        return [ability(test, self._probes) for test in tests]

    def _known_options(self, tests: Sequence[Test]) -> frozenset[str]:
        """Return the options that the kernels of the hosts of some tests are known to have; empty
        if they differ."""
        hosts = {name for test in tests for name in hosts_of(test) or (HOST.host,)}
        known = {kernel_options(self._hosts[host]) for host in hosts}
        return known.pop() if len(known) == 1 else frozenset()

    def _seen(self, planned_point: PlannedPoint) -> PlannedPoint:
        test = planned_point.test
        waits = self.find(test).waits if test is not None else ""
        if not waits:
            return planned_point
        return PlannedPoint(replace(planned_point.point, untold=f"{WAITING}{waits}"), None)


class Testbeds(ThisHost):
    """Uses the equal testbeds of a lab: asks them for their abilities, and lets them measure."""

    def __init__(self, hosts: Hosts, bench: LabBench) -> None:
        super().__init__(hosts, bench)
        self._lab = bench.lab
        answer = bench.lab.ask({"do": "abilities", "tests": []})
        self.cpus, self._options = answer["cpus"], frozenset(answer["kernel_options"])

    def _ask(self, tests: Sequence[Test]) -> list[Ability]:
        if not tests:
            return []
        request = {"do": "abilities", "tests": [test.model_dump(mode="json") for test in tests]}
        return [
            Ability(ability["waits"], tuple(ability["doubts"]), ability["mode"])
            for ability in self._lab.ask(request)["abilities"]
        ]

    def _known_options(self, tests: Sequence[Test]) -> frozenset[str]:
        return self._options


@contextmanager
def bench_of_papers(
    cluster: str | None, show: Shown, *, share_machine: bool, spread: bool
) -> Iterator[ThisHost]:
    """Yield the bench for experiments: this host, or the lab that `cluster` names."""
    with Hosts(OwnRun) as hosts:
        if cluster is None:
            yield ThisHost(hosts, HostBench(hosts, show.quiet))
            return
        with open_lab(cluster, share_machine=share_machine, spread=spread) as lab:
            yield Testbeds(hosts, lab)


def _path_of(test: Test) -> tuple[object, ...]:
    return tuple(getattr(test, name) for name in OF_THE_PATH)
