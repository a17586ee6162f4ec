"""What a campaign asks of the lab: to run a test, or some more repeats of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.model.record import TrialResult
from switchmark.model.test import Test


def _unwatched(trial: TrialResult) -> None:
    """Tell nobody of a trial."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A test to be run now."""

    test: Test
    """The test."""
    number: int = 1
    """The number of its record."""
    key: str = ""
    """The key of its record."""
    stored: Sequence[TrialResult] = ()
    """Trials of it that an earlier run or visit has made: its search gets these again, in order,
    before it measures anew."""
    on_trial: Callable[[TrialResult], None] = _unwatched
    """Called with each new trial."""
    then: Test | None = None
    """The next test, for which what is up may stay."""
    r_plus_pps: float | None = None
    """What a rate in percent is a share of: all that arrives under saturation."""
    limit: int | None = None
    """The most new repeats, each a trial or a whole search; None for all that the test wants."""
    among: tuple[Test, ...] = ()
    """The tests that this one is compared with in turn, itself too: their paths stay up from visit
    to visit."""
    round: int | None = None
    """The number of the round that new trials are of."""
