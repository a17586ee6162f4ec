"""CPU time by role: how many whole cores the sender, the receiver, the switch and others used,
and what a frame cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from switchmark.model.record import Record

__all__ = ["cores_by_role", "cost"]

_ALWAYS = ("sender", "receiver", "switch")


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

    `mpps_per_core`: received frames for each core that the parts and the kernel used; None where a
    part's use is unknown. `softirq_cores`: the kernel's packet work on the whole machine.
    `switch_cores` by the scheduler, `switch_busy_cores` by the switch's own cycle counter: a
    thread that polls is busy to the scheduler, however little it forwards. `switch_threads`: the
    scheduler's, by thread. `perf` is null: counters of the processor are not read.
    """
    if not record.trials:
        return None
    elapsed_s = sum(trial.elapsed_ns for trial in record.trials) / 1e9
    used = [part.cores for trial in record.trials for part in trial.parts]
    known = [cores for cores in used if cores is not None]
    cores = sum(known) / len(record.trials) if known and len(known) == len(used) else None
    pps = sum(trial.distinct for trial in record.trials) / elapsed_s
    threads: dict[str, float] = defaultdict(float)
    for trial in record.trials:
        for part in trial.parts:
            for name, of_thread in part.threads.items():
                threads[name] += of_thread / len(record.trials)
    return {
        "mpps_per_core": pps / 1e6 / cores if cores else None,
        "softirq_cores": _mean(
            (trial.evidence.get("window") or {}).get("softirq_cores") for trial in record.trials
        ),
        "switch_cores": cores_by_role(record)["switch"],
        "switch_busy_cores": _busy_cores(record),
        "switch_threads": dict(threads),
        "perf": None,
    }


def _busy_cores(record: Record) -> float | None:
    """The share of its cycles in which the switch's polling threads had work, times their cores."""
    cycles = [trial.counters.get("switch") or {} for trial in record.trials]
    if any(each.get("busy_cycles") is None or each.get("idle_cycles") is None for each in cycles):
        return None
    busy = sum(int(each["busy_cycles"]) for each in cycles)
    total = busy + sum(int(each["idle_cycles"]) for each in cycles)
    return busy / total * record.test.switch_cores if total else None


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None
