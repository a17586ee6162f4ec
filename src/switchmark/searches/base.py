"""The contract of a search, and code that searches share. A search is a policy that picks trials to
find a rate.

A search picks its next trial from the results alone, never from a clock or at random. An
interrupted search can then be replayed from its stored trials.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from switchmark.errors import UsageError
from switchmark.metrics.latency import latency_of
from switchmark.metrics.loss import bound_of, frames_that_tell
from switchmark.metrics.statistics import MIN_OF_INTERVAL
from switchmark.metrics.throughput import figures, loss_ratio, relative_half_width, steady_pps
from switchmark.model.place import PlaceKind
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.search import Goal, SearchResult
from switchmark.model.units import MAJORITY, VerificationRule

Measure = Callable[[TrialSpec], TrialResult]
Judge = Callable[[Sequence[TrialResult]], str]

MAX_TRIALS = 200
"""The limit at which a search stops and reports the bounds found so far."""

LOWEST_SHARE = 0.001
"""The lowest rate tried, as a share of the ceiling."""

_FULL = 0.995
"""The share of the line rate from which a sender counts as limited by the link."""

_LONGEST_S = 86_400.0
"""The longest trial."""

EXAMPLE_PPS = 1e6
"""The rate for which the length of trials is estimated if none is given."""

_MIN_UNTIL_CERTAIN = MIN_OF_INTERVAL
_USUAL_FACTOR, _MAX_FACTOR = 2, 10


def _unjudged(trials: Sequence[TrialResult]) -> str:
    return "unknown"


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """The load and the repeats that the user asked for."""

    rate_pps: float | None
    """The rate per sender: that of the test, or the ceiling of a search; None for as fast as
    possible."""
    duration_s: float
    """The duration of a final trial."""
    warmup_s: float
    """The warm-up of a final trial."""
    repeat: int = 1
    """The trials of an `independent` search, or the complete runs of any other search."""
    finals: int = 1
    """The number of final trials at the rate found, or at each load."""
    loss_ratio: float = 0.005
    """The loss that a goal with loss allows."""
    precision: float = 0.005
    """The width of the final interval, relative to its upper end."""
    verification: VerificationRule = MAJORITY
    """How trials with loss are repeated."""
    exceed_ratio: float = 0.5
    """The share of the time at a load that may lose more than a goal of `mlr` allows."""
    duration_sum_s: float | None = None
    """The time of the trials that decide on a load of `mlr`; None for three trials."""
    loads: tuple[float, ...] = (0.1, 0.5, 0.99)
    """Loads as shares of R+."""
    until_certain: float | None = None
    """Repeat until the half width of the 95 % confidence interval, relative to the median, is below
    this value; None to repeat `repeat` times."""
    senders: int = 1
    """The number of senders."""
    line_pps: float | None = None
    """The line rate of the link of one sender, which caps the rate even if a sender is to send as
    fast as possible."""
    burst: int = 1
    """The frames that a sender sends at once."""
    latency: bool = False
    """Whether `until_certain` is about the median latency, not the rate."""
    judge: Judge = _unjudged
    """Returns the verdict on some trials."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The result of a search."""

    trials: tuple[TrialResult, ...]
    """The trials behind the figure, in order."""
    summary: SearchResult | None
    """The part of the record about the search; None for `fixed`."""
    verdict: str | None = None
    """The part that limits the figure; None if the trials carry the verdict."""
    goal: str | None = None
    """The goal behind the figure; None if no goal was met."""
    finals: Mapping[str, tuple[TrialResult, ...]] = field(default_factory=dict)
    """The final trials by goal."""
    doubts: tuple[str, ...] = ()
    """The doubts about the result that its trials do not show."""


class Search(ABC):
    """A search. A driver defines its name, a summary and `find`, which reaches the lab through
    `measure` alone."""

    name: str
    summary: str

    independent: bool = False
    """True if trials do not depend on each other, so that every trial is a repeat. For any other
    search, a repeat is a complete run from its first trial."""

    finds_rate: bool = True
    """True if the search treats the rate of the test as a ceiling."""

    @abstractmethod
    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        """Run trials until the search has its result: once, or as often as `bounds` require if
        trials are independent. Errors of `measure` propagate."""

    def tells(self, bounds: LoadBounds) -> float:
        """Return the loss ratio that trials must tell; 0 if the search allows no loss."""
        return 0.0

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        """Return the durations, in seconds, of the trials that the search usually needs. Used to
        estimate the time of a run."""
        return (bounds.duration_s,) * usual_repeats(bounds)


def telling_s(loss_ratio: float, rate_pps: float | None, bounds: LoadBounds) -> float:
    """Return the duration of a trial that tells a loss ratio, in seconds: with fewer than 3/ratio
    frames, a trial without loss does not show that the ratio is met. A trial of a test is long
    enough for most ratios. Without a rate, the duration is an example for 1 Mpps.

    Raise UsageError if the trial would take more than a day."""
    if not loss_ratio:
        return bounds.duration_s
    frames, rate = frames_that_tell(loss_ratio), (rate_pps or EXAMPLE_PPS) * bounds.senders
    if frames > rate * _LONGEST_S:
        raise UsageError(
            f"a loss ratio of {loss_ratio:g} cannot be told at {rate:.0f} frames/s: that takes "
            f"{frames:.3g} frames, which is more than a day",
            hint=f"--loss-ratio {frames_that_tell(1.0) / (rate * _LONGEST_S):.1g} or more",
        )
    return max(bounds.duration_s, frames / rate)


@dataclass(slots=True)
class Probe:
    """Calls `measure` with the durations of a test and stores every trial. A trial is lengthened
    until it can tell the loss ratio `tells`. Errors of `measure` propagate."""

    measure: Measure
    bounds: LoadBounds
    tells: float = 0.0
    trials: list[TrialResult] = field(default_factory=list)

    def __call__(
        self, rate_pps: float | None, *, duration_s: float | None = None, frames: int | None = None
    ) -> TrialResult:
        usual_s = self.bounds.duration_s
        if rate_pps is not None:
            usual_s = telling_s(self.tells, rate_pps, self.bounds)
        trial = self.measure(
            TrialSpec(
                rate_pps=self.bounds.line_pps if rate_pps is None else rate_pps,
                duration_s=duration_s or usual_s,
                warmup_s=self.bounds.warmup_s,
                frames=frames,
            )
        )
        self.trials.append(trial)
        return trial

    @property
    def exhausted(self) -> bool:
        """Return whether the search has used up its trials."""
        return len(self.trials) >= MAX_TRIALS


@dataclass(frozen=True, slots=True)
class Saturation:
    """The result of a trial at full speed or at the line rate, in frames per second per sender."""

    trial: TrialResult
    """The trial."""
    sent_pps: float
    """The rate sent."""
    received_pps: float
    """The rate received (R+)."""
    ceiling_pps: float
    """The highest rate that can be offered: the rate sent, or the rate of the test if that is
    lower."""


def saturate(probe: Probe) -> Saturation:
    """Run one trial without pacing, or at the line rate. Every search for a rate derives its bounds
    from this trial."""
    trial = probe(None)
    sent = trial.tx_frames * 1e9 / trial.elapsed_ns / probe.bounds.senders
    received = min(steady_pps(trial) / probe.bounds.senders / trial.copies, sent)
    ceiling = min(sent, probe.bounds.rate_pps or sent)
    return Saturation(trial, sent, received, max(ceiling, 1 / probe.bounds.duration_s))


def repeated(
    measure: Measure, spec: TrialSpec, bounds: LoadBounds, *, steady: bool = False
) -> tuple[TrialResult, ...]:
    """Run trials at one load, as often as `bounds` require, or until the confidence interval of the
    median is narrow enough. `steady` takes the rates of the steady part of the trials."""
    trials: list[TrialResult] = []
    while not is_enough([(trial,) for trial in trials], bounds, steady=steady):
        trials.append(measure(spec))
    return tuple(trials)


def least_repeats(repeat: int, until_certain: float | None) -> int:
    """Return the minimum number of trials at one load."""
    return repeat if until_certain is None else max(repeat, _MIN_UNTIL_CERTAIN)


def most_repeats(repeat: int, until_certain: float | None) -> int:
    """Return the maximum number of trials at one load."""
    if until_certain is None:
        return repeat
    return _MAX_FACTOR * max(repeat, _MIN_UNTIL_CERTAIN)


def usual_repeats(bounds: LoadBounds) -> int:
    """Return the expected number of trials at one load."""
    if bounds.until_certain is None:
        return bounds.repeat
    return _USUAL_FACTOR * max(bounds.repeat, _MIN_UNTIL_CERTAIN)


def halvings(precision: float) -> float:
    """Return the number of bisections that narrow an interval to a precision."""
    return math.log2(1 / precision)


def is_enough(
    repeats: Sequence[Sequence[TrialResult]], bounds: LoadBounds, *, steady: bool = False
) -> bool:
    """Return whether there are enough repeats, each given by its trials: the required number, or
    enough figures for a confident median. A repeat without a figure does not count for the
    median."""
    if len(repeats) >= most_repeats(bounds.repeat, bounds.until_certain):
        return True
    if bounds.until_certain is None:
        return False
    repeat_figures = (figures(trials, latency=bounds.latency, steady=steady) for trials in repeats)
    values = [median(one) for one in repeat_figures if one]
    if len(values) < max(bounds.repeat, _MIN_UNTIL_CERTAIN):
        return False
    return relative_half_width(values) <= bounds.until_certain


def bracket(
    passes: Callable[[float], bool],
    confirmed: Callable[[float], bool],
    *,
    first: float,
    ceiling: float,
    lowest: float,
    precision: float,
    least: float = 0.0,
    step: float,
) -> tuple[float | None, float | None]:
    """Return the highest value that passes and the lowest value above it that fails. They differ by
    at most `precision`, relative to the upper value, or by at most `least`.

    The search begins at `first`. It goes up or down by `step`, relative to the value, and doubles
    the step until a value has passed and another has failed. Then it bisects. The result must also
    pass `confirmed`; if it does not, it counts as failed. The first value is None if nothing
    passes, the second is None if `ceiling` passes. No value below `lowest` is tried.
    """
    passed: list[float] = []
    failed: list[float] = []
    value = min(first, ceiling)
    while True:
        (passed if passes(value) else failed).append(value)
        high = min(failed, default=None)
        low = max((one for one in passed if high is None or one < high), default=None)
        while low is not None and (
            low >= ceiling if high is None else high - low <= max(precision * high, least)
        ):
            if confirmed(low):
                return low, high
            passed.remove(low)
            failed.append(low)
            high = low
            low = max((one for one in passed if one < high), default=None)
        if low is not None and high is not None:
            value = (low + high) / 2
        elif low is not None:
            value = min(low * (1 + step), ceiling)
            step *= 2
        elif high is not None:
            if high <= lowest:
                return None, high
            value = max(high / (1 + step), lowest)
            step *= 2


def meets(trial: TrialResult, allowed: float) -> bool:
    """Return whether the loss ratio of a trial is within the limit. An unsent frame counts as
    lost."""
    return loss_ratio([trial], unsent=True) <= allowed


def limit_of(trial: TrialResult, start: Saturation, bounds: LoadBounds) -> str:
    """Return the part that made a trial fail.

    The verdict on the trial comes first. If it is `offered-load` (few frames are missing) or
    `unknown`, then the frames decide: if more frames are unsent than lost, return what limits the
    sender at full speed; if the rings of the receiver dropped most lost frames, return the
    receiver.
    """
    verdict = bounds.judge((trial,))
    if verdict not in ("offered-load", "unknown"):
        return verdict
    if trial.tx_unsent > trial.lost:
        return _limit_of_sending(start, bounds)
    rings = sum(n for place, n in trial.lost_at.items() if place.kind is PlaceKind.RING)
    if 2 * rings > trial.lost > 0:
        return "receiver"
    return verdict


def limit_of_all(start: Saturation, bounds: LoadBounds) -> str:
    """Return what keeps a goal from a higher rate although the ceiling passed: the offered load, or
    what limits the sender at full speed."""
    if bounds.rate_pps is not None and start.ceiling_pps < start.sent_pps:
        return "offered-load"
    if bounds.line_pps is not None and start.sent_pps >= _FULL * bounds.line_pps:
        return "offered-load"
    return _limit_of_sending(start, bounds)


def _limit_of_sending(start: Saturation, bounds: LoadBounds) -> str:
    verdict = bounds.judge((start.trial,))
    return verdict if verdict != "unknown" else "sender"


def goal_of(
    name: str,
    trials: Sequence[TrialResult],
    *,
    rate_pps: float | None,
    low_pps: float | None = None,
    high_pps: float | None = None,
    verdict: str | None = None,
    loss: float | None = None,
    **fields: float | tuple[int, ...] | None,
) -> Goal:
    """Return a goal for the record. Latency comes from `trials`, and so does the loss, unless
    `loss` gives the ratio that the goal allows. `fields` are further fields of the goal."""
    return Goal(
        goal=name,
        loss_ratio=loss_ratio(trials) if loss is None else loss,
        loss_bound=bound_of(trials),
        rate_pps=rate_pps,
        low_pps=low_pps,
        high_pps=high_pps,
        latency_ns=latency_of(trials),
        verdict=verdict,
        **fields,
    )
