"""The plans of events: how a switch is disturbed, and how it is brought back.

Most switches that are programs share the events of processes, which follow from their start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from signal import SIGKILL, SIGTERM

from switchmark.model.plan import HOST, End, Plan, Rest, Run, Spawn

PAUSE_S = 0.1
"""The length of a pause, in seconds."""


@dataclass(frozen=True, slots=True)
class Change:
    """An event as a plan. If a step of `disturb` fails, the event did not take place. If a step of
    `restore` fails, the switch did not come back."""

    disturb: Plan
    """The steps that disturb the switch, with the Waits that prove it."""
    restore: Plan
    """The steps that bring it back, except for links and learning (`Switch.settled`)."""


def of_processes(revive: Plan, leftovers: Sequence[str]) -> Mapping[str, Change]:
    """Return the events of a switch whose processes start by the steps `revive`. `leftovers` are
    the files that a killed process leaves, and that the next one creates again."""
    spawned = [step for step in revive if isinstance(step, Spawn)]
    if not spawned:
        return {}
    there = replace(HOST, host=spawned[0].at.host)
    remove = Run("no files of the old process", ("rm", "-f", *leftovers), there)
    restore = (remove, *revive) if leftovers else revive
    pids = tuple(f"${{{step.name}}}" for step in spawned)

    def ended(number: int, grace_s: float) -> Plan:
        return tuple(
            End(f"{step.name} ends", step.name, (number, grace_s), step.at)
            for step in reversed(spawned)
        )

    return {
        "restart": Change(ended(SIGTERM, 10.0), restore),
        "kill": Change(ended(SIGKILL, 0.0), restore),
        "pause": Change(
            (Run("the switch stands still", ("kill", "-STOP", *pids), there),),
            (
                Rest("it stands still for this time", PAUSE_S, there),
                Run("the switch goes on", ("kill", "-CONT", *pids), there),
            ),
        ),
    }
