"""The time series of a trial: its counts by interval, and the longest gaps of its flows.

A frame counts as offered, and as lost, in the interval in which it was due, as its sender wrote it
into the frame. It counts as received, duplicated or reordered in the interval of its arrival, by
the receiver's clock, and so does its latency.
"""

from __future__ import annotations

from math import ceil, floor

from switchmark.model.written import Written

SERIES_MAX = 2000
"""The most intervals of a trial. Longer intervals, by powers of two, keep within it."""

STEPPED_S = 0.1
"""The length of the intervals of a trial whose load changes, if no length is asked for."""

GAPS_MAX = 512
"""The most gaps of a trial in its record: the longest ones."""


class Gap(Written):
    """Consecutive frames of a flow that never arrived, and the frames around them.

    Times are nanoseconds since the start of the measured phase."""

    flow: str
    """The flow."""

    first: int
    """The number of the first missing frame; frames of a flow are numbered from 0."""

    lost: int
    """The number of missing frames."""

    before_due_ns: int | None = None
    """The due time of the last frame before the gap; None if the flow begins with the gap."""

    before_ns: int | None = None
    """The arrival of that frame."""

    after_due_ns: int | None = None
    """The due time of the first frame after the gap; None if the flow ends with the gap."""

    after_ns: int | None = None
    """The arrival of that frame."""

    @property
    def due_ns(self) -> int | None:
        """Return the time between the frames around the gap, as they were due; None at an end of
        the flow. The frames' period is the resolution."""
        if self.before_due_ns is None or self.after_due_ns is None:
            return None
        return self.after_due_ns - self.before_due_ns

    @property
    def arrival_ns(self) -> int | None:
        """Return the time between the arrivals of the frames around the gap; None at an end of the
        flow."""
        if self.before_ns is None or self.after_ns is None:
            return None
        return self.after_ns - self.before_ns


class TimeSeries(Written):
    """The counts of a trial by interval. All lists have the same length.

    The last entry is the time after the measured phase: it has the frames that arrived late. The
    entry before it may be a shorter interval."""

    interval_ns: int
    """The length of an interval, in nanoseconds: that of the test, doubled until a trial has at
    most 2000."""

    offered: tuple[int, ...]
    """Frames sent, by due time."""

    lost: tuple[int, ...] | None = None
    """Frames that were due in the interval and never arrived; None if receivers read no payload
    (touch `none`)."""

    received: tuple[int, ...]
    """Distinct frames that arrived, by arrival."""

    duplicated: tuple[int, ...]
    """Copies of frames that had arrived before, by arrival."""

    reordered: tuple[int, ...]
    """Frames that arrived after a frame that was sent later, by arrival."""

    p50_ns: tuple[int | None, ...]
    """The median latency of the frames that arrived, in nanoseconds, with an error of at most 3 %.
    A percentile is None unless ten frames lie beyond it."""

    p99_ns: tuple[int | None, ...]
    """The 99th percentile of the same."""

    p999_ns: tuple[int | None, ...]
    """The 99.9th percentile of the same."""

    max_ns: tuple[int | None, ...]
    """The exact maximum of the same."""

    switch_rss_kib: tuple[int | None, ...] = ()
    """The resident memory of the switch's processes at the end of the interval, in KiB; None where
    it was not read. Empty for a switch without a process."""

    gaps: tuple[Gap, ...] | None = None
    """The longest gaps, at most eight of a flow and 512 in all, longest first. None if they
    were not recorded: with touch `none`, and if several cores receive one flow."""

    silences: tuple[Gap, ...] | None = None
    """The longest time between two arrivals of each flow, with the frames around it, the longest
    first and 512 at most. `lost` is 0: frames may have waited in that time, and need not be
    missing. None where `gaps` is."""

    earliest_gap: Gap | None = None
    """The first gap of the trial; None without one."""

    latest_gap: Gap | None = None
    """The last gap of the trial; None without one."""

    @property
    def starts_s(self) -> tuple[float, ...]:
        """Return the start of each interval, in seconds since the start of the measured phase."""
        return tuple(number * self.interval_ns / 1e9 for number in range(len(self.offered)))


def series_interval_ns(interval_s: float, duration_s: float) -> int:
    """Return the length of an interval for a trial: as asked, doubled until the trial has at most
    SERIES_MAX intervals."""
    interval_ns = round(interval_s * 1e9)
    while duration_s * 1e9 > interval_ns * SERIES_MAX:
        interval_ns *= 2
    return interval_ns


def has_interval(begin_s: float, end_s: float, interval_ns: int) -> bool:
    """Return whether a whole interval of a trial lies between two moments of it."""
    return floor(1e9 * end_s / interval_ns) > ceil(1e9 * begin_s / interval_ns)
