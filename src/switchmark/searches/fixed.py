"""The search `fixed`: it offers the load of the test, once per repeat."""

from __future__ import annotations

from switchmark.model.record import TrialSpec
from switchmark.searches.base import Estimate, LoadBounds, Measure, Search, repeated


class Fixed(Search):
    """Run one trial per repeat at the rate of the test, without searching."""

    name = "fixed"
    summary = "one trial at the rate asked for"
    independent = True
    finds_rate = False

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        spec = TrialSpec(
            rate_pps=bounds.rate_pps, duration_s=bounds.duration_s, warmup_s=bounds.warmup_s
        )
        return Estimate(repeated(measure, spec, bounds), None)


SEARCH = Fixed()
