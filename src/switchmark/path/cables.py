"""This module draws the tests that others are held against: the same ones with a cable in the
switch's place, and the CPUs they have there. Pure."""

from __future__ import annotations

from dataclasses import replace

from switchmark.model.cable import CABLE
from switchmark.model.cpus import Pin
from switchmark.model.test import Test, usual_values
from switchmark.path.path import Path
from switchmark.path.placement import PINNED, Placement, unpinned_only
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.switches import TABLE as SWITCHES

_ENDS = "p2p"
"""What is left of a chain between physical ports without its functions."""


def without_switch(path: Path) -> dict[str, Test]:
    """Return the tests that show what a test does but for its switch, by name; none where no cable
    joins its ends."""
    test = path.test
    if test.dimension != "throughput":
        return {}
    cable = on_cable(path).model_copy(update={"rate": "max", "line_rate": None})
    tests = {"ends": cable}
    if path.steering is not None:
        between = all(part.physical or part.function.forwards for part in path.parts)
        tests["ends"] = _without_functions(cable, between_physical=between)
        if test.switch != CABLE:
            side_by_side = {"pairs": test.pairs * test.chains, "chains": 1}
            tests["functions"] = cable.model_copy(update=side_by_side)
    if test.copies > 1:
        tests["ends"] = cable.model_copy(update={"copies": 1})
        tests["apart"] = tests["ends"].model_copy(update={"pairs": test.copies})
    if check(tests["ends"]):
        return {}
    return {name: each for name, each in tests.items() if name == "ends" or not check(each)}


def on_cable(path: Path) -> Test:
    """Return the same test on the cable. What is a property of the switch goes with it, a limit of
    its CPU too; by which method the test is measured does not matter there."""
    test, kind = path.test, path.wiring.kind
    return test.model_copy(
        update={
            **usual_values("switch", "method"),
            "switch": CABLE,
            "port": str(kind) if kind in SWITCHES[CABLE].port_kinds else "auto",
            "nic": None,
            # Its CPUs are those of the test, whoever of it is pinned.
            "placement": PINNED if unpinned_only(path.placement.policy) else path.placement.policy,
            "cpu_limit": None if "switch" in test.limits else test.cpu_limit,
        }
    )


def _without_functions(cable: Test, *, between_physical: bool) -> Test:
    """Return the ends of a chain; a function that is one stays as it is. A sender that splits its
    frames over several chains varies their source."""
    if not between_physical:
        return cable.model_copy(update=usual_values("chain"))
    changes = usual_values("functions", "chain")
    if cable.chains > 1:
        changes["flows"] = cable.flows * cable.chains
        changes["flows_by"] = "mac" if cable.flows == 1 else cable.flows_by
    return cable.model_copy(update={**changes, "scenario": _ENDS})


def pins_on_cable(cable: Test, path: Path) -> Placement:
    """Return the placement of a test for its cable: each sender, receiver and forwarder there has
    the CPUs of one of the test's, in turn where there are fewer, and yields where it shares
    them."""
    placement = path.placement
    of_kind: dict[str, list[str]] = {}
    for cpu_user in path.cpu_users:
        of_kind.setdefault(cpu_user.kind, []).append(cpu_user.id)
    turns: dict[str, int] = {}
    pins: dict[str, Pin] = {}
    for cpu_user in resolve(cable, prefix="sm", run_dir="/run").cpu_users:
        if cpu_user.kind not in of_kind:
            continue
        turn = turns[cpu_user.kind] = turns.get(cpu_user.kind, -1) + 1
        whose = of_kind[cpu_user.kind]
        pin = placement.pins[whose[turn % len(whose)]]
        pins[cpu_user.id] = replace(pin, yield_=True) if turn >= len(whose) else pin
    return replace(placement, pins={**pins, "switch": placement.pins["switch"]})
