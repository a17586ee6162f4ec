"""These tests repeat whole searches against a switch whose truth is known: every search has one
value with a precision, and the spread of several values decides about an order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from switchmark.campaign.run import repeats_of_trials
from switchmark.lab.searching import repeat_search
from switchmark.metrics.difference import differences
from switchmark.metrics.repeats import main_figure, repeats_of
from switchmark.metrics.searched import (
    goals_of,
    precision_of,
    search_values,
    searches_of,
    values_interval,
    values_of_goal,
)
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import confidence, is_uncertain, latency_confidence
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.search import Goal, OneSearch
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.report.answer import answer
from switchmark.report.notes import footnotes
from switchmark.report.sections import sections
from switchmark.searches import TABLE
from switchmark.searches.base import LoadBounds
from synthetic import SyntheticSwitch

RECORD = Record.model_validate(
    json.loads((Path(__file__).parent / "data/records-schema-1.jsonl").read_text())["record"]
)
RATES = ("ndr", "pdr", "mlr")


def bounds_of(**fields: Any) -> LoadBounds:
    return LoadBounds(**{"rate_pps": None, "duration_s": 10.0, "warmup_s": 0.1, **fields})


def searched(
    name: str, switch: SyntheticSwitch, label: str = "linux-bridge", **axes: Any
) -> Record:
    """Return the record of a test that was searched, each round of it one search."""
    estimate = repeat_search(TABLE[name], switch, bounds_of(**axes))
    trials = (
        trial.model_copy(update={"round": trial.spec.repeat, "verdict": "switch"})
        for trial in estimate.trials
    )
    return RECORD.model_copy(
        update={
            "test": RECORD.test.model_copy(update={**axes, "search": name, "switch": label}),
            "trials": tuple(trials),
            "search": estimate.summary,
            "verdict": estimate.verdict or "switch",
            "doubts": (),
        }
    )


def noisy(seed: int, **options: Any) -> SyntheticSwitch:
    return SyntheticSwitch(noise=0.01, seed=seed, **options)


# --- what is repeated ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RATES, "latency-at-load", "back-to-back"])
def test_the_whole_search_is_repeated_and_each_trial_knows_its_repeat(name: str) -> None:
    switch = noisy(3, buffer=500)
    record = searched(name, switch, repeat=3)
    assert record.search is not None
    counts = Counter(spec.repeat for spec in switch.asked)
    assert [counts[number] for number in (1, 2, 3)] == [
        result.trials for result in record.search.results
    ]
    assert record.search.trials == len(switch.asked)
    firsts = [next(s for s in switch.asked if s.repeat == number) for number in (1, 2, 3)]
    assert [spec.rate_pps for spec in firsts] == [None] * 3, "each begins with an R+ of its own"
    assert [trial.spec.repeat for trial in record.trials] == [1, 2, 3]


@pytest.mark.parametrize("name", ["fixed", "max"])
def test_the_repeats_of_a_test_without_a_search_are_its_trials(name: str) -> None:
    switch = SyntheticSwitch()
    estimate = repeat_search(TABLE[name], switch, bounds_of(repeat=4))
    assert [spec.repeat for spec in switch.asked] == [1] * len(estimate.trials) == [1] * 4


def test_finals_are_refused_where_each_trial_is_a_repeat() -> None:
    for search in ("fixed", "max"):
        (refusal,) = check(Test(search=search, finals=5))
        assert "has no final trials" in refusal.why
    assert check(Test(search="ndr", finals=5)) == []


@pytest.mark.parametrize("name", RATES)
def test_the_figure_of_a_goal_is_the_median_of_its_searches(name: str) -> None:
    record = searched(name, noisy(5), repeat=5)
    assert record.search is not None
    for index, goal in enumerate(record.search.goals):
        values = search_values(record, goal.goal)
        assert len(set(values)) > 1
        assert goal.rate_pps == median(values)
        goals = [result.goals[index] for result in record.search.results]
        assert tuple(one.rate_pps for one in goals) == values
        for one in goals:
            precision = precision_of(one)
            assert precision is not None
            assert 0 < precision <= 0.0051
            assert one.verdict is not None


def test_several_trials_at_the_rate_found_are_still_one_value() -> None:
    record = searched("ndr", noisy(5), finals=7)
    assert len(record.trials) >= 6
    assert len(search_values(record, "ndr")) == 1
    assert len(repeats_of([record], main_figure(record)).values) == 1
    assert confidence(record) is None, "the trials at one rate say nothing of another search"


def test_a_search_is_repeated_until_the_median_of_searches_is_certain() -> None:
    test = Test(search="ndr", until_certain=0.005)
    few, many = (
        repeat_search(TABLE["ndr"], SyntheticSwitch(noise=noise), bounds_of(until_certain=0.005))
        for noise in (0.001, 0.05)
    )
    assert few.summary is not None
    assert many.summary is not None
    assert len(few.summary.results) == 13 < len(many.summary.results) <= 130
    assert not is_uncertain(test, few.trials)


def test_trials_of_one_search_are_one_repeat_to_a_lab() -> None:
    record = searched("ndr", noisy(2), repeat=2, finals=3)
    trials = [
        trial.model_copy(update={"evidence": trial.evidence.model_copy(update={"testbed": bed})})
        for trial in record.trials
        for bed in "ab"[trial.spec.repeat - 1]
    ]
    assert len(trials) > 2
    assert repeats_of_trials(record.test, trials) == {"a": 1, "b": 1}
    assert repeats_of_trials(Test(), trials).total() == len(trials)


def test_a_stored_trial_is_written_as_before_unless_it_is_of_a_later_search() -> None:
    spec = TrialSpec(rate_pps=1.0, duration_s=1.0, warmup_s=0.0)
    assert "repeat" not in json.loads(spec.model_dump_json())
    later = spec.model_copy(update={"repeat": 2})
    assert TrialSpec.model_validate_json(later.model_dump_json()) == later != spec


# --- bounds, and goals that nothing met ------------------------------------------------------


def one(rate: float | None, high: float | None = None, verdict: str = "switch") -> OneSearch:
    goal = Goal(
        goal="ndr", loss_ratio=0, rate_pps=rate, low_pps=rate, high_pps=high, verdict=verdict
    )
    return OneSearch(trials=9, r_plus_pps=1.0, goals=(goal,))


@pytest.mark.parametrize(
    ("results", "rate", "high", "verdict"),
    [
        ([one(5, 6), one(7, 8), one(9, None, "sender")], 7, 8, "switch"),
        ([one(5, None, "sender"), one(7, 8), one(9, 10)], 7, 10, "sender"),
        ([one(5, 6), one(7, None, "sender"), one(9, 10)], 7, 10, "sender"),
        ([one(None, 1), one(7, 8), one(9, 10)], 7, 8, "switch"),
        ([one(None, 1), one(None, 1), one(9, 10)], None, 1, "switch"),
        ([one(5, 6), one(7, 8)], 6, 7, "switch"),
    ],
    ids=["above", "below", "middle", "one unmet", "most unmet", "two"],
)
def test_a_bound_among_searches_makes_the_median_one_only_if_it_could_be_higher(
    results: list[OneSearch], rate: float | None, high: float, verdict: str
) -> None:
    (goal,) = goals_of(results, {})
    assert (goal.rate_pps, goal.high_pps, goal.verdict) == (rate, high, verdict)


def test_medians_of_counted_frames_are_whole_and_bound_what_passed() -> None:
    counted = (
        {"burst_low": 3, "burst_high": 4, "burst_max": 6, "burst_step": 1, "burst_limit": 9},
        {"burst_low": 4, "burst_high": 7, "burst_max": 9, "burst_step": 2, "burst_limit": 12},
    )
    results = [
        OneSearch(
            trials=9,
            r_plus_pps=1.0,
            goals=(Goal(goal="b2b", loss_ratio=0, rate_pps=1.0, burst_stdev=stdev, **frames),),
        )
        for stdev, frames in zip((1.0, 3.0), counted, strict=True)
    ]
    (goal,) = goals_of(results, {})
    found = {name: getattr(goal, name) for name in counted[0]}
    assert found == {
        "burst_low": 3,
        "burst_high": 6,
        "burst_max": 8,
        "burst_step": 2,
        "burst_limit": 10,
    }
    assert goal.burst_stdev == 2.0


def test_a_repeat_of_a_search_at_given_loads_has_the_verdict_of_its_trials() -> None:
    record = searched("latency-at-load", noisy(7), repeat=2)
    trials = tuple(
        trial.model_copy(update={"verdict": "receiver" if trial.spec.repeat == 2 else "switch"})
        for trial in record.trials
    )
    repeats = searches_of(record.model_copy(update={"trials": trials}))
    assert [repeat.verdict for repeat in repeats] == ["switch", "receiver"]


def test_each_search_has_its_bracket_and_says_whether_it_is_a_bound() -> None:
    record = searched("ndr", noisy(4), repeat=2)
    assert record.search is not None
    first, _ = values_of_goal(record, "ndr")
    assert first.value == first.passed
    assert first.passed is not None
    assert first.failed is not None
    assert first.passed < first.failed
    assert not first.at_least
    slow = searched("ndr", noisy(4, capacity_pps=9e6), repeat=2)
    assert [value.at_least for value in values_of_goal(slow, "ndr")] == [True, True]
    assert {result.verdict for result in searches_of(slow)} == {"sender"}


def test_the_interval_of_searches_ends_where_a_bound_could_be_anything() -> None:
    found = [one(rate, rate + 0.01) for rate in (8, 5, 9, 6, 10, 7, 11) * 2]
    high = [*found[:-1], one(11, None, "sender")]
    for results, certain in ((found, True), (high[:2] * 2 + high[-1:] * 10, False)):
        record = searched("ndr", noisy(1))
        assert record.search is not None
        search = record.search.model_copy(update={"results": tuple(results)})
        values = values_of_goal(record.model_copy(update={"search": search}), "ndr")
        ends = values_interval(values)
        assert ends is not None
        assert (ends[1] is not None) is certain


def test_a_search_that_met_nothing_is_told() -> None:
    record = searched("ndr", noisy(1), repeat=3)
    assert record.search is not None
    results = (one(None, 1), *record.search.results[1:])
    search = record.search.model_copy(update={"results": results})
    notes = footnotes([record.model_copy(update={"search": search})])
    assert any(line.endswith("in 3 searches, no rate met NDR in 1 of 3 searches") for line in notes)
    assert len(search_values(record.model_copy(update={"search": search}), "ndr")) == 2


# --- what is said ----------------------------------------------------------------------------


def said_apart(one: Record, other: Record) -> bool:
    """Say whether anything is claimed of an order, by the answer or by what decides."""
    figure = main_figure(one)
    sides = [(repeats_of([one], figure), repeats_of([other], figure))]
    (difference,) = differences(figure, sides, 0.0)
    times = any("times what" in sentence for sentence in answer([one, other]))
    return times or difference.word in ("faster", "slower")


@pytest.mark.parametrize("name", RATES)
def test_of_two_single_searches_of_one_switch_nothing_is_claimed(name: str) -> None:
    """It was in half of these pairs."""
    pairs = [
        (searched(name, noisy(2 * seed)), searched(name, noisy(2 * seed + 1), "ovs"))
        for seed in range(60)
    ]
    assert not any(said_apart(*pair) for pair in pairs)
    apart = [pair for pair in pairs if not _brackets_meet(*pair)]
    assert len(apart) > 5, "their brackets lie apart often: they are no intervals"
    for pair in apart:
        (sentence, *_) = answer(pair)
        assert "no order is shown with fewer than three searches (--repeat 5)" in sentence
        assert sentence.count("1 search, found to within 0.") == 2
        assert "[" not in sentence


def _brackets_meet(one: Record, other: Record) -> bool:
    (a, *_), (b, *_) = (
        values_of_goal(searched, _first_goal(searched)) for searched in (one, other)
    )
    assert a.passed is not None
    assert b.passed is not None
    assert a.failed is not None
    assert b.failed is not None
    return a.passed <= b.failed and b.passed <= a.failed


def _first_goal(record: Record) -> str:
    assert record.search is not None
    return record.search.goals[0].goal


def test_repeated_searches_tell_switches_apart_that_differ() -> None:
    pairs = [
        (
            searched("ndr", noisy(seed), repeat=5),
            searched("ndr", noisy(seed + 1, capacity_pps=8e5), "ovs", repeat=5),
        )
        for seed in range(0, 20, 2)
    ]
    for fast, slow in pairs:
        figure = main_figure(fast)
        before, after = (repeats_of([searched], figure) for searched in (slow, fast))
        assert len(before.values) == len(after.values) == 5
        assert before.rounds == after.rounds == (1, 2, 3, 4, 5)
        (difference,) = differences(figure, [(before, after)], 0.0)
        assert difference.word == "faster"


def test_the_table_shows_the_precision_and_not_in_the_place_of_an_interval() -> None:
    def cells(record: Record) -> dict[str, str]:
        (section,) = sections([record], wide=True)
        return {column.name: column.cells[0] for column in section.columns}

    once, thrice, many = (searched("ndr", noisy(7), repeat=repeat) for repeat in (1, 3, 13))
    row = cells(once)
    assert "[" not in row["found"]
    assert row["precision"].endswith(" %")
    assert 0 < float(row["precision"].split()[0]) <= 0.51
    assert cells(thrice)["found"].endswith(" of 3)")
    found = cells(many)["found [95 %]"]
    low, high = median_interval(search_values(many, "ndr")) or (0.0, 0.0)
    assert found.endswith(f"[{low / 1e3:.0f}, {high / 1e3:.0f}]")


def test_a_latency_has_the_interval_of_its_searches() -> None:
    record = searched("latency-at-load", noisy(7), repeat=13, finals=2)
    values = tuple(
        trial.model_copy(update={"latency": RECORD.trials[0].latency}) for trial in record.trials
    )
    assert len(values) == 26
    record = record.model_copy(update={"trials": values})
    assert latency_confidence(record) is not None
    fewer = tuple(trial for trial in values if trial.spec.repeat <= 12)
    assert latency_confidence(record.model_copy(update={"trials": fewer})) is None


def resumed(trials: list[TrialResult], cut: int) -> list[int]:
    """Return the repeats of the trials that are measured anew after a search was cut off."""
    stored, calls = trials[:cut], []
    switch = noisy(11)
    for trial in stored:  # the switch goes on where it was
        switch(trial.spec)

    def measure(spec: TrialSpec) -> TrialResult:
        if stored:
            trial = stored.pop(0)
            assert trial.spec == spec
            return trial
        calls.append(spec.repeat)
        return switch(spec)

    repeat_search(TABLE["ndr"], measure, bounds_of(repeat=3))
    return calls


def test_a_run_goes_on_in_the_middle_of_a_repeat() -> None:
    trials: list[TrialResult] = []
    switch = noisy(11)

    def measure(spec: TrialSpec) -> TrialResult:
        trials.append(switch(spec))
        return trials[-1]

    repeat_search(TABLE["ndr"], measure, bounds_of(repeat=3))
    counts = Counter(trial.spec.repeat for trial in trials)
    cut = counts[1] + counts[2] // 2
    again = [TrialResult.model_validate_json(trial.model_dump_json()) for trial in trials]
    rest = Counter(resumed(again, cut))
    assert rest == {2: counts[2] - counts[2] // 2, 3: counts[3]}
