"""The estimate of a run's duration before the run. This module is pure: it reads no clock and
accesses no host.

The estimate adds up the parts of a run: visits, the paths they need, measurements on cables, and
trials. The constants are times on a host with two busy cores. A quiet host is faster, because
searches and calibrations need fewer trials there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache

from switchmark.campaign.rounds import groups, is_independent
from switchmark.campaign.run import saturated
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.model.test import Test, usual_values
from switchmark.model.topology import Topology
from switchmark.model.units import parse_shares
from switchmark.path.path import path_key
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import LoadBounds, usual_repeats
from switchmark.switches import TABLE as SWITCHES

_START_S = 1.0
"""The start and end of a run."""

_VISIT_S = 1.0
"""A visit without its trials: mostly the measurement of the host's noise before and after it."""

_TRIAL_S = 0.15
"""A trial without warm-up and measured phase: commands, and frames in flight."""

_PATH_S = 0.7
"""The set-up, gate and tear-down of a path."""

_PROGRAM_S = 1.2
"""The additional start-up time of a switch that is a program."""

_RATE_ON_CABLES_S = 3.2
"""A calibration: up to five short trials on a cable and one into a null sink."""

_LATENCY_ON_CABLE_S = 1.8
"""The baseline of a latency: three short trials on a cable."""


def expected_s(tests: Iterable[Test], *, calibrated: bool = True) -> float:
    """Return an estimate of the seconds that a first run of these tests takes, including the
    measurements on cables if `calibrated`.

    A switch or an environment that this installation lacks counts with the usual time.
    """
    requested = list(dict.fromkeys(tests))
    references = dict.fromkeys(
        reference for reference in map(saturated, requested) if reference is not None
    )
    visits = list(_visits([*requested, *references]))
    paths = [test for visit in visits for test in _one_of_each_path(visit)]
    on_cables = {_cable_of(test): test for test in (*requested, *references)}.values()
    return (
        (_START_S if requested else 0.0)
        + sum(_VISIT_S * len(visit) for visit in visits)
        + sum(map(_path_s, paths))
        + sum(_on_cables_s(test) for test in on_cables if calibrated)
        + sum(_trials_s(test) for test in (*requested, *references))
    )


def _visits(tests: Sequence[Test]) -> Iterator[list[Test]]:
    """Yield the tests of each round. Independent repeats alternate with those of the other tests;
    tests that are compared in turn keep their paths up."""
    stay_up = {index for group in groups(tests) for index in group}
    rounds = [
        _repeats(test) if len(tests) > 1 and is_independent(test) and index not in stay_up else 1
        for index, test in enumerate(tests)
    ]
    for number in range(max(rounds, default=0)):
        yield [test for test, last in zip(tests, rounds, strict=True) if number < last]


def _one_of_each_path(tests: Iterable[Test]) -> list[Test]:
    return list({path_key(test): test for test in tests}.values())


def _trials_s(test: Test) -> float:
    between_s = _TRIAL_S + test.residual + test.settle
    return sum(test.warmup + duration_s + between_s for duration_s in _trials(test))


def _trials(test: Test) -> tuple[float, ...]:
    """Return the durations of a test's trials."""
    search, bounds = SEARCHES[test.search], bounds_of_test(test)
    return search.usual_durations(bounds) * (1 if search.independent else usual_repeats(bounds))


def _repeats(test: Test) -> int:
    """Return the number of rounds that a test takes part in."""
    return usual_repeats(bounds_of_test(test))


def bounds_of_test(test: Test) -> LoadBounds:
    """Return the bounds of a test's search, as far as they are known before the test."""
    return LoadBounds(
        test.rate_pps,
        test.duration,
        test.warmup,
        test.repeat,
        test.finals,
        loss_ratio=test.loss_ratio,
        precision=test.precision,
        duration_sum_s=test.duration_sum,
        loads=parse_shares(test.loads),
        until_certain=test.until_certain,
        senders=test.senders,
    )


def _path_s(test: Test) -> float:
    switch = SWITCHES.get(test.switch)
    seconds = _PATH_S + (_PROGRAM_S if switch and switch.program else 0.0)
    return (
        seconds
        + _node_s(test.switch_environment)
        + _functions(test.scenario, test.pairs, test.copies, test.chain, test.chains)
        * _node_s(test.environment)
    )


def _node_s(environment: str) -> float:
    driver = ENVIRONMENTS.get(environment)
    return driver.create_s if driver else 0.0


@cache
def _functions(scenario: str, pairs: int, copies: int, chain: int, chains: int) -> int:
    """Return the number of functions in a scenario, each in its own node; 0 if the scenario is
    invalid."""
    sizes = {"pairs": pairs, "copies": copies, "chain": chain, "chains": chains}
    topology = Topology()
    try:
        SCENARIOS[scenario].draw(topology, Test(scenario=scenario, **sizes))
    except (KeyError, UsageError):
        return 0
    return sum(not part.physical for part in topology.parts)


def _on_cables_s(test: Test) -> float:
    """Return the seconds of the measurements without the switch; 0 if no cable is possible."""
    environment = ENVIRONMENTS.get(test.environment)
    if environment and environment.separate_kernel:
        return 0.0
    if test.dimension == "latency":
        return _LATENCY_ON_CABLE_S + _path_s(test)
    return _RATE_ON_CABLES_S + 2 * _path_s(test) if test.saturates else 0.0


def _cable_of(test: Test) -> Hashable:
    """Return a key of the settings that a cable's figures depend on, which tests may share."""
    usual = test.model_copy(update=usual_values("switch", "method"))
    return usual.model_copy(update={"rate": "max"} if test.dimension == "throughput" else {})
