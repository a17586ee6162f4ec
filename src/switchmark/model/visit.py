"""The request of a campaign to the lab: to run a test, or more repeats of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test


def _unwatched(trial: TrialResult) -> None:
    """Ignore a trial."""


def _unkept(spec: TrialSpec, intervals: Mapping[str, Any]) -> None:
    """Ignore the intervals of a running trial."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A test to run now."""

    test: Test
    """The test."""
    number: int = 1
    """The number of its record."""
    key: str = ""
    """The key of its record."""
    stored: Sequence[TrialResult] = ()
    """Trials of the test from an earlier run or visit, which its search gets in order before it
    measures new trials."""
    on_trial: Callable[[TrialResult], None] = _unwatched
    """The callback for every new trial."""
    on_intervals: Callable[[TrialSpec, Mapping[str, Any]], None] = _unkept
    """The callback for the finished intervals of a running trial: the number of the first one, and
    the members of a time series."""
    then: Test | None = None
    """The next test, which may reuse the path."""
    r_plus_pps: float | None = None
    """The R+ for a rate in percent: the rate received under saturation, in frames per second."""
    limit: int | None = None
    """The most new repeats (trials or whole searches); None for all repeats of the test."""
    among: tuple[Test, ...] = ()
    """The tests of an interleaved comparison, with this one: their paths stay up between visits."""
    round: int | None = None
    """The round of new trials."""
