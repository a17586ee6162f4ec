"""The steps of a plan that are executed together. On a far host they share one round trip:
commands, then Waits. On this host they are commands with different subjects. Each step stays a
command that an operator could type."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from switchmark.model.plan import Node, Plan, Run, Step, Wait
from switchmark.runs.journal import Command, Undo

_MOST = 32
_INPUT_MOST = 1 << 20


def place_of_step(step: Step) -> Node:
    """Return the node where a step is executed."""
    return step.check.at if isinstance(step, Wait) else step.at


def steps_together(plan: Plan) -> Plan:
    """Return the first steps that can be sent together: none needs the output of another. Only
    Waits can follow a Wait."""
    taken: list[Run | Wait] = []
    saved: set[str] = set()
    size = 0
    for step in plan[:_MOST]:
        if not isinstance(step, Run | Wait):
            break
        if taken and place_of_step(step).host != place_of_step(taken[0]).host:
            break
        if taken and isinstance(taken[-1], Wait) and isinstance(step, Run):
            break
        if any(f"${{{name}}}" in repr(step) for name in saved):
            break
        if isinstance(step, Run):
            size += len(step.stdin or b"")
            saved |= {step.save} if step.save else set()
        if size > _INPUT_MOST:
            break
        taken.append(step)
    return tuple(taken) or plan[:1]


def steps_beside(plan: Plan) -> Plan:
    """Return the first steps of one host that can be executed together: commands with a subject,
    which run in parallel if it differs, or Waits for no process, whose first checks run in
    parallel."""

    def fits(step: Step) -> bool:
        if isinstance(step, Wait):
            return isinstance(plan[0], Wait) and step.unless_dead is None
        apart = isinstance(step, Run) and step.subject and not step.save
        return bool(apart) and isinstance(plan[0], Run)

    host = place_of_step(plan[0]).host
    taken = takewhile(lambda step: fits(step) and place_of_step(step).host == host, plan)
    return tuple(taken) or plan[:1]


def commands_together(undos: Sequence[Undo]) -> list[Command]:
    """Return the first undos that are commands of one host."""
    commands: list[Command] = []
    for undo in undos[:_MOST]:
        if not isinstance(undo, Command) or undo.host != undos[0].host:
            break
        commands.append(undo)
    return commands
