"""The default notes below the table of a run: one sentence about doubts with a cure, and the errors
of failed tests. `--explain` prints the notes of `report.notes` instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from switchmark.metrics.doubts import TABLE, Severity, severity_of
from switchmark.model.record import Record
from switchmark.report.figures import MARKS
from switchmark.report.phrases import listed

_EFFECTS: Mapping[Severity, str] = MappingProxyType(
    {
        "invalid": "do not use {those} figures",
        "caution": "{those} figures may be wrong",
    }
)


def brief_notes(records: Sequence[Record], hint: str = " --explain says more.") -> list[str]:
    """Return the lines below the tables: a sentence about doubts and the errors of tests. `hint`
    ends the sentence with a reference to the details."""
    errors = [
        f"test {record.number} {record.status}: {record.error or 'unknown reason'}"
        for record in records
        if record.status != "ok"
    ]
    notes = _doubts([record for record in records if record.trials])
    return [*(sentence + hint for sentence in notes), *errors]


def _doubts(records: Sequence[Record]) -> list[str]:
    """Return a sentence about the most severe doubts, with the cure of the most frequent one."""
    names = Counter(doubt for record in records for doubt in record.doubts if doubt in TABLE)
    if not names:
        return []
    worst = severity_of(names)
    severe = [name for name, _ in names.most_common() if TABLE[name].severity == worst]
    first, others = TABLE[severe[0]], severe[1:]
    many = f"{names[first.name]} of {len(records)} tests" if len(records) > 1 else "this test"
    also = f"; also {listed(others)}" if others else ""
    note = f"{first.meaning} ({first.name}, {many}{also})"
    if worst == "information":
        return [f"Note: {note}. Fix: {first.cure}."]
    effect = _EFFECTS[worst].format(those="these" if len(records) > 1 else "its")
    return [f"{MARKS[worst]} {note}: {effect}. Fix: {first.cure}."]
