"""The contract of a search: a policy that picks trials to find a rate; and what searches share.

What a search asks for follows from the answers alone, never from a clock or from chance: a search
that was cut off is gone through again with the trials that it has had.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from switchmark.metrics.latency import latency_of
from switchmark.metrics.statistics import MIN_OF_INTERVAL
from switchmark.metrics.throughput import figures, loss_ratio, relative_half_width, steady_pps
from switchmark.model.place import PlaceKind
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.search import Goal, SearchResult

Measure = Callable[[TrialSpec], TrialResult]
Judge = Callable[[Sequence[TrialResult]], str]

MAX_TRIALS = 200
"""A search ends here, and tells the bounds that it has."""

LOWEST_SHARE = 0.001
"""Of the most that was offered: no rate below is tried."""

_FULL = 0.995
"""Of what a link carries: a sender that reaches this has filled it."""

_MIN_UNTIL_CERTAIN = MIN_OF_INTERVAL
_USUAL_FACTOR, _MAX_FACTOR = 2, 10


def _unjudged(trials: Sequence[TrialResult]) -> str:
    return "unknown"


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """These bounds say what was asked. `rate_pps` is the rate of a sender, or the highest to be
    tried (None: as fast as it goes); `duration_s` and `warmup_s` are those of a final trial, of
    which a search has `finals` at the rate that it finds, or at each load; `repeat` is how often
    there is a trial of a search that is `independent`, or the whole of another search.
    `loss_ratio` is that of the goals with loss, `precision` the width of an interval found,
    relative to its upper end, `loads` shares of R+. `until_certain` goes on repeating until the
    half width of the 95 % interval, relative to the median, is below it: of the median latency with
    `latency`, else of the rate. There are so many `senders`, and the link of each carries no more
    than `line_pps`, even where it is to send as fast as it goes. `judge` gives the verdict on some
    trials."""

    rate_pps: float | None
    duration_s: float
    warmup_s: float
    repeat: int = 1
    finals: int = 1
    loss_ratio: float = 0.005
    precision: float = 0.005
    loads: tuple[float, ...] = (0.1, 0.5, 0.99)
    until_certain: float | None = None
    senders: int = 1
    line_pps: float | None = None
    latency: bool = False
    judge: Judge = _unjudged


@dataclass(frozen=True, slots=True)
class Estimate:
    """The trials that make the figure, in order, and what the record tells of the search
    (None for `fixed`). `verdict` is what kept the figure from being higher, None where the trials
    say it. `goal` is the one that the figure is of, None where none was met; `finals` are the
    trials of each goal."""

    trials: tuple[TrialResult, ...]
    summary: SearchResult | None
    verdict: str | None = None
    goal: str | None = None
    finals: Mapping[str, tuple[TrialResult, ...]] = field(default_factory=dict)


class Search(ABC):
    """A search: a driver says its name, a summary, and `find`, whose only way to the lab is
    `measure`."""

    name: str
    summary: str

    independent: bool = False
    """Its trials do not depend on each other: each is a repeat. Of another search a repeat is the
    whole of it, from its first trial on."""

    finds_rate: bool = True
    """It takes the rate asked for as the highest to be tried."""

    @abstractmethod
    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        """Run trials until the answer is known: once, or as often as `bounds` say where they are
        independent. Errors of `measure` pass through."""

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        """Return the durations of as many trials as it usually takes to find an answer, in seconds,
        for those who want to know beforehand."""
        return (bounds.duration_s,) * usual_repeats(bounds)


@dataclass(slots=True)
class Probe:
    """`measure` with the durations of a test. Remembers every trial; raises nothing itself."""

    measure: Measure
    bounds: LoadBounds
    trials: list[TrialResult] = field(default_factory=list)

    def __call__(
        self, rate_pps: float | None, *, duration_s: float | None = None, frames: int | None = None
    ) -> TrialResult:
        trial = self.measure(
            TrialSpec(
                rate_pps=self.bounds.line_pps if rate_pps is None else rate_pps,
                duration_s=duration_s or self.bounds.duration_s,
                warmup_s=self.bounds.warmup_s,
                frames=frames,
            )
        )
        self.trials.append(trial)
        return trial

    @property
    def exhausted(self) -> bool:
        """Say whether the search has had all the trials that one may have."""
        return len(self.trials) >= MAX_TRIALS


@dataclass(frozen=True, slots=True)
class Saturation:
    """This record says what a trial as fast as it goes, or as the link carries, shows, in frames
    per second of one sender: what was sent, what arrived (R+), and the highest rate worth trying,
    which is what was sent or asked for."""

    trial: TrialResult
    sent_pps: float
    received_pps: float
    ceiling_pps: float


def saturate(probe: Probe) -> Saturation:
    """Run one trial without pacing, or at the rate of the link: it gives the bounds of every search
    for a rate."""
    trial = probe(None)
    sent = trial.tx_frames * 1e9 / trial.elapsed_ns / probe.bounds.senders
    received = min(steady_pps(trial) / probe.bounds.senders / trial.copies, sent)
    ceiling = min(sent, probe.bounds.rate_pps or sent)
    return Saturation(trial, sent, received, max(ceiling, 1 / probe.bounds.duration_s))


def repeated(
    measure: Measure, spec: TrialSpec, bounds: LoadBounds, *, steady: bool = False
) -> tuple[TrialResult, ...]:
    """Run trials of one load, as often as asked, or until the median of their figures is certain:
    of their rates, or with `steady` of the rates of their steady parts."""
    trials: list[TrialResult] = []
    while not is_enough([(trial,) for trial in trials], bounds, steady=steady):
        trials.append(measure(spec))
    return tuple(trials)


def least_repeats(repeat: int, until_certain: float | None) -> int:
    """Return how many trials of one load there will be at least."""
    return repeat if until_certain is None else max(repeat, _MIN_UNTIL_CERTAIN)


def most_repeats(repeat: int, until_certain: float | None) -> int:
    """Return how many trials of one load there can be at most."""
    if until_certain is None:
        return repeat
    return _MAX_FACTOR * max(repeat, _MIN_UNTIL_CERTAIN)


def usual_repeats(bounds: LoadBounds) -> int:
    """Return about how many trials of one load there will be."""
    if bounds.until_certain is None:
        return bounds.repeat
    return _USUAL_FACTOR * max(bounds.repeat, _MIN_UNTIL_CERTAIN)


def halvings(precision: float) -> float:
    """Return how often an interval is halved until it is as narrow as a precision."""
    return math.log2(1 / precision)


def is_enough(
    repeats: Sequence[Sequence[TrialResult]], bounds: LoadBounds, *, steady: bool = False
) -> bool:
    """Say whether there are as many repeats as asked for, each with its trials, or as many figures
    as make the median of them certain; a repeat that has no figure does not count then."""
    if len(repeats) >= most_repeats(bounds.repeat, bounds.until_certain):
        return True
    if bounds.until_certain is None:
        return False
    each = (figures(trials, latency=bounds.latency, steady=steady) for trials in repeats)
    known = [median(one) for one in each if one]
    if len(known) < max(bounds.repeat, _MIN_UNTIL_CERTAIN):
        return False
    return relative_half_width(known) <= bounds.until_certain


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
    """Return the highest value that passes and the lowest above it that fails, no further apart
    than `precision` of the upper one, or than `least`.

    Begins at `first`, goes up or down by `step` of it, twice as far each time, until there is one
    of each kind, and bisects. The value found has to be `confirmed`; one that is not is a failure
    after all. The first of the pair is None if nothing passes, the second if `ceiling` does.
    Nothing below `lowest` is tried.
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
    """Say whether a trial is within a loss ratio; a frame that was to be sent and was not is
    lost."""
    return loss_ratio([trial], unsent=True) <= allowed


def limit_of(trial: TrialResult, start: Saturation, bounds: LoadBounds) -> str:
    """Return which part kept a trial from passing. Where the verdict is that none did, as so few
    frames are missing, or that nobody knows: what limits the sender when it sends as fast as it
    goes, if more frames were unsent than lost; the receiver if its rings dropped most of the lost
    ones."""
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
    """Return what kept a goal from a higher rate where the highest that could be tried has passed:
    that none was asked for, or what limits the sender when it sends as fast as it goes."""
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
    **more: float | None,
) -> Goal:
    """Return a goal as a record tells it. Latency is that of `trials`, and loss too, unless it is
    that which the goal allows; `more` has what else it tells."""
    return Goal(
        goal=name,
        loss_ratio=loss_ratio(trials) if loss is None else loss,
        rate_pps=rate_pps,
        low_pps=low_pps,
        high_pps=high_pps,
        latency_ns=latency_of(trials),
        verdict=verdict,
        **more,
    )
