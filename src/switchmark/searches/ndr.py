"""The search for NDR and PDR: a binary search that repeats lossy trials by the rule of the test.

By the rule of this project, one lost frame or one disturbance does not decide: a failed trial is
repeated, two of three trials decide, and the rate found must pass again. By that of ETSI GS NFV-TST
009 (section 12.3.3, binary search with loss verification), one lossless repeat is enough, no rate
must pass again, and a trial with very high loss (above its threshold z) is not repeated. By that of
RFC 2544 (section 26.1), each trial decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.record import TrialResult
from switchmark.model.search import SearchResult
from switchmark.model.units import VerificationRule
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
    telling_s,
)

_FIRST_STEP = 4
"""The distance of the second rate from R+, in multiples of the precision."""

_TRIALS_A_HALVING = 2


class BinarySearch(Search):
    """Find the highest rate whose loss ratio is 0, or at most the limit of the test.

    An unsent frame counts as lost, because the load was not offered.
    """

    def __init__(self, name: str, summary: str, *, lossless: bool) -> None:
        self.name = name
        self.summary = summary
        self._lossless = lossless

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        allowed = self.tells(bounds)
        probe = Probe(measure, bounds, tells=allowed)
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

    def tells(self, bounds: LoadBounds) -> float:
        return 0.0 if self._lossless else bounds.loss_ratio

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        trial_s = telling_s(self.tells(bounds), bounds.rate_pps, bounds)
        return (trial_s,) * (usual_trials(bounds.precision) + bounds.finals)


def usual_trials(precision: float) -> int:
    """Return the expected number of trials to bound a rate, repeats included: 15 for a precision of
    half a percent."""
    return round(_TRIALS_A_HALVING * halvings(precision))


@dataclass(frozen=True, slots=True)
class RateBounds:
    """The result of a search for a rate. A value that does not exist is None."""

    low_pps: float | None
    """The highest rate that passed."""
    high_pps: float | None
    """The lowest rate above it that failed."""
    finals: tuple[TrialResult, ...]
    """The last trials at `low_pps`: those that passed, or all of them if the rate need not pass
    again."""
    beyond: TrialResult | None
    """The last trial at `high_pps`."""
    lowest_beyond: TrialResult | None
    """A trial at the lowest rate that failed."""


def search_rate(
    probe: Probe, start: Saturation, allowed: float, *, finals: int | None = None
) -> RateBounds:
    """Find the highest rate whose loss ratio is at most `allowed`. The rate must pass `finals`
    final trials (None: as many as the bounds require)."""
    bounds = probe.bounds
    times = bounds.finals if finals is None else finals
    good: dict[float, list[TrialResult]] = {}
    bad: dict[float, TrialResult] = {}

    def passes(rate_pps: float) -> bool:
        if probe.exhausted:
            return False
        trials = decided(lambda: probe(rate_pps), allowed, bounds.verification)
        last = trials[-1]
        if meets(last, allowed):
            good[rate_pps] = [last]
            return True
        bad[rate_pps] = last
        return False

    def confirmed(rate_pps: float) -> bool:
        if bounds.verification.trials is not None:  # the result stands
            good[rate_pps] += [probe(rate_pps) for _ in range(times - 1)]
            return True
        finals = good[rate_pps] = [probe(rate_pps) for _ in range(times)]
        # The earlier trial that passed counts too. If that leaves a tie, one more trial decides.
        failures = sum(not meets(one, allowed) for one in finals)
        if 2 * failures == len(finals) + 1:
            finals.append(probe(rate_pps))
            failures += not meets(finals[-1], allowed)
        if 2 * failures > len(finals) + 1:
            bad[rate_pps] = finals[-1]
            return False
        return True

    def stands(final: TrialResult) -> bool:
        return bounds.verification.trials is not None or meets(final, allowed)

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
        () if low is None else tuple(filter(stands, good[low])),
        None if high is None else bad.get(high),
        bad[min(bad)] if bad else None,
    )


def decided(
    trial: Callable[[], TrialResult], allowed: float, rule: VerificationRule
) -> list[TrialResult]:
    """Return trials at one load until the rule decides; the last one shows its decision."""
    if rule.trials is None:
        return majority(trial, allowed)
    trials = [trial()]
    while not meets(trials[-1], allowed) and len(trials) < rule.trials:
        if loss_ratio([trials[-1]], unsent=True) > rule.high_loss:
            break
        trials.append(trial())
    return trials


def majority(trial: Callable[[], TrialResult], allowed: float) -> list[TrialResult]:
    """Return one trial if it passes. If it fails, run one or two more; the last trial shows the
    result of the majority."""
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
