"""This module chooses the engine of tests that leave it to switchmark. Pure: what a host can do is
asked of whoever calls.

The order of the engines' table decides, which `make bench` checks, never a rate that was measured
for the purpose: the same request on the same host always has the same engine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache

from switchmark.engines import TABLE as ENGINES
from switchmark.errors import UsageError
from switchmark.model.test import AXES, Test
from switchmark.path.refusals import check
from switchmark.path.resolving import opened_in, resolve, unknown_names
from switchmark.switches import TABLE as SWITCHES

AUTO = AXES["engine"].chosen
_USUAL: str = AXES["engine"].default

Usable = Callable[[Test], bool]
"""Says whether the host of a test has all that the test needs, its engine included."""


def candidates() -> list[str]:
    """Return the engines that may be chosen for some ports, in order."""
    return [name for name, engine in ENGINES.items() if engine.chosen_for != frozenset()]


def with_engines(tests: Sequence[Test], usable: Usable) -> list[Test]:
    """Return the tests, each whose engine is `auto` with the one that is chosen for it.

    One engine is for all of them if it fits all, as the rates of one engine compare best; else one
    for all tests of a switch, else each test has its own. Of several the first one wins: one that
    opens the kind of ports that the switch has by itself before others, then by the table. A test
    that no engine can make here takes no part in this, and gets what comes closest, so that it is
    refused with the reason.
    """
    asked = list(dict.fromkeys(test for test in tests if test.engine == AUTO))
    if not asked:
        return list(tests)

    @cache
    def fits(test: Test, name: str) -> bool:
        return not check(_with(test, name), suggest=False) and _suits(_with(test, name))

    @cache
    def works(test: Test, name: str) -> bool:
        return fits(test, name) and usable(_with(test, name))

    def first(group: Sequence[Test], able: Callable[[Test, str], bool]) -> str | None:
        return next((n for n in _ranked(group) if all(able(test, n) for test in group)), None)

    measured = [test for test in asked if first([test], works)]
    chosen: dict[Test, str] = {}
    for group in (measured, *_by(measured, lambda test: test.switch), *([t] for t in measured)):
        left = [test for test in group if test not in chosen]
        if left and (name := first(group, works)):
            chosen |= dict.fromkeys(left, name)
    for test in asked:
        if test not in chosen:
            chosen[test] = first([test], fits) or _nearest(test)
    return [_with(test, chosen[test]) if test in chosen else test for test in tests]


def _ranked(tests: Iterable[Test]) -> list[str]:
    """Return the candidates for some tests: those first that open the kinds of ports that the
    switches have by themselves, then as in the table."""
    of_switches = [each[0] for each in _by(tests, _ports_of)]
    names = candidates()
    order = {name: number for number, name in enumerate(names)}
    return sorted(names, key=lambda n: (sum(_detour(t, n) for t in of_switches), order[n]))


def _ports_of(test: Test) -> Hashable:
    """Return what decides which ports a switch gets, besides the engine."""
    return test.switch, test.port, test.environment, test.scenario, test.function


def _detour(test: Test, name: str) -> int:
    """Return how far down the list of a switch's ports are those that an engine would open."""
    kinds = SWITCHES[test.switch].port_kinds if test.switch in SWITCHES else ()
    try:
        return kinds.index(_kind(_with(test, name)))
    except (UsageError, ValueError):
        return len(kinds)


def _suits(test: Test) -> bool:
    """Say whether the engine of a test that can work may be chosen for its frames, and for the
    ports that it opens."""
    path = resolve(test, prefix="sm0000", run_dir="/run")
    engine = path.engine
    if test.tag is not None and not engine.sees_tags:
        return False
    for part in path.played:
        if engine.chosen_for is None or part.engine is not engine:
            continue
        taken = engine.chosen_for
        if not part.physical:
            taken = opened_in(part.environment, taken)
        if not part.kinds <= taken:
            return False
    return True


def _kind(test: Test) -> object:
    if unknown_names(test):
        raise ValueError
    return resolve(test, prefix="sm0000", run_dir="/run").wiring.kind


def _nearest(test: Test) -> str:
    """Return the engine with which the fewest reasons speak against a test, the usual one of
    several."""
    names = sorted(candidates(), key=lambda name: name != _USUAL)
    return min(names, key=lambda name: len(check(_with(test, name), suggest=False)))


def _with(test: Test, name: str) -> Test:
    return test.model_copy(update={"engine": name})


def _by(tests: Iterable[Test], of: Callable[[Test], Hashable]) -> list[list[Test]]:
    groups: dict[Hashable, list[Test]] = {}
    for test in tests:
        groups.setdefault(of(test), []).append(test)
    return list(groups.values())
