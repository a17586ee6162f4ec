"""This module runs a campaign on the testbeds of a lab: each gets one visit at a time, and what
comes back is kept as in a run of one host.

It knows the lab by its protocol and prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from switchmark.campaign.rounds import Item
from switchmark.campaign.run import Progress, Rounds, Visited, resumable
from switchmark.campaign.store import RunFolder
from switchmark.cluster.wire import Content, as_record, as_request, as_trials
from switchmark.errors import Interrupted, Unavailable
from switchmark.hosts.signals import interruptible
from switchmark.model.visit import Visit

_WAIT_S = 60.0
"""For a testbed, or for the scheduler to come back, while nothing is measured."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A visit has ended: at this testbed with this answer; or it is lost for a reason, of which the
    test is to `blame` for as many deaths of testbeds."""

    item: Item
    testbed: str
    answer: Content | None = None
    lost: str = ""
    blame: int = 0


class LabOfTestbeds(Protocol):
    """Has testbeds, by name, and hands them visits."""

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


class TestbedPlaces:
    """The testbeds of a lab. When a visit has ended, their answers are reported and their logs
    kept."""

    def __init__(
        self, lab: LabOfTestbeds, folder: RunFolder, options: Content, wait_s: float
    ) -> None:
        self._lab, self._folder, self._options, self._wait_s = lab, folder, options, wait_s
        self._visits: dict[Item, Visit] = {}
        self._seen_s = time.monotonic()

    def names(self) -> Collection[str]:
        names = self._lab.testbeds()
        if names:
            self._seen_s = time.monotonic()
        elif time.monotonic() - self._seen_s > self._wait_s:
            raise Unavailable(f"there is no testbed any more, for {self._wait_s:g} s")
        return names

    def send(self, item: Item, visit: Visit) -> None:
        assert item.at is not None
        self._visits[item] = visit
        shared = self._options["share_machine"] and self._lab.shares(item.at)
        self._lab.send(item, as_request(visit, {**self._options, "share_machine": shared}))

    def ended(self) -> Visited | None:
        landed = self._lab.landed(1.0)
        visit = self._visits.pop(landed.item, None) if landed is not None else None
        if landed is None or visit is None:  # it was lost before, and is measured anew
            return None
        if landed.answer is None:
            return Visited(landed.item, lost=landed.lost, blame=landed.blame)
        for trial in as_trials(landed.answer, landed.testbed):
            visit.on_trial(trial)
        self._folder.append_logs(landed.testbed, landed.answer.get("logs", {}))
        return Visited(landed.item, as_record(landed.answer, landed.testbed))


def run(
    folder: RunFolder,
    lab: LabOfTestbeds,
    progress: Progress,
    versions: Sequence[Mapping[str, str]],
    options: Content,
    *,
    spread: bool = False,
    wait_s: float = _WAIT_S,
) -> None:
    """Run what the folder's campaign has and its records lack. `versions` are those of each of its
    tests, on all testbeds. Interrupted and Unavailable say how to go on."""
    of_test = dict(zip(folder.campaign.tests, versions, strict=True))
    testbeds = TestbedPlaces(lab, folder, options, wait_s)
    with resumable(folder, Interrupted, Unavailable), interruptible():
        rounds = Rounds(folder, testbeds, progress, of_test.__getitem__, shared=True, spread=spread)
        rounds.go(rounds.missing())
