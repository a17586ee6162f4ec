"""Values from repeated searches: each repeat has one value for a goal, and the record has their
median.

The last load that passed and the first that failed give the precision of one search. The spread of
the values of several searches is a different quantity, and only the spread shows how certain the
figure is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from switchmark.metrics.latency import latency_of
from switchmark.metrics.loss import bound_of
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import is_lower_bound, loss_ratio
from switchmark.metrics.verdict import verdict
from switchmark.model.record import Record, TrialResult
from switchmark.model.search import Goal, OneSearch

_LOWEST, _HIGHEST = -math.inf, math.inf

OF_NO_GOAL = ("max", "frame-loss")
"""The searches whose figure is the received rate of their trials, not the value of a goal."""


@dataclass(frozen=True, slots=True)
class SearchValue:
    """The value that one repeat of a search found for a goal."""

    value: float | None
    """The value; None if no rate met the goal."""
    passed: float | None
    """The lower bound of its precision; None for a latency, and if nothing failed."""
    failed: float | None
    """The upper bound of its precision; None for a latency, and if nothing failed."""
    at_least: bool
    """Whether the value is a lower bound, because the traffic program was the limit or the search
    had reached its highest load."""
    verdict: str | None
    """The bottleneck that limited the value."""


def values_of_goal(record: Record, goal: str) -> tuple[SearchValue, ...]:
    """Return the value that each repeat of a record's search found for a goal, in order of the
    repeats.

    The unit is frames per second of one sender, frames of a burst, or nanoseconds of median latency
    for a load of `latency-at-load`. Empty for a record without that goal, for search `max`, whose
    repeats are its trials, and for `frame-loss`, whose loads are given.
    """
    if record.search is None or record.search.name in OF_NO_GOAL:
        return ()
    of_latency = record.search.name == "latency-at-load"
    return tuple(
        _latency_value(found) if of_latency else _value(found)
        for repeat in record.search.repeats
        for found in repeat.goals
        if found.goal == goal
    )


def search_values(record: Record, goal: str) -> tuple[float, ...]:
    """Return the same values as `values_of_goal`, without the repeats in which nothing met the
    goal."""
    return tuple(found.value for found in values_of_goal(record, goal) if found.value is not None)


def searches_of(record: Record) -> tuple[Record, ...]:
    """Return a record for each repeat of a search that has a figure, with the trials, goals and
    verdict of that repeat."""
    search = record.search
    assert search is not None
    trials: dict[int, list[TrialResult]] = {}
    for trial in record.trials:
        trials.setdefault(trial.spec.repeat, []).append(trial)
    if len(search.repeats) == 1:
        return (record,)
    searches = []
    for number, repeat_trials in sorted(trials.items()):
        one = search.repeats[number - 1]
        goal = next((goal for goal in one.goals if goal.low_pps is not None), one.goals[0])
        loads = search.name == "latency-at-load"
        searches.append(
            record.model_copy(
                update={
                    "trials": tuple(repeat_trials),
                    "verdict": verdict(repeat_trials) if loads else goal.verdict or "unknown",
                    "search": search.model_copy(
                        update={
                            "trials": one.trials,
                            "r_plus_pps": one.r_plus_pps,
                            "goals": one.goals,
                            "results": (one,),
                        }
                    ),
                }
            )
        )
    return tuple(searches)


def precision_of(goal: Goal) -> float | None:
    """Return the precision of a search for a goal: the gap between the load that passed and the
    load that failed, as a share of the latter. None if no load failed, or no load passed."""
    low, high = (
        (goal.low_pps, goal.high_pps)
        if goal.burst_frames is None
        else (goal.burst_low, goal.burst_high)
    )
    return None if low is None or not high else (high - low) / high


def values_interval(values: Sequence[SearchValue]) -> tuple[float, float | None] | None:
    """Return the 95 % confidence interval of the median of several searches; None if there are too
    few. The upper end is None if values that are only lower bounds could move it up."""
    known_values = [found for found in values if found.value is not None]
    least = median_interval([found.value or 0.0 for found in known_values])
    most = median_interval(
        [_HIGHEST if found.at_least else found.value or 0.0 for found in known_values]
    )
    if least is None or most is None:
        return None
    return least[0], most[1] if math.isfinite(most[1]) else None


def is_bound(goal: Goal) -> bool:
    """Return whether the value of a goal is only a lower bound: no load failed, or the traffic
    program was the limit."""
    if goal.burst_frames is not None:
        return goal.burst_high is None or is_lower_bound(goal.verdict or "")
    return goal.low_pps is not None and (
        goal.high_pps is None or is_lower_bound(goal.verdict or "")
    )


def _value(goal: Goal) -> SearchValue:
    if goal.burst_frames is not None:
        return SearchValue(
            goal.burst_frames, goal.burst_low, goal.burst_high, is_bound(goal), goal.verdict
        )
    return SearchValue(goal.rate_pps, goal.low_pps, goal.high_pps, is_bound(goal), goal.verdict)


def _latency_value(goal: Goal) -> SearchValue:
    middle = goal.latency_ns.p50 if goal.latency_ns else None
    return SearchValue(None if middle is None else float(middle), None, None, False, goal.verdict)


# --- medians over the repeats ----------------------------------------------------------------


def goals_of(
    results: Sequence[OneSearch], finals: Mapping[str, Sequence[TrialResult]]
) -> tuple[Goal, ...]:
    """Return the goals of a repeated search: the median of each figure, the latency of all final
    trials of the goal (`finals`), and the verdict of the median repeat."""
    names = dict.fromkeys(goal.goal for result in results for goal in result.goals)
    values = {
        name: [goal for result in results for goal in result.goals if goal.goal == name]
        for name in names
    }
    return tuple(_median_goal(goals, finals.get(name, ())) for name, goals in values.items())


def _median_goal(goals: Sequence[Goal], finals: Sequence[TrialResult]) -> Goal:
    if len(goals) == 1:
        return goals[0]
    middle = _middle(goals)
    figures = {
        name: median_of([getattr(goal, name) for goal in goals], missing)
        for name, missing in _MISSING.items()
        if any(name in goal.model_fields_set for goal in goals)
    }
    for name, whole in _WHOLE.items():
        if (frames := figures.get(name)) is not None:
            figures[name] = whole(frames)
    if middle.bursts is not None:
        figures["bursts"] = sum(goal.bursts or 0 for goal in goals)
    each = tuple(frames for goal in goals for frames in goal.burst_each)
    loss = middle.loss_ratio
    if any(goal.loss_ratio != loss for goal in goals) and finals:  # measured, not set
        loss = loss_ratio(finals)
    latency = latency_of(finals) or middle.latency_ns
    kept: dict[str, object] = {"burst_each": each} if each else {}
    if finals:
        kept["loss_bound"] = bound_of(finals)
    changes = {**figures, **kept, "loss_ratio": loss, "latency_ns": latency}
    return middle.model_copy(update=changes)


_MISSING = {
    **dict.fromkeys(("rate_pps", "low_pps", "burst_frames", "burst_low"), _LOWEST),
    **dict.fromkeys(("high_pps", "burst_high"), _HIGHEST),
    "conditional_pps": _LOWEST,
    **dict.fromkeys(("burst_max", "burst_stdev", "burst_step", "burst_limit"), _LOWEST),
    **dict.fromkeys(("buffer_s", "throughput_pps", "corrected_buffer_s"), _LOWEST),
    "recovery_s": _HIGHEST,
}
"""The figures of a goal, and the value that replaces a missing figure: no rate passed, or no rate
failed."""

_WHOLE = {
    "burst_low": math.floor,
    "burst_high": math.ceil,
    "burst_max": math.ceil,
    "burst_step": math.ceil,
    "burst_limit": math.floor,
}
"""The figures that count frames, with their rounding."""


def median_of(figures: Sequence[float | None], missing: float) -> float | None:
    """Return the median of some figures, with `missing` in place of None; None if the median is
    infinite."""
    middle = median(missing if figure is None else figure for figure in figures)
    return middle if math.isfinite(middle) else None


def _middle(goals: Sequence[Goal]) -> Goal:
    """Return the repeat that represents the median. It is a lower bound if the median would be
    higher with all lower bounds above the other values."""
    size = _size_of(goals)
    ordered = sorted(goals, key=size)
    bounds = [goal for goal in ordered if is_bound(goal)]
    middle = median(map(size, goals))
    at_most = median(_HIGHEST if is_bound(goal) else size(goal) for goal in goals)
    if bounds and at_most > middle:
        return bounds[0]
    exact = [goal for goal in ordered if not is_bound(goal)] or ordered
    return min(exact, key=lambda goal: abs(size(goal) - middle) if math.isfinite(middle) else 0)


def _size_of(goals: Sequence[Goal]) -> Callable[[Goal], float]:
    """Return the function that sorts goals of one name by their value."""
    bursts = any(goal.burst_frames is not None for goal in goals)

    def size(goal: Goal) -> float:
        value = goal.burst_frames if bursts else goal.rate_pps
        return _LOWEST if value is None else value

    return size
