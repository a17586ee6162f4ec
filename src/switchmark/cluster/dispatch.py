"""This module runs a campaign on the testbeds of a lab: each gets one visit at a time, and what
comes back is kept as in a run of one host.

It knows the lab by its protocol and prints nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from switchmark.campaign.expand import run_order
from switchmark.campaign.rounds import is_independent, not_in_turn
from switchmark.campaign.run import Progress, saturated, time_left
from switchmark.campaign.store import RunFolder, key
from switchmark.cluster.agenda import Agenda, Item
from switchmark.cluster.wire import Content, as_record, as_request, as_trials
from switchmark.errors import Interrupted, Unavailable
from switchmark.hosts.signals import interruptible
from switchmark.model.record import Record, TrialResult, one_at_a_time
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.max import r_plus

_LOSSES = 3
"""After as many lost testbeds a test is given up: it may be what ends them."""

_WAIT_S = 60.0
"""For a testbed, or for the scheduler to come back, while nothing is measured."""


_WHY_NOT = "the testbeds of a lab measure a test at a time"


@dataclass(frozen=True, slots=True)
class Landed:
    """A visit has ended: at this testbed with this answer; or it is lost for a reason, of which the
    test is to `blame` for as many deaths of testbeds."""

    ticket: Item
    testbed: str
    answer: Content | None = None
    lost: str = ""
    blame: int = 0


class Lab(Protocol):
    """A lab has testbeds by name, and hands them visits."""

    def testbeds(self) -> Collection[str]:
        """Return the testbeds that there are now; none while there is no scheduler."""
        ...

    def send(self, item: Item, request: Content) -> None:
        """Send a visit to be measured at the testbed that the item is at."""
        ...

    def landed(self, timeout_s: float) -> Landed | None:
        """Return a visit that has ended, of those sent; None if there is none in time."""
        ...

    def shares(self, testbed: str) -> bool:
        """Say whether another testbed is on the same machine."""
        ...


def run(
    folder: RunFolder,
    lab: Lab,
    progress: Progress,
    versions: Sequence[Mapping[str, str]],
    options: Content,
    *,
    spread: bool = False,
    wait_s: float = _WAIT_S,
) -> None:
    """Run what the folder's campaign has and its records lack. `versions` are those of each of its
    tests, on all testbeds. Interrupted and Unavailable say how to go on."""
    agenda = Agenda(
        list(_items(folder, versions, spread)), seed=folder.campaign.seed, spread=spread
    )
    try:
        with interruptible():
            _Run(folder, lab, progress, agenda, options, spread).go(wait_s)
    except (Interrupted, Unavailable) as error:
        told = f"{error.message}: {folder.kept}"
        raise type(error)(f"{told}\nresume with: {folder.resume_command}") from error


def _items(
    folder: RunFolder, versions: Sequence[Mapping[str, str]], spread: bool
) -> Iterator[Item]:
    """Yield each test without a good record, after the one that finds its R+."""
    tests = folder.campaign.tests
    order = run_order(tests, folder.campaign.seed)
    keys = [key(test, got) for test, got in zip(tests, versions, strict=True)]
    missing = [index for index in order if not folder.is_done(keys[index])]
    references: dict[str, Item] = {}
    for position, index in enumerate(missing):
        test = tests[index]
        apart = (spread or len(missing) > 1) and is_independent(test)
        item = Item(index, test, keys[index], versions[index], position, apart=apart)
        if (reference := saturated(test)) is not None:
            result_key = key(reference, versions[index])
            if result_key not in references:
                got = Item(
                    index, reference, result_key, versions[index], position, is_reference=True
                )
                before = folder.records.get(result_key)
                if before is not None and before.status == "ok":
                    got.done, got.r_plus_pps = True, r_plus(before)
                references[result_key] = got
                yield got
            item.needs = references[result_key]
        item.repeats = _repeats(item.test, folder.trials.get(item.key, ()))
        yield item


class _Run:
    """One run of an agenda."""

    def __init__(
        self,
        folder: RunFolder,
        lab: Lab,
        progress: Progress,
        agenda: Agenda,
        options: Content,
        spread: bool,
    ) -> None:
        self._folder, self._lab, self._progress, self._agenda = folder, lab, progress, agenda
        self._options, self._spread = options, spread
        self._begun: dict[Item, float] = {}
        self._spent: list[tuple[Test, float]] = []
        self._failed: dict[str, Record] = {}
        self._not_in_turn = not_in_turn(folder.campaign.tests, _WHY_NOT)

    def go(self, wait_s: float) -> None:
        idle_since = time.monotonic()
        while self._agenda.left:
            testbeds = self._lab.testbeds()
            busy = {item.at for item in self._begun}
            for name in sorted(set(testbeds) - busy):
                if item := self._agenda.next(name, testbeds):
                    self._send(item, testbeds)
            if testbeds:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > wait_s:
                raise Unavailable(f"there is no testbed any more, for {wait_s:g} s")
            landed = self._lab.landed(1.0)
            if landed is not None:
                self._land(landed)

    def _send(self, item: Item, testbeds: Collection[str]) -> None:
        assert item.at is not None
        stored = [
            trial
            for trial in self._folder.trials.get(item.key, ())
            if trial.evidence.testbed == item.at
            or (self._spread and item.apart and trial.evidence.testbed)
        ]
        visit = Visit(
            item.test,
            number=item.index + 1,
            key=item.key,
            stored=stored,
            then=self._agenda.then(item, testbeds),
            r_plus_pps=item.needs.r_plus_pps if item.needs else None,
            limit=1 if item.apart else None,
        )
        self._begun[item] = time.monotonic()
        shared = self._options["share_machine"] and self._lab.shares(item.at)
        self._lab.send(item, as_request(visit, {**self._options, "share_machine": shared}))

    def _land(self, landed: Landed) -> None:
        item = landed.ticket
        began = self._begun.pop(item, None)
        if began is None:
            return  # it was lost before, and is measured anew
        if landed.answer is None:
            self._agenda.lost(item)
            item.lost += landed.blame
            if item.lost >= _LOSSES:
                self._end(item, _given_up(item, landed.lost))
            return
        self._spent.append((self._visit_of(item), time.monotonic() - began))
        for trial in as_trials(landed.answer, landed.testbed):
            self._folder.append_trial(item.key, item.index + 1, trial)
            self._progress.trial(trial)
        item.repeats = _repeats(item.test, self._folder.trials[item.key])
        self._folder.append_logs(landed.testbed, landed.answer.get("logs", {}))
        record = as_record(landed.answer, landed.testbed)
        if record is None:
            self._agenda.landed(item, done=False)
        else:
            self._end(item, record)

    def _end(self, item: Item, record: Record) -> None:
        """Keep a record. An R+ is for those that need it alone; where there is none they fail
        with it."""
        self._agenda.landed(item, done=True)
        if not item.is_reference:
            self._keep(item, record)
        elif record.status == "ok":
            item.r_plus_pps = r_plus(record)
        else:
            for other in [each for each in self._agenda.left if each.needs is item]:
                told = f"R+, of which {other.test.rate} was asked, was not got: {record.error}"
                changes = {"key": other.key, "test": other.test, "error": told}
                other.done = True
                number = {"number": other.index + 1}
                self._keep(other, record.model_copy(update={**changes, **number}))

    def _keep(self, item: Item, record: Record) -> None:
        items = [each for each in self._agenda.items if not each.is_reference]
        done = sum(each.done for each in items)
        rest = [self._visit_of(each) for each in items if not each.done for _ in _visits(each)]
        left_s = time_left(self._spent, rest)
        if left_s is not None:
            left_s /= max(1, len(self._lab.testbeds()))
        if why := self._not_in_turn.get(item.test):
            record = record.model_copy(update={"turns": one_at_a_time(why)})
        self._progress.begin(item.test, done, len(items), left_s)
        self._progress.end(self._folder.append_record(record, item.versions))

    def _visit_of(self, item: Item) -> Test:
        return item.test.model_copy(update={"repeat": 1}) if item.apart else item.test


def _visits(item: Item) -> range:
    """Return as many things as an item wants further visits."""
    return range(max(1, item.test.repeat - item.repeats.total()) if item.apart else 1)


def _repeats(test: Test, trials: Iterable[TrialResult]) -> Counter[str]:
    """Return how many repeats of a test some trials are, by testbed: each one, or the trials of a
    search together."""
    by_testbed = [(each.evidence.testbed, each.spec.repeat) for each in trials]
    counted = by_testbed if SEARCHES[test.search].independent else set(by_testbed)
    return Counter(testbed for testbed, _ in counted if testbed)


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
