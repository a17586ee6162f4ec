"""This module compares the testbeds of a lab: each measures the same calibration trials on a cable,
and testbeds are alike unless `metrics.difference` shows that their rates differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from switchmark.metrics.difference import Family
from switchmark.metrics.repeats import FIGURES, Repeats, repeats_of
from switchmark.model.cable import CABLE
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.path.refusals import check

_REPEATS = 5
"""The fewest of which the lowest and the highest bound the median, 94 times in 100."""

_ENGINES = 3
"""As many engines of a campaign are compared by."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of a testbed on a cable, frames a second, is the median of its repeats; `low` and
    `high` are the ends of their 95 % interval, or the least and the greatest of too few for one."""

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


Rates = Mapping[str, Mapping[str, Rate]]
"""By engine, the rate of each testbed."""


def shared_tests(tests: Iterable[Test]) -> list[Test]:
    """Return the tests that all testbeds make: a cable with each engine of a campaign."""
    got = []
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
        if not check(test):
            got.append(test)
    return got[:_ENGINES]


def rate_of(record: Record) -> Rate | None:
    """Return the rate that a shared test shows; None where it failed."""
    repeats = repeats_of([record], FIGURES["rate"])
    if not repeats.values:
        return None
    # On a cable it is the sender or the receiver that is measured. Testbeds take no turns.
    return Rate(replace(repeats, bound=False, rounds=()))


def groups(testbeds: Sequence[str], rates: Rates) -> list[list[str]]:
    """Return the testbeds in groups of those that are alike, directly or by way of others."""
    apart = {pair for by_testbed in rates.values() for pair in _apart(by_testbed)}
    left, got = list(testbeds), []
    while left:
        group = [left.pop(0)]
        for name in group:
            near = [each for each in left if (name, each) not in apart]
            group += near
            left = [each for each in left if each not in near]
        got.append(sorted(group))
    return got


def differences(testbeds: Sequence[str], rates: Rates) -> list[str]:
    """Return a sentence for each engine with which testbeds are not alike."""
    told = []
    for engine, by_testbed in rates.items():
        if len(groups(testbeds, {engine: by_testbed})) > 1:
            order = sorted(by_testbed, key=lambda name: by_testbed[name].pps, reverse=True)
            each = ", ".join(f"{name} {by_testbed[name]}" for name in order)
            told.append(f"testbeds differ: on a cable with {engine} {each}")
    return told


def _apart(rates: Mapping[str, Rate]) -> set[tuple[str, str]]:
    """Return the pairs of testbeds whose rates are shown to differ."""
    names = list(rates)
    family = Family(FIGURES["rate"], tuple(rate.repeats for rate in rates.values()))
    places = range(len(names))
    return {
        (names[one], names[other])
        for one in places
        for other in places
        if one != other and family.difference(one, other).word in ("faster", "slower")
    }
