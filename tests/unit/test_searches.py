"""These tests run searches against a switch whose truth is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from switchmark.lab.searching import repeat_search
from switchmark.metrics.latency import from_counts
from switchmark.metrics.throughput import is_uncertain, loss_ratio
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.search import Goal
from switchmark.model.test import Test
from switchmark.model.units import parse_verification
from switchmark.searches import TABLE, base
from switchmark.searches.base import MAX_TRIALS, Estimate, LoadBounds, meets, most_repeats
from switchmark.searches.ndr import decided, majority
from synthetic import SyntheticSwitch, answers_of

BOUNDS = LoadBounds(rate_pps=None, duration_s=1.0, warmup_s=0.1)
RATES = ("ndr", "pdr", "mlr")
NOISES: dict[str, dict[str, Any]] = {
    "none": {},
    "half a percent": {"noise": 0.005},
    "two percent": {"noise": 0.02},
    "rare loss": {"rare": 7},
    "two bands": {"bands": 0.8},
    "drift": {"drift": 0.001},
}


def present(figure: float | None) -> float:
    assert figure is not None
    return figure


def find(
    name: str, switch: SyntheticSwitch, bounds: LoadBounds = BOUNDS
) -> tuple[Estimate, tuple[Goal, ...]]:
    estimate = TABLE[name].find(switch, bounds)
    assert estimate.summary is not None
    assert estimate.summary.name == name
    assert estimate.summary.trials == len(switch.asked)
    return estimate, estimate.summary.goals


def changed(**fields: Any) -> LoadBounds:
    return LoadBounds(**{"rate_pps": None, "duration_s": 1.0, "warmup_s": 0.1, **fields})


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", RATES)
def test_the_truth_is_bracketed(name: str, noise: str) -> None:
    switch = SyntheticSwitch(**NOISES[noise])
    _, goals = find(name, switch)
    spread = {"half a percent": 0.015, "two percent": 0.06, "drift": 0.03}.get(noise, 0.0)
    for goal in goals:
        low, high = present(goal.low_pps), present(goal.high_pps)
        assert goal.rate_pps == low < high <= low * 1.0051
        truth = {0.0: 1e6, 0.005: 1e6 / 0.995}[goal.loss_ratio]
        slow = truth * (0.8 if noise == "two bands" else 1)
        assert low <= truth * (1 + spread) + 1
        assert high >= slow * (1 - spread) - 1
    assert len(switch.asked) <= 40


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", [*RATES, "back-to-back"])
def test_the_finest_precision_ends_and_a_finer_one_is_refused(name: str, noise: str) -> None:
    finest = 1e-9
    switch = SyntheticSwitch(**NOISES[noise], buffer=1000 if name == "back-to-back" else 0)
    _, goals = find(name, switch, changed(precision=Test(search=name, precision=finest).precision))
    assert goals
    assert len(switch.asked) <= MAX_TRIALS
    with pytest.raises(ValidationError, match="greater than or equal to"):
        Test(search=name, precision=finest * 0.99)


@settings(max_examples=40)
@given(st.floats(1e3, 4e7), st.floats(1.05, 500), st.sampled_from(RATES), st.floats(0.002, 0.05))
def test_any_capacity_is_found(
    capacity_pps: float, excess: float, name: str, precision: float
) -> None:
    switch = SyntheticSwitch(capacity_pps=capacity_pps, sender_pps=capacity_pps * excess)
    _, goals = find(name, switch, changed(precision=precision))
    frame = 1.5  # one of a trial, and its rounding
    for goal in goals:
        truth = capacity_pps / (1 - goal.loss_ratio)
        assert present(goal.low_pps) - frame <= truth
        assert goal.high_pps is None or goal.high_pps >= truth * 0.9999 - 2 * frame
    assert len(switch.asked) <= 40


@pytest.mark.parametrize(
    ("lost", "runs"),
    [((0,), True), ((9, 0, 0), True), ((9, 0, 9), False), ((9, 9), False)],
)
def test_two_of_three_trials_decide(lost: tuple[int, ...], runs: bool) -> None:
    """The first and the third may fail: then the second has passed by chance."""
    spec = TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0)
    switch = SyntheticSwitch()
    whole = switch(spec)
    left = [whole.model_copy(update={"spec": spec, "lost": count}) for count in lost]
    trials = majority(lambda: left.pop(0), 0.0)
    assert (len(trials), left) == (len(lost), [])
    assert meets(trials[-1], 0.0) is runs


@pytest.mark.parametrize("name", [name for name in TABLE if name != "back-to-back"])
def test_nothing_is_asked_for_beyond_what_a_link_carries(name: str) -> None:
    switch = SyntheticSwitch()
    bounds = changed(line_pps=1.5e6, rate_pps=1.5e6 if name == "fixed" else None)
    TABLE[name].find(switch, bounds)
    assert switch.asked[0].rate_pps == 1.5e6
    assert all(present(spec.rate_pps) <= 1.5e6 for spec in switch.asked)


@pytest.mark.parametrize("name", RATES)
def test_a_switch_that_fills_a_link_is_limited_by_what_was_offered(name: str) -> None:
    switch = SyntheticSwitch()
    _, goals = find(name, switch, changed(line_pps=5e5))
    for goal in goals:
        assert (goal.rate_pps, goal.high_pps, goal.verdict) == (5e5, None, "offered-load")


def test_r_plus_is_no_more_than_a_link_carries() -> None:
    for line_pps, r_plus in ((5e5, 5e5), (1.5e6, 1e6), (None, 1e6)):
        _, (goal,) = find("max", SyntheticSwitch(), changed(line_pps=line_pps))
        assert goal.rate_pps == r_plus


def test_a_sender_that_does_not_fill_a_link_is_the_limit_itself() -> None:
    switch = SyntheticSwitch(capacity_pps=3e6, sender_pps=1e6)
    _, (goal,) = find("ndr", switch, changed(line_pps=2e6))
    assert (goal.rate_pps, goal.verdict) == (1e6, "sender")


def test_mlr_needs_few_trials_for_both_goals() -> None:
    switch = SyntheticSwitch()
    _, goals = find("mlr", switch)
    assert [goal.goal for goal in goals] == ["ndr", "pdr"]
    assert len(switch.asked) <= 40
    assert min(spec.duration_s for spec in switch.asked) >= 0.1


@pytest.mark.parametrize("name", RATES)
def test_one_lost_frame_does_not_mislead(name: str) -> None:
    quiet, rare = SyntheticSwitch(), SyntheticSwitch(rare=5)
    for one, other in zip(find(name, quiet)[1], find(name, rare)[1], strict=True):
        assert other.rate_pps == pytest.approx(one.rate_pps, rel=0.011)


@pytest.mark.parametrize("finals", [1, 3])
@pytest.mark.parametrize("rare", [3, 4, 5, 7])
@pytest.mark.parametrize("name", RATES)
def test_the_figures_are_those_of_trials_that_met_the_goal(
    name: str, rare: int, finals: int
) -> None:
    """A host that now and then keeps the sender from a tenth of its frames."""
    switch = SyntheticSwitch()

    def starved(spec: TrialSpec) -> TrialResult:
        trial = switch(spec)
        if len(switch.asked) % rare or spec.rate_pps is None:
            return trial
        missing = trial.tx_frames // 10
        counts = {"tx_frames": trial.tx_frames - missing, "tx_unsent": missing}
        return trial.model_copy(update={**counts, "rx_frames": trial.rx_frames - missing})

    estimate = TABLE[name].find(starved, changed(finals=finals))
    assert estimate.summary is not None
    allowed = estimate.summary.goals[0].loss_ratio
    assert 1 <= len(estimate.trials) <= finals + 1
    for trial in estimate.trials:
        assert trial.spec.duration_s == 1.0
        assert trial.spec.rate_pps == estimate.summary.goals[0].rate_pps
        assert loss_ratio([trial], unsent=True) <= allowed


@pytest.mark.parametrize("name", RATES)
def test_a_switch_that_always_loses_has_no_ndr(name: str) -> None:
    for goal in find(name, SyntheticSwitch(rare=1))[1]:
        if goal.loss_ratio == 0:
            assert goal.rate_pps is goal.low_pps is None
            assert present(goal.high_pps) > 0
        else:
            assert goal.rate_pps == pytest.approx(1e6, rel=0.011)


@pytest.mark.parametrize("name", RATES)
def test_the_sender_bounds_what_is_found(name: str) -> None:
    for goal in find(name, SyntheticSwitch(sender_pps=9e5))[1]:
        assert (goal.verdict, goal.high_pps) == ("sender", None)
        assert goal.rate_pps == pytest.approx(9e5, rel=0.006)


@pytest.mark.parametrize("name", RATES)
def test_a_rate_asked_for_is_the_highest_that_is_tried(name: str) -> None:
    switch = SyntheticSwitch()
    for goal in find(name, switch, changed(rate_pps=4e5))[1]:
        assert (goal.rate_pps, goal.verdict) == (4e5, "offered-load")
    assert max(spec.rate_pps or 0 for spec in switch.asked) == 4e5


@pytest.mark.parametrize("name", RATES)
def test_the_rings_of_the_receiver_are_blamed(name: str) -> None:
    for goal in find(name, SyntheticSwitch(receiver=True))[1]:
        assert goal.verdict == "receiver"


@pytest.mark.parametrize("name", RATES)
def test_another_limit_is_for_the_judge(name: str) -> None:
    for goal in find(name, SyntheticSwitch(), changed(judge=lambda trials: "switch"))[1]:
        assert goal.verdict == "switch"


def test_rates_are_those_of_one_sender() -> None:
    switch = SyntheticSwitch(capacity_pps=1e6, sender_pps=2e6)

    def two_senders(spec: Any) -> TrialResult:
        total_pps = None if spec.rate_pps is None else 2 * spec.rate_pps
        return switch(spec.model_copy(update={"rate_pps": total_pps}))

    summary = TABLE["ndr"].find(two_senders, changed(senders=2)).summary
    assert summary is not None
    assert summary.goals[0].rate_pps == pytest.approx(5e5, rel=0.006)


@pytest.mark.parametrize("noise", ["none", "two percent"])
@pytest.mark.parametrize("name", [name for name in TABLE if name != "fixed"])
def test_a_search_that_was_cut_anywhere_goes_on_as_if_it_was_not(name: str, noise: str) -> None:
    trials: list[TrialResult] = []
    switch = SyntheticSwitch(buffer=100, **NOISES[noise])

    def measure(spec: Any) -> TrialResult:
        trials.append(switch(spec))
        return trials[-1]

    bounds = changed(repeat=2, finals=2)
    whole = repeat_search(TABLE[name], measure, bounds)
    stored = [TrialResult.model_validate_json(one.model_dump_json()) for one in trials]
    # Of hundreds of trials some places, since each is a search from its beginning.
    step = max(1, len(trials) // 15)
    for cut in {*range(0, len(trials) + 1, step), len(trials)}:
        rest = iter(trials[cut:])

        def later(spec: Any, rest: Any = rest) -> TrialResult:
            trial: TrialResult = next(rest)
            assert trial.spec == spec
            return trial

        assert repeat_search(TABLE[name], answers_of(stored[:cut], later), bounds) == whole


def latency_of(value: int, count: int = 100) -> Any:
    """Return the latency of a trial whose samples are all alike."""
    buckets = {"count": count, "min": value, "max": value, "sum": count * value}
    return from_counts("rtt", [{**buckets, "counts": [[value, count]]}])


def test_a_test_of_latency_is_certain_by_its_latency() -> None:
    """The rate is always the one asked for: it says nothing about how certain a latency is."""
    bounds = changed(until_certain=0.005, latency=True, rate_pps=1000)
    for step, trials in ((0, 13), (7, 130)):
        drawn = iter(range(100, 2000, step) if step else [100] * 130)

        def measure_latency(spec: TrialSpec, drawn: Iterator[int] = drawn) -> TrialResult:
            return SyntheticSwitch()(spec).model_copy(update={"latency": latency_of(next(drawn))})

        assert len(TABLE["fixed"].find(measure_latency, bounds).trials) == trials


def test_a_trial_without_a_median_makes_none_certain() -> None:
    test = Test(dimension="latency", rate="1000", until_certain=0.01)
    alike, few = latency_of(1000), latency_of(1000, count=5)
    assert few.p50 is None

    def repeated(count: int) -> tuple[TrialResult, ...]:
        """Of ten trials so many tell a median."""
        switch = SyntheticSwitch()

        def trial(spec: TrialSpec) -> TrialResult:
            is_measured = len(switch.asked) % 10 < count
            return switch(spec).model_copy(update={"latency": alike if is_measured else few})

        return TABLE["fixed"].find(trial, changed(until_certain=0.01, latency=True)).trials

    assert len(repeated(0)) == most_repeats(1, 0.01)
    assert is_uncertain(test, repeated(0))
    some = repeated(3)
    assert len(some) == 41, "the thirteenth that has one"
    assert not is_uncertain(test, some)


def test_latency_is_measured_at_shares_of_r_plus() -> None:
    switch = SyntheticSwitch(sender_pps=1e6)
    estimate, goals = find("latency-at-load", switch, changed(loads=(0.99, 0.2), finals=2))
    assert [goal.goal for goal in goals] == ["0.2", "0.99"]
    assert [goal.rate_pps for goal in goals] == pytest.approx([2e5, 9.9e5])
    assert len(estimate.trials) == 2
    assert len(switch.asked) == 5


@settings(max_examples=30)
@given(st.integers(0, 20_000), st.floats(1.2, 4))
def test_the_longest_burst_and_the_buffer_are_found(buffer: int, excess: float) -> None:
    switch = SyntheticSwitch(sender_pps=1e6 * excess, buffer=buffer)
    _, (goal,) = find("back-to-back", switch)
    # While a burst comes in, a part of it goes out.
    truth = buffer / (1 - 1 / excess)
    assert present(goal.burst_low) <= (buffer + 1) / (1 - 1 / excess) + 1  # frames are whole
    assert goal.burst_high is None or goal.burst_high >= truth * 0.999 - 1
    if goal.burst_high is not None and buffer > 100:
        # What came out of the buffer in the one second of a trial is taken for forwarding, and
        # the rate without loss is known to half a percent.
        slack = 0.02 + 0.006 / (excess - 1) + 1.1 * buffer / 1e6 / (excess - 1)
        assert present(goal.corrected_buffer_s) * 1e6 * excess == pytest.approx(buffer, rel=slack)


@pytest.mark.parametrize(("lossless", "excess"), [(6e5, 2), (9e5, 1.5)])
def test_a_buffer_is_corrected_by_the_rate_without_loss(lossless: float, excess: float) -> None:
    switch = SyntheticSwitch(sender_pps=1e6 * excess, buffer=3000, lossless_pps=lossless)
    _, (goal,) = find("back-to-back", switch)
    assert goal.throughput_pps == pytest.approx(lossless, rel=0.006)
    share = present(goal.corrected_buffer_s) / present(goal.buffer_s)
    assert share == pytest.approx(1 - lossless / (1e6 * excess), rel=0.02)


def test_a_switch_that_always_loses_has_no_corrected_buffer() -> None:
    _, (goal,) = find("back-to-back", SyntheticSwitch(lossless_pps=0, buffer=100))
    assert goal.throughput_pps is goal.corrected_buffer_s is None
    assert present(goal.burst_frames) > 0


def test_a_burst_without_loss_is_bounded_by_the_sender() -> None:
    _, (goal,) = find("back-to-back", SyntheticSwitch(sender_pps=9e5))
    assert (goal.burst_high, goal.verdict) == (None, "sender")


@pytest.mark.parametrize("switch", [{}, {"lossless_pps": 6e5}])
def test_one_search_has_the_50_bursts_of_rfc_2544(switch: dict[str, Any]) -> None:
    synthetic = SyntheticSwitch(sender_pps=2e6, buffer=3000, **switch)
    _, (goal,) = find("back-to-back", synthetic, changed(finals=50))
    assert goal.bursts == 50
    assert goal.burst_low == pytest.approx(6000, rel=0.01)
    assert goal.throughput_pps is not None, "the rate without loss has its trials left"


def test_a_burst_that_takes_half_of_all_trials_is_known_by_its_bounds() -> None:
    switch = SyntheticSwitch(sender_pps=2e6, buffer=10**15, rare=3)
    _, (goal,) = find("back-to-back", switch, changed(duration_s=1e12, precision=1e-17))
    bursts = sum(spec.frames is not None for spec in switch.asked)
    assert MAX_TRIALS // 2 <= bursts <= MAX_TRIALS // 2 + 2, "the last length has up to three"
    assert goal.bursts == 1
    assert goal.burst_high is not None
    assert present(goal.burst_low) <= 2 * 10**15 < goal.burst_high


@pytest.mark.parametrize("name", ["fixed", "max"])
def test_repeating_ends_when_it_is_certain(name: str) -> None:
    counts = []
    for noise in (0.001, 0.01, 0.05):
        switch = SyntheticSwitch(noise=noise)
        bounds = changed(until_certain=0.005)
        trials = TABLE[name].find(switch, bounds).trials
        counts.append(len(trials))
        assert 13 <= len(trials) <= most_repeats(1, 0.005) == 130
    assert counts[0] == 13 < counts[1] < counts[2]


@pytest.mark.parametrize("name", RATES)
def test_the_verdict_of_a_figure_is_what_kept_it_from_more(name: str) -> None:
    judged, goals = find(name, SyntheticSwitch(), changed(judge=lambda trials: "switch"))
    assert judged.verdict == goals[0].verdict == "switch"
    slow = SyntheticSwitch(capacity_pps=1e6, sender_pps=1e5)
    bounded, goals = find(name, slow)
    assert bounded.verdict == goals[0].verdict == "sender"
    slow.asked.clear()
    in_its_context, _ = find(name, slow, changed(judge=lambda trials: "switch"))
    assert in_its_context.verdict == "switch"


# --- frame loss ---------------------------------------------------------------------------------


def test_frame_loss_goes_down_by_tenths_until_two_loads_lose_nothing() -> None:
    switch = SyntheticSwitch(capacity_pps=1.5e6, sender_pps=2e6)
    estimate, goals = find("frame-loss", switch)
    assert [goal.goal for goal in goals] == ["100 %", "90 %", "80 %", "70 %", "60 %"]
    assert [present(goal.rate_pps) for goal in goals] == [2e6, 1.8e6, 1.6e6, 1.4e6, 1.2e6]
    assert [goal.loss_ratio for goal in goals] == pytest.approx([0.25, 1 / 6, 0.0625, 0, 0])
    assert estimate.goal == "100 %"
    assert loss_ratio(estimate.trials) == pytest.approx(0.25)


def test_one_load_without_loss_does_not_end_frame_loss() -> None:
    switch = SyntheticSwitch(capacity_pps=2e6, sender_pps=2e6, rare=3)
    _, goals = find("frame-loss", switch)
    # Every third trial loses a frame, the first trial is the one at full speed.
    assert [goal.loss_ratio > 0 for goal in goals] == [False, True, False, False]


def test_frame_loss_begins_at_the_rate_of_the_link_and_at_that_of_the_test() -> None:
    for bounds, first in (
        (changed(line_pps=1.5e6), 1.5e6),
        (changed(rate_pps=1.2e6), 1.2e6),
        (changed(line_pps=1.5e6, rate_pps=1.2e6), 1.2e6),
        (changed(), 2e6),
    ):
        _, goals = find("frame-loss", SyntheticSwitch(), bounds)
        assert goals[0].rate_pps == first


def test_frame_loss_counts_a_frame_that_was_not_sent_against_the_load() -> None:
    """The link is faster than the sender: nothing is lost, and the load was not offered."""
    switch = SyntheticSwitch(capacity_pps=3e6, sender_pps=1e6)
    _, goals = find("frame-loss", switch, changed(line_pps=1.25e6))
    assert [goal.goal for goal in goals] == ["100 %", "90 %", "80 %", "70 %"]
    assert all(goal.loss_ratio == 0 for goal in goals)


def test_frame_loss_makes_as_many_trials_as_asked_at_each_load() -> None:
    switch = SyntheticSwitch()
    estimate, goals = find("frame-loss", switch, changed(finals=3))
    assert len(switch.asked) == 1 + 3 * len(goals)
    assert len(estimate.trials) == 3


def test_a_loss_that_never_ends_ends_at_a_tenth() -> None:
    _, goals = find("frame-loss", SyntheticSwitch(capacity_pps=1.0))
    assert [goal.goal for goal in goals][-1] == "10 %"
    assert len(goals) == 10


# --- trials with loss ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "lost", "runs"),
    [
        ("none", (0,), True),
        ("none", (9,), False),
        ("tst009", (9, 0), True),
        ("tst009", (9, 9), False),
        ("tst009:3", (9, 9, 0), True),
        ("tst009:3", (9, 9, 9), False),
        ("tst009:3:10%", (10**6,), False),
        ("tst009:3:10%", (9, 10**6), False),
        ("majority", (9, 0, 0), True),
        ("majority", (9, 0, 9), False),
    ],
)
def test_the_rule_decides_on_a_trial_with_loss(
    rule: str, lost: tuple[int, ...], runs: bool
) -> None:
    spec = TrialSpec(rate_pps=1e6, duration_s=1, warmup_s=0)
    whole = SyntheticSwitch()(spec)
    left = [whole.model_copy(update={"lost": each}) for each in lost]
    trials = decided(lambda: left.pop(0), 0.0, parse_verification(rule))
    assert (len(trials), left) == (len(lost), [])
    assert meets(trials[-1], 0.0) is runs


def test_a_rate_that_one_trial_decided_need_not_pass_again() -> None:
    """Every other trial loses a frame. Two of three would take back a rate that passed once."""
    for rule, finals in (("none", 3), ("majority", 3)):
        bounds = changed(verification=parse_verification(rule), finals=finals)
        switch = SyntheticSwitch(rare=2)
        estimate, (goal,) = find("ndr", switch, bounds)
        if rule == "none":
            assert len(estimate.trials) == finals
            assert {trial.lost for trial in estimate.trials} == {0, 1}
        else:
            assert all(trial.lost == 0 for trial in estimate.trials)
        assert goal.rate_pps is None or present(goal.rate_pps) <= 1e6


# --- fifty bursts -------------------------------------------------------------------------------


def test_fifty_bursts_are_all_kept() -> None:
    switch = SyntheticSwitch(buffer=1000, noise=0.01)
    _, (goal,) = find("back-to-back", switch, changed(finals=50, precision=0.01))
    assert (goal.bursts, len(goal.burst_each)) == (50, 50)
    assert present(goal.burst_frames) == pytest.approx(sum(goal.burst_each) / 50)
    assert (goal.burst_low, goal.burst_max) == (min(goal.burst_each), max(goal.burst_each))
    assert present(goal.burst_stdev) == pytest.approx(stdev(goal.burst_each))
    assert goal.burst_limit == 10**6
    assert goal.burst_step == round(0.01 * max(goal.burst_each))


def test_a_single_burst_has_no_deviation() -> None:
    _, (goal,) = find("back-to-back", SyntheticSwitch(buffer=1000))
    assert goal.burst_stdev is None
    assert goal.burst_each == (goal.burst_low,) == (goal.burst_max,)


# --- goals of MLRsearch --------------------------------------------------------------------------


def test_a_goal_of_mlr_has_all_its_attributes() -> None:
    _, goals = find("mlr", SyntheticSwitch(), changed(duration_s=2.0, loss_ratio=0.01))
    for goal, allowed in zip(goals, (0.0, 0.01), strict=True):
        assert (goal.loss_ratio, goal.exceed_ratio, goal.width) == (allowed, 0.5, 0.005)
        assert (goal.initial_trial_s, goal.final_trial_s, goal.duration_sum_s) == (0.5, 2.0, 6.0)
        assert goal.regular
        # What arrives at the rate found, at least.
        assert present(goal.rate_pps) * (1 - allowed) <= present(goal.conditional_pps)
        assert present(goal.conditional_pps) <= present(goal.rate_pps)


def test_the_goals_of_mlr_are_settings() -> None:
    """With a sum of one trial and no exceeding, a load needs one full trial without loss."""
    switch = SyntheticSwitch()
    bounds = changed(duration_s=2.0, exceed_ratio=0.0, duration_sum_s=2.0)
    _, goals = find("mlr", switch, bounds)
    assert [(goal.exceed_ratio, goal.duration_sum_s) for goal in goals] == [(0.0, 2.0)] * 2
    full = [spec for spec in switch.asked if spec.duration_s == 2.0 and spec.rate_pps]
    loads = Counter(spec.rate_pps for spec in full)
    assert max(loads[goals[0].low_pps], loads[goals[0].high_pps]) <= 2
    seven = SyntheticSwitch()
    find("mlr", seven, changed(duration_s=2.0, duration_sum_s=14.0))
    assert max(Counter(spec.rate_pps for spec in seven.asked).values()) >= 4


def test_the_search_of_csit_decides_by_21_trials_of_a_second() -> None:
    switch = SyntheticSwitch()
    _, goals = find("mlr:csit", switch, changed(duration_s=10.0))
    assert {spec.duration_s for spec in switch.asked} == {1.0}
    for goal in goals:
        assert (goal.initial_trial_s, goal.final_trial_s, goal.duration_sum_s) == (1.0, 1.0, 21.0)
        assert (
            present(goal.low_pps) <= 1e6 / (1 - goal.loss_ratio) <= present(goal.high_pps) * 1.0001
        )
    at_ndr = [spec for spec in switch.asked if spec.rate_pps == goals[0].low_pps]
    assert len(at_ndr) >= 11  # more than half of 21 seconds without loss decide


@pytest.mark.parametrize("name", ["mlr", "mlr:csit"])
def test_a_goal_without_an_upper_bound_is_irregular(name: str) -> None:
    _, goals = find(name, SyntheticSwitch(capacity_pps=3e6))
    for goal in goals:
        assert goal.high_pps is None
        assert goal.regular is False
        assert goal.conditional_pps == goal.rate_pps


def test_a_search_that_runs_out_of_trials_is_irregular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_TRIALS", 6)
    _, goals = find("mlr", SyntheticSwitch())
    assert [goal.regular for goal in goals] == [False, False]
