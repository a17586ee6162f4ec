"""The loop of a run: each test that is still missing, in the order of the seed, kept when done.

Knows the lab by its protocol and prints nothing; who watches is told through `Progress`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from switchmark.campaign.expand import run_order
from switchmark.campaign.store import RunFolder, key
from switchmark.errors import Interrupted, Unavailable
from switchmark.machine.signals import interruptible
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test

__all__ = ["Lab", "Progress", "run", "time_left"]


class Lab(AbstractContextManager["Lab"], Protocol):
    """Where tests are measured; `campaign.measure.Lab` is the real one."""

    def versions(self, test: Test) -> Mapping[str, str]:
        """The versions that the test's figures depend on."""
        ...

    def run(
        self,
        number: int,
        key: str,
        test: Test,
        stored: Sequence[TrialResult],
        on_trial: Callable[[TrialResult], None],
    ) -> Record:
        """Run one test. Only Interrupted and what `on_trial` raises come out of it."""
        ...


class Progress(Protocol):
    """Who watches a run. `position` counts from 1; `left_s` is None until there is something to
    judge it by."""

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None: ...
    def trial(self, result: TrialResult) -> None: ...
    def end(self, record: Record) -> None: ...


def run(folder: RunFolder, lab: Lab, progress: Progress) -> None:
    """Run what the folder's campaign has and its records lack; a test that failed is run again.

    Interrupted says how to go on.
    """
    tests = folder.campaign.tests
    spent: list[tuple[Test, float]] = []
    try:
        with interruptible(), lab:
            todo = list(_missing(folder, lab))
            for position, (index, found, versions) in enumerate(todo):
                test, started = tests[index], time.monotonic()
                rest = [tests[later] for later, _, _ in todo[position:]]
                progress.begin(test, position + 1, len(todo), time_left(spent, rest))
                progress.end(_run_one(folder, lab, progress, index, found, versions))
                spent.append((test, time.monotonic() - started))
    except Interrupted as interruption:
        done = sum(record.status == "ok" for record in folder.latest)
        raise Interrupted(
            f"{interruption.message}: {done} of {len(tests)} tests are done and kept\n"
            f"resume with: {folder.resume_command}"
        ) from interruption


def time_left(spent: Iterable[tuple[Test, float]], rest: Iterable[Test]) -> float | None:
    """Seconds that the tests of `rest` will take, if they exceed the time that they ask for as
    those before them did. A search of many trials is judged by the like of it."""
    by_search: dict[str, list[float]] = {}
    for test, seconds in spent:
        by_search.setdefault(test.search, []).append(seconds / _asked_s(test))
    if not by_search:
        return None
    ratios = {search: sum(each) / len(each) for search, each in by_search.items()}
    usual = sum(ratios.values()) / len(ratios)
    return sum(_asked_s(test) * ratios.get(test.search, usual) for test in rest)


def _missing(folder: RunFolder, lab: Lab) -> Iterable[tuple[int, str, Mapping[str, str]]]:
    """Index, key and versions of each test without a good record."""
    tests = folder.campaign.tests
    for index in run_order(tests, folder.campaign.seed):
        try:
            versions = lab.versions(tests[index])
        except Unavailable:  # the lab will refuse this test, and say so in its record
            versions = {}
        found = key(tests[index], versions)
        if not folder.is_done(found):
            yield index, found, versions


def _run_one(
    folder: RunFolder,
    lab: Lab,
    progress: Progress,
    index: int,
    found: str,
    versions: Mapping[str, str],
) -> Record:
    def keep(trial: TrialResult) -> None:
        folder.append_trial(found, index + 1, trial)
        progress.trial(trial)

    stored = tuple(folder.trials.get(found, ()))
    record = lab.run(index + 1, found, folder.campaign.tests[index], stored, keep)
    folder.append_record(record, versions)
    return record


def _asked_s(test: Test) -> float:
    return (test.warmup + test.duration) * test.repeat
