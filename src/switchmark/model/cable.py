"""The baseline in a record: the same test on a cable without the switch. A `Calibration` has the
rate, a `CableLatency` the latency."""

from __future__ import annotations

from switchmark.model.latency import LatencyFigures
from switchmark.model.written import Written

CABLE = "direct"
"""The name of the cable, the baseline of every switch, in the table of switches."""


class CableRate(Written):
    """The rate of frames on cables."""

    rate_pps: tuple[float, float, float]
    """The rate received: low, mean and high, in frames per second."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""


class CableFigures(Written):
    """The sender and the receiver of a trial on a cable."""

    rate_pps: tuple[float, float, float]
    """The rate received: low, mean and high, in frames per second."""

    sent_pps: float
    """The rate sent, in frames per second."""

    empty_polls: float | None = None
    """The share of the receiver's polls that found nothing."""

    sender_ns: tuple[float, float] | None = None
    """The sender's CPU time per frame, in nanoseconds: in user space, and in total."""

    receiver_ns: tuple[float, float] | None = None
    """The receiver's CPU time per frame, in nanoseconds: in user space, and in total."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""


class _Cable(Written):
    switch: str
    """The name of the cable, in the table of switches."""


# With two bases, the members of the second come first.
class Calibration(CableFigures, _Cable):
    """The baseline: the traffic program on a cable, with the axes and the CPUs of a test. The
    figures are of the trial with the median rate."""

    trials: int = 1
    """The number of trials behind the median."""

    null_pps: float | None = None
    """The rate of the sender without a cable or a receiver, in frames per second; None if that is
    not possible."""

    functions: CableRate | None = None
    """The functions of a chain on cables; several chains have separate ends."""

    apart: CableRate | None = None
    """A sender, a cable and a receiver for every copy of a frame."""


class NoCalibration(Written):
    """A calibration that failed."""

    error: str
    """Why it failed."""


class _CableLatencyTrials(_Cable):
    rate_pps: float | None = None
    """The rate per sender, in frames per second."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""

    trials: int = 1
    """The number of trials behind the latency."""


class CableLatency(LatencyFigures, _CableLatencyTrials):
    """The baseline latency of a test on a cable, from trials shortly before the test."""

    holds: bool | None = None
    """Whether the baseline is valid: its median is not above the test's own. A higher median means
    that the host changed in between. Set in output only."""


class NoCableLatency(_Cable):
    """A baseline latency that could not be measured."""

    error: str
    """Why it failed."""

    holds: bool | None = None
    """Always None: the validity is unknown. Set in output only."""
