"""Latencies: of a single trial with its histogram, and of several trials.

Latency counts from the time at which a frame should have left. A percentile is None unless at least
ten samples lie beyond it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from switchmark.model.written import Written


class Distribution(BaseModel):
    """A histogram of times, and its most common statistics."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int
    """The number of values: of frames, or of pairs of frames."""

    min: int
    """The minimum, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None
    """The median, in nanoseconds."""

    p90: int | None
    """The 90th percentile, in nanoseconds."""

    p99: int | None
    """The 99th percentile, in nanoseconds."""

    p999: int | None
    """The 99.9th percentile, in nanoseconds."""

    max: int
    """The maximum, in nanoseconds."""

    histogram: str | None = None
    """The whole histogram, in HdrHistogram's V2 compressed encoding."""


class Lag(Distribution):
    """The delay of a paced sender: from the time that a frame was due to the time it was made."""


class Stamps(BaseModel):
    """The source and the precision of arrival times.

    A frame without a timestamp gets the time of the poll that found it. It arrived after the poll
    before, so its latency may be too high by the time between the two polls, unless the frame
    waited in a queue."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["poll", "call", "kernel", "device"]
    """The source: the poll, the system call of the frame (`call`), the kernel, or a device."""

    noted: int
    """Frames with a timestamp from this source; the others have the time of their poll."""

    p50: int | None
    """The median time between two polls, over the frames, in nanoseconds."""

    p99: int | None
    """The 99th percentile, in nanoseconds."""

    max: int
    """The maximum, in nanoseconds."""


class Variation(Distribution):
    """Inter-packet delay variation (IPDV, RFC 5481): the absolute difference of the delays of two
    consecutive frames of a flow that also arrived in sequence."""


class Latency(BaseModel):
    """The latency of frames in a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["rtt", "one-way"]
    """Round trip, or one way."""

    count: int
    """The number of frames."""

    min: int
    """The minimum, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None
    """The median, in nanoseconds."""

    p90: int | None
    """The 90th percentile, in nanoseconds."""

    p99: int | None
    """The 99th percentile, in nanoseconds."""

    p999: int | None
    """The 99.9th percentile, in nanoseconds."""

    p9999: int | None = None
    """The 99.99th percentile, in nanoseconds."""

    p99999: int | None = None
    """The 99.999th percentile, in nanoseconds."""

    p999999: int | None = None
    """The 99.9999th percentile, in nanoseconds."""

    max: int
    """The maximum, in nanoseconds."""

    histogram: str | None = None
    """The whole histogram, in HdrHistogram's V2 compressed encoding."""

    earliest: str | None = None
    """The histogram with the earliest possible arrival times, right after the previous poll. The
    true latencies lie between this histogram and the other."""

    ipdv: Variation | None = None
    """The variation from frame to frame, if it was measured."""


class VariationFigures(Written):
    """A `Variation` without its histogram."""

    count: int
    """The number of pairs of frames."""

    min: int
    """The minimum, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None = None
    """The median, in nanoseconds."""

    p90: int | None = None
    """The 90th percentile, in nanoseconds."""

    p99: int | None = None
    """The 99th percentile, in nanoseconds."""

    p999: int | None = None
    """The 99.9th percentile, in nanoseconds."""

    max: int
    """The maximum, in nanoseconds."""


class LatencyError(Written):
    """Bounds of the error of a median latency, and their sum."""

    median_ns: int
    """The sum of the bounds below: the error of the median, plus or minus, in nanoseconds."""

    stamps_ns: int
    """How much the median may be too high without timestamps, in nanoseconds: the median minus the
    median of the earliest possible arrival times."""

    skew_ns: int
    """The largest difference between the cycle counters of two CPUs of the test, in nanoseconds; 0
    if a single core read both times, and if it was not measured."""

    clocks_ns: int
    """The error between two clocks, in nanoseconds: `unsure_ns`, plus 100 if the kernel or a device
    took the timestamps by its own clock."""

    histogram_ns: int
    """The resolution of the histogram at the median, in nanoseconds: 1/1024 of the median."""


class LatencyFigures(Written):
    """The latency of all frames of several trials."""

    kind: Literal["rtt", "one-way"]
    """Round trip, or one way."""

    count: int
    """The number of frames."""

    min: int
    """The minimum, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None = None
    """The median, in nanoseconds."""

    p90: int | None = None
    """The 90th percentile, in nanoseconds."""

    p99: int | None = None
    """The 99th percentile, in nanoseconds."""

    p999: int | None = None
    """The 99.9th percentile, in nanoseconds."""

    p9999: int | None = None
    """The 99.99th percentile, in nanoseconds."""

    p99999: int | None = None
    """The 99.999th percentile, in nanoseconds."""

    p999999: int | None = None
    """The 99.9999th percentile, in nanoseconds."""

    max: int
    """The maximum, in nanoseconds."""

    pdv: int | None = None
    """Packet delay variation (RFC 5481 section 4.2): p99.9 minus the minimum, in nanoseconds."""

    ipdv: VariationFigures | None = None
    """Inter-packet delay variation (RFC 5481 section 4.1), if it was measured."""

    unsure_ns: int | None = None
    """The largest error of all values between two clocks, in nanoseconds."""

    error: LatencyError | None = None
    """The error of the median, by cause."""
