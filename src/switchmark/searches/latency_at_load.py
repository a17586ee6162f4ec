"""The search `latency-at-load`: it measures latency at shares of R+ (Zhang 2021, table 3). The
first trial measures R+."""

from __future__ import annotations

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


class LatencyAtLoad(Search):
    """Measure one goal per load. The figures of the test are those at the highest load."""

    name = "latency-at-load"
    summary = "latency at shares of R+: 10, 50 and 99 %, or --loads"

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        return (bounds.duration_s,) * (1 + len(bounds.loads) * bounds.finals)

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        probe = Probe(measure, bounds)
        start = saturate(probe)
        r_plus = min(start.received_pps, start.ceiling_pps)

        goals = []
        trials: tuple[TrialResult, ...] = (start.trial,)
        finals = {}
        for load in sorted(bounds.loads):
            rate = load * r_plus
            trials = tuple(probe(rate) for _ in range(bounds.finals))
            worst = max(trials, key=lambda trial: trial.lost + trial.tx_unsent)
            verdict = limit_of(worst, start, bounds)
            goals.append(goal_of(f"{load:.4g}", trials, rate_pps=rate, verdict=verdict))
            finals[goals[-1].goal] = trials
        summary = SearchResult(
            name=self.name, trials=len(probe.trials), r_plus_pps=r_plus, goals=tuple(goals)
        )
        return Estimate(trials, summary, goal=goals[-1].goal if goals else None, finals=finals)


SEARCH = LatencyAtLoad()
