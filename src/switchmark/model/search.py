"""The result of a search: its goals with the rates that met them, and the result of the repeats."""

from __future__ import annotations

from switchmark.model.latency import LatencyFigures
from switchmark.model.written import Written


class Goal(Written):
    """A goal of a search, with the rate that met it.

    Rates are per sender, in frames per second; for `r+` they are totals over all receivers.

    `low_pps` and `high_pps` show the precision of a single search: the rates that passed and
    failed. They are not a confidence interval over repeats. If a search was repeated, every figure
    is the median over the repeats."""

    goal: str
    """The name of the goal: `ndr`, `pdr`, `r+`, `back-to-back`, a share of R+, or a percentage of
    the maximum rate (`90 %`)."""

    loss_ratio: float
    """The loss ratio (lost / sent): the allowed ratio if it defines the goal, else the measured
    one."""

    rate_pps: float | None
    """The rate found, in frames per second; None if no rate met the goal."""

    loss_bound: float | None = None
    """The 95 % upper bound of the loss ratio that the final trials show: 3/n for n frames without
    loss. None without such trials, and in early records."""

    low_pps: float | None = None
    """The highest rate that met the goal; for search `max`, the lowest of its trials."""

    high_pps: float | None = None
    """The lowest higher rate that failed; None if all rates passed. For search `max`, the highest
    rate of its trials."""

    latency_ns: LatencyFigures | None = None
    """The latency at the rate found."""

    verdict: str | None = None
    """The bottleneck that limited the rate."""

    regular: bool | None = None
    """For `mlr`: whether the goal has both bounds, as close as its width asks; None in early
    records."""

    conditional_pps: float | None = None
    """For `mlr`: the conditional throughput at the rate found, in frames per second: a received
    rate to expect there."""

    exceed_ratio: float | None = None
    """For `mlr`: the share of the time at a load that may be lossier than the goal allows."""

    width: float | None = None
    """For `mlr`: the distance of the bounds at which the search ends, relative to the upper one."""

    initial_trial_s: float | None = None
    """For `mlr`: the shortest trial that the goal asks for, in seconds."""

    final_trial_s: float | None = None
    """For `mlr`: the least duration of the trials that decide, in seconds."""

    duration_sum_s: float | None = None
    """For `mlr`: the total time of the trials that decide on a load, in seconds."""

    burst_frames: float | None = None
    """For `back-to-back`: the longest burst without loss, in frames, as the mean over the bursts of
    a search."""

    bursts: int | None = None
    """The number of bursts behind that mean, over all repeats; None in early records."""

    burst_low: int | None = None
    """The shortest of these bursts, in frames."""

    burst_high: int | None = None
    """The upper bound of these bursts: a longer burst that lost frames; None if no burst did."""

    burst_max: int | None = None
    """The longest of these bursts, in frames; None in early records."""

    burst_stdev: float | None = None
    """The standard deviation of these bursts, in frames; None for a single burst."""

    burst_each: tuple[int, ...] = ()
    """The bursts, in frames, in order; empty in early records."""

    burst_step: int | None = None
    """The resolution of the search at the longest burst, in frames."""

    burst_limit: int | None = None
    """The longest burst that the search would have tried, in frames; None in early records."""

    buffer_s: float | None = None
    """The time that the buffer lasts at the full rate, in seconds."""

    throughput_pps: float | None = None
    """The highest rate without loss, in frames per second; None if there is none."""

    recovery_s: float | None = None
    """For `recovery`: the time from the end of the overload to the last loss, in seconds; 0 if no
    frame was lost after it. None if there was no overload, or if frames were lost to the end."""

    resolution_s: float | None = None
    """The resolution of that time, in seconds: the period of a sender's bursts."""

    overload_pps: float | None = None
    """The rate of the overload, in frames per second."""

    overload_s: float | None = None
    """The duration of the overload, in seconds."""

    corrected_buffer_s: float | None = None
    """`buffer_s` without the frames forwarded in that time (RFC 9004 section 6.3), in seconds."""


class OneSearch(Written):
    """The result of a repeat of a search."""

    trials: int
    """The number of trials."""

    r_plus_pps: float | None = None
    """The R+ at the start of the search, in frames per second per sender."""

    goals: tuple[Goal, ...]
    """The goals, with the rates and the verdict of this repeat."""


class SearchResult(Written):
    """The result of a search for a test."""

    name: str
    """The name of the search."""

    trials: int
    """The number of trials, over all repeats."""

    r_plus_pps: float | None = None
    """The R+ at the start of the search, in frames per second per sender; some goals are shares of
    it."""

    goals: tuple[Goal, ...]
    """The goals, in the order of the search, with medians over the repeats."""

    results: tuple[OneSearch, ...] = ()
    """The results of the repeats; empty for search `max`, whose trials are its repeats, and in
    early records, which have a single search."""

    @property
    def repeats(self) -> tuple[OneSearch, ...]:
        """Return the results of the repeats, in order."""
        if self.results:
            return self.results
        return (OneSearch(trials=self.trials, r_plus_pps=self.r_plus_pps, goals=self.goals),)
