"""This module says which steps of a plan go to a host that is reached by ssh in one round trip:
commands, and behind them what is waited for. They stay an operator's commands, each by itself."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.machine.journal import Command, Undo
from switchmark.machine.ssh_files import LONG
from switchmark.model.plan import Node, Plan, Run, Step, Wait

__all__ = ["commands_together", "place_of_step", "steps_together"]

_MOST = 32


def place_of_step(step: Step) -> Node:
    """Return the node where a step is carried out."""
    return step.check.at if isinstance(step, Wait) else step.at


def steps_together(plan: Plan) -> Plan:
    """Return the steps from the first on that can be sent at once: none needs what another gives.
    A wait ends them, but for further ones."""
    taken: list[Run | Wait] = []
    given: set[str] = set()
    size = 0
    for step in plan[:_MOST]:
        if not isinstance(step, Run | Wait):
            break
        if taken and place_of_step(step).host != place_of_step(taken[0]).host:
            break
        if taken and isinstance(taken[-1], Wait) and isinstance(step, Run):
            break
        if any(f"${{{name}}}" in repr(step) for name in given):
            break
        if isinstance(step, Run):
            size += len(step.stdin or b"")
            given |= {step.save} if step.save else set()
        if size > LONG:
            break
        taken.append(step)
    return tuple(taken) or plan[:1]


def commands_together(undos: Sequence[Undo]) -> list[Command]:
    """Return the undos from the first on that are commands of one host."""
    commands: list[Command] = []
    for undo in undos[:_MOST]:
        if not isinstance(undo, Command) or undo.host != undos[0].host:
            break
        commands.append(undo)
    return commands
