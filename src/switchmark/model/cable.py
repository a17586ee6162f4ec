"""What a record has of the same test on a cable, without its switch: a `Calibration` for a rate, a
`CableLatency` for a latency."""

from __future__ import annotations

from switchmark.model.latency import LatencyFigures
from switchmark.model.written import Written

CABLE = "direct"
"""The cable that every switch is held against, as a switch."""


class CableRate(Written):
    """How fast some cables carry frames."""

    rate_pps: tuple[float, float, float]
    """The rate received: low, mean and high, in frames a second."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""


class CableFigures(Written):
    """The sender and the receiver of one trial on a cable."""

    rate_pps: tuple[float, float, float]
    """The rate received: low, mean and high, in frames a second."""

    sent_pps: float
    """The rate sent, in frames a second."""

    empty_polls: float | None = None
    """The share of the receiver's polls that found nothing."""

    sender_ns: tuple[float, float] | None = None
    """What the sender spends on a frame, in nanoseconds: outside of the kernel, and in all."""

    receiver_ns: tuple[float, float] | None = None
    """The same of the receiver."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""


class _Cable(Written):
    switch: str
    """The cable, as a switch."""


# Of two bases, the members of the last come first.
class Calibration(CableFigures, _Cable):
    """The traffic program on a cable, with the axes and the CPUs of a test: the trial with the
    median rate."""

    trials: int = 1
    """How many trials it is the median of."""

    null_pps: float | None = None
    """What the sender does with nobody to send to, in frames a second; None where it cannot."""

    functions: CableRate | None = None
    """The functions of a chain on cables; of several chains, each with ends of its own."""

    apart: CableRate | None = None
    """As many senders as a frame has copies, each with a cable and a receiver."""


class NoCalibration(Written):
    """A calibration that failed."""

    error: str
    """Why."""


class _CableLatencyTrials(_Cable):
    rate_pps: float | None = None
    """The rate of a sender, in frames a second."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""

    trials: int = 1
    """How many trials it is the latency of."""


class CableLatency(LatencyFigures, _CableLatencyTrials):
    """The latency of a test on a cable, from trials shortly before it."""

    holds: bool | None = None
    """Said where it is told: the median is not above the test's own. One that is above is no
    floor, but tells of a host that was not the same both times."""


class NoCableLatency(_Cable):
    """A latency on a cable that could not be measured."""

    error: str
    """Why."""

    holds: bool | None = None
    """Said where it is told: it is not known."""
