"""The tool's own latency: that of a test with a cable in its switch's place, at its other axes and
seats, a moment before it. It is said beside the test's, never subtracted from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.lab.calibration import MeasureOnCable
from switchmark.layout.cables import CABLE, on_cable
from switchmark.layout.layout import Layout
from switchmark.layout.resolve import check
from switchmark.machine.placement import Placement
from switchmark.metrics.doubts import passing
from switchmark.metrics.latency import latency_of
from switchmark.metrics.throughput import of_latency
from switchmark.model.record import TrialResult
from switchmark.model.spec import Test, TrialSpec

__all__ = ["Floors"]

_USUAL_PPS = 1000.0
"""The rate of a sender where the test's own is all that it can, or depends on the switch."""
_DURATION_S = 0.4
_WARMUP_S = 0.05
_TRIALS = 3
_NEAR_S = 60.0
"""What was measured on a cable is beside a test that begins so soon afterwards."""
_USUAL = ("search", "loads", "repeat", "until_certain", "seed")


@dataclass(frozen=True, slots=True, eq=False)
class _OnCable:
    """A trial on the cable; `asked_for` where the run has such a test of its own."""

    ended_s: float
    trial: TrialResult
    asked_for: bool


class Floors:
    """The floors of the tests of a run, if they are `wanted`: of each by trials on the cable that
    ended within a minute before it. Those are the run's own, if it has such a test, and else some
    that are measured for it, and for others of that minute. No path may be up then."""

    def __init__(
        self,
        wanted: bool,
        measure: MeasureOnCable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = wanted
        self._measure = measure
        self._clock = clock
        self._trials: dict[str, list[_OnCable]] = {}
        self._failed: dict[str, str] = {}
        self._beside: dict[Test, list[_OnCable]] = {}

    def of(self, test: Test, layout: Layout, placement: Placement) -> dict[str, Any] | None:
        """`latency_ns` on the cable by so many `trials`, those beside all visits of the test so
        far, with the rate of a sender and the doubts; trials that were disturbed count only where
        all were. `error` where it failed. None for a test of no latency, or that no cable can
        stand for."""
        cable = self._cable(test, layout) if test.switch != CABLE else None
        if cable is None:
            return None
        key = _key(cable, placement)
        if self.lacks(test, layout, placement):
            self._measure_beside(cable, placement, key)
        found = self._beside.setdefault(test, [])
        found += [each for each in self._near(key) if each not in found]
        return _told(found, _spec(cable).rate_pps) or {
            "switch": CABLE,
            "error": self._failed.get(key, "no frame came back"),
        }

    def lacks(self, test: Test, layout: Layout, placement: Placement) -> bool:
        """Would `of` measure now?"""
        cable = self._cable(test, layout) if test.switch != CABLE else None
        if cable is None:
            return False
        key = _key(cable, placement)
        return key not in self._failed and not self._near(key)

    def learn(self, test: Test, layout: Layout, placement: Placement, trial: TrialResult) -> None:
        """Note a trial, just measured, of a test that the run itself has on the cable."""
        cable = self._cable(test, layout) if test.switch == CABLE else None
        spec = trial.spec
        if cable and spec.frames is None and spec.rate_pps == _spec(cable).rate_pps:
            self._note(_key(cable, placement), [trial], asked_for=True)

    def _near(self, key: str) -> list[_OnCable]:
        since = self._clock() - _NEAR_S
        near = [each for each in self._trials.get(key, ()) if each.ended_s >= since]
        return [each for each in near if each.asked_for] or near

    def _note(self, key: str, trials: Sequence[TrialResult], *, asked_for: bool) -> None:
        noted = [_OnCable(self._clock(), trial, asked_for) for trial in trials if trial.latency]
        self._trials.setdefault(key, []).extend(noted)

    def _measure_beside(self, cable: Test, placement: Placement, key: str) -> None:
        try:
            trials = self._measure(
                cable, placement, _spec(cable), lambda trials: len(trials) == _TRIALS
            )
        except (Unavailable, UsageError, SetupFailed, TrialFailed) as error:
            self._failed[key] = str(error)
        else:
            self._note(key, trials, asked_for=False)

    def _cable(self, test: Test, layout: Layout) -> Test | None:
        """The test on the cable that a test is held against; its own, for one that is on it."""
        if not self._wanted or not of_latency(test):
            return None
        cable = on_cable(test, layout, _USUAL)
        cable = cable.model_copy(update={"duration": _DURATION_S, "warmup": _WARMUP_S})
        return None if check(cable) else cable


def _spec(cable: Test) -> TrialSpec:
    rate_pps = cable.rate_pps or _USUAL_PPS
    return TrialSpec(rate_pps=rate_pps, duration_s=_DURATION_S, warmup_s=_WARMUP_S)


def _told(found: Sequence[_OnCable], rate_pps: float | None) -> dict[str, Any] | None:
    calm = [each for each in found if not passing(each.trial.doubts)] or found
    trials = [each.trial for each in calm]
    latency = latency_of(trials)
    if latency is None:
        return None
    doubts = dict.fromkeys(doubt for trial in trials for doubt in trial.doubts if doubt != "short")
    told = {"rate_pps": rate_pps, "doubts": list(doubts), "trials": len(trials)}
    return {"switch": CABLE, **told, **latency}


def _key(cable: Test, placement: Placement) -> str:
    seats = {part: seat for part, seat in placement.seats.items() if part != "switch"}
    return f"{cable.model_dump_json()} {sorted(seats.items())}"
