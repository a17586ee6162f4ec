"""What frames cost: the counts of one trial, and the figures of a test.

Cores are CPU time divided by elapsed time: 1.0 is one whole core. CPUs are named by their numbers,
as texts. What is not known is None.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from switchmark.model.written import Written

# --- samples of CPUs ----------------------------------------------------------------------


class Shares(Written):
    """What some CPUs, or the threads of one part, spent their time on."""

    roles: tuple[str, ...] = ()
    """What is done there, where it is a part."""

    samples: int
    """How often they were met at work."""

    groups: dict[str, float]
    """By group of functions: `user` is all that is no kernel's, `guest` what a virtual machine ran,
    `other` all of the kernel that no group names."""

    symbols: dict[str, float]
    """By function of the kernel, the greatest first: those of 0.1 % and more, at most 40."""


class Profile(Written):
    """What the CPUs of a test did, from samples of `perf record`."""

    missing: str | None = None
    """Why there is none."""

    event: str
    """What was sampled: `cycles`, or `cpu-clock` where the processor has no counters."""

    hz: int
    """Samples a second of each CPU, at most."""

    lost: int = 0
    """Samples that perf could not keep."""

    sample_ns: float | None = None
    """What a sample took of its CPU, as a busy loop saw it before; None where it could not tell."""

    busy: float | None = None
    """The share of the samples that met a CPU at work; None of `cycles`, which stand still in a CPU
    that is not."""

    whole: Shares | None = None
    """Of all CPUs of the test."""

    cpus: dict[str, Shares] = Field(default_factory=dict)
    """By CPU."""

    parts: dict[str, Shares] = Field(default_factory=dict)
    """By place: `switch`, a part, or parts of one process joined by `+`."""


# --- one trial -------------------------------------------------------------------------------


class InterruptTimes(Written):
    """How long the kernel worked in interrupts on one CPU."""

    irq: float
    """Cores that interrupts by devices took."""

    softirq: float
    """Cores that the work took which the kernel defers, such as packets."""

    ksoftirqd: float | None = None
    """Cores of that which its thread did; None where the thread cannot be seen."""


class InterruptCost(Written):
    """How long the kernel worked in interrupts on the CPUs of the test."""

    cpus: dict[str, InterruptTimes]
    """By CPU."""

    within_threads: bool | None = None
    """The CPU time of a thread has that of the interrupts in it which came meanwhile."""

    outside: float | None = None
    """Cores that no other thread's CPU time has in it."""


class SchedulerCounts(Written):
    """What the scheduler did with all threads of one place."""

    roles: tuple[str, ...]
    """What is done there."""

    context_switches: int
    """How often they were taken off a CPU."""

    migrations: int | None = None
    """How often they were moved to another one; None where the kernel does not tell."""


class ProcessorCounts(Written):
    """The processor's counters of one place. A counter that this host does not have is missing."""

    by: Literal["thread", "cpu"]
    """Read of its threads, or of whole CPUs."""

    cpus: tuple[int, ...] = ()
    """The CPUs, where it is these."""

    roles: tuple[str, ...]
    """What is done there."""

    cycles: int | None = None
    """Cycles in which the core was not halted."""

    ref_cycles: int | None = None
    """The same, at the constant frequency of the cycle counter."""

    instructions: int | None = None
    """Instructions that were carried out."""

    cache_misses: int | None = None
    """Accesses that found nothing in the last cache."""


class PerfCost(Written):
    """The processor's counters, or the reason why there are none."""

    missing: str | None = None
    """Why there are none."""

    user_only: bool
    """The kernel's work is left out of them."""

    parts: dict[str, ProcessorCounts]
    """By place: `switch`, `cpus`, a part, or parts joined by `+`."""


class TrialCost(Written):
    """The cost of the measured phase of a trial."""

    elapsed_ns: int
    """How long that took, in nanoseconds."""

    softirq: InterruptCost
    """The kernel's work in interrupts."""

    scheduler: dict[str, SchedulerCounts] = Field(default_factory=dict)
    """By place: `switch`, a part, or parts of one process joined by `+`."""

    perf: PerfCost
    """What the processor counted."""

    tsc_hz: int | None = None
    """Ticks of the cycle counter a second."""

    load: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], float] = Field(default_factory=dict)
    """By CPU: the share of the time that it was at work, as the scheduler tells it."""

    profile: Profile | None = None
    """What the CPUs did, where that was asked for."""


# --- a test ----------------------------------------------------------------------------------


class InterruptFigures(Written):
    """How long the kernel worked in interrupts on the CPUs of a test."""

    cores: float
    """Cores that it took."""

    by_cpu: dict[str, float]
    """The same by CPU."""

    within_threads: bool | None
    """The CPU time of the parts has them in it already."""

    outside: float | None
    """Cores that it has not."""


class SchedulerFigures(Written):
    """What the scheduler did with the threads of one role."""

    context_switches: int = 0
    """How often they were taken off a CPU."""

    migrations: int | None = 0
    """How often they were moved to another one."""


class ProcessorFigures(Written):
    """The processor's counters of one role, by frames: of a sender frames sent, else frames
    received."""

    by: Literal["thread", "cpu"]
    """Read of its threads, or of whole CPUs."""

    cpus: tuple[int, ...] | None
    """The CPUs, where it is these."""

    cycles: int | None
    """Cycles in which the core was not halted."""

    ref_cycles: int | None
    """The same, at the constant frequency of the cycle counter."""

    instructions: int | None
    """Instructions that were carried out."""

    cache_misses: int | None
    """Accesses that found nothing in the last cache."""

    cycles_per_frame: float | None
    """Cycles for each frame."""

    instructions_per_frame: float | None
    """Instructions for each frame."""

    cache_misses_per_frame: float | None
    """Misses for each frame."""

    instructions_per_cycle: float | None
    """Instructions for each cycle."""

    cycle_cores: float | None
    """Cores at work: reference cycles for those that a CPU has which never halts."""


class PerfFigures(Written):
    """The processor's counters of a test."""

    missing: str | None
    """Why there are none."""

    user_only: bool
    """The kernel's work is left out of them."""

    parts: dict[str, ProcessorFigures]
    """By role, or by the roles that share the CPUs that they were read of."""


class Disagreement(Written):
    """A role whose cores differ between the scheduler and a cycle counter."""

    part: str
    """The role, or `cpus`: all CPUs of the test."""

    scheduler_cores: float
    """Cores by the scheduler, to which a thread that polls is at work."""

    cycle_cores: float
    """Cores that the cycle counter saw at work."""

    counted_by: str
    """Whose counter it is: `the switch`, `perf`."""


class CostFigures(Written):
    """What the frames of a test cost, over all its trials."""

    mpps_per_core: float | None
    """10^6 frames received a second, for each of `total_cores`."""

    total_cores: float | None
    """Cores that all parts used and the kernel beside them; None where a part's use, or the
    kernel's, is unknown."""

    softirq_cores: float | None
    """Cores of the kernel's packet work on the whole machine, warm-up included."""

    kernel_softirq: InterruptFigures | None
    """Interrupts on the CPUs of the test; None in records of before they were read."""

    switch_cores: float | None
    """Cores of the switch by the scheduler."""

    switch_busy_cores: float | None
    """Cores of the switch at work by its own cycle counter; None where it has none."""

    scheduler_load: float | None
    """The share of the time that the CPUs of the test were at work, as the scheduler tells it, on
    average; None in records of before it was read."""

    cycles_load: float | None
    """The same by reference cycles; None where whole CPUs are not counted: of a switch in the
    kernel they are, where the host can."""

    disagreements: tuple[Disagreement, ...]
    """Where the scheduler and a cycle counter differ by more than 0.1 cores."""

    switch_threads: dict[str, float]
    """Cores of each thread of the switch by the scheduler, by name."""

    scheduler: dict[str, SchedulerFigures]
    """By role."""

    perf: PerfFigures | None
    """What the processor counted; None in records of before it was read."""

    profile: Profile | None = None
    """What the CPUs did, where that was asked for; `parts` by role."""
