"""The calibration: the performance of a test without its switch.

It measures the sender into a null port, sender and receiver on a cable, and the functions of a
chain on cables, with the axes and the CPUs of the test.

The user's cache keeps the latest undisturbed trials per key for an hour. They apply to the same
boot of the hosts and the same versions. The trial with the median rate is the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median_low
from typing import Any, Literal

from switchmark.clock import epoch_s
from switchmark.engines import TABLE as ENGINES
from switchmark.hosts.caches import cache_folder, read_cache, update_cache
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
from switchmark.metrics.doubts import passing
from switchmark.metrics.verdict import own_ns, rate_interval
from switchmark.model.cable import CABLE, CableFigures, CableRate, Calibration, NoCalibration
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test, usual_values
from switchmark.model.topology import PortKind
from switchmark.path.cables import pins_on_cable, without_switch
from switchmark.path.refusals import can_work
from switchmark.switches import TABLE as SWITCHES

Mode = Literal["auto", "never", "again"]

_ON_CABLE = TrialSpec(rate_pps=None, duration_s=0.4, warmup_s=0.1)
_INTO_NOTHING = TrialSpec(rate_pps=None, duration_s=0.1, warmup_s=0.0)
_TRIALS = 3
"""The number of undisturbed trials per calibration."""

_TRIES = 5
_KEPT = 9
"""The number of latest trials that the median covers."""

_RECENT_S = 3600.0
"""The age limit of cached trials. A shared host changes over time, so a run measures again if the
cache is older when the run begins."""
_NOT_OF_CABLE = ("switch ", "placement")
"""Versions that do not affect a calibration. The cable uses the placement of the test."""


class Calibrations(OnCable[CableFigures]):
    """The calibrations of a run.

    Mode `auto` measures missing calibrations before a test that saturates. `never` only uses the
    cache. `again` ignores the cache and measures every calibration once.
    """

    def __init__(
        self,
        mode: Mode,
        measure: MeasureOnCable,
        cache: Path | None = None,
        clock: Callable[[], float] = epoch_s,
    ) -> None:
        super().__init__(measure, clock)
        self._mode = mode
        self._cache = cache or cache_folder() / "calibration.json"
        self._into_nothing: dict[str, float | None] = {}
        self._measured: set[str] = set()
        for key, trials, null_pps in _kept(read_cache(self._cache), clock()):
            self._results[key], self._into_nothing[key] = trials, null_pps

    def of(self, basis: Basis) -> Calibration | NoCalibration | None:
        """Return the calibration of the ends of a test, with the cable rates of its functions and
        of one sender per copy. None if there is no calibration.

        With copies, the ends are one sender and one receiver.
        """
        calibrations = {
            name: self._described(cable) for name, cable in self._measure_missing(basis).items()
        }
        ends = calibrations.pop(ENDS, None)
        if not isinstance(ends, Calibration):
            return ends
        rates = {
            name: CableRate(rate_pps=one.rate_pps, doubts=one.doubts)
            for name, one in calibrations.items()
            if isinstance(one, Calibration)
        }
        return ends.model_copy(update=rates)

    def _described(self, cable: Cable) -> Calibration | NoCalibration | None:
        if trials := self._results.get(cable.key):
            return _median(trials, self._into_nothing[cable.key])
        failed = self._failed.get(cable.key)
        return NoCalibration(error=failed.message) if failed else None

    def _cables(self, basis: Basis) -> Mapping[str, Cable]:
        versions = {k: v for k, v in basis.versions.items() if not k.startswith(_NOT_OF_CABLE)}
        cables = {}
        for name, cable in without_switch(basis.path).items():
            placed = pins_on_cable(cable, basis.path)
            key = key_of(cable, placed, versions=versions, boot=basis.boot, cpu=basis.cpu)
            cables[name] = Cable(cable, placed, key)
        return cables

    def _wants(self, test: Test, cable: Cable) -> bool:
        if self._mode == "never" or not test.saturates or cable.key in self._measured:
            return False
        return self._mode == "again" or cable.key not in self._results

    def _trials(self, cable: Cable) -> Sequence[TrialResult]:
        self._measured.add(cable.key)
        self._results.pop(cable.key, None)

        def enough(trials: Sequence[TrialResult]) -> bool:
            calm = sum(not passing(trial.doubts) for trial in trials)
            return calm == _TRIALS or len(trials) == _TRIES

        trials = self._measure(cable.test, cable.placement, _ON_CABLE, enough)
        self._into_nothing[cable.key] = self._sent_into_nothing(cable)
        return trials

    def _sent_into_nothing(self, cable: Cable) -> float | None:
        nothing = {
            "switch": next(s.name for s in SWITCHES.values() if PortKind.NULL in s.port_kinds),
            "engine": next(e.name for e in ENGINES.values() if PortKind.NULL in e.port_kinds),
        }
        test = cable.test.model_copy(update={**usual_values("ports"), **nothing})
        if not can_work(test):
            return None
        (trial,) = self._measure(test, cable.placement, _INTO_NOTHING, bool)
        return trial.tx_frames * 1e9 / trial.elapsed_ns

    def _shows(self, trial: TrialResult) -> CableFigures:
        receivers = [part for part in trial.parts if "receiver" in part.roles]
        polls = sum(part.polls for part in receivers)
        empty = sum(part.empty_polls for part in receivers)
        return CableFigures(
            rate_pps=rate_interval(trial),
            sent_pps=trial.tx_frames * 1e9 / trial.elapsed_ns,
            empty_polls=empty / polls if polls else None,
            sender_ns=own_ns(trial, "sender"),
            receiver_ns=own_ns(trial, "receiver"),
            doubts=trial.doubts,
        )

    def _counts(self, basis: Basis, cable: Cable, trial: TrialResult) -> bool:
        test, spec = basis.path.test, trial.spec
        if basis.path.steering is not None or test.copies > 1 or not test.saturates:
            return False
        if spec.rate_pps is not None or spec.frames is not None or passing(trial.doubts):
            return False
        return any(dated.calm for dated in self._results.get(cable.key, ()))

    def _note(self, key: str, trials: Sequence[Dated[CableFigures]]) -> None:
        """Keep undisturbed trials, also in the cache. If all trials were disturbed, keep them for
        this run alone, because a later run may have better ones."""
        super()._note(key, trials)
        self._results[key] = list(undisturbed(self._results[key])[-_KEPT:])
        if any(dated.calm for dated in self._results[key]):
            self._write()

    def _write(self) -> None:
        content = {
            key: {
                "recent": [
                    {"at": dated.time_s, **dated.result.model_dump(mode="json")} for dated in trials
                ],
                "null_pps": self._into_nothing[key],
            }
            for key, trials in self._results.items()
            if any(dated.calm for dated in trials)
        }
        now = self._clock()
        update_cache(self._cache, content, lambda entry: any(_kept({"": entry}, now)))


def _median(trials: Sequence[Dated[CableFigures]], null_pps: float | None) -> Calibration:
    """Return the calibration from some trials: the figures of the trial with the median rate."""
    by_rate = {dated.result.rate_pps[1]: dated.result for dated in trials}
    median = by_rate[median_low([dated.result.rate_pps[1] for dated in trials])]
    return Calibration(switch=CABLE, **dict(median), trials=len(trials), null_pps=null_pps)


def _kept(
    cache: Mapping[str, Any], now: float
) -> Iterator[tuple[str, list[Dated[CableFigures]], float | None]]:
    """Yield every key in a cache, with its recent trials and its `null_pps`. Skip entries of
    another format."""
    for key, entry in cache.items():
        with suppress(KeyError, TypeError, ValueError):
            recent = [
                Dated(trial["at"], _figures(trial))
                for trial in entry["recent"]
                if 0 <= now - trial["at"] < _RECENT_S
            ]
            null_pps = entry["null_pps"]
            if recent:
                yield key, recent, null_pps


def _figures(content: Mapping[str, Any]) -> CableFigures:
    """Return the figures of a cached trial."""
    return CableFigures.model_validate({name: content[name] for name in content if name != "at"})
