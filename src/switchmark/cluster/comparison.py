"""The comparison of a lab's testbeds: all of them measure the same calibration trials on a cable,
and they count as equal unless `metrics.difference` shows that their rates differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from switchmark.metrics.difference import Family
from switchmark.metrics.repeats import FIGURES, Repeats, repeats_of
from switchmark.model.cable import CABLE
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.path.refusals import can_work

_REPEATS = 5
"""The fewest repeats whose minimum and maximum enclose the median in 94 of 100 cases."""

_ENGINES = 3
"""The most engines of a campaign that the comparison covers."""


@dataclass(frozen=True, slots=True)
class TestbedRate:
    """The rate of a testbed on a cable, in frames per second: the median of its repeats.

    `low` and `high` are the bounds of the 95 % interval, or the minimum and maximum of too few
    repeats.
    """

    repeats: Repeats

    @property
    def pps(self) -> float:
        return median(self.repeats.values)

    @property
    def low(self) -> float:
        return (self.repeats.interval or (min(self.repeats.values),))[0]

    @property
    def high(self) -> float:
        return (self.repeats.interval or (max(self.repeats.values),))[-1]

    def __str__(self) -> str:
        ends = f"{self.low / 1e6:.3g}, {self.high / 1e6:.3g}"
        return f"{self.pps / 1e6:.3g} [{ends}] Mpps"


Rates = Mapping[str, Mapping[str, TestbedRate]]
"""The rate of each testbed, by engine."""


def shared_tests(tests: Iterable[Test]) -> list[Test]:
    """Return the tests that all testbeds run: a cable with each engine of a campaign."""
    testbeds = []
    for engine in dict.fromkeys(test.engine for test in tests):
        test = Test(
            switch=CABLE,
            engine=engine,
            search="max",
            rate="max",
            duration=0.2,
            warmup=0.1,
            repeat=_REPEATS,
        )
        if can_work(test):
            testbeds.append(test)
    return testbeds[:_ENGINES]


def rate_of(record: Record) -> TestbedRate | None:
    """Return the rate of a shared test; None if it failed."""
    repeats = repeats_of([record], FIGURES["rate"])
    if not repeats.values:
        return None
    # On a cable the limit of the sender or the receiver is the result itself, not a bound.
    # Testbeds do not take turns.
    return TestbedRate(replace(repeats, bound=False, rounds=()))


def groups(testbeds: Sequence[str], rates: Rates) -> list[list[str]]:
    """Return groups of testbeds that are equal, directly or through other testbeds."""
    apart = {pair for by_testbed in rates.values() for pair in _apart(by_testbed)}
    left, testbed_group = list(testbeds), []
    while left:
        group = [left.pop(0)]
        for name in group:
            near = [other for other in left if (name, other) not in apart]
            group += near
            left = [other for other in left if other not in near]
        testbed_group.append(sorted(group))
    return testbed_group


def differences(testbeds: Sequence[str], rates: Rates) -> list[str]:
    """Return a sentence for each engine on which testbeds differ."""
    sentences = []
    for engine, by_testbed in rates.items():
        if len(groups(testbeds, {engine: by_testbed})) > 1:
            order = sorted(by_testbed, key=lambda name: by_testbed[name].pps, reverse=True)
            rates_text = ", ".join(f"{name} {by_testbed[name]}" for name in order)
            sentences.append(f"testbeds differ: on a cable with {engine} {rates_text}")
    return sentences


def _apart(rates: Mapping[str, TestbedRate]) -> set[tuple[str, str]]:
    """Return the pairs of testbeds whose rates differ significantly."""
    names = list(rates)
    family = Family(FIGURES["rate"], tuple(rate.repeats for rate in rates.values()))
    places = range(len(names))
    return {
        (names[one], names[other])
        for one in places
        for other in places
        if one != other and family.difference(one, other).word in ("faster", "slower")
    }
