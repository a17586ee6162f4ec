"""CPU time by role: how many whole cores the sender, the receiver, the switch and others used."""

from __future__ import annotations

from collections import defaultdict

from switchmark.model.record import Record

__all__ = ["cores_by_role"]

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
