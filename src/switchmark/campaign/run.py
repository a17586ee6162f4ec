"""This module runs a campaign: each test that is still missing, in the order of the seed, kept when
done.

It knows the lab by its protocol and prints nothing; who watches is told through `Progress`.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from switchmark.campaign.expand import run_order
from switchmark.campaign.rounds import groups, is_independent, not_in_turn, order_of_round
from switchmark.campaign.store import RunFolder, key
from switchmark.errors import Interrupted, Unavailable, UsageError
from switchmark.hosts.signals import interruptible
from switchmark.model.record import LOOKS, Record, TrialResult, one_at_a_time
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.path.sharing import shares_path
from switchmark.searches.max import r_plus


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


Needed = Callable[[Sequence[Record], Sequence[Record], int], int]
"""Returns how many repeats, of so many at most, would decide how some records of a run differ: see
`metrics.family.further_repeats`."""


def run(folder: RunFolder, lab: Lab, progress: Progress, needed: Needed | None = None) -> None:
    """Run what the folder's campaign has and its records lack; a test that failed is run again.

    Tests that are compared in turn (`campaign.rounds`) are run to their end together, a group after
    the other: one repeat of each, a trial or a search, in each round. The repeats of all others go
    in rounds too, so that a host that drifts does so for all of them alike: the first round in the
    order of the campaign's seed, each further one shuffled. What is to be decided goes on to the
    repeats that are `needed`. Interrupted says how to go on.
    """
    try:
        with interruptible(), lab:
            run = _Run(folder, lab, progress)
            run.go(list(_missing(folder, lab)))
            while needed is not None and (further := list(_undecided(folder, lab, needed))):
                run.go(further)
    except Interrupted as interruption:
        raise Interrupted(
            f"{interruption.message}: {folder.kept}\nresume with: {folder.resume_command}"
        ) from interruption


class _Run:
    """One run of what is missing. `known` holds the records of tests that found an R+, by key."""

    def __init__(self, folder: RunFolder, lab: Lab, progress: Progress) -> None:
        self._folder, self._lab, self._progress = folder, lab, progress
        self._tests, self._seed = folder.campaign.tests, folder.campaign.seed
        self._known: dict[str, Record] = {}
        self._spent: list[tuple[Test, float]] = []
        self._not_in_turn = not_in_turn(self._tests)

    def go(self, missing: Sequence[_Missing]) -> None:
        """Run tests: group by group, and in the place of their first one those of no group."""
        of_group = {
            position: group
            for group in groups([self._test(each) for each in missing])
            for position in group
        }
        sections: dict[tuple[int, ...], list[_Missing]] = {}
        for position, each in enumerate(missing):
            sections.setdefault(of_group.get(position, ()), []).append(each)
        waiting = list(sections.items())
        while waiting:
            (group, section), *waiting = waiting
            later = [each for _, others in waiting for each in others]
            if group:
                following = waiting[0][1] if waiting and waiting[0][0] else []
                self._in_turn(section, following, later)
            else:
                self._one_by_one(section, later)

    def _one_by_one(self, todo: list[_Missing], later: Sequence[_Missing]) -> None:
        """Run tests that are not compared in turn, their repeats in rounds."""
        draw = random.Random(self._seed)
        several = len(todo) > 1
        for round_ in itertools.count():
            left: list[_Missing] = []
            for position, missing in enumerate(todo):
                apart = several and is_independent(self._test(missing))
                rest = [*self._visits(todo[position:], round_), *self._visits(left, round_ + 1)]
                then = todo[position + 1] if position + 1 < len(todo) else None
                if not self._visit(
                    missing, [*rest, *self._visits(later)], then, limit=1 if apart else None
                ):
                    left.append(missing)
            if not left:
                break
            left.sort(key=lambda missing: missing.index)
            order = run_order([self._test(missing) for missing in left], draw.getrandbits(32) | 1)
            todo = [left[position] for position in order]

    def _in_turn(
        self, group: list[_Missing], following: Sequence[_Missing], later: Sequence[_Missing]
    ) -> None:
        """Run tests that are compared in turn, round by round. A run that goes on begins a new
        round: what was measured before is no moment away from what is measured now."""
        group = sorted(group, key=lambda missing: missing.index)
        among = tuple(self._test(missing) for missing in group)
        left = list(group)
        first = 1 + max(self._last_round(missing) for missing in group)
        for missing in group:  # what takes long comes before the first round, not within it
            rest = [*self._visits(group), *self._visits(later)]
            if self._visit(missing, rest, None, limit=0, among=among, round_=first):
                left.remove(missing)
        for round_ in itertools.count(first):
            order = order_of_round(len(group), round_, self._seed, group[0].index)
            todo = [group[position] for position in order if group[position] in left]
            for position, missing in enumerate(todo):
                rest = [
                    *self._visits(todo[position:], round_ - first),
                    *self._visits(
                        [m for m in left if m not in todo[position:]], round_ + 1 - first
                    ),
                    *self._visits(later),
                ]
                then = next((each for each in following if self._share(missing, each)), None)
                if self._visit(missing, rest, then, limit=1, among=among, round_=round_):
                    left.remove(missing)
            if not left:
                break

    def _visit(
        self,
        missing: _Missing,
        rest: Sequence[Test],
        then: _Missing | None,
        *,
        limit: int | None,
        among: tuple[Test, ...] = (),
        round_: int | None = None,
    ) -> bool:
        """Run a test, or `limit` repeats more of it; say whether it is done.
        `rest` are the visits that are left, this one too."""
        test, started = self._test(missing), time.monotonic()
        done = len(self._spent) + 1
        self._progress.begin(test, done, done + len(rest) - 1, time_left(self._spent, rest))
        how = _How(limit, among, round_, self._not_in_turn.get(test))
        record = _run_one(self._folder, self._lab, self._progress, missing, then, self._known, how)
        if record is not None:
            self._progress.end(record)
        if limit != 0:
            self._spent.append((_visit_of(test, limit == 1), time.monotonic() - started))
        return record is not None

    def _test(self, missing: _Missing) -> Test:
        return missing.visited(self._tests)

    def _visits(self, some: Sequence[_Missing], round_: int = 0) -> list[Test]:
        return _visits([self._test(missing) for missing in some], round_)

    def _last_round(self, missing: _Missing) -> int:
        """Return the last round that a test has a trial of; 0 if it has none."""
        trials = self._folder.trials.get(missing.key, ())
        return max((trial.round or 0 for trial in trials), default=0)

    def _share(self, one: _Missing, other: _Missing) -> bool:
        return shares_path(self._test(one), self._test(other))


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
class _How:
    """How a test is visited: how many new repeats it may have, among which tests it is measured in
    turn, and in which round; or why it is in turn with none of those that it is compared with."""

    limit: int | None = None
    among: tuple[Test, ...] = ()
    round: int | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class _Missing:
    """A test that has no good record yet: its index, the key of its results, and their versions; or
    one that is to have more repeats than it asks for, as it is not decided by those, with how often
    it will have been judged then."""

    index: int
    key: str
    versions: Mapping[str, str]
    repeat: int | None = None
    looks: int = 1

    def visited(self, tests: Sequence[Test]) -> Test:
        """Return the test as the lab is to run it."""
        test = tests[self.index]
        return test if self.repeat is None else test.model_copy(update={"repeat": self.repeat})


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


def _undecided(folder: RunFolder, lab: Lab, needed: Needed) -> Iterable[_Missing]:
    """Return the tests of each group of which some are neither told apart nor shown to be the same,
    with the repeats that would probably decide; none where no number would that is allowed."""
    tests = folder.campaign.tests
    by_test = {record.test: record for record in folder.latest if record.status == "ok"}
    for group in groups(tests):
        records = {at: by_test[tests[at]] for at in group if tests[at] in by_test}
        looks = max((each.turns.looks for each in records.values() if each.turns), default=LOOKS)
        limit = tests[group[0]].until_decided
        if limit is None or looks >= LOOKS:
            continue
        repeats = needed([*by_test.values()], [*records.values()], limit)
        for at, record in records.items() if repeats else ():
            yield _Missing(at, record.key, lab.versions(tests[at]), repeats, looks + 1)


def _run_one(
    folder: RunFolder,
    lab: Lab,
    progress: Progress,
    missing: _Missing,
    following: _Missing | None,
    known: dict[str, Record],
    how: _How,
) -> Record | None:
    """Run a test, or as many repeats more of it as it may have; None if that was not enough.
    `known` holds the records of tests that found an R+, by key."""
    tests = folder.campaign.tests
    test, result_key, versions = missing.visited(tests), missing.key, missing.versions
    then = None if following is None else tests[following.index]

    def measure(
        key: str,
        test: Test,
        then: Test | None,
        r_plus_pps: float | None = None,
        how: _How = how,
    ) -> Record | None:
        def keep(trial: TrialResult) -> None:
            folder.append_trial(key, missing.index + 1, trial)
            progress.trial(trial)

        stored = tuple(trial for trial in folder.trials.get(key, ()) if not trial.evidence.testbed)
        visit = Visit(test, missing.index + 1, key, stored, keep, then, r_plus_pps, how.limit)
        return lab.visit(replace(visit, among=how.among, round=how.round))

    reference_test = saturated(test)
    if reference_test is None:
        record = measure(result_key, test, then)
    else:
        # It has a key of its own, so that all its shares, and a resumed run, find it again.
        reference = key(reference_test, versions)
        before = known.get(reference) or folder.records.get(reference)
        if before is None or before.status != "ok":
            # Whole, though on the path that stays up for its share.
            whole = replace(how, limit=None, round=None)
            before = measure(reference, reference_test, test, how=whole)
            assert before is not None  # it was not limited
            setup = {name: getattr(before, name) for name in ("reused", "setup_s", "start_s")}
        else:
            setup = {}
        if before.status == "ok":
            known[reference] = before
            record = measure(result_key, test, then, r_plus(before))
            if record is not None and record.reused:  # what set it up was on behalf of this test
                record = record.model_copy(update=setup)
        else:
            error = f"R+, of which {test.rate} was asked, was not found: {before.error}"
            record = before.model_copy(update={"key": result_key, "test": test, "error": error})
    if record is not None and how.why_not is not None:
        record = record.model_copy(update={"turns": one_at_a_time(how.why_not)})
    if record is not None and missing.repeat is not None:
        turns = record.turns and record.turns.model_copy(update={"looks": missing.looks})
        record = record.model_copy(update={"test": tests[missing.index], "turns": turns})
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
