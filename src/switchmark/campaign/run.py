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
from switchmark.searches.max import r_plus

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
        *,
        then: Test | None = None,
        r_plus_pps: float | None = None,
    ) -> Record:
        """Run one test; `then` is the next one, `r_plus_pps` what its rate is a share of. Only
        Interrupted and what `on_trial` raises come out of it."""
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
    known: dict[str, Record] = {}
    try:
        with interruptible(), lab:
            todo = list(_missing(folder, lab))
            for position, (index, found, versions) in enumerate(todo):
                test, started = tests[index], time.monotonic()
                rest = [tests[later] for later, _, _ in todo[position:]]
                progress.begin(test, position + 1, len(todo), time_left(spent, rest))
                then = rest[1] if len(rest) > 1 else None
                progress.end(_run_one(folder, lab, progress, index, found, versions, then, known))
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
    then: Test | None,
    known: dict[str, Record],
) -> Record:
    """`known` holds the records of tests that found an R+, by key."""
    test = folder.campaign.tests[index]

    def measure(key: str, test: Test, then: Test | None, r_plus_pps: float | None = None) -> Record:
        def keep(trial: TrialResult) -> None:
            folder.append_trial(key, index + 1, trial)
            progress.trial(trial)

        stored = tuple(folder.trials.get(key, ()))
        return lab.run(index + 1, key, test, stored, keep, then=then, r_plus_pps=r_plus_pps)

    saturated = _saturated(test)
    if saturated is None:
        record = measure(found, test, then)
    else:
        # It has a key of its own, so that all its shares, and a resumed run, find it again.
        reference = key(saturated, versions)
        before = known.get(reference) or folder.records.get(reference)
        if before is None or before.status != "ok":
            before = measure(reference, saturated, test)
            setup = {"reused": before.reused, "setup_s": before.setup_s}
        else:
            setup = {}
        if before.status == "ok":
            known[reference] = before
            record = measure(found, test, then, r_plus(before))
            if record.reused:  # what set it up was on behalf of this test
                record = record.model_copy(update=setup)
        else:
            error = f"R+, of which {test.rate} was asked, was not found: {before.error}"
            record = before.model_copy(update={"key": found, "test": test, "error": error})
    folder.append_record(record, versions)
    return record


def _saturated(test: Test) -> Test | None:
    """The test that finds the R+ which this one's rate is a share of; None if it is of none."""
    if test.parsed_rate.share is None:
        return None
    axes = test.model_dump() | {"rate": "max", "search": "max"}
    if test.dimension == "latency":
        del axes["burst"]  # the usual one of throughput
        axes["dimension"] = "throughput"
    return Test.model_validate(axes)


def _asked_s(test: Test) -> float:
    return (test.warmup + test.duration) * test.repeat
