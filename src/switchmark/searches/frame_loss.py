"""The search for the frame loss rate (RFC 2544 section 26.3): the loss at 100, 90, 80 ... % of the
maximum rate, down to two successive loads without loss."""

from __future__ import annotations

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.record import TrialResult
from switchmark.model.search import SearchResult
from switchmark.searches.base import (
    Estimate,
    LoadBounds,
    Measure,
    Probe,
    Search,
    goal_of,
    limit_of,
    saturate,
)

_PERCENTS = range(100, 0, -10)
_LOSSLESS_IN_A_ROW = 2
_USUAL_LOADS = 7


class FrameLoss(Search):
    """Measure one goal per load, the highest load first.

    The maximum rate is that of the link (`line_pps`) or of the test. Without either, it is the rate
    that the sender reaches. An unsent frame counts as lost when the search decides whether to go
    on, because the load was not offered. The figures of the test are those at the highest load.
    """

    name = "frame-loss"
    summary = "loss at 100, 90, 80 ... % of the maximum rate, down to two loads without loss"

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        return (bounds.duration_s,) * (1 + _USUAL_LOADS * bounds.finals)

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        probe = Probe(measure, bounds)
        start = saturate(probe)
        maximum_pps = min(bounds.line_pps or start.ceiling_pps, bounds.rate_pps or float("inf"))
        goals = []
        finals: dict[str, tuple[TrialResult, ...]] = {}
        lossless = 0
        for percent in _PERCENTS:
            rate_pps = maximum_pps * percent / 100
            trials = tuple(probe(rate_pps) for _ in range(bounds.finals))
            worst = max(trials, key=lambda trial: trial.lost + trial.tx_unsent)
            verdict = limit_of(worst, start, bounds)
            goals.append(goal_of(f"{percent} %", trials, rate_pps=rate_pps, verdict=verdict))
            finals[goals[-1].goal] = trials
            lossless = 0 if loss_ratio(trials, unsent=True) else lossless + 1
            if lossless == _LOSSLESS_IN_A_ROW:
                break
        summary = SearchResult(
            name=self.name,
            trials=len(probe.trials),
            r_plus_pps=start.received_pps,
            goals=tuple(goals),
        )
        first = goals[0].goal
        return Estimate(finals[first], summary, goals[0].verdict, first, finals)


SEARCH = FrameLoss()
