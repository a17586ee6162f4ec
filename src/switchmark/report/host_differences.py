"""This module says in what the hosts and the versions of runs differ: what has to be known before
their figures are compared.

It gets what `host.json` and the records of each run tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.model.record import Record
from switchmark.report.notes import version_told

_CHANGES_BY_ITSELF = {"hugepages.free", "hugepages.total"}
"""What differs between two runs of one host that nobody touched: other runs lease pages, too."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """These are the facts of one run: its name, those of its host, and its records."""

    name: str
    host: Mapping[str, Any]
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class HostDifference:
    """A difference of the hosts or versions of runs: what differs, and its value in each run, in
    their order; a dash where it is not known."""

    what: str
    values: tuple[str, ...]


def host_differences(runs: Sequence[RunFacts]) -> list[HostDifference]:
    """Return what differs between runs: first versions, then the kernel, processor, mitigations and
    all else of the hosts."""
    told = [dict(_facts(run)) for run in runs]
    names = dict.fromkeys(name for facts in told for name in facts)
    differing = [
        HostDifference(name, tuple(facts.get(name, "-") for facts in told)) for name in names
    ]
    return [each for each in differing if len(set(each.values)) > 1]


def _facts(run: RunFacts) -> Iterator[tuple[str, str]]:
    versions: dict[str, dict[str, None]] = {}
    for record in run.records:
        for name, version in (record.origin.versions if record.origin else {}).items():
            versions.setdefault(name, {})[version] = None
        if version := version_told(record):
            versions.setdefault(f"switch {record.test.switch}", {})[version] = None
    for name in sorted(versions, key=lambda name: name != "switchmark"):
        if name != "placement":  # an axis, and so part of what is compared
            yield name, ", ".join(versions[name])
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
