"""The choice of the engine for tests with engine `auto`. This module is pure: the caller checks
what a host can do.

The order of the engines' table decides, and `make bench` checks that order. No measured rate
affects the choice, so the same request on the same host always gets the same engine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache

from switchmark.engines import TABLE as ENGINES
from switchmark.errors import UsageError
from switchmark.model.test import AXES, Test
from switchmark.path.refusals import can_work, check
from switchmark.path.resolving import frame_sizes, opened_in, resolve, unknown_names
from switchmark.switches import TABLE as SWITCHES

AUTO = AXES["engine"].chosen
_USUAL: str = AXES["engine"].default

Usable = Callable[[Test], bool]
"""Returns whether the host of a test has everything that the test needs, including its engine."""


def candidates() -> list[str]:
    """Return the engines that `auto` may choose, in order."""
    return [name for name, engine in ENGINES.items() if engine.chosen_for != frozenset()]


def with_engines(tests: Sequence[Test], usable: Usable) -> list[Test]:
    """Return the tests, with an engine in place of `auto`.

    All tests get the same engine if it suits them all, because rates of the same engine compare
    best. Otherwise, all tests of a switch get the same engine, or else every test gets its best.
    The first suitable engine wins. Engines for the switch's native kind of port come first, and
    then the order of the table counts. A test that no engine can run here does not affect the
    choice. It gets the closest engine and is refused with the reason.
    """
    undecided = list(dict.fromkeys(test for test in tests if test.engine == AUTO))
    if not undecided:
        return list(tests)

    @cache
    def fits(test: Test, name: str) -> bool:
        return can_work(_with(test, name)) and _suits(_with(test, name))

    @cache
    def works(test: Test, name: str) -> bool:
        return fits(test, name) and usable(_with(test, name))

    detour = cache(_detour)

    def first(group: Sequence[Test], able: Callable[[Test, str], bool]) -> str | None:
        ranked = _ranked(group, detour)
        return next((n for n in ranked if all(able(test, n) for test in group)), None)

    measured = [test for test in undecided if first([test], works)]
    chosen: dict[Test, str] = {}
    for group in (measured, *_by(measured, lambda test: test.switch), *([t] for t in measured)):
        left = [test for test in group if test not in chosen]
        if left and (name := first(group, works)):
            chosen |= dict.fromkeys(left, name)
    for test in undecided:
        if test not in chosen:
            chosen[test] = first([test], fits) or _nearest(test)
    return [_with(test, chosen[test]) if test in chosen else test for test in tests]


def _ranked(tests: Iterable[Test], detour: Callable[[Test, str], int]) -> list[str]:
    """Return the candidates for some tests. Engines for the native port kinds of the switches come
    first, then the order of the table counts. `detour` caches `_detour`."""
    of_switches = [alike[0] for alike in _by(tests, _ports_of)]
    names = candidates()
    order = {name: number for number, name in enumerate(names)}
    return sorted(names, key=lambda n: (sum(detour(t, n) for t in of_switches), order[n]))


def _ports_of(test: Test) -> Hashable:
    """Return the axes that decide, in addition to the engine, which ports a switch gets."""
    return test.switch, test.port, test.environment, test.scenario, test.function


def _detour(test: Test, name: str) -> int:
    """Return the position, among the switch's port kinds, of the kind that an engine would open."""
    kinds = SWITCHES[test.switch].port_kinds if test.switch in SWITCHES else ()
    try:
        return kinds.index(_kind(_with(test, name)))
    except (UsageError, ValueError):
        return len(kinds)


def _suits(test: Test) -> bool:
    """Return whether `auto` may choose the engine of a valid test for its frames and its ports."""
    path = resolve(test, prefix="sm0000", run_dir="/run")
    engine = path.engine
    if test.tag is not None and not engine.sees_tags:
        return False
    if max(frame_sizes(test)) > engine.chosen_frame_max:
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
    """Return the engine with the fewest refusals for a test. Prefer the default engine among
    equals."""
    names = sorted(candidates(), key=lambda name: name != _USUAL)
    return min(names, key=lambda name: len(check(_with(test, name), suggest=False)))


def _with(test: Test, name: str) -> Test:
    return test.model_copy(update={"engine": name})


def _by(tests: Iterable[Test], property_of: Callable[[Test], Hashable]) -> list[list[Test]]:
    groups: dict[Hashable, list[Test]] = {}
    for test in tests:
        groups.setdefault(property_of(test), []).append(test)
    return list(groups.values())
