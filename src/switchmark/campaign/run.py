"""The run of a campaign: it measures each missing test in the order of the agenda and stores the
results. The same loop runs on this host and on the testbeds of a lab.

This module knows the lab by its protocol and prints nothing; observers use `Progress`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Protocol

from switchmark.campaign.expand import run_order
from switchmark.campaign.rounds import HERE, Agenda, Item, compared_with, groups, not_in_turn
from switchmark.campaign.store import RunFolder, key
from switchmark.errors import Interrupted, Unavailable, UsageError
from switchmark.hosts.signals import interruptible
from switchmark.model.record import LOOKS, Record, TrialResult, one_at_a_time
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.max import r_plus

_LOSSES = 3
"""The number of lost testbeds after which a test is given up, because it may cause the losses."""

LONGEST_REFERENCE_S = 10.0
"""The longest trial for an R+ of which a rate is a share: a run of hours does not take twice as
long."""

_ON_A_LAB = "the testbeds of a lab measure a test at a time"


class AnyLab(AbstractContextManager["AnyLab"], Protocol):
    """A lab that measures tests; `lab.measure.Lab` is the real implementation."""

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return the versions that the test's figures depend on."""
        ...

    def visit(self, visit: Visit) -> Record | None:
        """Run a test. Return None if it needs more new repeats than the visit allows; their trials
        are `stored` for the next visit. Only Interrupted and exceptions of `on_trial` leave this
        method."""
        ...


class Progress(Protocol):
    """An observer of a run. `position` counts from 1; `left_s` is None until an estimate is
    possible."""

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None: ...
    def trial(self, result: TrialResult) -> None: ...
    def end(self, record: Record) -> None: ...


@dataclass(frozen=True, slots=True)
class Visited:
    """The end of a visit."""

    item: Item
    """The round of a test that was visited."""
    record: Record | None = None
    """The record of the test; None if it needs more repeats, or if its testbed was lost."""
    lost: str = ""
    """The reason for the loss of the testbed; empty if it was not lost."""
    fault: int = 0
    """The number of testbed deaths that the test is responsible for."""


class Places(Protocol):
    """Places that measure one visit at a time: this host, or the testbeds of a lab."""

    def names(self) -> Collection[str]:
        """Return the current places. Raise Unavailable if none will come."""
        ...

    def send(self, item: Item, visit: Visit) -> None:
        """Start a visit at the item's place."""
        ...

    def ended(self) -> Visited | None:
        """Wait for the end of a visit, and report its trials first; None if no visit ended in
        time."""
        ...


class LocalPlace:
    """This host as a place: its lab measures a visit in `ended`."""

    def __init__(self, lab: AnyLab) -> None:
        self._lab = lab
        self._sent: list[tuple[Item, Visit]] = []

    def names(self) -> Collection[str]:
        return (HERE,)

    def send(self, item: Item, visit: Visit) -> None:
        self._sent.append((item, visit))

    def ended(self) -> Visited | None:
        item, visit = self._sent.pop()
        return Visited(item, self._lab.visit(visit))


Needed = Callable[[Sequence[Record], Sequence[Record], int], int]
"""A function that returns how many repeats, up to a limit, would decide how records of a run differ
(see `metrics.family.further_repeats`)."""


def run(folder: RunFolder, lab: AnyLab, progress: Progress, needed: Needed | None = None) -> None:
    """Run the tests of the folder's campaign that have no record yet, on this host; failed tests
    run again. Undecided comparisons continue to the repeats that `needed` returns, up to the limit
    of the campaign or the folder. Interrupted tells the user how to resume."""

    def versions(test: Test) -> Mapping[str, str]:
        try:
            return lab.versions(test)
        except (Unavailable, UsageError):  # the lab will refuse this test and record the reason
            return {}

    with resumable(folder, Interrupted), interruptible(), lab:
        rounds = Rounds(folder, LocalPlace(lab), progress, versions)
        missing = rounds.missing()
        if folder.until_decided is not None:
            _refuse_other_versions(folder, missing)
        rounds.go(missing)
        while needed is not None and (further := rounds.undecided(needed)):
            rounds.go(further)


def _refuse_other_versions(folder: RunFolder, missing: Sequence[Item]) -> None:
    """Raise UsageError if other versions would force finished tests to run again."""
    measured = {record.test: record for record in folder.latest if record.status == "ok"}
    for item in missing:
        if (record := measured.get(item.test)) is not None:
            versions = record.origin.versions if record.origin else {}
            names = sorted({*versions, *item.versions})
            apart = [name for name in names if versions.get(name) != item.versions.get(name)]
            differences = (
                f"{name} {versions.get(name)}, now {item.versions.get(name)}" for name in apart
            )
            raise UsageError(
                f"{folder.path} was measured with other versions: {'; '.join(differences)}",
                hint=f"a new run: switchmark run {folder.path}/campaign.yaml",
            )


@contextmanager
def resumable(folder: RunFolder, *ends: type[Interrupted] | type[Unavailable]) -> Iterator[None]:
    """Add the finished tests and the command that resumes the run to the message of errors that end
    it."""
    try:
        yield
    except ends as error:
        message = f"{error.message}: {folder.kept}\nresume with: {folder.resume_command}"
        raise type(error)(message, hint=error.hint) from error


class Rounds:
    """The rounds of one run at some places. A lab's rounds are `shared`, and may `spread` the
    repeats of a test over its testbeds."""

    def __init__(
        self,
        folder: RunFolder,
        places: Places,
        progress: Progress,
        versions: Callable[[Test], Mapping[str, str]],
        *,
        shared: bool = False,
        spread: bool = False,
    ) -> None:
        self._folder, self._places, self._progress = folder, places, progress
        self._versions, self._shared, self._spread = versions, shared, spread
        self._tests, self._seed = folder.campaign.tests, folder.campaign.seed
        self._not_in_turn = not_in_turn(self._tests, _ON_A_LAB if shared else None)
        self._peers = compared_with(self._tests)
        self._references: dict[str, Item] = {}
        self._agenda = Agenda([])
        self._begun: dict[Item, float] = {}
        self._spent: list[tuple[Test, float]] = []
        self._visits = 0

    def missing(self) -> list[Item]:
        """Return the tests without a good record, in the order of the seed."""
        items = [
            self._item(index, self._tests[index], self._versions(self._tests[index]))
            for index in run_order(self._tests, self._seed)
        ]
        return [item for item in items if not self._folder.is_done(item.key)]

    def undecided(self, needed: Needed) -> list[Item]:
        """Return the tests of each undecided group, with the number of repeats that would probably
        decide; none if no allowed number would."""
        tests, further = self._tests, list[Item]()
        by_test = {record.test: record for record in self._folder.latest if record.status == "ok"}
        for group in groups(tests):
            records = {index: by_test[tests[index]] for index in group if tests[index] in by_test}
            looks = max(
                (record.turns.looks for record in records.values() if record.turns), default=LOOKS
            )
            limit = self._folder.until_decided or tests[group[0]].until_decided
            if limit is None or looks >= LOOKS:
                continue
            repeats = needed([*by_test.values()], [*records.values()], limit)
            for index, record in records.items() if repeats else ():
                test = tests[index].model_copy(update={"repeat": repeats})
                further.append(self._item(index, test, self._versions(tests[index]), record.key))
                further[-1].looks = looks + 1
        return further

    def go(self, items: Sequence[Item]) -> None:
        """Measure items: each free place takes its next item."""
        agenda = self._agenda = Agenda(
            items, seed=self._seed, shared=self._shared, spread=self._spread
        )
        while agenda.left:
            places = self._places.names()
            busy = {item.testbed for item in self._begun}
            for place in sorted(set(places) - busy):
                if (item := agenda.next(place, places)) is not None:
                    self._send(item, places)
            if (visited := self._places.ended()) is not None:
                self._land(visited)

    def _item(
        self, index: int, test: Test, versions: Mapping[str, str], result_key: str = ""
    ) -> Item:
        item = Item(index, test, result_key or key(test, versions), versions)
        trials = self._folder.trials.get(item.key, ())
        item.repeats = repeats_of_trials(test, trials)
        item.round = max((trial.round or 0 for trial in trials), default=0)
        item.needs = tuple(self._needs(index, versions))
        return item

    def _needs(self, index: int, versions: Mapping[str, str]) -> Iterator[Item]:
        """Yield the references of a test's rate, its own first. Compared outage tests have the same
        rate, so each needs the references of all."""
        test = self._tests[index]
        if (reference := saturated(test)) is None:
            return
        yield self._reference(index, reference, versions)
        for other in self._peers.get(index, ()) if test.dimension == "outage" else ():
            if other != index and (reference := saturated(self._tests[other])) is not None:
                yield self._reference(other, reference, self._versions(self._tests[other]))

    def _reference(self, index: int, test: Test, versions: Mapping[str, str]) -> Item:
        """Return the test that finds an R+. It has a separate key, so that all shares of this R+
        and a resumed run find it again."""
        result_key = key(test, versions)
        if result_key not in self._references:
            reference = Item(index, test, result_key, versions, is_reference=True)
            before = self._folder.records.get(result_key)
            if before is not None and before.status == "ok":
                reference.done, reference.r_plus_pps = True, r_plus(before)
            self._references[result_key] = reference
        return self._references[result_key]

    def _send(self, item: Item, places: Collection[str]) -> None:
        def keep(trial: TrialResult) -> None:
            self._folder.append_trial(item.key, item.index + 1, trial)
            self._progress.trial(trial)

        stored = self._folder.trials.get(item.key, ())
        visit = Visit(
            item.test,
            number=item.index + 1,
            key=item.key,
            stored=tuple(t for t in stored if self._agenda.goes_on_with(item, t.evidence.testbed)),
            on_trial=keep,
            on_intervals=partial(self._folder.append_intervals, item.key, item.index + 1),
            then=self._agenda.then(item, places),
            r_plus_pps=item.reference_pps,
            limit=item.limit,
            among=item.among,
            round=max(item.round, item.first_round) if item.first_round else None,
        )
        if not self._shared:  # a lab shows each test at its end
            self._show(item.wanted_by or item)
        self._begun[item] = time.monotonic()
        self._places.send(item, visit)

    def _land(self, visited: Visited) -> None:
        item, record = visited.item, visited.record
        seconds = time.monotonic() - self._begun.pop(item)
        if visited.lost:
            self._agenda.lost(item)
            item.lost += visited.fault
            if item.lost >= _LOSSES:
                self._end(item, _given_up(item, visited.lost))
            return
        if item.limit != 0:
            self._spent.append((item.visits[0], seconds))
        item.repeats = repeats_of_trials(item.test, self._folder.trials.get(item.key, ()))
        if item.is_reference:
            assert record is not None  # it had no limit
            self._end_reference(item, record)
        elif record is not None:
            if record.reused:  # the reference's set-up was on behalf of this test
                record = record.model_copy(update=item.set_up)
            self._end(item, record)
        else:
            self._visits += item.limit != 0
            self._agenda.landed(item, is_done=False)
        item.set_up = {}

    def _end_reference(self, item: Item, record: Record) -> None:
        """Store an R+ for the tests that need it. If the search for it failed, the test that needed
        it fails as well; the next test searches again. A compared switch without an R+ does not
        limit the rate of the others."""
        found, test = record.status == "ok", item.wanted_by
        assert test is not None
        self._agenda.landed(item, is_done=found)
        if not found and item is not test.needs[0]:
            item.passed_over = True
            return
        if found:
            item.r_plus_pps = r_plus(record)
            test.set_up = {name: getattr(record, name) for name in ("reused", "setup_s", "start_s")}
        else:
            error = f"R+, of which {test.test.rate} was asked, was not found: {record.error}"
            of_test = {"key": test.key, "test": test.test, "error": error}
            self._end(test, record.model_copy(update=of_test))

    def _end(self, item: Item, record: Record) -> None:
        """Store the record of a test."""
        if item.is_reference:
            self._end_reference(item, record)
            return
        if self._shared:
            self._show(item)
        self._visits += item.limit != 0
        self._agenda.landed(item, is_done=True)
        if why := self._not_in_turn.get(item.test):
            record = record.model_copy(update={"turns": one_at_a_time(why)})
        if item.looks is not None:
            turns = record.turns and record.turns.model_copy(update={"looks": item.looks})
            record = record.model_copy(update={"test": self._tests[item.index], "turns": turns})
        record = self._folder.append_record(record, item.versions)
        if record.status == "ok" and (reference := self._references.get(item.key)) is not None:
            reference.done, reference.r_plus_pps = True, r_plus(record)
        self._progress.end(record)

    def _show(self, item: Item) -> None:
        """Show the number of the current visit among all visits, and the remaining time."""
        rest = [visit for item in self._agenda.left for visit in item.visits]
        left_s = time_left(self._spent, rest)
        if left_s is not None:
            left_s /= max(1, len(self._places.names()))
        number = self._visits + 1
        self._progress.begin(item.test, number, number + len(rest) - 1, left_s)


def repeats_of_trials(test: Test, trials: Iterable[TrialResult]) -> Counter[str]:
    """Return the number of repeats in stored trials of a test, by testbed: each trial is a repeat,
    or all trials of a search together are."""
    by_testbed = [(trial.evidence.testbed, trial.spec.repeat) for trial in trials]
    counted = by_testbed if SEARCHES[test.search].independent else set(by_testbed)
    return Counter(testbed for testbed, _ in counted)


def time_left(spent: Iterable[tuple[Test, float]], rest: Iterable[Test]) -> float | None:
    """Return the seconds that `rest` will take, judged by the tests before it; None if there are
    none.

    A test of independent trials takes its requested time and what such tests took in addition, so
    that a long trial is not stretched by the set-up of a short one. The trials of another search
    are a multiple of the requested time. A search that has not run yet takes the multiple of all.
    """
    extra_s: list[float] = []
    by_search: dict[str, list[float]] = {}
    for test, seconds in spent:
        by_search.setdefault(test.search, []).append(seconds / _asked_s(test))
        if _has_own_trials(test):
            extra_s.append(seconds - _asked_s(test))
    if not by_search:
        return None
    ratios = {search: fmean(values) for search, values in by_search.items()}
    usual = fmean(ratios.values())
    return sum(
        max(0.0, _asked_s(test) + fmean(extra_s))
        if extra_s and _has_own_trials(test)
        else _asked_s(test) * ratios.get(test.search, usual)
        for test in rest
    )


def _has_own_trials(test: Test) -> bool:
    search = SEARCHES.get(test.search)
    return search is not None and search.independent


def saturated(test: Test) -> Test | None:
    """Return the test that finds the R+ of a rate that is a share; None if it is not."""
    if test.parsed_rate.share is None:
        return None
    axes = test.model_dump() | {"rate": "max", "search": "max", "event": None, "interval": None}
    axes["duration"] = min(test.duration, LONGEST_REFERENCE_S)
    if test.dimension != "throughput":
        del axes["burst"]  # the default of throughput applies
        axes["dimension"] = "throughput"
    return Test.model_validate(axes)


def _asked_s(test: Test) -> float:
    return (test.warmup + test.duration) * test.repeat


def _given_up(item: Item, reason: str) -> Record:
    return Record(
        key=item.key,
        number=item.index + 1,
        status="failed",
        error=f"{_LOSSES} testbeds were lost while they measured it, the last: {reason}",
        test=item.test,
        r_plus_pps=None,
        started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    )
