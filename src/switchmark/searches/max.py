"""The search `max`: it measures R+, the mean rate received under saturation, without warm-up and
shut-down (Zhang 2021)."""

from __future__ import annotations

from statistics import median

from switchmark.metrics.throughput import steady_pps
from switchmark.model.record import Record, TrialSpec
from switchmark.model.search import SearchResult
from switchmark.searches.base import Estimate, LoadBounds, Measure, Search, goal_of, repeated


class Max(Search):
    """Send as fast as possible, or at the line rate. The rate of the test has no effect."""

    name = "max"
    summary = "R+: the mean rate received under saturation"
    independent = True
    finds_rate = False

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        spec = TrialSpec(
            rate_pps=bounds.line_pps, duration_s=bounds.duration_s, warmup_s=bounds.warmup_s
        )
        trials = repeated(measure, spec, bounds, steady=True)
        rates = sorted(map(steady_pps, trials))
        goal = goal_of("r+", trials, rate_pps=median(rates), low_pps=rates[0], high_pps=rates[-1])
        return Estimate(trials, SearchResult(name=self.name, trials=len(trials), goals=(goal,)))


def r_plus(record: Record) -> float:
    """Return the R+ in a record of this search, in frames per second, summed over all receivers."""
    assert record.search is not None
    rate_pps = record.search.goals[0].rate_pps
    assert rate_pps is not None
    return rate_pps


SEARCH = Max()
