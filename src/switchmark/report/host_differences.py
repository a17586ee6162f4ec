"""Differences between the hosts and versions of runs, which matter for a comparison of their
figures.

They come from `host.json` and the records of the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.model.record import Record
from switchmark.report.notes import version_text

_CHANGES_BY_ITSELF = {"hugepages.free", "hugepages.total"}
"""Facts that differ between runs on an unchanged host, because other runs lease pages."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run: its name, the facts of its host, and its records."""

    name: str
    host: Mapping[str, Any]
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class HostDifference:
    """A fact that differs between runs, and its values in the order of the runs; a dash if
    unknown."""

    what: str
    values: tuple[str, ...]


def host_differences(runs: Sequence[RunFacts]) -> list[HostDifference]:
    """Return the differences between runs: versions first, then kernel, processor, mitigations and
    other facts of the hosts."""
    facts_of_runs = [dict(_facts(run)) for run in runs]
    names = dict.fromkeys(name for facts in facts_of_runs for name in facts)
    differing = [
        HostDifference(name, tuple(facts.get(name, "-") for facts in facts_of_runs))
        for name in names
    ]
    return [difference for difference in differing if len(set(difference.values)) > 1]


def versions_of(run: RunFacts) -> dict[str, str]:
    """Return the versions in the records of a run; that of a switch as `switch NAME`."""
    versions: dict[str, dict[str, None]] = {}
    for record in run.records:
        for name, version in (record.origin.versions if record.origin else {}).items():
            versions.setdefault(name, {})[version] = None
        if version := version_text(record):
            versions.setdefault(f"switch {record.test.switch}", {})[version] = None
    names = sorted(versions, key=lambda name: name != "switchmark")
    return {name: ", ".join(versions[name]) for name in names}


def _facts(run: RunFacts) -> Iterator[tuple[str, str]]:
    versions = versions_of(run)
    for name, version in versions.items():
        if name != "placement":  # an axis, so it is compared as such
            yield name, version
    for name, value in _flat(run.host):
        if name not in _CHANGES_BY_ITSELF and name.removeprefix("versions.") not in versions:
            yield name.removeprefix("versions."), value


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield before + name, " ".join(map(str, value)) or "none"
        else:
            yield before + name, "-" if value is None else str(value)
