"""The cable latency is the tool's own latency: that of a test with a cable in its switch's place,
at its other axes and on its CPUs, a moment before it. It is said beside the test's, never
subtracted from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from switchmark.lab.cable import (
    ENDS,
    Basis,
    Cable,
    Dated,
    MeasureOnCable,
    OnCable,
    key_of,
    undisturbed,
)
from switchmark.metrics.latency import latency_of
from switchmark.metrics.throughput import of_latency
from switchmark.model.cable import CABLE, CableLatency, NoCableLatency
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.path.cables import on_cable
from switchmark.path.refusals import check

_USUAL_PPS = 1000.0
"""The rate of a sender where the test's own is all that it can, or depends on the switch."""
_DURATION_S = 0.4
_WARMUP_S = 0.05
_TRIALS = 3
_NEAR_S = 60.0
"""What was measured on a cable is beside a test that begins so soon afterwards."""


class CableLatencies(OnCable[TrialResult]):
    """The floors of the tests of a run, if they are `wanted`: of each by trials on the cable that
    ended within a minute before it. Those are the run's own, if it has such a test, and else some
    that are measured for it, and for others of that minute. No path may be up then."""

    def __init__(
        self,
        wanted: bool,
        measure: MeasureOnCable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(measure, clock)
        self._wanted = wanted
        self._beside: dict[Test, list[Dated[TrialResult]]] = {}

    def of(self, basis: Basis) -> CableLatency | NoCableLatency | None:
        """Return that of a test, by the trials beside all visits of it so far; those that were
        disturbed count only where all were. None for a test of no latency, or that no cable can
        stand for."""
        cable = self._measure_missing(basis).get(ENDS)
        if cable is None or basis.path.test.switch == CABLE:
            return None
        beside = self._beside.setdefault(basis.path.test, [])
        beside += [each for each in self._near(cable.key) if each not in beside]
        told = _told([each.shown for each in undisturbed(beside)], _spec(cable.test).rate_pps)
        failed = self._failed.get(cable.key, "no frame came back")
        return told if told is not None else NoCableLatency(switch=CABLE, error=str(failed))

    def _cables(self, basis: Basis) -> Mapping[str, Cable]:
        if not self._wanted or not of_latency(basis.path.test):
            return {}
        usual = on_cable(basis.path)
        test = usual.model_copy(update={"duration": _DURATION_S, "warmup": _WARMUP_S})
        cable = Cable(test, basis.path.placement, key_of(test, basis.path.placement))
        return {} if check(test) else {ENDS: cable}

    def _wants(self, test: Test, cable: Cable) -> bool:
        if test.switch == CABLE or cable.key in self._failed:
            return False
        return not self._near(cable.key)

    def _trials(self, cable: Cable) -> Sequence[TrialResult]:
        return self._measure(
            cable.test, cable.placement, _spec(cable.test), lambda trials: len(trials) == _TRIALS
        )

    def _shows(self, trial: TrialResult) -> TrialResult | None:
        return trial if trial.latency else None

    def _counts(self, basis: Basis, cable: Cable, trial: TrialResult) -> bool:
        return trial.spec.frames is None and trial.spec.rate_pps == _spec(cable.test).rate_pps

    def _near(self, key: str) -> list[Dated[TrialResult]]:
        since = self._clock() - _NEAR_S
        near = [each for each in self._shown.get(key, ()) if each.at >= since]
        return [each for each in near if each.own] or near


def _spec(cable: Test) -> TrialSpec:
    rate_pps = cable.rate_pps or _USUAL_PPS
    return TrialSpec(rate_pps=rate_pps, duration_s=_DURATION_S, warmup_s=_WARMUP_S)


def _told(trials: Sequence[TrialResult], rate_pps: float | None) -> CableLatency | None:
    latency = latency_of(trials)
    if latency is None:
        return None
    doubts = dict.fromkeys(doubt for trial in trials for doubt in trial.doubts if doubt != "short")
    told = {"rate_pps": rate_pps, "doubts": tuple(doubts), "trials": len(trials)}
    return CableLatency(switch=CABLE, **told, **dict(latency))
