"""Tests of the search `recovery`: the load that it offers, its figure, and what it says without a
figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from recorded import fresh
from switchmark.errors import UsageError
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.search import Goal, SearchResult
from switchmark.model.series import Gap, TimeSeries
from switchmark.report.recovery import recovery_text, sentences
from switchmark.searches import TABLE
from switchmark.searches.base import Estimate, LoadBounds
from synthetic import SyntheticSwitch

_S = 10**9


@dataclass
class Overloaded:
    """A switch that loses what exceeds its capacity, and loses frames for `recovers_s` after the
    overload. Its sender reaches `sender_pps`."""

    capacity_pps: float = 100_000
    recovers_s: float = 0.25
    sender_pps: float = 1e6
    numbered: bool = True
    asked: list[TrialSpec] = field(default_factory=list)

    def __call__(self, spec: TrialSpec) -> TrialResult:
        self.asked.append(spec)
        if not spec.steps:
            return SyntheticSwitch(self.capacity_pps, sender_pps=self.sender_pps)(spec)
        ((step_s, share),) = spec.steps
        rate = spec.rate_pps or 0.0
        offered: list[int] = []
        lost: list[int] = []
        for number in range(round(spec.duration_s * 10)):
            pps = min(rate * (1 if number < step_s * 10 else share), self.sender_pps)
            late = step_s <= number / 10 < step_s + self.recovers_s
            offered.append(round(pps / 10))
            over = max(0, offered[-1] - round(self.capacity_pps / 10))
            lost.append(1 if late and lost[-1] else over)
        end_ns = round((step_s + self.recovers_s) * _S)
        ended = self.recovers_s < spec.duration_s - step_s
        gap = Gap(
            flow="f", first=1, lost=1, before_due_ns=5, after_due_ns=end_ns if ended else None
        )
        empty: tuple[Any, ...] = (None,) * (len(offered) + 1)
        series = TimeSeries(
            interval_ns=_S // 10,
            offered=(*offered, 0),
            lost=(*lost, 0),
            received=tuple(a - b for a, b in zip(offered, lost, strict=True)),
            duplicated=(),
            reordered=(),
            **dict.fromkeys(("p50_ns", "p99_ns", "p999_ns", "max_ns"), empty),
            gaps=(gap,) * bool(sum(lost)) if self.numbered else None,
            latest_gap=gap if sum(lost) else None,
        )
        base = SyntheticSwitch(self.capacity_pps, sender_pps=self.sender_pps)(spec)
        return base.model_copy(update={"series": series})


def found(switch: Overloaded, **members: Any) -> Estimate:
    bounds = {"rate_pps": 100_000.0, "duration_s": 1.0, "warmup_s": 0.0, **members}
    return TABLE["recovery"].find(switch, LoadBounds(**bounds))


def test_the_overload_is_a_tenth_above_the_throughput_and_then_half_of_it() -> None:
    switch = Overloaded()
    found(switch, duration_s=10.0)
    (spec,) = switch.asked
    assert spec.rate_pps == pytest.approx(110_000)
    assert spec.steps == ((60.0, 0.5),)
    assert spec.duration_s == 70.0


def test_the_line_limits_the_overload() -> None:
    switch = Overloaded()
    found(switch, line_pps=104_000.0)
    assert switch.asked[0].rate_pps == 104_000


def test_the_throughput_is_found_if_it_is_not_given() -> None:
    switch = Overloaded()
    estimate = found(switch, rate_pps=None)
    assert switch.asked[-1].rate_pps == pytest.approx(110_000, rel=0.01)
    assert estimate.summary is not None
    assert estimate.summary.trials == len(switch.asked)


def test_the_recovery_lasts_from_the_step_to_the_last_loss() -> None:
    estimate = found(Overloaded(recovers_s=0.25))
    assert estimate.summary is not None
    (goal,) = estimate.summary.goals
    assert goal.recovery_s == pytest.approx(0.25)
    assert goal.overload_pps == pytest.approx(110_000)
    assert goal.resolution_s == pytest.approx(1 / 55_000)
    assert recovery_text(goal) == "250 ms"
    assert estimate.doubts == ()


def test_a_switch_that_loses_nothing_after_the_overload_recovers_within_a_period() -> None:
    (goal,) = found(Overloaded(recovers_s=0.0)).summary.goals  # type: ignore[union-attr]
    assert goal.recovery_s == 0
    assert recovery_text(goal).startswith("< 18")


@pytest.mark.parametrize("switch", [Overloaded(capacity_pps=2e5), Overloaded(sender_pps=105_000)])
def test_without_an_overload_there_is_a_doubt_and_no_number(switch: Overloaded) -> None:
    estimate = found(switch)
    assert estimate.doubts == ("no-overload",)
    (goal,) = estimate.summary.goals  # type: ignore[union-attr]
    assert goal.recovery_s is None
    assert recovery_text(goal) == "none"


def test_losses_that_are_not_counted_show_no_overload() -> None:
    def uncounted(spec: TrialSpec) -> TrialResult:
        trial = Overloaded()(spec)
        assert trial.series is not None
        return trial.model_copy(update={"series": trial.series.model_copy(update={"lost": None})})

    bounds = LoadBounds(rate_pps=100_000.0, duration_s=1.0, warmup_s=0.0)
    assert TABLE["recovery"].find(uncounted, bounds).doubts == ("no-overload",)


@pytest.mark.parametrize("recovers_s", [5.0, 0.95])
def test_losses_to_the_end_are_no_recovery(recovers_s: float) -> None:
    """A switch that also loses frames at half of the load has its last loss just before the end."""
    estimate = found(Overloaded(recovers_s=recovers_s))
    assert estimate.doubts == ("not-recovered",)
    assert estimate.summary is not None
    assert estimate.summary.goals[0].recovery_s is None


def test_a_calm_tenth_at_the_end_is_a_recovery() -> None:
    assert found(Overloaded(recovers_s=0.85)).doubts == ()


def test_flows_whose_frames_are_not_numbered_are_refused() -> None:
    with pytest.raises(UsageError, match="numbers of all frames"):
        found(Overloaded(numbered=False))


@pytest.mark.parametrize(
    ("changes", "doubts", "text"),
    [
        (
            {"recovery_s": 0.25, "resolution_s": 0.1},
            (),
            "linux-bridge lost frames for 250 ms after an overload of 110 kpps for 2 s.",
        ),
        (
            {"recovery_s": 0.05, "resolution_s": 0.1},
            (),
            "linux-bridge lost frames for less than 100 ms after an overload of 110 kpps for 2 s.",
        ),
        (
            {"recovery_s": None},
            ("no-overload",),
            "linux-bridge: no overload reached with 110 kpps for 2 s, so there is no recovery "
            "time.",
        ),
        (
            {"recovery_s": None},
            ("not-recovered",),
            "linux-bridge did not recover from 110 kpps for 2 s: it lost frames to the end of the "
            "trial.",
        ),
    ],
)
def test_an_answer_says_how_long_the_recovery_took_or_why_there_is_none(
    changes: dict[str, Any], doubts: tuple[str, ...], text: str
) -> None:
    load = {"rate_pps": None, "loss_ratio": 0.0, "overload_pps": 110_000.0, "overload_s": 2.0}
    goal = Goal(goal="recovery", **load, **changes)
    search = SearchResult(name="recovery", trials=1, goals=(goal,))
    other = fresh(search=SearchResult(name="ndr", trials=1, goals=(goal,)))
    assert sentences([fresh(search=search, doubts=doubts), other, fresh()]) == [text]
