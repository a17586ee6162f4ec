"""The searches `mlr` and `mlr:csit`: they find NDR and PDR together, with FD.io's library MLRsearch
(draft-ietf-bmwg-mlrsearch).

A single trial above the loss ratio of a goal does not decide. A load fails when more than half of
the time measured at it is lossy (exceed ratio 0.5). Early trials are shorter than final trials.

The exceed ratio, the width, the preceding targets and the expansion are those of CSIT, and so are
the trials of `mlr:csit`: 21 trials of 1 s decide on a load (`perform_mlr_search` in its
TrafficGenerator.py). For `mlr`, the test sets the duration of a trial, and three trials decide.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from switchmark.errors import UsageError
from switchmark.model.record import TrialResult
from switchmark.model.search import SearchResult
from switchmark.searches.base import (
    LOWEST_SHARE,
    Estimate,
    LoadBounds,
    Measure,
    Probe,
    Search,
    goal_of,
    halvings,
    limit_of,
    limit_of_all,
    meets,
    saturate,
    telling_s,
)

TRIALS_A_LOAD = 3
"""The number of final trials that make up the duration sum of a goal. Two that agree decide."""

_CSIT_TRIALS_A_LOAD, _CSIT_TRIAL_S = 21, 1.0

_FOREVER_S = 1e9  # the search ends by its number of trials: a clock would make a replay differ
_SHORTEST_S = 0.1
_ROUNDING = 1e-6  # of loads, which the library rounds
_INITIAL_SHARE = 0.25  # of the duration


_EARLY_TRIALS, _FINALS_A_HALVING = 8, 5
"""The usual numbers of trials. A quiet host needs fewer."""


class _OutOfTrials(Exception):
    """The search has used up its trials."""


class Mlr(Search):
    """Search for two goals: `ndr` without loss, and `pdr` with the loss ratio of the test. With
    `csit`, all trials have the duration that CSIT's have, and as many decide on a load."""

    def __init__(self, name: str, summary: str, *, csit: bool) -> None:
        self.name = name
        self.summary = summary
        self._csit = csit

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        if self._csit:
            finals = round(_FINALS_A_HALVING * halvings(bounds.precision))
            return (_CSIT_TRIAL_S,) * (_EARLY_TRIALS + finals * _CSIT_TRIALS_A_LOAD // 8)
        early = min(_shortest_s(bounds), bounds.duration_s)
        finals = round(_FINALS_A_HALVING * halvings(bounds.precision) * _usual_sum(bounds))
        finals += bounds.finals
        final_s = (bounds.duration_s + self._pdr_s(bounds.rate_pps, bounds)) / 2
        return (early,) * _EARLY_TRIALS + (final_s,) * finals

    def tells(self, bounds: LoadBounds) -> float:
        return bounds.loss_ratio

    def _pdr_s(self, rate_pps: float | None, bounds: LoadBounds) -> float:
        """Return the duration of a final trial for `pdr`. Raise UsageError if the trials of CSIT,
        whose duration is fixed, cannot tell its loss ratio."""
        needed_s = telling_s(bounds.loss_ratio, rate_pps, bounds)
        if self._csit and rate_pps and needed_s > _CSIT_TRIALS_A_LOAD * bounds.duration_s:
            raise UsageError(
                f"{self.name} cannot tell a loss ratio of {bounds.loss_ratio:g}: its "
                f"{_CSIT_TRIALS_A_LOAD} trials of {_CSIT_TRIAL_S:g} s are too short at "
                f"{rate_pps:.0f} frames/s",
                hint="--search mlr, which lengthens its trials",
            )
        return bounds.duration_s if self._csit else needed_s

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        from MLRsearch import Config, GoalResult, MultipleLossRatioSearch, SearchGoal

        trials, initial_s = TRIALS_A_LOAD, min(_shortest_s(bounds), bounds.duration_s)
        if self._csit:
            bounds = replace(bounds, duration_s=_CSIT_TRIAL_S)
            trials, initial_s = _CSIT_TRIALS_A_LOAD, _CSIT_TRIAL_S
        probe = Probe(measure, bounds)
        start = saturate(probe)
        final_s = {"ndr": bounds.duration_s, "pdr": self._pdr_s(start.received_pps, bounds)}
        ratios = {
            name: SearchGoal(
                loss_ratio=allowed,
                exceed_ratio=bounds.exceed_ratio,
                relative_width=bounds.precision,
                initial_trial_duration=initial_s,
                final_trial_duration=final_s[name],
                duration_sum=bounds.duration_sum_s or trials * final_s[name],
                preceding_targets=2,
                expansion_coefficient=2,
                fail_fast=False,
            )
            for name, allowed in (("ndr", 0.0), ("pdr", bounds.loss_ratio))
        }
        search = MultipleLossRatioSearch(
            config=Config(
                goals=list(ratios.values()),
                min_load=start.ceiling_pps * LOWEST_SHARE,
                max_load=start.ceiling_pps,
                search_duration_max=_FOREVER_S,
                warmup_duration=None,
            )
        )
        tried: dict[float, list[TrialResult]] = {}
        with suppress(_OutOfTrials):  # the search reports the bounds found so far
            search.search(measurer=_measurer(probe, tried), debug=lambda _: None)
        goals = []
        all_finals: dict[str, tuple[TrialResult, ...]] = {}
        for name, goal in ratios.items():
            target = search.scaling.goal_to_final_target[goal]
            relevant = search.database.get_relevant_bounds(target=target)
            low = None if relevant.clo is None else float(relevant.clo)
            high = None if relevant.chi is None else float(relevant.chi)
            finals: tuple[TrialResult, ...] = ()
            if low is not None:
                finals = _finals(probe, low, tried.get(low, []), goal.loss_ratio, final_s[name])
            if high is None:
                verdict = limit_of_all(start, bounds)
            else:
                verdict = limit_of(tried.get(high, [start.trial])[-1], start, bounds)
            near = low and high and high - low <= bounds.precision * (1 + _ROUNDING) * high
            conditional = GoalResult.from_bounds(relevant).conditional_throughput
            goals.append(
                goal_of(
                    name,
                    finals,
                    rate_pps=low,
                    low_pps=low,
                    high_pps=high,
                    verdict=verdict,
                    loss=goal.loss_ratio,
                    regular=bool(near),
                    conditional_pps=None if conditional is None else float(conditional),
                    exceed_ratio=goal.exceed_ratio,
                    width=goal.relative_width,
                    initial_trial_s=goal.initial_trial_duration,
                    final_trial_s=goal.final_trial_duration,
                    duration_sum_s=goal.duration_sum,
                )
            )
            all_finals[name] = finals
        summary = SearchResult(
            name=self.name,
            trials=len(probe.trials),
            r_plus_pps=start.received_pps,
            goals=tuple(goals),
        )
        met = next((goal for goal in goals if all_finals[goal.goal]), None)
        figure = all_finals[met.goal] if met else (start.trial,)
        limit = (met or goals[-1]).verdict
        return Estimate(figure, summary, limit, met.goal if met else None, all_finals)


def _usual_sum(bounds: LoadBounds) -> float:
    """Return the duration sum of a goal, relative to that of three trials."""
    if bounds.duration_sum_s is None:
        return 1.0
    return max(bounds.duration_sum_s / (TRIALS_A_LOAD * bounds.duration_s), 1 / TRIALS_A_LOAD)


def _shortest_s(bounds: LoadBounds) -> float:
    return max(_SHORTEST_S, _INITIAL_SHARE * bounds.duration_s)


def _finals(
    probe: Probe, load: float, trials: list[TrialResult], allowed: float, duration_s: float
) -> tuple[TrialResult, ...]:
    """Return the final trials of a load that met its goal. If the search has too few, run more.
    Some of these may fail the goal, so the result can be shorter than required."""
    finals = probe.bounds.finals
    long_enough = [trial for trial in trials if trial.spec.duration_s >= duration_s]
    met = [trial for trial in long_enough if meets(trial, allowed)]
    for _ in range(finals):
        if len(met) >= finals or probe.exhausted:
            break
        trial = probe(load, duration_s=duration_s)
        met += [trial] * meets(trial, allowed)
    return tuple(met[-finals:])


def _measurer(probe: Probe, tried: dict[float, list[TrialResult]]) -> Any:
    """Return the lab in the form that the library calls. It collects the full-length trials by load
    in `tried`."""
    from MLRsearch import AbstractMeasurer, MeasurementResult

    class Measurer(AbstractMeasurer):  # type: ignore[misc]
        def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
            if probe.exhausted:
                raise _OutOfTrials
            trial = probe(intended_load, duration_s=intended_duration)
            if intended_duration >= probe.bounds.duration_s:
                tried.setdefault(intended_load, []).append(trial)
            return MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                intended_count=(trial.tx_frames + trial.tx_unsent) * trial.copies,
                offered_count=trial.tx_frames * trial.copies,
                loss_count=trial.lost,
            )

    return Measurer()


SEARCH = Mlr(
    "mlr",
    "NDR and PDR together, by the MLRsearch library, with longer and fewer trials than CSIT",
    csit=False,
)
CSIT = Mlr("mlr:csit", "the same with the trials of CSIT: 21 of 1 s decide on a load", csit=True)
