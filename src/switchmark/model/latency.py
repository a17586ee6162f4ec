"""Latencies: of one trial, with the histogram that they are read from, and of several trials.

Nanoseconds since a frame should have left. A percentile is None unless at least ten samples lie
beyond it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from switchmark.model.written import Written


class Distribution(BaseModel):
    """A histogram of times, and the values that are most often read from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int
    """Values: of frames, or of pairs of them."""

    min: int
    """The smallest, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None
    """The median, in nanoseconds."""

    p90: int | None
    """90 % are no greater."""

    p99: int | None
    """99 % are no greater."""

    p999: int | None
    """99.9 % are no greater."""

    max: int
    """The greatest, in nanoseconds."""

    histogram: str | None = None
    """All of them: HdrHistogram's V2 compressed encoding."""


class Lag(Distribution):
    """How late a paced sender made its frames: after the time that each was due by the rate."""


class Stamps(BaseModel):
    """Stamps say who told when frames arrived. A time that nobody told is that of the look that
    found the frame, which came after the look before it: by so many nanoseconds the frame may be
    younger than is told, unless it waited for its turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["poll", "call", "kernel", "device"]
    """The look for frames (`poll`), each frame's own system call, the kernel, or a device."""

    noted: int
    """Frames of which it was told; of all others it is the look's time."""

    p50: int | None
    """Between two looks, the median by frames, in nanoseconds."""

    p99: int | None
    """99 % are no greater."""

    max: int
    """The greatest."""


class Variation(Distribution):
    """How the delays of consecutive frames differ (IPDV, RFC 5481): absolute nanoseconds, of pairs
    of frames of a flow that also arrived one after the other."""


class Latency(BaseModel):
    """The latency of some frames of one trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["rtt", "one-way"]
    """There and back, or one way."""

    count: int
    """Frames."""

    min: int
    """The smallest, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None
    """The median, in nanoseconds."""

    p90: int | None
    """90 % are no greater."""

    p99: int | None
    """99 % are no greater."""

    p999: int | None
    """99.9 % are no greater."""

    p9999: int | None = None
    """99.99 % are no greater."""

    p99999: int | None = None
    """99.999 % are no greater."""

    p999999: int | None = None
    """99.9999 % are no greater."""

    max: int
    """The greatest, in nanoseconds."""

    histogram: str | None = None
    """All of them: HdrHistogram's V2 compressed encoding."""

    earliest: str | None = None
    """The same histogram as it would be if each frame had arrived right after the look before the
    one that found it: the true latencies lie between the two."""

    ipdv: Variation | None = None
    """How they differ from frame to frame, where that was measured."""


class VariationFigures(Written):
    """A `Variation` without its histogram."""

    count: int
    """Pairs of frames."""

    min: int
    """The smallest, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None = None
    """The median, in nanoseconds."""

    p90: int | None = None
    """90 % are no greater."""

    p99: int | None = None
    """99 % are no greater."""

    p999: int | None = None
    """99.9 % are no greater."""

    max: int
    """The greatest, in nanoseconds."""


class LatencyError(Written):
    """How wrong a median may be, in nanoseconds: bounds, and their sum."""

    median_ns: int
    """The sum of all below: the median is right to this, more or less."""

    stamps_ns: int
    """By how much the median may be too high, as nobody noted when frames arrived: the median less
    that of the earliest times at which they can have arrived."""

    skew_ns: int
    """By how much the cycle counters of two CPUs of the test may differ; 0 of times that one core
    read, and where it was not measured."""

    clocks_ns: int
    """The same of two clocks: `unsure_ns`, and 100 where the kernel or a device noted arrivals by
    its own."""

    histogram_ns: int
    """What the histogram does not tell apart at the median: 1/1024 of it."""

    @property
    def above_ns(self) -> int:
        """Return by how much the median may be too low: stamps make it too high only."""
        return self.median_ns - self.stamps_ns


class LatencyFigures(Written):
    """The latency of all frames of some trials."""

    kind: Literal["rtt", "one-way"]
    """There and back, or one way."""

    count: int
    """Frames."""

    min: int
    """The smallest, in nanoseconds."""

    mean: float
    """The mean, in nanoseconds."""

    p50: int | None = None
    """The median, in nanoseconds."""

    p90: int | None = None
    """90 % are no greater."""

    p99: int | None = None
    """99 % are no greater."""

    p999: int | None = None
    """99.9 % are no greater."""

    p9999: int | None = None
    """99.99 % are no greater."""

    p99999: int | None = None
    """99.999 % are no greater."""

    p999999: int | None = None
    """99.9999 % are no greater."""

    max: int
    """The greatest, in nanoseconds."""

    pdv: int | None = None
    """Packet delay variation: the 99.9th percentile less the smallest (RFC 5481 section 4.2)."""

    ipdv: VariationFigures | None = None
    """How they differ from frame to frame (section 4.1), where that was measured."""

    unsure_ns: int | None = None
    """Between two clocks: by how much all of them may be wrong at most, in nanoseconds."""

    error: LatencyError | None = None
    """By how much the median may be wrong, and by what."""
