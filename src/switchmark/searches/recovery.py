"""The search `recovery`: how long a switch loses frames after an overload (RFC 2544 section 26.5).

It offers 110 % of the throughput, or the line rate if that is lower, and then half of that. The
recovery time runs from this step to the last loss. The throughput is the rate of the test, or is
found first as that of `ndr`.
"""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.search import SearchResult
from switchmark.model.series import TimeSeries
from switchmark.searches.base import (
    Estimate,
    LoadBounds,
    Measure,
    Probe,
    Search,
    goal_of,
    saturate,
)
from switchmark.searches.ndr import search_rate, usual_trials

_OVERLOAD, _AFTER = 1.1, 0.5
_LONGER = 6
"""The duration of the overload, in durations of a trial: 60 s with the default of 10 s."""

_OFFERED = 0.99
"""The share of the overload that senders must have sent."""

_CALM = 0.1
"""The share of the time after the step that must end without a loss. A switch that also loses
frames at half of the load loses its last one somewhere before the end."""

NO_OVERLOAD, NOT_RECOVERED = "no-overload", "not-recovered"


class Recovery(Search):
    """One trial per repeat: the overload, and the time after it."""

    name = "recovery"
    summary = "the time from an overload of 110 % to the last loss, at half of that load (RFC 2544)"

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        probe = Probe(measure, bounds)
        throughput = bounds.rate_pps or _throughput(probe)
        overload = min(_OVERLOAD * throughput, bounds.line_pps or float("inf"))
        step_s = _LONGER * bounds.duration_s
        trial = measure(
            TrialSpec(
                rate_pps=overload,
                duration_s=step_s + bounds.duration_s,
                warmup_s=bounds.warmup_s,
                steps=((step_s, _AFTER),),
            )
        )
        series = trial.series
        if series is None or series.gaps is None:
            raise UsageError(
                "search recovery needs the numbers of all frames of a flow",
                hint="--touch header and --function-cores 1",
            )
        recovery_s, doubts = _recovery_s(trial, series, overload * bounds.senders, step_s)
        goal = goal_of(
            self.name,
            (trial,),
            rate_pps=throughput,
            recovery_s=recovery_s,
            resolution_s=bounds.burst / (_AFTER * overload),
            overload_pps=overload,
            overload_s=step_s,
        )
        summary = SearchResult(name=self.name, trials=len(probe.trials) + 1, goals=(goal,))
        return Estimate((trial,), summary, None, self.name, {self.name: (trial,)}, doubts)

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        overload = (bounds.duration_s * (_LONGER + 1),)
        if bounds.rate_pps:
            return overload
        # The throughput is found first, after a trial at full rate.
        return (bounds.duration_s,) * (1 + usual_trials(bounds.precision)) + overload


def _throughput(probe: Probe) -> float:
    """Return the highest rate without loss."""
    start = saturate(probe)
    found = search_rate(probe, start, 0.0).low_pps
    if found is None:
        raise UsageError(
            "no rate is without loss, so there is no throughput to overload",
            hint="give it: --rate 100kpps",
        )
    return found


def _recovery_s(
    trial: TrialResult, series: TimeSeries, offered_pps: float, step_s: float
) -> tuple[float | None, tuple[str, ...]]:
    """Return the time from the step to the last loss, or None and the doubt that says why there is
    none."""
    within = [
        number
        for number, start_s in enumerate(series.starts_s)
        if start_s + series.interval_ns / 1e9 <= step_s
    ]
    sent = sum(series.offered[number] for number in within)
    lost = sum((series.lost or ())[number] for number in within) if series.lost else 0
    expected = offered_pps * len(within) * series.interval_ns / 1e9
    if not lost or sent < _OFFERED * expected:
        return None, (NO_OVERLOAD,)
    latest = series.latest_gap
    if latest is None or latest.after_due_ns is None:
        return None, (NOT_RECOVERED,)
    recovery_s = max(0.0, latest.after_due_ns / 1e9 - step_s)
    after_s = trial.spec.duration_s - step_s
    if recovery_s > (1 - _CALM) * after_s:
        return None, (NOT_RECOVERED,)
    return recovery_s, ()


SEARCH = Recovery()
