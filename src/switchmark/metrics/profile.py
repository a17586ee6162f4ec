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
    known_profiles = [profile for profile in profiles if profile is not None]
    usable = [profile for profile in known_profiles if profile.missing is None and profile.whole]
    if not usable:
        return known_profiles[0] if known_profiles else None
    of_cpu: dict[str, list[Shares]] = defaultdict(list)
    of_role: dict[str, list[Shares]] = defaultdict(list)
    for profile in usable:
        for cpu, shares in profile.cpus.items():
            of_cpu[cpu].append(shares)
        for place, shares in profile.parts.items():
            of_role["+".join(shares.roles) or place].append(shares)
    takes = [profile.sample_ns for profile in usable if profile.sample_ns is not None]
    busy = [profile.busy for profile in usable if profile.busy is not None]
    return Profile(
        event=usable[0].event,
        hz=usable[0].hz,
        lost=sum(profile.lost for profile in usable),
        sample_ns=sum(takes) / len(takes) if takes else None,
        busy=sum(busy) / len(busy) if busy else None,
        whole=_added([profile.whole for profile in usable if profile.whole]),
        cpus={cpu: _added(many) for cpu, many in of_cpu.items()},
        parts={role: _added(many) for role, many in of_role.items()},
    )


def _added(parts: Sequence[Shares]) -> Shares:
    roles, samples = parts[0].roles, sum(shares.samples for shares in parts)
    return Shares(
        **({"roles": roles} if roles else {}),
        samples=samples,
        groups=_weighed((shares.groups, shares.samples / (samples or 1)) for shares in parts),
        symbols=_weighed((shares.symbols, shares.samples / (samples or 1)) for shares in parts),
    )


def _weighed(weighted: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Return the weighted sums of shares by name, in descending order."""
    sums: dict[str, float] = defaultdict(float)
    for shares, weight in weighted:
        for name, share in shares.items():
            sums[name] += share * weight
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
