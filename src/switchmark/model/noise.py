"""The noise of a host: around a test, and during its trials.

CPUs are named by their numbers, as strings. Values that a host does not report are None.
"""

from __future__ import annotations

from pydantic import Field

from switchmark.model.written import Written

BUSY = 0.2
"""The share of a CPU's time above which background load spoils a measurement on that CPU."""


class Jitter(Written):
    """The time that a busy loop on a CPU lost to other work."""

    lost: float | None = None
    """The share of its time that was lost."""

    max_ns: int = 0
    """The longest gap, in nanoseconds."""

    gaps: tuple[tuple[int, int], ...] = ()
    """The gaps above a microsecond: a minimum length in nanoseconds, and the number of gaps."""

    skew_ns: int | None = None
    """How far its cycle counter is ahead of that of the probe's first CPU, in nanoseconds."""

    skew_within_ns: int | None = None
    """The uncertainty of `skew_ns`, plus or minus, in nanoseconds."""


class _Probe(Written):
    at: str | None = None
    """The time of the measurement: date, time and offset (ISO 8601)."""

    jitter: dict[str, Jitter] | None = None
    """Jitter by CPU; None if the traffic program could not run there."""


class HostActivity(Written):
    """The kernel's counts between two moments."""

    elapsed_s: float = 0.0
    """The time between them, in seconds."""

    stolen: float | None = None
    """The share of all CPU time that the hypervisor took (steal time)."""

    softirq_cores: float | None = None
    """Softirq time on the whole machine, in cores."""

    interrupts_per_s: dict[str, float] = Field(default_factory=dict)
    """Device interrupts per second, by CPU."""

    frequency_khz: dict[str, tuple[int | None, int]] | None = None
    """The frequency at the first and at the second moment, in kHz, by CPU."""

    pressure: float | None = None
    """The share of the time in which some task waited for a CPU (PSI)."""


# With two bases, the members of the second come first.
class NoiseCertificate(HostActivity, _Probe):
    """The noise of some CPUs at one time: the losses of a busy loop, and the kernel's counts during
    it."""

    tsc: tuple[str, ...] = ()
    """The processor's flags for its cycle counter: `constant_tsc`, `nonstop_tsc`."""


class HostNoise(Written):
    """The noise of the host around a test."""

    before: NoiseCertificate
    """Measured just before the test."""

    after: NoiseCertificate
    """Measured just after the test."""
