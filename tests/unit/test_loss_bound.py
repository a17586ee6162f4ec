"""Tests of the loss that trials exclude: its bound, and searches whose trials must tell a goal."""

from __future__ import annotations

import math

import pytest

from switchmark.cli.steps import script
from switchmark.errors import UsageError
from switchmark.metrics.loss import bound_of, frames_that_tell, upper_bound
from switchmark.model.record import TrialSpec
from switchmark.model.test import Test
from switchmark.searches import TABLE
from switchmark.searches.base import LoadBounds, telling_s
from synthetic import SyntheticSwitch


@pytest.mark.parametrize(
    ("lost", "most"),
    [(0, 2.99573), (1, 4.74386), (2, 6.29579), (10, 16.96222), (100, 118.07928)],
)
def test_the_bound_is_that_of_tables_of_the_poisson_distribution(lost: int, most: float) -> None:
    assert upper_bound(lost, 10**9) * 10**9 == pytest.approx(most, abs=1e-5)


@pytest.mark.parametrize("lost", [0, 1, 7, 300, 9_999])
def test_so_few_losses_are_seen_in_one_case_of_twenty(lost: int) -> None:
    mean = upper_bound(lost, 10**9) * 10**9
    terms = (k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(lost + 1))
    assert sum(map(math.exp, terms)) == pytest.approx(0.05, abs=1e-6)


def test_the_bound_goes_on_where_it_is_approximated() -> None:
    exact, approximated = (upper_bound(lost, 10**9) for lost in (10_000, 10_001))
    step = exact - upper_bound(9_999, 10**9)
    assert approximated - exact == pytest.approx(step, rel=0.02)


def test_the_bound_is_a_share() -> None:
    assert upper_bound(50, 10) == 1.0
    assert bound_of([]) is None


def test_the_bound_of_a_trial_counts_its_copies() -> None:
    trial = SyntheticSwitch()(TrialSpec(rate_pps=1000, duration_s=10, warmup_s=0))
    assert bound_of([trial]) == pytest.approx(2.9957 / 10_000, rel=1e-4)
    assert bound_of([trial, trial]) == pytest.approx(2.9957 / 20_000, rel=1e-4)
    twice = trial.model_copy(update={"copies": 2, "lost": 0})
    assert bound_of([twice]) == pytest.approx(2.9957 / 20_000, rel=1e-4)


# --- trials that tell a goal -----------------------------------------------------------------


def bounds(**members: object) -> LoadBounds:
    return LoadBounds(**{"rate_pps": None, "duration_s": 10.0, "warmup_s": 0.0, **members})  # type: ignore[arg-type]


def test_a_trial_lasts_until_it_has_the_frames_that_tell() -> None:
    assert telling_s(1e-7, 250_000, bounds()) == pytest.approx(119.83, abs=0.01)
    assert telling_s(1e-7, 250_000, bounds(senders=2)) == pytest.approx(59.91, abs=0.01)
    assert telling_s(0.005, 250_000, bounds()) == 10.0
    assert telling_s(0.0, 1.0, bounds()) == 10.0
    assert frames_that_tell(1e-7) == 29_957_323


def test_a_ratio_that_takes_more_than_a_day_is_refused() -> None:
    with pytest.raises(UsageError, match="more than a day"):
        telling_s(1e-12, 250_000, bounds())


@pytest.mark.parametrize("name", ["pdr", "mlr"])
def test_searches_lengthen_trials_that_could_not_tell_their_goal(name: str) -> None:
    switch = SyntheticSwitch(capacity_pps=200_000, sender_pps=400_000)
    found = TABLE[name].find(switch, bounds(loss_ratio=1e-6, duration_s=1.0, precision=0.05))
    assert found.summary is not None
    goal = next(goal for goal in found.summary.goals if goal.goal == "pdr")
    finals = found.finals["pdr"] if name == "mlr" else found.trials
    assert goal.loss_bound is not None
    assert goal.loss_bound <= 1e-6 * 1.05
    assert all(t.tx_frames >= 0.95 * frames_that_tell(1e-6) for t in finals)


def test_a_search_without_loss_keeps_the_length_of_its_trials() -> None:
    switch = SyntheticSwitch(capacity_pps=200_000, sender_pps=400_000)
    found = TABLE["ndr"].find(switch, bounds(loss_ratio=1e-6, duration_s=1.0, precision=0.05))
    assert {spec.duration_s for spec in switch.asked} == {1.0}
    assert found.summary is not None
    (goal,) = found.summary.goals
    assert goal.loss_bound == pytest.approx(2.9957 / found.trials[0].tx_frames, rel=1e-4)


def test_the_trials_of_csit_are_not_lengthened() -> None:
    switch = SyntheticSwitch(capacity_pps=200_000, sender_pps=400_000)
    with pytest.raises(UsageError, match="21 trials of 1 s are too short"):
        TABLE["mlr:csit"].find(switch, bounds(loss_ratio=1e-8))


def test_a_plan_says_how_long_trials_become() -> None:
    test = Test(search="pdr", loss_ratio=1e-7, rate="250kpps")
    (line,) = [line for line in script([test]) if "loss ratio" in line]
    assert line == (
        "# trials of pdr have 29957323 frames, to tell a loss ratio of 1e-07: "
        "120 s at 250000 frames/s"
    )
    usual = Test(search="pdr", rate="250kpps")
    assert not [line for line in script([usual]) if "loss ratio" in line]
