"""A switch that is simulated by arithmetic: a capacity, a buffer, and noise that searches must cope
with."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.series import Gap, TimeSeries
from switchmark.searches.base import Measure

_INTERVALS = 50


@dataclass
class SyntheticSwitch:
    """A switch that forwards `capacity_pps`, with a spread of `noise` from trial to trial. It loses
    one frame in every `rare`-th trial, and one in 1000 above `lossless_pps`. It changes by `drift`
    per trial, and alternates between two `bands` at random. Its sender reaches `sender_pps`, its
    buffer holds `buffer` frames. It is seeded: the same specs in the same order get the same
    answers."""

    capacity_pps: float = 1e6
    sender_pps: float = 2e6
    noise: float = 0.0
    rare: int = 0
    drift: float = 0.0
    bands: float = 1.0
    lossless_pps: float = float("inf")
    buffer: int = 0
    receiver: bool = False
    seed: int = 1
    asked: list[TrialSpec] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)

    def __call__(self, spec: TrialSpec) -> TrialResult:
        self.asked.append(spec)
        number = len(self.asked)
        capacity = self.capacity_pps * (1 + self.drift) ** (number - 1)
        capacity *= self.bands if self._draw.random() < 0.5 else 1.0
        capacity *= max(1 + self._draw.gauss(0, self.noise), 0.1)
        expected = spec.frames or round((spec.rate_pps or self.sender_pps) * spec.duration_s)
        sent = min(expected, round(self.sender_pps * spec.duration_s))
        busy_s = sent / self.sender_pps if spec.frames else spec.duration_s
        lost = max(sent - round(capacity * busy_s) - self.buffer, 0)
        if not spec.frames and sent > self.lossless_pps * spec.duration_s:
            lost = max(lost, sent // 1000)
        if self.rare and number % self.rare == 0:
            lost = max(lost, 1)
        received = sent - lost
        count = received // _INTERVALS
        elapsed_ns = round(spec.duration_s * 1e9)
        return TrialResult(
            spec=spec,
            elapsed_ns=elapsed_ns,
            tx_frames=sent,
            tx_unsent=expected - sent if spec.rate_pps or spec.frames else 0,
            rx_frames=received,
            rx_bytes=60 * received,
            lost=lost,
            lost_at={"ring f1": lost} if self.receiver and lost else {},
            interval_ns=elapsed_ns // _INTERVALS,
            intervals=(count,) * _INTERVALS,
            series=self._series(spec, capacity) if spec.steps else None,
        )

    def _series(self, spec: TrialSpec, capacity: float) -> TimeSeries:
        """Return the series of a trial whose load changes once, by intervals of a tenth of a
        second. The last frame lost is the last one above the capacity."""
        ((step_s, share),) = spec.steps
        count = round(spec.duration_s * 10)
        offered: list[int] = []
        lost: list[int] = []
        for number in range(count):
            pps = (spec.rate_pps or 0.0) * (1.0 if number < step_s * 10 else share)
            offered.append(round(min(pps, self.sender_pps) / 10))
            lost.append(max(0, offered[-1] - round(capacity / 10)))
        last = max((number for number in range(count) if lost[number]), default=None)
        ended_ns = None if last is None else (last + 1) * 10**8
        gap = Gap(flow="f0-f1", first=0, lost=1, before_due_ns=0, after_due_ns=ended_ns)
        return TimeSeries(
            interval_ns=10**8,
            offered=(*offered, 0),
            lost=(*lost, 0),
            **dict.fromkeys(("received", "duplicated", "reordered"), (0,) * (count + 1)),
            **dict.fromkeys(("p50_ns", "p99_ns", "p999_ns", "max_ns"), (None,) * (count + 1)),
            gaps=() if last is None else (gap,),
            latest_gap=None if last is None else gap,
        )


def answers_of(trials: list[TrialResult], fresh: Measure) -> Measure:
    """Return a `measure` that first returns stored trials, like a resumed run, then measures."""
    stored = list(trials)

    def measure(spec: TrialSpec) -> TrialResult:
        if stored:
            trial = stored.pop(0)
            assert trial.spec == spec, "the search asked for something else than before"
            return trial
        return fresh(spec)

    return measure
