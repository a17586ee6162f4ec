"""The search of a test: its bounds, its stored trials, its repeats, and the record of its result.

A search gives one value, however many trials it takes. A search of many trials is therefore
repeated as a whole, and every trial has the number of its repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from switchmark.lab.judging import JudgedTrials
from switchmark.lab.running import RunningPath
from switchmark.metrics.searched import goals_of, median_of
from switchmark.metrics.throughput import is_drifting, is_uncertain, of_latency
from switchmark.metrics.verdict import verdict
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.search import OneSearch, SearchResult
from switchmark.model.test import USUAL_OUTAGE_RATE, Test
from switchmark.model.units import parse_shares, parse_verification
from switchmark.path.ways import cables_of
from switchmark.searches.base import Estimate, LoadBounds, Measure, Search, is_enough

_LEAST_OUTAGE_PPS, _MOST_OF_R_PLUS = 10_000.0, 0.5
"""The least default rate of an outage test, as its period is the resolution, and the share of R+
that this rate does not exceed."""


class Paused(Exception):
    """The search needs more trials than this visit allows."""


def next_stored(stored: list[TrialResult], spec: TrialSpec) -> TrialResult | None:
    """Return the first stored trial with the same specification, or None.

    The function removes this trial and all before it from the list. Earlier trials belong to
    another R+. They stay in the run folder, before the newer trials.
    """
    while stored:
        trial = stored.pop(0)
        if trial.spec == spec:
            return trial
    return None


def bounds_of(test: Test, streams: int, r_plus_pps: float | None) -> LoadBounds:
    """Return the bounds of a test's search with `streams` senders. A rate in percent is a share of
    `r_plus_pps`, the rate of all receivers together. With copies, every frame counts once per
    copy."""
    rate_pps = test.rate_pps
    if test.parsed_rate.share is not None and r_plus_pps is not None:
        of_sender_pps = r_plus_pps / (streams * test.copies)
        rate_pps = test.parsed_rate.share * of_sender_pps
        if test.dimension == "outage" and test.rate == USUAL_OUTAGE_RATE:
            rate_pps = max(rate_pps, min(_LEAST_OUTAGE_PPS, _MOST_OF_R_PLUS * of_sender_pps))
        if test.line_pps is not None:
            rate_pps = min(rate_pps, test.line_pps)
    return LoadBounds(
        rate_pps,
        test.duration,
        test.warmup,
        test.repeat,
        test.finals,
        loss_ratio=test.loss_ratio,
        precision=test.precision,
        verification=parse_verification(test.verification),
        exceed_ratio=test.exceed_ratio,
        duration_sum_s=test.duration_sum,
        loads=parse_shares(test.loads),
        until_certain=test.until_certain,
        senders=streams,
        line_pps=test.line_pps,
        burst=test.burst if test.arrivals == "burst" else 1,
        latency=of_latency(test),
        judge=verdict,
    )


def repeat_search(search: Search, measure: Measure, bounds: LoadBounds) -> Estimate:
    """Return the estimate of a search, repeated as `bounds` require."""
    if search.independent:
        return search.find(measure, bounds)
    searches: list[Estimate] = []
    while not is_enough([search.trials for search in searches], bounds):
        number = len(searches) + 1

        def once(spec: TrialSpec, number: int = number) -> TrialResult:
            return measure(spec.model_copy(update={"repeat": number}))

        searches.append(search.find(once, replace(bounds, repeat=1, until_certain=None)))
    return _together(searches)


def _together(searches: Sequence[Estimate]) -> Estimate:
    """Return the combined estimate of all repeats. Its figure comes from the repeats that met the
    most common goal."""
    results = [_result(search.summary) for search in searches]
    names = {name for search in searches for name in search.finals}
    finals = {
        name: tuple(trial for search in searches for trial in search.finals.get(name, ()))
        for name in names
    }
    goals = goals_of(results, finals)
    met = Counter(search.goal for search in searches if search.goal is not None)
    order = [goal.goal for goal in goals]
    goal = max(met, key=lambda name: (met[name], -order.index(name)), default=None)
    verdicts = {found.goal: found.verdict for found in goals}
    chosen = [search for search in searches if goal is None or search.goal == goal]
    verdict = chosen[0].verdict if goal is None else verdicts[goal]
    first = searches[0].summary
    assert first is not None
    summary = SearchResult(
        name=first.name,
        trials=sum(result.trials for result in results),
        r_plus_pps=median_of([result.r_plus_pps for result in results], float("-inf")),
        goals=goals,
        results=tuple(results),
    )
    return Estimate(
        tuple(trial for search in chosen for trial in search.trials),
        summary,
        verdict if any(search.verdict for search in searches) else None,
        goal,
        finals,
        tuple(dict.fromkeys(doubt for search in searches for doubt in search.doubts)),
    )


def _result(summary: SearchResult | None) -> OneSearch:
    assert summary is not None  # every search of many trials has a summary
    return OneSearch(trials=summary.trials, r_plus_pps=summary.r_plus_pps, goals=summary.goals)


def recorded(
    record: Record, estimate: Estimate, running: RunningPath, judged: JudgedTrials
) -> Record:
    """Return the record with the estimate and with the properties of the path."""
    test, path = record.test, running.path
    modes = dict.fromkeys(
        part.engine_mode for trial in estimate.trials for part in trial.parts if part.engine_mode
    )
    return record.model_copy(
        update={
            "semantics": path.wiring.semantics,
            "steering": path.steering,
            "port": ", ".join(sorted({end.kind for _, end in path.ends})),
            "memory": path.wiring.memory.kind
            if any(part.engine.user_memory for part in path.parts)
            else None,
            "engine_mode": " | ".join(modes) or None,
            "cables": cables_of(path),
            "nics": {end: str(nic) for end, nic in running.nics.items()},
            "verdict": estimate.verdict or verdict(estimate.trials),
            "doubts": tuple(
                dict.fromkeys(
                    [doubt for trial in estimate.trials for doubt in trial.doubts]
                    + [*estimate.doubts]
                    + ["uncertain"] * is_uncertain(test, estimate.trials)
                    + ["drifting"] * is_drifting(test, estimate.trials)
                )
            ),
            "gate": running.gate,
            "discarded": tuple(judged.discarded),
            "placement": running.path.placement.recorded(),
            "trials": estimate.trials,
            "search": estimate.summary,
        }
    )
