"""An event takes place at its moment, proves itself, and may leave a switch that is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from switchmark import clock
from switchmark.clock import Clock
from switchmark.errors import SetupFailed, TrialFailed
from switchmark.lab.happening import Happening
from switchmark.lab.trial import _after_events
from switchmark.model.event import Event, EventResult
from switchmark.model.plan import Check, End, Plan, Run, Spawn, Wait
from switchmark.path.assembly import PlannedEvent
from switchmark.runs.executor import Executor
from switchmark.switches.changes import Change

AGAIN = Spawn("the switch", "switch", ("serve",))
KILL = Change((End("switch ends", "switch"),), (AGAIN,))
DOWN = Change((Wait("it is seen down", Check(("show",))),), (Run("up", ("up",)),))


@dataclass
class Running:
    """A process as an executor knows it."""

    pid: int
    started: int = 7

    def poll(self) -> int | None:
        return -9


@dataclass
class Recorder:
    """An executor that fails at the step with one reason, and counts processes."""

    fails_at: str = ""
    spawns: bool = True
    process_of: Running = field(default_factory=lambda: Running(1))
    done: list[tuple[str, int | None]] = field(default_factory=list)

    def execute(self, plan: Plan, *, since: int | None = None) -> None:
        for step in plan:
            if step.why == self.fails_at:
                raise SetupFailed(f"{step.why}: it failed")
            if isinstance(step, Spawn) and self.spawns:
                self.process_of = Running(self.process_of.pid + 1)
            self.done.append((step.why, since))

    def process(self, name: str) -> Any:
        return self.process_of


def happened(change: Change, executor: Recorder, *, kind: str = "kill") -> EventResult:
    settled = (Wait("links", Check(("links",))),)
    planned = PlannedEvent(Event(kind), 0.01, change, settled)
    happening = Happening(cast(Executor, executor), mark=3)
    return happening.take_place(planned, clock.monotonic_ns())


def test_an_event_has_its_times_in_order_and_its_proof() -> None:
    executor = Recorder()
    event = happened(KILL, executor)
    assert event.failure is None
    assert event.restored_ns is not None
    assert event.settled_ns is not None
    assert 10_000_000 == event.due_ns <= event.began_ns <= event.disturbed_ns
    assert event.disturbed_ns <= event.restored_ns <= event.settled_ns
    assert event.proof == (
        "switch was process 1, started at 7, and ended with status -9",
        "switch is process 2, started at 7",
    )
    assert executor.done == [("switch ends", 3), ("the switch", 3), ("links", 3)]


class Pausing(Clock):
    """A clock that tells how long it waits."""

    def __init__(self) -> None:
        self.now_ns, self.pauses = 5_000_000_000, list[float]()

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_ns += round(seconds * 1e9)


@pytest.mark.parametrize(
    ("start_ns", "pause_s", "began_ns"),
    [(5_000_000_000, 0.01, 10_000_000), (4_990_000_000, 0, 10_000_000), (4_000_000_000, 0, 10**9)],
)
def test_an_event_waits_for_its_moment(start_ns: int, pause_s: float, began_ns: int) -> None:
    times = Pausing()
    with clock.replaced_by(times):
        happening = Happening(cast(Executor, Recorder()), mark=3)
        event = happening.take_place(PlannedEvent(Event("kill"), 0.01, KILL, ()), start_ns)
    assert times.pauses == [pause_s]
    assert (event.due_ns, event.began_ns, event.disturbed_ns) == (10_000_000, began_ns, began_ns)
    assert (event.restored_ns, event.settled_ns) == (began_ns, began_ns)


def test_the_version_of_an_upgrade_is_part_of_its_proof() -> None:
    event = Event("upgrade", to="ovs@3.2")
    planned = PlannedEvent(event, 0.01, KILL, (), version="3.2.1")
    happening = Happening(cast(Executor, Recorder()), mark=3)
    result = happening.take_place(planned, clock.monotonic_ns())
    assert result.proof[-1] == "ovs@3.2 was probed as 3.2.1"


def test_a_wait_is_the_proof_of_a_link_that_went_down() -> None:
    assert happened(DOWN, Recorder(), kind="port-down").proof == ("it is seen down",)


@pytest.mark.parametrize(
    ("change", "executor"),
    [
        (DOWN, Recorder(fails_at="it is seen down")),
        (KILL, Recorder(spawns=False)),  # the same process with the same start time
    ],
)
def test_an_event_without_a_proof_fails_its_trial(change: Change, executor: Recorder) -> None:
    with pytest.raises(TrialFailed, match="event kill cannot be proved"):
        happened(change, executor)


@pytest.mark.parametrize("step", ["the switch", "links"])
def test_a_switch_that_does_not_come_back_is_a_result(step: str) -> None:
    event = happened(KILL, Recorder(fails_at=step))
    assert event.failure == f"{step}: it failed"
    assert event.settled_ns is None
    assert (event.restored_ns is None) == (step == "the switch")


def test_a_death_after_a_restart_is_a_result_and_any_other_fails_the_trial() -> None:
    def event(kind: str) -> EventResult:
        return EventResult(kind=kind, due_ns=0, began_ns=0, disturbed_ns=0)

    events = [event("restart")]
    with _after_events(events):
        raise TrialFailed("switch ovs died")
    assert events[0].failure == "switch ovs died"
    for others in ([], [event("port-down")]):
        with pytest.raises(TrialFailed), _after_events(others):
            raise TrialFailed("switch ovs died")
