"""CPU time by role: cores used by the sender, the receiver, the switch and other parts, and the
cost of a frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal

from switchmark.metrics.profile import merged
from switchmark.metrics.throughput import trial_rates_pps
from switchmark.model.cost import (
    CostFigures,
    Disagreement,
    InterruptFigures,
    PerfFigures,
    ProcessorFigures,
    SchedulerCounts,
    SchedulerFigures,
)
from switchmark.model.record import Record, TrialResult

DISAGREEMENT = 0.1
"""The difference in cores between scheduler and cycle counter above which both figures are
shown."""

CPUS = "cpus"
"""The place that stands for all CPUs of a test in the processor's counters. A switch in the kernel
has no threads, so its work is counted on the CPUs."""

_ALWAYS = ("sender", "receiver", "switch")
_COUNTERS = ("cycles", "ref_cycles", "instructions", "cache_misses")


def cores_by_role(record: Record) -> dict[str, float | None]:
    """Return the cores used by each role (1.0 is one whole core), as a mean over the trials
    weighted by their length. None if the CPU time of a part is unknown.

    A part with two roles appears under both names joined by `+`, because its time cannot be
    divided.
    """
    core_ns: dict[str, float | None] = defaultdict(float)
    for trial in record.trials:
        for part in trial.parts:
            role = "+".join(part.roles)
            so_far = core_ns[role]
            if part.cores is None or so_far is None:
                core_ns[role] = None
            else:
                core_ns[role] = so_far + part.cores * trial.elapsed_ns
    elapsed = sum(trial.elapsed_ns for trial in record.trials)
    cores = {role: None if ns is None else ns / elapsed for role, ns in core_ns.items()}
    return {**dict.fromkeys(_ALWAYS), **cores}


def cores_in_all(trials: Sequence[TrialResult]) -> float | None:
    """Return the cores used by all parts and by the kernel on their behalf, averaged over the
    trials; None if one of these figures is unknown."""
    used = [part.cores for trial in trials for part in trial.parts]
    known_cores = [cores for cores in used if cores is not None]
    kernel = _interrupts(trials)
    outside = 0.0 if kernel is None else kernel.outside
    if not known_cores or len(known_cores) < len(used) or outside is None:
        return None
    return sum(known_cores) / len(trials) + outside


def _once(
    figures: Callable[[Record], CostFigures | None],
) -> Callable[[Record], CostFigures | None]:
    """Cache the figures of the latest record, because its metrics are read one after another."""
    latest: tuple[Record, CostFigures | None] | None = None

    @wraps(figures)
    def of(record: Record) -> CostFigures | None:
        nonlocal latest
        if latest is None or latest[0] is not record:
            latest = (record, figures(record))
        return latest[1]

    return of


@_once
def cost(record: Record) -> CostFigures | None:
    """Return the CPU cost of the frames of a test over all its trials; None without trials.

    The scheduler counts a polling thread as busy even if it forwards few frames, so a cycle counter
    is more accurate (Emmerich 2014, fig. 13). Context switches, interrupts by CPU and the
    processor's counters cover the measured phase.
    """
    if not record.trials:
        return None
    elapsed_s = sum(trial.elapsed_ns for trial in record.trials) / 1e9
    cores = cores_in_all(record.trials)
    carried = zip(trial_rates_pps(record.trials, steady=False), record.trials, strict=True)
    pps = sum(rate * trial.elapsed_ns / 1e9 for rate, trial in carried) / elapsed_s
    threads: dict[str, float] = defaultdict(float)
    for trial in record.trials:
        for part in trial.parts:
            for name, of_thread in part.threads.items():
                threads[name] += of_thread / len(record.trials)
    perf = _perf(record.trials)
    loads = _loads(record.trials)
    counted = perf and perf.parts.get(CPUS)
    profile = merged([trial.cost.profile for trial in record.trials if trial.cost])
    windows = [trial.evidence.window for trial in record.trials if trial.evidence.window]
    return CostFigures(
        mpps_per_core=pps / 1e6 / cores if cores else None,
        total_cores=cores,
        softirq_cores=_mean(window.softirq_cores for window in windows),
        kernel_softirq=_interrupts(record.trials),
        switch_cores=cores_by_role(record)["switch"],
        switch_busy_cores=_busy_cores(record),
        scheduler_load=_mean(loads.values()),
        cycles_load=_ratio(counted.cycle_cores, len(counted.cpus or ())) if counted else None,
        disagreements=_disagreements(record, perf, loads),
        switch_threads=dict(threads),
        scheduler=_scheduler(record.trials),
        perf=perf,
        **({} if profile is None else {"profile": profile}),
    )


def _busy_cores(record: Record) -> float | None:
    """Return the share of time for which the switch's polling threads had work, times their
    cores."""
    share = _mean(trial.counters.busy(trial.elapsed_ns) for trial in record.trials)
    return None if share is None else share * record.test.switch_core_count


def _interrupts(trials: Iterable[TrialResult]) -> InterruptFigures | None:
    """Return the kernel's work in interrupts, `irq` and `softirq`; None in old records without
    them."""
    counted = [trial.cost.softirq for trial in trials if trial.cost]
    if not counted:
        return None
    by_cpu = {
        cpu: sum(times.cpus[cpu].irq + times.cpus[cpu].softirq for times in counted) / len(counted)
        for cpu in counted[0].cpus
        if all(cpu in times.cpus for times in counted)
    }
    outside = [times.outside for times in counted if times.outside is not None]
    return InterruptFigures(
        cores=sum(by_cpu.values()),
        by_cpu=by_cpu,
        within_threads=counted[0].within_threads,
        outside=sum(outside) / len(outside) if len(outside) == len(counted) else None,
    )


def _scheduler(trials: Iterable[TrialResult]) -> dict[str, SchedulerFigures]:
    """Return the context switches and CPU migrations of all threads by role."""
    places: dict[str, list[SchedulerCounts]] = defaultdict(list)
    for trial in trials:
        for place in trial.cost.scheduler.values() if trial.cost else ():
            places["+".join(place.roles)].append(place)
    by_role = {}
    for role, role_places in places.items():
        moves = [place.migrations for place in role_places if place.migrations is not None]
        by_role[role] = SchedulerFigures(
            context_switches=sum(place.context_switches for place in role_places),
            migrations=sum(moves) if len(moves) == len(role_places) else None,
        )
    return by_role


@dataclass(slots=True)
class _Counted:
    """The sum of the processor's counters of a role."""

    by: Literal["thread", "cpu"]
    """Whether threads or whole CPUs were counted."""
    cpus: set[int] = field(default_factory=set)
    """The CPUs that were counted."""
    counts: dict[str, int] = field(default_factory=dict)
    """The counts, by event."""
    frames: int = 0
    """The number of frames that the counts cover."""
    ticks: float = 0.0
    """The number of TSC ticks that the counts cover."""

    def figures(self) -> ProcessorFigures:
        frames, counts = self.frames, self.counts
        return ProcessorFigures(
            by=self.by,
            cpus=tuple(sorted(self.cpus)) or None,
            **{name: counts.get(name) for name in _COUNTERS},
            cycles_per_frame=_ratio(counts.get("cycles"), frames),
            instructions_per_frame=_ratio(counts.get("instructions"), frames),
            cache_misses_per_frame=_ratio(counts.get("cache_misses"), frames),
            instructions_per_cycle=_ratio(counts.get("instructions"), counts.get("cycles")),
            cycle_cores=_ratio(counts.get("ref_cycles"), self.ticks),
        )


def _perf(trials: Iterable[TrialResult]) -> PerfFigures | None:
    """Return the processor's counters by role, or by all roles that share the counted CPUs."""
    counted = [(trial, trial.cost) for trial in trials if trial.cost]
    if not counted:
        return None
    parts: dict[str, _Counted] = {}
    for trial, cost in counted:
        roles_of_trial = set()
        for place, counts in cost.perf.parts.items():
            role = "+".join(counts.roles) or place
            part = parts.setdefault(role, _Counted(counts.by))
            part.cpus |= set(counts.cpus)
            for name in _COUNTERS:
                count = getattr(counts, name)
                if count is not None:
                    part.counts[name] = part.counts.get(name, 0) + count
            roles_of_trial.add(role)
        for role in roles_of_trial:
            parts[role].frames += trial.tx_frames if role == "sender" else trial.distinct
            parts[role].ticks += (cost.tsc_hz or 0) * cost.elapsed_ns / 1e9
    return PerfFigures(
        missing=next((cost.perf.missing for _, cost in counted if cost.perf.missing), None),
        user_only=any(cost.perf.user_only for _, cost in counted),
        parts={role: part.figures() for role, part in parts.items()},
    )


def _loads(trials: Sequence[TrialResult]) -> dict[int, float]:
    """Return the load of each CPU as a share of time, according to the scheduler."""
    read = [trial.cost.load for trial in trials if trial.cost and trial.cost.load]
    shared = [cpu for cpu in read[0] if all(cpu in load for load in read)] if read else []
    return {int(cpu): sum(load[cpu] for load in read) / len(read) for cpu in shared}


def _disagreements(
    record: Record, perf: PerfFigures | None, loads: Mapping[int, float]
) -> tuple[Disagreement, ...]:
    """Return the cases in which the cores according to the scheduler differ from those according to
    a cycle counter.

    Only cycle counters that cover the same threads or CPUs, and the kernel's share of their work,
    are compared.
    """
    scheduler: dict[str, float | None] = cores_by_role(record)
    pairs = [("switch", "the switch", _busy_cores(record))]
    if perf is not None and not perf.user_only:
        pairs += [
            (role, "perf", part.cycle_cores)
            for role, part in perf.parts.items()
            if part.by == "thread" or role == CPUS
        ]
        cpus = perf.parts[CPUS].cpus if CPUS in perf.parts else None
        known_loads = [loads.get(cpu) for cpu in cpus or ()]
        scheduler[CPUS] = (
            sum(filter(None, known_loads)) if known_loads and None not in known_loads else None
        )
    return tuple(
        Disagreement(part=role, scheduler_cores=cores, cycle_cores=by_cycles, counted_by=name)
        for role, name, by_cycles in pairs
        if by_cycles is not None
        and (cores := scheduler.get(role)) is not None
        and abs(cores - by_cycles) > DISAGREEMENT
    )


def _ratio(count: float | None, total: float | None) -> float | None:
    return count / total if count is not None and total else None


def _mean(values: Iterable[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values) / len(known_values) if known_values else None
