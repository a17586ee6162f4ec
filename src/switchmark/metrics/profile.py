"""CPU profiles merged over the trials of a test, and a check of the overhead of sampling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from switchmark.model.cost import Profile, Shares
from switchmark.model.record import TrialResult

_WEIGHS = 0.01
"""The limit for the share of a CPU, and for the share of lost samples."""


def weighs(trial: TrialResult) -> dict[str, Any] | None:
    """Return the evidence against a trial with sampled CPUs: sampling took more than 1 % of a CPU,
    or samples were lost. None if neither applies."""
    profile = trial.cost.profile if trial.cost else None
    if profile is None or profile.missing is not None:
        return None
    took = (profile.sample_ns or 0.0) * profile.hz / 1e9
    met = profile.whole.samples if profile.whole else 0
    if took <= _WEIGHS and profile.lost <= _WEIGHS * (met + profile.lost):
        return None
    return {"share": round(took, 4), "lost": profile.lost}


def merged(profiles: Iterable[Profile | None]) -> Profile | None:
    """Return the profiles of several trials merged into one, with its parts by role; None without a
    profile. The weight of a profile is its number of busy samples."""
    known = [each for each in profiles if each is not None]
    told = [each for each in known if each.missing is None and each.whole]
    if not told:
        return known[0] if known else None
    of_cpu: dict[str, list[Shares]] = defaultdict(list)
    of_role: dict[str, list[Shares]] = defaultdict(list)
    for each in told:
        for cpu, of in each.cpus.items():
            of_cpu[cpu].append(of)
        for place, of in each.parts.items():
            of_role["+".join(of.roles) or place].append(of)
    takes = [each.sample_ns for each in told if each.sample_ns is not None]
    busy = [each.busy for each in told if each.busy is not None]
    return Profile(
        event=told[0].event,
        hz=told[0].hz,
        lost=sum(each.lost for each in told),
        sample_ns=sum(takes) / len(takes) if takes else None,
        busy=sum(busy) / len(busy) if busy else None,
        whole=_added([each.whole for each in told if each.whole]),
        cpus={cpu: _added(each) for cpu, each in of_cpu.items()},
        parts={role: _added(each) for role, each in of_role.items()},
    )


def _added(each: Sequence[Shares]) -> Shares:
    roles, samples = each[0].roles, sum(of.samples for of in each)
    return Shares(
        **({"roles": roles} if roles else {}),
        samples=samples,
        groups=_weighed((of.groups, of.samples / (samples or 1)) for of in each),
        symbols=_weighed((of.symbols, of.samples / (samples or 1)) for of in each),
    )


def _weighed(each: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Return the weighted sums of shares by name, in descending order."""
    sums: dict[str, float] = defaultdict(float)
    for of, weight in each:
        for name, share in of.items():
            sums[name] += share * weight
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
