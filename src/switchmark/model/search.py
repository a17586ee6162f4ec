"""What a search found: its goals, each with the rate that met it, and the finds of each repeat."""

from __future__ import annotations

from switchmark.model.latency import LatencyFigures
from switchmark.model.written import Written


class Goal(Written):
    """A goal of a search has the rate that met it. Rates are those of one sender, frames a
    second; those of `r+` are of all receivers together.

    `low_pps` and `high_pps` say how precisely one search found its rate: what passed and what
    failed. They are no interval of repeats. Of a search that was repeated each figure is the median
    of the repeats."""

    goal: str
    """Its name: `ndr`, `pdr`, `r+`, `back-to-back`, or a share of R+."""

    loss_ratio: float
    """Lost frames of those sent: what is allowed where that is the goal, else what was found."""

    rate_pps: float | None
    """The rate found; None where none met the goal."""

    low_pps: float | None = None
    """The highest rate that met it; of search `max` the least of its trials."""

    high_pps: float | None = None
    """The lowest rate above that which did not; None where all did; of search `max` the most of its
    trials."""

    latency_ns: LatencyFigures | None = None
    """The latency at the rate found, in nanoseconds."""

    verdict: str | None = None
    """Which part kept the rate from being higher."""

    burst_frames: float | None = None
    """Back to back: the longest burst without loss, in frames; the mean of the bursts of a
    search."""

    bursts: int | None = None
    """The bursts that this is the mean of, in all repeats; None in records of before."""

    burst_low: int | None = None
    """The shortest of those."""

    burst_high: int | None = None
    """The longest burst above them that lost frames; None where none did."""

    buffer_s: float | None = None
    """How long the buffer lasts at full rate, in seconds."""

    throughput_pps: float | None = None
    """The rate without loss; None where there is none."""

    corrected_buffer_s: float | None = None
    """`buffer_s` without the frames that were forwarded meanwhile (RFC 9004 section 6.3)."""


class OneSearch(Written):
    """What one repeat of a search found."""

    trials: int
    """Trials that it took."""

    r_plus_pps: float | None = None
    """The R+ that it began with."""

    goals: tuple[Goal, ...]
    """Its goals, each with its own rates and verdict."""


class SearchResult(Written):
    """What a search found for a test."""

    name: str
    """The search."""

    trials: int
    """Trials that it took, in all repeats."""

    r_plus_pps: float | None = None
    """The R+ that it began with, of one sender, in frames a second; some goals are shares of it."""

    goals: tuple[Goal, ...]
    """Its goals, in the order of the search: the medians of the repeats."""

    results: tuple[OneSearch, ...] = ()
    """What each repeat of the search found; empty of search `max`, whose trials are its repeats,
    and in records of before, where a search was made once."""

    @property
    def repeats(self) -> tuple[OneSearch, ...]:
        """Return what each repeat found, in the order in which they were made."""
        if self.results:
            return self.results
        return (OneSearch(trials=self.trials, r_plus_pps=self.r_plus_pps, goals=self.goals),)
