"""What else happened on a host: around a test, and during each of its trials.

CPUs are named by their numbers, as texts. What a host does not report is None.
"""

from __future__ import annotations

from pydantic import Field

from switchmark.model.written import Written

BUSY = 0.2
"""The share of a CPU's time from which what others take of it spoils what is measured there."""


class Jitter(Written):
    """The time that a busy loop on one CPU did not get."""

    lost: float | None = None
    """The share of its time that it did not get."""

    max_ns: int = 0
    """The longest gap, in nanoseconds."""

    gaps: tuple[tuple[int, int], ...] = ()
    """The gaps longer than a microsecond: a least length in nanoseconds, and how many."""

    skew_ns: int | None = None
    """By how much its cycle counter is ahead of that of the probe's first CPU, in nanoseconds."""

    skew_within_ns: int | None = None
    """And so many more or less."""


class _Probe(Written):
    at: str | None = None
    """When it was measured: date, time and offset (ISO 8601)."""

    jitter: dict[str, Jitter] | None = None
    """By CPU; None where the traffic program could not be run there."""


class HostActivity(Written):
    """What the kernel counted between two moments."""

    elapsed_s: float = 0.0
    """The time between them, in seconds."""

    stolen: float | None = None
    """The share of all CPU time that the hypervisor kept."""

    softirq_cores: float | None = None
    """The kernel's packet work on the whole machine, in cores."""

    interrupts_per_s: dict[str, float] = Field(default_factory=dict)
    """Interrupts by devices, by CPU, a second."""

    frequency_khz: dict[str, tuple[int | None, int]] | None = None
    """The frequency of each CPU at the first moment and at the second, in kHz."""

    pressure: float | None = None
    """The share of the time in which somebody waited for a CPU (PSI)."""


# Of two bases, the members of the last come first.
class NoiseCertificate(HostActivity, _Probe):
    """The noise of some CPUs at one time: what a busy loop lost, and what the kernel counted
    meanwhile."""

    tsc: tuple[str, ...] = ()
    """What the processor promises of its cycle counter: `constant_tsc`, `nonstop_tsc`."""


class Noise(Written):
    """The host's certificates of a test."""

    before: NoiseCertificate
    """From just before it."""

    after: NoiseCertificate
    """From just after it."""
