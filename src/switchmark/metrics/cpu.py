"""CPU time by role: how many whole cores the sender, the receiver, the switch and others used,
and what a frame cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from switchmark.model.record import Record, TrialResult

__all__ = ["DISAGREEMENT", "cores_by_role", "cost"]

DISAGREEMENT = 0.1
"""Cores by which the scheduler's figure and a cycle counter's differ, for both to be shown."""

_ALWAYS = ("sender", "receiver", "switch")
_COUNTERS = ("cycles", "ref_cycles", "instructions", "cache_misses")


def cores_by_role(record: Record) -> dict[str, float | None]:
    """Cores in use (1.0 is one whole core), the parts of a role added up, averaged over the
    trials by their length. None where a part's use is unknown.

    A part of two roles has its time under both names joined by `+`: it cannot be divided.
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


def cost(record: Record) -> dict[str, Any] | None:
    """What the frames of a test cost, over all its trials; None without one.

    `mpps_per_core`: received frames for each core that the parts used, and the kernel beside them
    (`kernel_softirq.outside`); None where a part's use or the kernel's is unknown.
    `softirq_cores`: the kernel's packet work on the whole machine, warm-up included.
    `switch_cores` by the scheduler, `switch_busy_cores` by the switch's own cycle counter: a
    thread that polls is busy to the scheduler, however little it forwards (Emmerich 2014, fig.
    13). `disagreements`: where such a pair differs by more than DISAGREEMENT. `switch_threads`:
    the scheduler's, by thread. `scheduler`, `kernel_softirq` and `perf` are of the measured phase
    and its drain.
    """
    if not record.trials:
        return None
    elapsed_s = sum(trial.elapsed_ns for trial in record.trials) / 1e9
    used = [part.cores for trial in record.trials for part in trial.parts]
    known = [cores for cores in used if cores is not None]
    cores = sum(known) / len(record.trials) if known and len(known) == len(used) else None
    kernel = _kernel_softirq(record.trials)
    outside = 0.0 if kernel is None else kernel["outside"]
    pps = sum(trial.distinct for trial in record.trials) / elapsed_s
    threads: dict[str, float] = defaultdict(float)
    for trial in record.trials:
        for part in trial.parts:
            for name, of_thread in part.threads.items():
                threads[name] += of_thread / len(record.trials)
    perf = _perf(record.trials)
    return {
        "mpps_per_core": pps / 1e6 / (cores + outside) if cores and outside is not None else None,
        "softirq_cores": _mean(
            (trial.evidence.get("window") or {}).get("softirq_cores") for trial in record.trials
        ),
        "kernel_softirq": kernel,
        "switch_cores": cores_by_role(record)["switch"],
        "switch_busy_cores": _busy_cores(record),
        "disagreements": _disagreements(record, perf),
        "switch_threads": dict(threads),
        "scheduler": _scheduler(record.trials),
        "perf": perf,
    }


def _busy_cores(record: Record) -> float | None:
    """The share of its cycles in which the switch's polling threads had work, times their cores."""
    busy = idle = 0
    for trial in record.trials:
        cycles = trial.counters
        if cycles.busy_cycles is None or cycles.idle_cycles is None:
            return None
        busy, idle = busy + cycles.busy_cycles, idle + cycles.idle_cycles
    total = busy + idle
    return busy / total * record.test.switch_cores if total else None


def _kernel_softirq(trials: Iterable[TrialResult]) -> dict[str, Any] | None:
    """Cores that the kernel's interrupts took on the CPUs of the test, `irq` and `softirq`, by CPU
    too. `within_threads` says that the CPU time of the parts has them already; `outside` are those
    that it has not, None where that cannot be told. None in records of before they were read."""
    found = [trial.cost["softirq"] for trial in trials if trial.cost]
    if not found:
        return None
    by_cpu = {
        cpu: sum(each["cpus"][cpu]["irq"] + each["cpus"][cpu]["softirq"] for each in found)
        / len(found)
        for cpu in found[0]["cpus"]
        if all(cpu in each["cpus"] for each in found)
    }
    outside = [each["outside"] for each in found]
    return {
        "cores": sum(by_cpu.values()),
        "by_cpu": by_cpu,
        "within_threads": found[0]["within_threads"],
        "outside": None if None in outside else sum(outside) / len(outside),
    }


def _scheduler(trials: Iterable[TrialResult]) -> dict[str, dict[str, int | None]]:
    """By role: how often all its threads were taken off a CPU, and moved to another one."""
    found: dict[str, dict[str, int | None]] = {}
    for trial in trials:
        for place in trial.cost.get("scheduler", {}).values():
            of_role = found.setdefault(
                "+".join(place["roles"]), {"context_switches": 0, "migrations": 0}
            )
            for name, so_far in of_role.items():
                more = place[name]
                of_role[name] = None if so_far is None or more is None else so_far + more
    return found


def _perf(trials: Iterable[TrialResult]) -> dict[str, Any] | None:
    """The processor's counters by role, or by the roles that share the CPUs they were read of;
    `missing` says why there are none. A frame is one sent, of a sender, and else one received.
    `cycle_cores`: reference cycles for those that a CPU has which never halts."""
    counted = [(trial, trial.cost["perf"]) for trial in trials if trial.cost]
    if not counted:
        return None
    parts: dict[str, dict[str, Any]] = {}
    ticks: dict[str, float] = defaultdict(float)
    for trial, perf in counted:
        roles_of_trial = set()
        for place, counts in perf["parts"].items():
            role = "+".join(counts["roles"]) or place
            part = parts.setdefault(role, {"by": counts["by"], "cpus": set(), "frames": 0})
            part["cpus"] |= set(counts.get("cpus", ()))
            for name in _COUNTERS:
                if name in counts:
                    part[name] = part.get(name, 0) + counts[name]
            roles_of_trial.add(role)
        for role in roles_of_trial:
            parts[role]["frames"] += trial.tx_frames if role == "sender" else trial.distinct
            ticks[role] += (trial.cost["tsc_hz"] or 0) * trial.cost["elapsed_ns"] / 1e9
    return {
        "missing": next((perf["missing"] for _, perf in counted if perf["missing"]), None),
        "user_only": any(perf["user_only"] for _, perf in counted),
        "parts": {role: _derived(part, ticks[role]) for role, part in parts.items()},
    }


def _derived(part: Mapping[str, Any], ticks: float) -> dict[str, Any]:
    frames, cycles = part["frames"], part.get("cycles")
    return {
        "by": part["by"],
        "cpus": sorted(part["cpus"]) or None,
        **{name: part.get(name) for name in _COUNTERS},
        **{
            f"{name}_per_frame": _ratio(part.get(name), frames)
            for name in _COUNTERS
            if name != "ref_cycles"
        },
        "instructions_per_cycle": _ratio(part.get("instructions"), cycles),
        "cycle_cores": _ratio(part.get("ref_cycles"), ticks),
    }


def _disagreements(record: Record, perf: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Where the cores by the scheduler are far from those that a cycle counter saw at work: one
    that counts the same threads, and the kernel's part of their work too."""
    scheduler = cores_by_role(record)
    pairs = [("switch", "the switch", _busy_cores(record))]
    if perf is not None and not perf["user_only"]:
        pairs += [
            (role, "perf", part["cycle_cores"])
            for role, part in perf["parts"].items()
            if part["by"] == "thread"
        ]
    return [
        {"part": role, "scheduler_cores": cores, "cycle_cores": by_cycles, "counted_by": who}
        for role, who, by_cycles in pairs
        if by_cycles is not None
        and (cores := scheduler.get(role)) is not None
        and abs(cores - by_cycles) > DISAGREEMENT
    ]


def _ratio(count: float | None, of: float | None) -> float | None:
    return count / of if count is not None and of else None


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None
