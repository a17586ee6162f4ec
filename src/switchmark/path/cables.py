"""Baseline tests: the same tests with a cable in place of the switch, and their CPUs. This module
is pure."""

from __future__ import annotations

from dataclasses import replace

from switchmark.model.cable import CABLE
from switchmark.model.cpus import Pin
from switchmark.model.test import Test, usual_values
from switchmark.path.path import Path
from switchmark.path.placement import PINNED, Placement, unpinned_only
from switchmark.path.refusals import can_work
from switchmark.path.resolving import drivers_of, resolve

_ENDS = "p2p"
"""The scenario that remains of a chain between physical ports without its functions."""


def without_switch(path: Path) -> dict[str, Test]:
    """Return the baseline tests of a test, by name; empty if no cable can join its ends."""
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
    if not can_work(tests["ends"]):
        return {}
    return {name: test for name, test in tests.items() if name == "ends" or can_work(test)}


def on_cable(path: Path) -> Test:
    """Return the same test on a cable. Properties of the switch are dropped, including its CPU
    limit and its events. The method of the test is dropped too: it does not affect a cable."""
    test, kind = path.test, path.wiring.kind
    cable = drivers_of(test.model_copy(update={"switch": CABLE})).switch
    return test.model_copy(
        update={
            **usual_values("switch", "method"),
            "switch": CABLE,
            "port": str(kind) if kind in cable.port_kinds else "auto",
            "nic": None,
            "event": None,
            # The cable uses the CPUs of the test, whatever the test pins.
            "placement": PINNED if unpinned_only(path.placement.policy) else path.placement.policy,
            "cpu_limit": None if "switch" in test.limits else test.cpu_limit,
        }
    )


def _without_functions(cable: Test, *, between_physical: bool) -> Test:
    """Return the ends of a chain without its functions. An end that is a function stays. A sender
    that splits its frames over several chains sends the flows of all chains instead."""
    if not between_physical:
        return cable.model_copy(update=usual_values("chain"))
    changes = usual_values("functions", "chain")
    if cable.chains > 1:
        changes["flows"] = cable.flows * cable.chains
        changes["flows_by"] = "mac" if cable.flows == 1 else cable.flows_by
    return cable.model_copy(update={**changes, "scenario": _ENDS})


def pins_on_cable(cable: Test, path: Path) -> Placement:
    """Return the placement of a test for its cable. Every sender, receiver and forwarder there gets
    the CPUs of a part of the same kind in the test. If the test has fewer such parts, several parts
    share CPUs and yield."""
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
        kind = of_kind[cpu_user.kind]
        pin = placement.pins[kind[turn % len(kind)]]
        pins[cpu_user.id] = replace(pin, yield_=True) if turn >= len(kind) else pin
    return replace(placement, pins={**pins, "switch": placement.pins["switch"]})
