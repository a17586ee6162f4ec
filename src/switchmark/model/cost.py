"""The cost of frames: the counts of a trial, and the figures of a test.

Cores are CPU time divided by elapsed time: 1.0 is a whole core. CPUs are named by their numbers, as
strings. Unknown values are None.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from switchmark.model.written import Written

# --- samples of CPUs ----------------------------------------------------------------------


class Shares(Written):
    """The profile of some CPUs, or of the threads of a part."""

    roles: tuple[str, ...] = ()
    """The roles of the part; empty for CPUs."""

    samples: int
    """Samples that found them busy."""

    groups: dict[str, float]
    """The share of samples by group of functions: `user` is user space, `guest` is the code of
    virtual machines, `other` is the rest of the kernel."""

    symbols: dict[str, float]
    """The share of samples by kernel function, greatest first: at most 40, from 0.1 % up."""


class Profile(Written):
    """The profile of the CPUs of a test, from samples of `perf record`."""

    missing: str | None = None
    """Why there is no profile."""

    event: str
    """The sampled event: `cycles`, or `cpu-clock` if the processor has no counters."""

    hz: int
    """The highest number of samples per second and CPU."""

    lost: int = 0
    """Samples that perf lost."""

    sample_ns: float | None = None
    """The CPU time of a sample, measured by a busy loop before the test, in nanoseconds; None if
    unknown."""

    busy: float | None = None
    """The share of samples that found the CPU busy; None for `cycles`, which stop in an idle
    CPU."""

    whole: Shares | None = None
    """The profile of all CPUs of the test."""

    cpus: dict[str, Shares] = Field(default_factory=dict)
    """The profile by CPU."""

    parts: dict[str, Shares] = Field(default_factory=dict)
    """The profile by `switch`, part, or parts of the same process joined by `+`."""


# --- one trial -------------------------------------------------------------------------------


class InterruptTimes(Written):
    """Interrupt time of the kernel on a CPU."""

    irq: float
    """Hard interrupt time, in cores."""

    softirq: float
    """Softirq time (deferred work such as packet processing), in cores."""

    ksoftirqd: float | None = None
    """The part of the softirq time in the thread ksoftirqd, in cores; None if it is not visible."""


class InterruptCost(Written):
    """Interrupt time of the kernel on the CPUs of the test."""

    cpus: dict[str, InterruptTimes]
    """Interrupt time by CPU."""

    within_threads: bool | None = None
    """Whether the CPU time of a thread includes the interrupts during it."""

    outside: float | None = None
    """Interrupt time that no thread's CPU time includes, in cores."""


class SchedulerCounts(Written):
    """Scheduler events of the threads of a part."""

    roles: tuple[str, ...]
    """The roles of the part."""

    context_switches: int
    """The number of context switches."""

    migrations: int | None = None
    """The number of migrations between CPUs; None if the kernel does not report it."""


class ProcessorCounts(Written):
    """Processor counters of a part. Counters that the host lacks are missing."""

    by: Literal["thread", "cpu"]
    """The scope of the counters: threads, or whole CPUs."""

    cpus: tuple[int, ...] = ()
    """The CPUs, if the counters are of whole CPUs."""

    roles: tuple[str, ...]
    """The roles of the part."""

    cycles: int | None = None
    """Unhalted core cycles."""

    ref_cycles: int | None = None
    """Unhalted reference cycles, at the constant frequency of the cycle counter."""

    instructions: int | None = None
    """Retired instructions."""

    cache_misses: int | None = None
    """Misses of the last-level cache."""


class PerfCost(Written):
    """Processor counters, or the reason why there are none."""

    missing: str | None = None
    """Why there are no counters."""

    user_only: bool
    """Whether the counters exclude the kernel."""

    parts: dict[str, ProcessorCounts]
    """Counters by `switch`, `cpus`, part, or parts joined by `+`."""


class TrialCost(Written):
    """The cost of the measured phase of a trial."""

    elapsed_ns: int
    """The length of the measured phase, in nanoseconds."""

    softirq: InterruptCost
    """Interrupt time of the kernel."""

    scheduler: dict[str, SchedulerCounts] = Field(default_factory=dict)
    """Scheduler events by `switch`, part, or parts of the same process joined by `+`."""

    perf: PerfCost
    """Processor counters."""

    tsc_hz: int | None = None
    """The frequency of the cycle counter, in Hz."""

    load: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], float] = Field(default_factory=dict)
    """The load by CPU: the share of the time that it was busy, according to the scheduler."""

    profile: Profile | None = None
    """The profile of the CPUs, if requested."""


# --- a test ----------------------------------------------------------------------------------


class InterruptFigures(Written):
    """Interrupt time of the kernel on the CPUs of a test."""

    cores: float
    """Interrupt time, in cores."""

    by_cpu: dict[str, float]
    """Interrupt time by CPU, in cores."""

    within_threads: bool | None
    """Whether the CPU time of the parts already includes interrupts."""

    outside: float | None
    """Interrupt time that the CPU time of the parts does not include, in cores."""


class SchedulerFigures(Written):
    """Scheduler events of the threads of a role."""

    context_switches: int = 0
    """The number of context switches."""

    migrations: int | None = 0
    """The number of migrations between CPUs."""


class ProcessorFigures(Written):
    """Processor counters of a role, in total and per frame: per frame sent for senders, per frame
    received for other roles."""

    by: Literal["thread", "cpu"]
    """The scope of the counters: threads, or whole CPUs."""

    cpus: tuple[int, ...] | None
    """The CPUs, if the counters are of whole CPUs."""

    cycles: int | None
    """Unhalted core cycles."""

    ref_cycles: int | None
    """Unhalted reference cycles, at the constant frequency of the cycle counter."""

    instructions: int | None
    """Retired instructions."""

    cache_misses: int | None
    """Misses of the last-level cache."""

    cycles_per_frame: float | None
    """Core cycles per frame."""

    instructions_per_frame: float | None
    """Instructions per frame."""

    cache_misses_per_frame: float | None
    """Misses of the last-level cache per frame."""

    instructions_per_cycle: float | None
    """Instructions per core cycle."""

    cycle_cores: float | None
    """Busy cores: reference cycles divided by those of a CPU that never halts."""


class PerfFigures(Written):
    """Processor counters of a test."""

    missing: str | None
    """Why there are no counters."""

    user_only: bool
    """Whether the counters exclude the kernel."""

    parts: dict[str, ProcessorFigures]
    """Counters by role, or by the roles that share the counted CPUs."""


class Disagreement(Written):
    """A role for which the scheduler and a cycle counter report different numbers of cores."""

    part: str
    """The role, or `cpus`: all CPUs of the test."""

    scheduler_cores: float
    """Cores according to the scheduler, which counts a polling thread as busy."""

    cycle_cores: float
    """Busy cores according to the cycle counter."""

    counted_by: str
    """The source of the cycle counter: `the switch`, `perf`."""


class CostFigures(Written):
    """The cost of the frames of a test, over all its trials."""

    mpps_per_core: float | None
    """10^6 frames received per second and core of `total_cores`."""

    total_cores: float | None
    """Cores used by all parts, plus the kernel's work outside of them; None if the use of a part or
    of the kernel is unknown."""

    softirq_cores: float | None
    """Softirq time on the whole machine, warm-up included, in cores."""

    kernel_softirq: InterruptFigures | None
    """Interrupt time on the CPUs of the test; None in early records."""

    switch_cores: float | None
    """Cores of the switch according to the scheduler."""

    switch_busy_cores: float | None
    """Busy cores of the switch according to its cycle counter; None if it has no such counter."""

    scheduler_load: float | None
    """The mean load of the CPUs of the test according to the scheduler, as a share; None in early
    records."""

    cycles_load: float | None
    """The mean load of the CPUs of the test by reference cycles, as a share; None if whole CPUs are
    not counted. They are counted for a kernel switch, if the host supports it."""

    disagreements: tuple[Disagreement, ...]
    """Roles for which the scheduler and a cycle counter differ by more than 0.1 cores."""

    switch_threads: dict[str, float]
    """Cores of the switch's threads according to the scheduler, by thread name."""

    scheduler: dict[str, SchedulerFigures]
    """Scheduler events by role."""

    perf: PerfFigures | None
    """Processor counters; None in early records."""

    profile: Profile | None = None
    """The profile of the CPUs, if requested; its `parts` are by role."""
