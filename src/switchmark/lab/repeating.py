"""This module repeats a search as often as a test asks for, the whole of it each time, and puts
together what it found.

A search is one value, however many trials it took. So its repeats are searches, as those of a test
without a search are trials; each trial knows the repeat that it belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from switchmark.metrics.searched import goals_of, median_of
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.search import OneSearch, SearchResult
from switchmark.searches.base import Estimate, LoadBounds, Measure, Search, is_enough


def repeat_search(search: Search, measure: Measure, bounds: LoadBounds) -> Estimate:
    """Return what a search finds, repeated as often as `bounds` say."""
    if search.independent:
        return search.find(measure, bounds)
    searches: list[Estimate] = []
    while not is_enough([each.trials for each in searches], bounds):
        number = len(searches) + 1

        def once(spec: TrialSpec, number: int = number) -> TrialResult:
            return measure(spec.model_copy(update={"repeat": number}))

        searches.append(search.find(once, replace(bounds, repeat=1, until_certain=None)))
    return _together(searches)


def _together(searches: Sequence[Estimate]) -> Estimate:
    """Return the estimate of all repeats: its trials are those that make the figure in each of the
    repeats which met the goal that most of them did."""
    results = [_result(each.summary) for each in searches]
    names = {name for each in searches for name in each.finals}
    finals = {
        name: tuple(trial for each in searches for trial in each.finals.get(name, ()))
        for name in names
    }
    goals = goals_of(results, finals)
    met = Counter(each.goal for each in searches if each.goal is not None)
    order = [goal.goal for goal in goals]
    goal = max(met, key=lambda name: (met[name], -order.index(name)), default=None)
    verdicts = {each.goal: each.verdict for each in goals}
    chosen = [each for each in searches if goal is None or each.goal == goal]
    verdict = chosen[0].verdict if goal is None else verdicts[goal]
    first = searches[0].summary
    assert first is not None
    summary = SearchResult(
        name=first.name,
        trials=sum(each.trials for each in results),
        r_plus_pps=median_of([each.r_plus_pps for each in results], float("-inf")),
        goals=goals,
        results=tuple(results),
    )
    return Estimate(
        tuple(trial for each in chosen for trial in each.trials),
        summary,
        verdict if any(each.verdict for each in searches) else None,
        goal,
        finals,
    )


def _result(summary: SearchResult | None) -> OneSearch:
    assert summary is not None  # every search of many trials says what it found
    return OneSearch(trials=summary.trials, r_plus_pps=summary.r_plus_pps, goals=summary.goals)
