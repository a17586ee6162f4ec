"""The cable latency: the latency of the tool itself.

It is measured with a cable in place of the switch, with the other axes and the CPUs of the test,
shortly before the test. Reports show it next to the latency of the test and never subtract it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from switchmark.clock import monotonic
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
from switchmark.path.refusals import can_work

_USUAL_PPS = 1000.0
"""The rate per sender if the test sends at full speed, or at a rate that depends on the switch."""
_DURATION_S = 0.4
_WARMUP_S = 0.05
_TRIALS = 3
_NEAR_S = 60.0
"""The maximum time from a measurement on the cable to the test that it applies to."""


class CableLatencies(OnCable[TrialResult]):
    """The cable latencies for the tests of a run, if `wanted`.

    A cable latency comes from trials on the cable that ended within a minute before the test. If
    the run includes such a test, its trials count. Otherwise the lab measures some for the tests of
    that minute, and no path may be up.
    """

    def __init__(
        self,
        enabled: bool,
        measure: MeasureOnCable,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(measure, clock)
        self._wanted = enabled
        self._beside: dict[Test, list[Dated[TrialResult]]] = {}

    def of(self, basis: Basis) -> CableLatency | NoCableLatency | None:
        """Return the cable latency of a test, from the trials before all its visits so far.

        Disturbed trials count only if all were disturbed. None if the test measures no latency, or
        if no cable can replace its switch.
        """
        cable = self._measure_missing(basis).get(ENDS)
        if cable is None or basis.path.test.switch == CABLE:
            return None
        beside = self._beside.setdefault(basis.path.test, [])
        beside += [trial for trial in self._near(cable.key) if trial not in beside]
        latency = _described(
            [dated.result for dated in undisturbed(beside)], _spec(cable.test).rate_pps
        )
        failed = self._failed.get(cable.key, "no frame came back")
        return latency if latency is not None else NoCableLatency(switch=CABLE, error=str(failed))

    def _cables(self, basis: Basis) -> Mapping[str, Cable]:
        if not self._wanted or not of_latency(basis.path.test):
            return {}
        usual = on_cable(basis.path)
        test = usual.model_copy(update={"duration": _DURATION_S, "warmup": _WARMUP_S})
        cable = Cable(test, basis.path.placement, key_of(test, basis.path.placement))
        return {ENDS: cable} if can_work(test) else {}

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
        near = [dated for dated in self._results.get(key, ()) if dated.time_s >= since]
        return [dated for dated in near if dated.in_run] or near


def _spec(cable: Test) -> TrialSpec:
    rate_pps = cable.rate_pps or _USUAL_PPS
    return TrialSpec(rate_pps=rate_pps, duration_s=_DURATION_S, warmup_s=_WARMUP_S)


def _described(trials: Sequence[TrialResult], rate_pps: float | None) -> CableLatency | None:
    latency = latency_of(trials)
    if latency is None:
        return None
    doubts = dict.fromkeys(doubt for trial in trials for doubt in trial.doubts if doubt != "short")
    members = {"rate_pps": rate_pps, "doubts": tuple(doubts), "trials": len(trials)}
    return CableLatency(switch=CABLE, **members, **dict(latency))
