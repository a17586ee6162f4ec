"""The run of a campaign on a lab: each testbed gets one visit at a time, and the results are stored
like those of a run on one host.

This module knows the lab by its protocol and prints nothing.
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
"""The seconds to wait for a testbed or the scheduler while nothing is measured."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The end of a visit on a testbed."""

    item: Item
    """The round of a test that was visited."""
    testbed: str
    """The name of the testbed."""
    answer: Content | None = None
    """The testbed's answer; None if the testbed was lost."""
    lost: str = ""
    """The reason for the loss; empty if the testbed was not lost."""
    fault: int = 0
    """The number of testbed deaths that the test is responsible for."""


class LabOfTestbeds(Protocol):
    """A lab that has testbeds, by name, and sends them visits."""

    def testbeds(self) -> Collection[str]:
        """Return the current testbeds; empty while there is no scheduler."""
        ...

    def send(self, item: Item, request: Content) -> None:
        """Send a visit to the item's testbed."""
        ...

    def landed(self, timeout_s: float) -> Landed | None:
        """Return a finished visit; None if none finishes in time."""
        ...

    def shares(self, testbed: str) -> bool:
        """Return whether another testbed is on the same machine."""
        ...


class TestbedPlaces:
    """The testbeds of a lab as places of a run: they report a visit's trials and store its logs
    when it ends."""

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
        assert item.testbed is not None
        self._visits[item] = visit
        shared = self._options["share_machine"] and self._lab.shares(item.testbed)
        self._lab.send(item, as_request(visit, {**self._options, "share_machine": shared}))

    def ended(self) -> Visited | None:
        landed = self._lab.landed(1.0)
        visit = self._visits.pop(landed.item, None) if landed is not None else None
        if landed is None or visit is None:  # it was lost before and is measured again
            return None
        if landed.answer is None:
            return Visited(landed.item, lost=landed.lost, fault=landed.fault)
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
    """Run the tests of the folder's campaign that have no record yet. `versions` are those of each
    of its tests, equal on all testbeds. Interrupted and Unavailable tell the user how to resume."""
    of_test = dict(zip(folder.campaign.tests, versions, strict=True))
    testbeds = TestbedPlaces(lab, folder, options, wait_s)
    with resumable(folder, Interrupted, Unavailable), interruptible():
        rounds = Rounds(folder, testbeds, progress, of_test.__getitem__, shared=True, spread=spread)
        rounds.go(rounds.missing())
