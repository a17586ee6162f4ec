"""This module runs a campaign: each test that is still missing, in the order of the seed, kept when
done.

It knows the lab by its protocol and prints nothing; who watches is told through `Progress`.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from switchmark.campaign.expand import run_order
from switchmark.campaign.store import RunFolder, key
from switchmark.errors import Interrupted, Unavailable, UsageError
from switchmark.machine.signals import interruptible
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test
from switchmark.model.visit import Visit
from switchmark.searches.max import r_plus

__all__ = ["Lab", "Progress", "is_independent", "run", "saturated", "time_left"]


class Lab(AbstractContextManager["Lab"], Protocol):
    """A lab measures tests; `lab.measure.Lab` is the real one."""

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return the versions that the test's figures depend on."""
        ...

    def visit(self, visit: Visit) -> Record | None:
        """Run a test. None if it wants more new repeats than the visit allows: their trials are
        `stored` the next time. Only Interrupted and what `on_trial` raises come out of it."""
        ...


class Progress(Protocol):
    """A progress is told what a run does, to show it. `position` counts from 1; `left_s` is None
    until there is something to judge it by."""

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None: ...
    def trial(self, result: TrialResult) -> None: ...
    def end(self, record: Record) -> None: ...


def run(folder: RunFolder, lab: Lab, progress: Progress) -> None:
    """Run what the folder's campaign has and its records lack; a test that failed is run again.

    Repeats go in rounds, one trial or one search of each test, so that a host that drifts does so
    for all of them alike: the first round in the order of the campaign's seed, each further one
    shuffled.
    Interrupted says how to go on.
    """
    tests, seed = folder.campaign.tests, folder.campaign.seed
    spent: list[tuple[Test, float]] = []
    known: dict[str, Record] = {}
    draw = random.Random(seed)
    try:
        with interruptible(), lab:
            todo = list(_missing(folder, lab))
            for round_ in itertools.count():
                left: list[_Missing] = []
                for position, missing in enumerate(todo):
                    test, started = tests[missing.index], time.monotonic()
                    apart = len(todo) > 1 and is_independent(test)
                    rest = _visits([tests[other.index] for other in todo[position:]], round_)
                    rest += _visits([tests[other.index] for other in left], round_ + 1)
                    done = len(spent) + 1
                    progress.begin(test, done, done + len(rest) - 1, time_left(spent, rest))
                    then = todo[position + 1] if position + 1 < len(todo) else None
                    record = _run_one(
                        folder, lab, progress, missing, then, known, 1 if apart else None
                    )
                    if record is None:
                        left.append(missing)
                    else:
                        progress.end(record)
                    spent.append((_visit_of(test, apart), time.monotonic() - started))
                if not left:
                    break
                left.sort(key=lambda missing: missing.index)
                order = run_order(
                    [tests[missing.index] for missing in left], draw.getrandbits(32) | 1
                )
                todo = [left[position] for position in order]
    except Interrupted as interruption:
        raise Interrupted(
            f"{interruption.message}: {folder.kept}\nresume with: {folder.resume_command}"
        ) from interruption


def is_independent(test: Test) -> bool:
    """Say whether other tests may come between the repeats of this one: its trials, or where it is
    searched its searches."""
    return test.repeat > 1 or test.until_certain is not None


def _visit_of(test: Test, apart: bool) -> Test:
    """Return what one visit of a test asks for."""
    return test.model_copy(update={"repeat": 1}) if apart else test


def _visits(tests: Sequence[Test], round_: int) -> list[Test]:
    """Return the visits that tests ask for from a round on, as far as that is known."""
    visits = []
    for test in tests:
        apart = is_independent(test)
        visits += [_visit_of(test, apart)] * (max(test.repeat - round_, 1) if apart else 1)
    return visits


def time_left(spent: Iterable[tuple[Test, float]], rest: Iterable[Test]) -> float | None:
    """Return the seconds that the tests of `rest` will take, if they exceed the time that they ask
    for as those before them did. A search of many trials is judged by the like of it."""
    by_search: dict[str, list[float]] = {}
    for test, seconds in spent:
        by_search.setdefault(test.search, []).append(seconds / _asked_s(test))
    if not by_search:
        return None
    ratios = {search: sum(each) / len(each) for search, each in by_search.items()}
    usual = sum(ratios.values()) / len(ratios)
    return sum(_asked_s(test) * ratios.get(test.search, usual) for test in rest)


@dataclass(frozen=True, slots=True)
class _Missing:
    """A test that has no good record yet: its index, the key of its results, and their versions."""

    index: int
    key: str
    versions: Mapping[str, str]


def _missing(folder: RunFolder, lab: Lab) -> Iterable[_Missing]:
    """Return each test without a good record."""
    tests = folder.campaign.tests
    for index in run_order(tests, folder.campaign.seed):
        try:
            versions = lab.versions(tests[index])
        except (Unavailable, UsageError):  # the lab will refuse this test, and say so in its record
            versions = {}
        result_key = key(tests[index], versions)
        if not folder.is_done(result_key):
            yield _Missing(index, result_key, versions)


def _run_one(
    folder: RunFolder,
    lab: Lab,
    progress: Progress,
    missing: _Missing,
    following: _Missing | None,
    known: dict[str, Record],
    limit: int | None,
) -> Record | None:
    """Run a test, or `limit` repeats more of it; None if that was not enough. `known` holds the
    records of tests that found an R+, by key."""
    tests = folder.campaign.tests
    test, result_key, versions = tests[missing.index], missing.key, missing.versions
    then = None if following is None else tests[following.index]

    def measure(
        key: str,
        test: Test,
        then: Test | None,
        r_plus_pps: float | None = None,
        limit: int | None = None,
    ) -> Record | None:
        def keep(trial: TrialResult) -> None:
            folder.append_trial(key, missing.index + 1, trial)
            progress.trial(trial)

        stored = tuple(trial for trial in folder.trials.get(key, ()) if not trial.evidence.testbed)
        return lab.visit(Visit(test, missing.index + 1, key, stored, keep, then, r_plus_pps, limit))

    reference_test = saturated(test)
    if reference_test is None:
        record = measure(result_key, test, then, limit=limit)
    else:
        # It has a key of its own, so that all its shares, and a resumed run, find it again.
        reference = key(reference_test, versions)
        before = known.get(reference) or folder.records.get(reference)
        if before is None or before.status != "ok":
            before = measure(reference, reference_test, test)
            assert before is not None  # it was not limited
            setup = {name: getattr(before, name) for name in ("reused", "setup_s", "start_s")}
        else:
            setup = {}
        if before.status == "ok":
            known[reference] = before
            record = measure(result_key, test, then, r_plus(before), limit)
            if record is not None and record.reused:  # what set it up was on behalf of this test
                record = record.model_copy(update=setup)
        else:
            error = f"R+, of which {test.rate} was asked, was not found: {before.error}"
            record = before.model_copy(update={"key": result_key, "test": test, "error": error})
    if record is not None:
        record = folder.append_record(record, versions)
    return record


def saturated(test: Test) -> Test | None:
    """Return the test that finds the R+ which this one's rate is a share of; None if it is of
    none."""
    if test.parsed_rate.share is None:
        return None
    axes = test.model_dump() | {"rate": "max", "search": "max"}
    if test.dimension == "latency":
        del axes["burst"]  # the usual one of throughput
        axes["dimension"] = "throughput"
    return Test.model_validate(axes)


def _asked_s(test: Test) -> float:
    return (test.warmup + test.duration) * test.repeat
