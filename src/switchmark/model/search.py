"""This module says what a search found: its goals, each with the rate that met it."""

from __future__ import annotations

from switchmark.model.latency import LatencyFigures
from switchmark.model.written import Written

__all__ = ["Goal", "SearchResult"]


class Goal(Written):
    """A goal of a search has the rate that met it. Rates are those of one sender, frames a
    second; those of `r+` are of all receivers together."""

    goal: str
    """Its name: `ndr`, `pdr`, `r+`, `back-to-back`, or a share of R+."""

    loss_ratio: float
    """Lost frames of those sent: what is allowed where that is the goal, else what was found."""

    rate_pps: float | None
    """The rate found; None where none met the goal."""

    low_pps: float | None = None
    """The highest rate that met it."""

    high_pps: float | None = None
    """The lowest rate above that which did not; None where all did."""

    latency_ns: LatencyFigures | None = None
    """The latency at the rate found, in nanoseconds."""

    verdict: str | None = None
    """Which part kept the rate from being higher."""

    burst_frames: float | None = None
    """Back to back: the longest burst without loss, in frames; the mean of the repeats."""

    bursts: int | None = None
    """The bursts that this is the mean of: one a repeat, fewer where the search ran out of trials;
    None in records of before."""

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


class SearchResult(Written):
    """This record says what a search found of a test."""

    name: str
    """The search."""

    trials: int
    """Trials that it took."""

    r_plus_pps: float | None = None
    """The R+ that it began with, of one sender, in frames a second; some goals are shares of it."""

    goals: tuple[Goal, ...]
    """Its goals, in the order of the search."""
