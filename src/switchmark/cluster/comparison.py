"""This module compares the testbeds of a lab: each measures the same calibration trials on a cable,
and where the 95 % intervals lie apart, the testbeds are not alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from switchmark.layout.resolve import check
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import rates_pps
from switchmark.model.cable import CABLE
from switchmark.model.record import Record
from switchmark.model.spec import Test

__all__ = ["Rate", "differences", "groups", "rate_of", "shared_tests"]

_REPEATS = 5
"""The fewest of which the lowest and the highest bound the median, 94 times in 100."""

_ENGINES = 3
"""As many engines of a campaign are compared by."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of a testbed on a cable is a median with its 95 % interval, in frames a second."""

    pps: float
    low: float
    high: float

    def is_apart(self, other: Rate) -> bool:
        """Say whether the intervals have nothing in common."""
        return self.high < other.low or other.high < self.low

    def __str__(self) -> str:
        return f"{self.pps / 1e6:.3g} [{self.low / 1e6:.3g}, {self.high / 1e6:.3g}] Mpps"


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
    if record.status != "ok" or not record.trials:
        return None
    rates = rates_pps(record)
    return Rate(median(rates), *(median_interval(rates) or (min(rates), max(rates))))


def groups(testbeds: Sequence[str], rates: Rates) -> list[list[str]]:
    """Return the testbeds in groups of those that are alike, directly or by way of others."""
    left, got = list(testbeds), []
    while left:
        group = [left.pop(0)]
        for name in group:
            near = [each for each in left if not _apart(name, each, rates)]
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


def _apart(one: str, other: str, rates: Rates) -> bool:
    return any(
        each[one].is_apart(each[other]) for each in rates.values() if one in each and other in each
    )
