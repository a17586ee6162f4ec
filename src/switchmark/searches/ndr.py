"""This search finds NDR and, with loss allowed, PDR: a binary search that repeats lossy trials by a
rule of this project. It is close to the one with loss verification of ETSI GS NFV-TST 009 (section
12.3.3), and not the same.

One lost frame or one disturbance must not mislead: a trial that fails is repeated, and two of three
decide; the rate found has to pass again. In TST 009 one repeat without loss is enough, no rate has
to pass again, and a trial that loses very much (its threshold z) is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.record import TrialResult
from switchmark.model.search import SearchResult
from switchmark.searches.base import (
    LOWEST_SHARE,
    Estimate,
    LoadBounds,
    Measure,
    Probe,
    Saturation,
    Search,
    bracket,
    goal_of,
    halvings,
    limit_of,
    limit_of_all,
    meets,
    saturate,
)

_FIRST_STEP = 4
"""Of the precision: how far from R+ a second rate is tried."""

_TRIALS_A_HALVING = 2


class BinarySearch(Search):
    """The search finds the highest rate whose loss is within a ratio: 0, or the one asked for.

    A frame that should have been sent and was not counts as lost: the load was not offered.
    """

    def __init__(self, name: str, summary: str, *, lossless: bool) -> None:
        self.name = name
        self.summary = summary
        self._lossless = lossless

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        allowed = 0.0 if self._lossless else bounds.loss_ratio
        probe = Probe(measure, bounds)
        start = saturate(probe)
        result = search_rate(probe, start, allowed)
        if result.high_pps is None:
            verdict = limit_of_all(start, bounds)
        else:
            verdict = limit_of(result.beyond or start.trial, start, bounds)
        goal = goal_of(
            self.name,
            result.finals,
            rate_pps=result.low_pps,
            low_pps=result.low_pps,
            high_pps=result.high_pps,
            verdict=verdict,
            loss=allowed,
        )
        summary = SearchResult(
            name=self.name, trials=len(probe.trials), r_plus_pps=start.received_pps, goals=(goal,)
        )
        figure = result.finals or (result.lowest_beyond or start.trial,)
        met = self.name if result.finals else None
        return Estimate(figure, summary, verdict, met, {self.name: result.finals})

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        return (bounds.duration_s,) * (usual_trials(bounds.precision) + bounds.finals)


def usual_trials(precision: float) -> int:
    """Return about how many trials it takes to bound a rate: 15 for half a percent, as some of them
    are repeated."""
    return round(_TRIALS_A_HALVING * halvings(precision))


@dataclass(frozen=True, slots=True)
class RateBounds:
    """This record has the highest rate that passed, with those of its last trials that did, and the
    lowest above it that failed, with its last trial; None for what there is not. `lowest_beyond` is
    a trial of the lowest of all rates that failed."""

    low_pps: float | None
    high_pps: float | None
    finals: tuple[TrialResult, ...]
    beyond: TrialResult | None
    lowest_beyond: TrialResult | None


def search_rate(
    probe: Probe, start: Saturation, allowed: float, *, finals: int | None = None
) -> RateBounds:
    """Find the highest rate whose loss is within a ratio; it passes `finals` times (None: as the
    bounds say)."""
    bounds = probe.bounds
    times = bounds.finals if finals is None else finals
    good: dict[float, list[TrialResult]] = {}
    bad: dict[float, TrialResult] = {}

    def passes(rate_pps: float) -> bool:
        if probe.exhausted:
            return False
        trials = majority(lambda: probe(rate_pps), allowed)
        last = trials[-1]
        if meets(last, allowed):
            good[rate_pps] = []
            return True
        bad[rate_pps] = last
        return False

    def confirmed(rate_pps: float) -> bool:
        finals = good[rate_pps] = [probe(rate_pps) for _ in range(times)]
        # The trial that it passed before counts too; if that leaves a tie, one more.
        failures = sum(not meets(one, allowed) for one in finals)
        if 2 * failures == len(finals) + 1:
            finals.append(probe(rate_pps))
            failures += not meets(finals[-1], allowed)
        if 2 * failures > len(finals) + 1:
            bad[rate_pps] = finals[-1]
            return False
        return True

    lost = loss_ratio([start.trial]) > allowed
    low, high = bracket(
        passes,
        confirmed,
        first=start.received_pps if lost else start.ceiling_pps,
        ceiling=start.ceiling_pps,
        lowest=start.ceiling_pps * LOWEST_SHARE,
        precision=bounds.precision,
        step=_FIRST_STEP * bounds.precision,
    )
    return RateBounds(
        low,
        high,
        tuple(one for one in good[low] if meets(one, allowed)) if low is not None else (),
        None if high is None else bad.get(high),
        bad[min(bad)] if bad else None,
    )


def majority(trial: Callable[[], TrialResult], allowed: float) -> list[TrialResult]:
    """Return one trial if it passes; else run two or three, of which the last is as most of them
    are."""
    trials = [trial()]
    if meets(trials[0], allowed):
        return trials
    trials.append(trial())
    if meets(trials[1], allowed):
        trials.append(trial())
    return trials


SEARCH = BinarySearch(
    "ndr",
    "the highest rate without loss: a binary search in which two of three trials decide",
    lossless=True,
)
