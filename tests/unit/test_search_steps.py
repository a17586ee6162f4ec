"""These tests hold each step of a search: the trial that it asks for next, its conclusion from the
answer, and the record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.searches import TABLE, back_to_back, ndr
from switchmark.searches.base import (
    MAX_TRIALS,
    Estimate,
    LoadBounds,
    Probe,
    Saturation,
    bracket,
    goal_of,
    is_enough,
    least_repeats,
    limit_of,
    limit_of_all,
    meets,
    most_repeats,
    saturate,
    telling_s,
    usual_repeats,
)
from synthetic import SyntheticSwitch

SPEC = TrialSpec(rate_pps=None, duration_s=1.0, warmup_s=0.0)


def bounds(**fields: Any) -> LoadBounds:
    return LoadBounds(**{"rate_pps": None, "duration_s": 1.0, "warmup_s": 0.25, **fields})


def trial(**fields: Any) -> TrialResult:
    """Return a trial of one second at 1000 frames per second, of which `lost` are lost."""
    lost = fields.get("lost", 0)
    content = {
        "spec": SPEC,
        "elapsed_ns": 10**9,
        "tx_frames": 1000,
        "tx_unsent": 0,
        "lost": lost,
        "lost_at": {},
        "rx_frames": 1000 - lost,
        "rx_bytes": 60 * (1000 - lost),
        "interval_ns": 10**8,
        "intervals": ((1000 - lost) // 10,) * 10,
        **fields,
    }
    return TrialResult(**content)


def says(verdict: str) -> Any:
    return lambda trials: verdict


def judged_by(calls: list[Sequence[TrialResult]], verdict: str = "switch") -> Any:
    def judge(trials: Sequence[TrialResult]) -> str:
        calls.append(trials)
        return verdict

    return judge


# --- what a search asks for --------------------------------------------------------------------


def test_a_probe_asks_for_the_trial_of_the_test_and_keeps_it() -> None:
    specs: list[TrialSpec] = []

    def measure(spec: TrialSpec) -> TrialResult:
        specs.append(spec)
        return trial(spec=spec, tx_frames=len(specs))

    probe = Probe(measure, bounds(line_pps=5e5))
    trials = [probe(100.0), probe(None), probe(7.0, duration_s=0.5), probe(None, frames=9)]
    one_s = {"duration_s": 1.0, "warmup_s": 0.25}
    assert specs == [
        TrialSpec(rate_pps=100.0, **one_s),
        TrialSpec(rate_pps=5e5, **one_s),
        TrialSpec(rate_pps=7.0, duration_s=0.5, warmup_s=0.25),
        TrialSpec(rate_pps=5e5, frames=9, **one_s),
    ]
    assert probe.trials == trials


def test_a_probe_is_exhausted_by_its_last_trial() -> None:
    probe = Probe(lambda spec: trial(), bounds())
    while len(probe.trials) < MAX_TRIALS:
        assert not probe.exhausted
        probe(None)
    assert probe.exhausted


@pytest.mark.parametrize(
    ("rate_pps", "ceiling"), [(None, 2000.0), (500.0, 500.0), (5000.0, 2000.0)]
)
def test_a_saturation_is_of_one_sender_and_one_copy(rate_pps: float | None, ceiling: float) -> None:
    """Two senders send 8000 frames in two seconds, and two receivers get 3/4 of them each."""
    answer = trial(
        elapsed_ns=2 * 10**9,
        tx_frames=8000,
        copies=2,
        intervals=(1200,) * 10,
        interval_ns=2 * 10**8,
    )
    probe = Probe(lambda spec: answer, bounds(senders=2, rate_pps=rate_pps))
    assert saturate(probe) == Saturation(answer, 2000.0, 1500.0, ceiling)


def test_what_is_received_is_no_more_than_what_was_sent() -> None:
    answer = trial(tx_frames=900)
    start = saturate(Probe(lambda spec: answer, bounds()))
    assert (start.sent_pps, start.received_pps, start.ceiling_pps) == (900, 900, 900)


def test_a_sender_that_sends_nothing_leaves_a_rate_of_one_frame() -> None:
    answer = trial(tx_frames=0, rx_frames=0, intervals=(0,) * 10)
    start = saturate(Probe(lambda spec: answer, bounds(duration_s=4.0)))
    assert (start.sent_pps, start.received_pps, start.ceiling_pps) == (0, 0, 0.25)


@pytest.mark.parametrize(
    ("ratio", "rate_pps", "senders", "duration_s"),
    [
        (0.0, 1e3, 1, 1.0),  # nothing to tell
        (0.5, 1e3, 1, 1.0),  # 6 frames are fewer than a second has
        (3e-4, 1e3, 1, 9.986),
        (3e-4, 1e3, 2, 4.993),
        (3e-7, None, 1, 9.985775),  # a million frames a second
        (3e-7, 115.58, 1, 9_985_775 / 115.58),  # nearly a day
    ],
)
def test_a_trial_is_long_enough_to_tell_a_loss_ratio(
    ratio: float, rate_pps: float | None, senders: int, duration_s: float
) -> None:
    found = telling_s(ratio, rate_pps, bounds(senders=senders))
    assert found == pytest.approx(duration_s, rel=1e-5)


@pytest.mark.parametrize(
    ("senders", "takes", "hint"), [(1, "100 frames/s", "3e-07"), (2, "200 frames/s", "2e-07")]
)
def test_a_loss_ratio_that_takes_more_than_a_day_is_refused(
    senders: int, takes: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        telling_s(1e-7, 100.0, bounds(senders=senders))
    assert str(raised.value).startswith(
        f"a loss ratio of 1e-07 cannot be told at {takes}: that takes 3e+07 frames, "
        "which is more than a day"
    )
    assert raised.value.hint == f"--loss-ratio {hint} or more"


# --- repeats ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repeat", "until_certain", "least", "usual", "most"),
    [
        (1, None, 1, 1, 1),
        (5, None, 5, 5, 5),
        (1, 0.01, 13, 26, 130),
        (13, 0.01, 13, 26, 130),
        (20, 0.01, 20, 40, 200),
    ],
)
def test_repeats_at_one_load(
    repeat: int, until_certain: float | None, least: int, usual: int, most: int
) -> None:
    assert least_repeats(repeat, until_certain) == least
    assert most_repeats(repeat, until_certain) == most
    assert usual_repeats(bounds(repeat=repeat, until_certain=until_certain)) == usual


def at_rates(*rates_pps: int) -> list[list[TrialResult]]:
    return [[trial(rx_frames=frames, intervals=(frames // 10,) * 10)] for frames in rates_pps]


@pytest.mark.parametrize(
    ("repeats", "until_certain", "enough"),
    [
        (at_rates(1000), None, False),
        (at_rates(1000, 1000), None, True),
        (at_rates(*[1000] * 12), 0.01, False),
        (at_rates(*[1000] * 13), 0.01, True),
        (at_rates(*[900, 1100] * 7), 0.01, False),
        (at_rates(*[900, 1100] * 7), 0.1, True),  # 100 of 1000 is the half width
        (at_rates(*[900, 1100] * 7), 0.0999, False),
        (at_rates(*[900, 1100] * 64), 0.01, False),
        (at_rates(*[900, 1100] * 65), 0.01, True),  # as many as ever
    ],
)
def test_repeats_are_enough(
    repeats: list[list[TrialResult]], until_certain: float | None, enough: bool
) -> None:
    repeat = 2 if until_certain is None else 1
    assert is_enough(repeats, bounds(repeat=repeat, until_certain=until_certain)) is enough


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("fixed", [1.0] * 3),
        ("max", [1.0] * 3),
        # log2(1/0.005) is 7.6: twice that, and two final trials.
        ("ndr", [1.0] * 17),
        ("pdr", [1.0] * 17),
        # A quarter of the duration for 8, then five trials for each halving.
        ("mlr", [0.25] * 8 + [1.0] * 40),
        ("latency-at-load", [1.0] * 7),
        # Two bursts of 8 halvings, R+, and the rate without loss.
        ("back-to-back", [1.0] * 32),
    ],
)
def test_the_usual_durations_of_a_search(name: str, usual: list[float]) -> None:
    assert list(TABLE[name].usual_durations(bounds(repeat=3, finals=2))) == usual


@pytest.mark.parametrize(
    ("duration_s", "early_s"), [(0.05, 0.05), (0.2, 0.1), (0.4, 0.1), (2, 0.5)]
)
def test_early_trials_of_mlr_are_a_quarter_but_no_shorter_than_a_tenth_of_a_second(
    duration_s: float, early_s: float
) -> None:
    usual = TABLE["mlr"].usual_durations(bounds(duration_s=duration_s))
    assert (usual[0], usual[-1]) == (early_s, duration_s)


def test_a_test_without_options_has_one_final_trial_and_the_usual_loads() -> None:
    usual = LoadBounds(rate_pps=None, duration_s=1.0, warmup_s=0.0)
    assert (usual.repeat, usual.finals, usual.senders) == (1, 1, 1)
    assert (usual.loss_ratio, usual.precision) == (0.005, 0.005)
    assert usual.loads == (0.1, 0.5, 0.99)
    assert (usual.until_certain, usual.line_pps, usual.latency) == (None, None, False)
    assert usual.judge([]) == "unknown"


# --- a bracket --------------------------------------------------------------------------------


def bracketed(
    limit: float, confirmed: float = math.inf, **fields: Any
) -> tuple[list[float], tuple[float | None, float | None]]:
    """Return the values tried, and the result, where what is above `limit` fails."""
    tried: list[float] = []

    def passes(value: float) -> bool:
        tried.append(value)
        return value <= limit

    content = {"first": 100.0, "ceiling": 1000.0, "lowest": 1.0, "precision": 0.1, "step": 0.5}
    return tried, bracket(passes, lambda value: value <= confirmed, **{**content, **fields})


@pytest.mark.parametrize(
    ("limit", "fields", "tried", "found"),
    [
        # Up by half, by the whole, by twice; then between.
        (500, {}, [100, 150, 300, 900, 600, 450, 525, 487.5], (487.5, 525)),
        # Down by the same steps.
        (
            20,
            {},
            [100, 100 / 1.5, 100 / 3, 100 / 9, 200 / 9, 50 / 3, 175 / 9, 187.5 / 9],
            (175 / 9, 187.5 / 9),
        ),
        (2000, {}, [100, 150, 300, 900, 1000], (1000, None)),
        (2000, {"first": 3000.0}, [1000], (1000, None)),
        (0, {"lowest": 50.0}, [100, 100 / 1.5, 50], (None, 50)),
        (0, {"lowest": 100.0}, [100], (None, 100)),
        (120, {"least": 50.0}, [100, 150], (100, 150)),
        (120, {"least": 49.0}, [100, 150, 125], (100, 125)),
        (100, {"precision": 1 / 3}, [100, 150], (100, 150)),
        (100, {"precision": 0.33}, [100, 150, 125], (100, 125)),
    ],
)
def test_the_values_that_a_bracket_tries(
    limit: float, fields: dict[str, float], tried: list[float], found: tuple[float, float]
) -> None:
    steps, result = bracketed(limit, **fields)
    assert steps == pytest.approx(tried)
    assert result == pytest.approx(found)


def test_a_value_that_is_not_confirmed_counts_as_failed() -> None:
    """100 to 112.5 had passed at first; then the bracket closes below what is confirmed."""
    tried, (low, high) = bracketed(120, confirmed=90)
    assert low is not None
    assert high is not None
    assert low <= 90 < high
    assert high - low <= 0.1 * high
    assert min(tried) <= 90


@given(st.floats(2, 900), st.floats(1, 1000), st.floats(0.001, 0.5), st.floats(0.01, 4))
def test_a_bracket_holds_what_limits(
    limit: float, first: float, precision: float, step: float
) -> None:
    tried, (low, high) = bracketed(limit, first=first, precision=precision, step=step)
    assert low is not None
    assert high is not None
    assert low <= limit < high
    assert high - low <= precision * high
    assert low in tried
    assert high in tried
    assert max(tried) <= 1000
    assert min(tried) >= 1


# --- what limits -----------------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "unsent"), [(5, 0), (0, 5), (2, 3)])
def test_a_frame_that_was_not_sent_counts_as_lost(lost: int, unsent: int) -> None:
    one = trial(lost=lost, tx_frames=1000 - unsent, tx_unsent=unsent)
    assert meets(one, 0.005)
    assert not meets(one, 0.00499)


RING = Place.ring("f1")
SWITCH = Place(PlaceKind.INSIDE_SWITCH)


@pytest.mark.parametrize(
    ("verdict", "fields", "limit"),
    [
        ("switch", {"lost": 9, "tx_unsent": 10}, "switch"),
        ("unknown", {"lost": 9, "tx_unsent": 10}, "sender"),
        ("offered-load", {"lost": 9, "tx_unsent": 10}, "offered-load"),
        ("unknown", {"lost": 10, "tx_unsent": 10}, "unknown"),
        ("unknown", {"lost": 10, "lost_at": {RING: 6}}, "receiver"),
        ("offered-load", {"lost": 10, "lost_at": {RING: 6}}, "receiver"),
        ("unknown", {"lost": 10, "lost_at": {RING: 5}}, "unknown"),
        ("unknown", {"lost": 10, "lost_at": {SWITCH: 6}}, "unknown"),
        ("offered-load", {"lost": 0}, "offered-load"),
    ],
)
def test_what_made_a_trial_fail(verdict: str, fields: dict[str, Any], limit: str) -> None:
    start = Saturation(trial(), 1000, 1000, 1000)
    assert limit_of(trial(**fields), start, bounds(judge=says(verdict))) == limit


def test_it_is_the_failed_trial_that_is_judged_and_the_first_where_the_sender_failed() -> None:
    calls: list[Sequence[TrialResult]] = []
    first, failed = trial(tx_frames=999), trial(lost=1, tx_unsent=2)
    start = Saturation(first, 999, 999, 999)
    limit_of(failed, start, bounds(judge=judged_by(calls, "unknown")))
    assert calls == [(failed,), (first,)]


@pytest.mark.parametrize(
    ("sent_pps", "ceiling_pps", "fields", "limit"),
    [
        (1000, 900, {"rate_pps": 900}, "offered-load"),
        (1000, 1000, {"rate_pps": 1000}, "sender"),
        (1000, 900, {}, "sender"),
        (995, 995, {"line_pps": 1000}, "offered-load"),
        (994.9, 994.9, {"line_pps": 1000}, "sender"),
        (1000, 1000, {"judge": says("switch")}, "switch"),
        (1000, 1000, {"judge": says("unknown")}, "sender"),
    ],
)
def test_what_keeps_a_goal_from_more_than_the_ceiling(
    sent_pps: float, ceiling_pps: float, fields: dict[str, Any], limit: str
) -> None:
    start = Saturation(trial(), sent_pps, 0, ceiling_pps)
    assert limit_of_all(start, bounds(**fields)) == limit


def test_a_goal_has_the_loss_of_its_trials_unless_it_allows_one() -> None:
    trials = (trial(lost=100), trial())
    assert goal_of("a", trials, rate_pps=None).loss_ratio == 0.05
    assert goal_of("a", trials, rate_pps=None, loss=0.0).loss_ratio == 0.0


# --- what is in the record -------------------------------------------------------------------


def estimated(
    name: str, switch: SyntheticSwitch, **fields: Any
) -> tuple[Estimate, list[dict[str, Any]]]:
    estimate = TABLE[name].find(switch, bounds(**fields))
    assert estimate.summary is not None
    goals = [goal.model_dump(exclude_none=True) for goal in estimate.summary.goals]
    return estimate, goals


def test_the_record_of_r_plus_has_the_range_of_its_trials() -> None:
    switch = SyntheticSwitch(bands=0.5, seed=3)
    estimate, (goal,) = estimated("max", switch, repeat=5)
    rates = sorted({trial.rx_frames for trial in estimate.trials})
    assert rates == [500_000, 1_000_000]
    assert (goal["goal"], goal["low_pps"], goal["high_pps"]) == ("r+", 5e5, 1e6)
    assert estimate.summary is not None
    assert (estimate.summary.name, estimate.summary.trials) == ("max", 5)
    assert all(spec == switch.asked[0] for spec in switch.asked)
    assert (switch.asked[0].duration_s, switch.asked[0].warmup_s) == (1.0, 0.25)


@pytest.mark.parametrize("name", ["ndr", "pdr", "mlr"])
def test_the_record_of_a_search_for_a_rate(name: str) -> None:
    switch = SyntheticSwitch()
    estimate, goals = estimated(name, switch, finals=2)
    summary = estimate.summary
    assert summary is not None
    assert (summary.r_plus_pps, summary.trials) == (1e6, len(switch.asked))
    first = "pdr" if name == "pdr" else "ndr"
    assert estimate.goal == goals[0]["goal"] == first
    assert list(estimate.finals) == [goal["goal"] for goal in goals]
    for goal in goals:
        finals = estimate.finals[goal["goal"]]
        assert len(finals) >= 2
        assert {one.spec.rate_pps for one in finals} == {goal["rate_pps"]}
        assert goal["rate_pps"] == goal["low_pps"]
    assert estimate.trials == estimate.finals[first]
    assert {(spec.duration_s >= 0.25, spec.warmup_s) for spec in switch.asked} == {(True, 0.25)}


@pytest.mark.parametrize(
    ("name", "goal", "allowed"), [("ndr", "ndr", 0.0), ("pdr", "pdr", 0.02), ("mlr", "pdr", 0.02)]
)
def test_a_goal_allows_what_the_test_allows(name: str, goal: str, allowed: float) -> None:
    _, goals = estimated(name, SyntheticSwitch(), loss_ratio=0.02)
    (result,) = [entry for entry in goals if entry["goal"] == goal]
    assert result["loss_ratio"] == allowed
    assert result["rate_pps"] == pytest.approx(1e6 / (1 - allowed), rel=0.0051)


@pytest.mark.parametrize("name", ["ndr", "mlr"])
def test_a_search_without_a_rate_shows_the_trial_that_came_nearest(name: str) -> None:
    switch = SyntheticSwitch(rare=1)
    estimate, goals = estimated(name, switch)
    assert "rate_pps" not in goals[0]
    if name == "ndr":
        assert (estimate.goal, estimate.finals) == (None, {"ndr": ()})
        (trial,) = estimate.trials
        assert trial.spec.rate_pps == min(spec.rate_pps or math.inf for spec in switch.asked)
    else:  # its second goal is met
        assert estimate.goal == "pdr"
        assert estimate.trials == estimate.finals["pdr"] != ()


@pytest.mark.parametrize("finals", [1, 6])
def test_the_final_trials_of_mlr_are_at_the_rate_of_their_goal(finals: int) -> None:
    estimate, goals = estimated("mlr", SyntheticSwitch(), finals=finals)
    for goal in goals:
        rates = [one.spec.rate_pps for one in estimate.finals[goal["goal"]]]
        assert rates == [goal["rate_pps"]] * finals


def test_mlr_that_meets_no_goal_shows_its_first_trial() -> None:
    switch = SyntheticSwitch(lossless_pps=0)
    first: list[TrialResult] = []

    def measure(spec: TrialSpec) -> TrialResult:
        one = switch(spec)
        lossy = one.model_copy(update={"lost": one.tx_frames // 2})
        first.append(lossy)
        return lossy

    judged: list[Sequence[TrialResult]] = []
    estimate = TABLE["mlr"].find(measure, bounds(judge=judged_by(judged)))
    assert (estimate.goal, estimate.trials) == (None, (first[0],))
    assert estimate.finals == {"ndr": (), "pdr": ()}
    assert estimate.verdict == "switch"


def test_the_trials_of_mlr_are_those_of_its_configuration() -> None:
    """Preceding targets of 2 and an expansion of 2: R+, the two ends of it, then trials that grow
    from a quarter of a second to the whole."""
    switch = SyntheticSwitch()
    estimated("mlr", switch)
    durations = [spec.duration_s for spec in switch.asked]
    assert durations[0] == 1.0
    assert durations[1:4] == [0.25] * 3
    growing = [duration for duration in durations[1:] if 0.25 < duration < 1]
    assert growing == pytest.approx([math.sqrt(0.75)] * len(growing))  # between in their sum
    assert durations[-4:] == [1.0] * 4
    assert switch.asked[1].rate_pps == 2e6


def test_the_record_of_latency_at_load() -> None:
    switch = SyntheticSwitch(sender_pps=8e5)
    estimate, goals = estimated(
        "latency-at-load", switch, loads=(0.5, 0.1), finals=2, judge=says("switch")
    )
    assert [(goal["goal"], goal["rate_pps"], goal["verdict"]) for goal in goals] == [
        ("0.1", pytest.approx(8e4), "switch"),
        ("0.5", pytest.approx(4e5), "switch"),
    ]
    assert [spec.rate_pps for spec in switch.asked] == [
        None,
        *(pytest.approx(rate) for rate in (8e4, 8e4, 4e5, 4e5)),
    ]
    assert (estimate.goal, estimate.verdict) == ("0.5", None)
    assert estimate.trials == estimate.finals["0.5"]
    assert list(estimate.finals) == ["0.1", "0.5"]
    assert estimate.summary is not None
    assert estimate.summary.trials == 5
    assert estimate.summary.r_plus_pps == pytest.approx(8e5)


def test_the_worst_trial_of_a_load_is_judged() -> None:
    calls: list[Sequence[TrialResult]] = []
    answers = iter([trial(), trial(lost=3), trial(tx_unsent=4), trial(lost=1)])
    TABLE["latency-at-load"].find(
        lambda spec: next(answers), bounds(loads=(0.5,), finals=3, judge=judged_by(calls))
    )
    assert [[one.tx_unsent for one in trials] for trials in calls] == [[4]]


def test_the_record_of_the_longest_burst() -> None:
    """A buffer of 1500 in front of half the rate holds a burst of 3000; the next one is 3001."""
    switch = SyntheticSwitch(buffer=1500)
    estimate, (goal,) = estimated(
        "back-to-back", switch, finals=2, precision=1e-9, judge=says("switch")
    )
    assert goal["burst_frames"] == goal["burst_low"] == pytest.approx(3000, abs=2)
    assert goal["burst_high"] - goal["burst_low"] == 1
    assert (goal["bursts"], goal["rate_pps"], goal["verdict"]) == (2, 2e6, "switch")
    assert goal["buffer_s"] == goal["burst_frames"] / 2e6
    assert goal["corrected_buffer_s"] == pytest.approx(goal["buffer_s"] / 2, rel=0.01)
    assert (estimate.verdict, estimate.goal) == ("switch", "back-to-back")
    assert estimate.finals == {"back-to-back": estimate.trials}
    assert [one.spec.frames for one in estimate.trials] == [goal["burst_low"]] * 2
    assert [spec.frames for spec in switch.asked[:3]] == [None, 1024, 2048]
    assert estimate.summary is not None
    assert estimate.summary.trials == len(switch.asked)


def test_a_burst_is_no_longer_than_half_a_trial() -> None:
    _, (goal,) = estimated("back-to-back", SyntheticSwitch(sender_pps=3000, capacity_pps=3000))
    assert goal["burst_low"] == 1500
    assert "burst_high" not in goal
    slow = SyntheticSwitch(sender_pps=1, capacity_pps=1)
    _, (goal,) = estimated("back-to-back", slow)
    assert goal["burst_low"] == 1
    assert {spec.frames for spec in slow.asked} == {None, 1}


def test_a_switch_that_holds_no_burst_shows_its_first_trial() -> None:
    switch = SyntheticSwitch(rare=1)
    estimate, (goal,) = estimated("back-to-back", switch)
    assert (goal["burst_low"], goal["burst_high"], estimate.goal) == (0, 1, None)
    assert [one.spec.frames for one in estimate.trials] == [None]


def test_a_burst_that_was_not_sent_in_full_does_not_count() -> None:
    switch = SyntheticSwitch(buffer=10**6)

    def measure(spec: TrialSpec) -> TrialResult:
        one = switch(spec)
        missing = max((spec.frames or 0) - 2000, 0)
        return one.model_copy(update={"tx_unsent": missing})

    estimate = TABLE["back-to-back"].find(measure, bounds())
    assert estimate.summary is not None
    goal = estimate.summary.goals[0]
    assert goal.burst_low is not None
    assert goal.burst_low <= 2000 <= (goal.burst_high or 0)


def test_the_trials_of_the_longest_bursts_are_those_without_loss() -> None:
    """Also where a burst of the same length loses frames in a later repeat."""
    switch = SyntheticSwitch(noise=0.2, buffer=3000, seed=0)
    estimate, (goal,) = estimated("back-to-back", switch, finals=10, precision=0.25)
    assert len(set(goal["burst_each"])) > 1
    assert [one.spec.frames for one in estimate.trials] == list(goal["burst_each"])
    assert [one.lost for one in estimate.trials] == [0] * 10
    assert goal["loss_ratio"] == 0


def test_bursts_that_took_all_trials_are_bounded_by_those() -> None:
    lossy = trial(lost=1)
    unsent = trial(tx_unsent=1)
    assert back_to_back._bounds({}) == (0, None)
    assert back_to_back._bounds({10: trial(), 20: trial()}) == (20, None)
    assert back_to_back._bounds({10: trial(), 5: lossy, 30: lossy, 20: unsent}) == (10, 20)
    assert back_to_back._bounds({5: lossy}) == (0, 5)


# --- the search for a rate ---------------------------------------------------------------------


def searched(lost: dict[int, list[int]], allowed: float = 0.0, **fields: Any) -> Any:
    """Search a switch that loses so many frames in the trials at each rate, in order, and none
    after. The first trial sends 1000 frames in a second, and all arrive."""
    left = {rate: list(value) for rate, value in lost.items()}

    def measure(spec: TrialSpec) -> TrialResult:
        rate = round(spec.rate_pps or 0)
        missing = left[rate].pop(0) if left.get(rate) else 0
        return trial(spec=spec, lost=missing)

    probe = Probe(measure, bounds(**fields))
    start = Saturation(trial(), 1000, 1000, 1000)
    return ndr.search_rate(probe, start, allowed), probe


@pytest.mark.parametrize(
    ("lost", "finals", "passes"),
    [
        ([0, 0], 1, 1),
        # One passed before: a tie of the two is decided by a third.
        ([0, 9, 0], 1, 1),
        ([0, 9, 9], 1, None),
        ([0, 9, 0, 0], 3, 2),
        ([0, 9, 9, 0, 0], 3, 2),
        ([0, 9, 9, 0, 9], 3, None),
        ([0, 9, 9, 9], 3, None),
    ],
)
def test_the_final_trials_and_the_one_before_decide(
    lost: list[int], finals: int, passes: int | None
) -> None:
    result, probe = searched({1000: lost}, finals=finals)
    at_ceiling = [one for one in probe.trials if one.spec.rate_pps == 1000]
    assert len(at_ceiling) == len(lost) if passes else len(at_ceiling) >= len(lost)
    if passes:
        assert (result.low_pps, result.high_pps, len(result.finals)) == (1000, None, passes)
        assert result.beyond is None
    else:
        assert result.low_pps < 1000
        assert result.high_pps is not None
        assert len(result.finals) == finals


def test_the_trials_beyond_a_rate_are_its_last_and_the_lowest() -> None:
    result, _ = searched({1000: [1, 2], 980: [3, 4]})
    # The second rate is four precisions below the first.
    assert result.low_pps is not None
    assert result.high_pps == pytest.approx(1000 / 1.02)
    assert result.beyond.lost == 4
    assert result.lowest_beyond.lost == 4


def test_a_search_without_trials_left_says_what_it_knows() -> None:
    probe = Probe(lambda spec: trial(spec=spec), bounds())
    probe.trials.extend([trial()] * MAX_TRIALS)
    result = ndr.search_rate(probe, Saturation(trial(), 1000, 1000, 1000), 0.0)
    assert (result.low_pps, result.finals, result.beyond) == (None, (), None)
    assert result.high_pps == pytest.approx(1.0)
    assert result.lowest_beyond is None
    assert len(probe.trials) == MAX_TRIALS


@pytest.mark.parametrize(("lost", "first"), [(0, 1000), (5, 1000), (6, 400)])
def test_a_search_begins_at_r_plus_where_the_ceiling_loses_too_much(lost: int, first: int) -> None:
    start = Saturation(trial(lost=lost), 1000, 400, 1000)
    rates: list[float | None] = []

    def measure(spec: TrialSpec) -> TrialResult:
        rates.append(spec.rate_pps)
        return trial(spec=spec)

    ndr.search_rate(Probe(measure, bounds()), start, 0.005)
    assert rates[0] == first
