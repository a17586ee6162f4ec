"""This module says what a campaign asks of the lab: to run a test, or some repeats more of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.model.record import TrialResult
from switchmark.model.test import Test


def _unwatched(trial: TrialResult) -> None:
    """Tell nobody of a trial."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One test to be run now. `number` and `key` are those of its record.

    `stored` are trials of it that an earlier run or visit has made: its search gets them again, in
    order, before it measures anew. `on_trial` is told of each new one. `then` is the next test,
    for which what is up may stay. `r_plus_pps` is what a rate in percent is a share of: all that
    arrives under saturation. `limit` is how many new repeats there may be, each a trial or the
    whole of a search; None for all that the test wants.

    `among` are the tests that this one is compared with in turn, itself too: their paths stay up
    from visit to visit of them. `round` is the number of the round that new trials are of."""

    test: Test
    number: int = 1
    key: str = ""
    stored: Sequence[TrialResult] = ()
    on_trial: Callable[[TrialResult], None] = _unwatched
    then: Test | None = None
    r_plus_pps: float | None = None
    limit: int | None = None
    among: tuple[Test, ...] = ()
    round: int | None = None
