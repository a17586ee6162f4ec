"""This module says which steps of a plan are carried out at once: of a host that is reached by ssh
what goes in one round trip, commands and behind them what is waited for; here what is about
different things. They stay an operator's commands, each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from switchmark.model.plan import Node, Plan, Run, Step, Wait
from switchmark.runs.journal import Command, Undo

_MOST = 32
_INPUT_MOST = 1 << 20


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
        if size > _INPUT_MOST:
            break
        taken.append(step)
    return tuple(taken) or plan[:1]


def steps_beside(plan: Plan) -> Plan:
    """Return the steps from the first on that are commands of one host about something, of which
    those about different things are run side by side; or that wait for no process's sake, which are
    looked at side by side first."""

    def fits(step: Step) -> bool:
        if isinstance(step, Wait):
            return isinstance(plan[0], Wait) and step.unless_dead is None
        apart = isinstance(step, Run) and step.about and not step.save
        return bool(apart) and isinstance(plan[0], Run)

    host = place_of_step(plan[0]).host
    taken = takewhile(lambda step: fits(step) and place_of_step(step).host == host, plan)
    return tuple(taken) or plan[:1]


def between(plan: Plan) -> Plan:
    """Return a plan that is carried out behind all that is before it and before all that is behind
    it: what its first and its last command are about is not told."""
    runs = [number for number, step in enumerate(plan) if isinstance(step, Run)]
    ends = {*runs[:1], *runs[-1:]}
    return tuple(
        replace(step, about="") if number in ends and isinstance(step, Run) else step
        for number, step in enumerate(plan)
    )


def commands_together(undos: Sequence[Undo]) -> list[Command]:
    """Return the undos from the first on that are commands of one host."""
    commands: list[Command] = []
    for undo in undos[:_MOST]:
        if not isinstance(undo, Command) or undo.host != undos[0].host:
            break
        commands.append(undo)
    return commands
