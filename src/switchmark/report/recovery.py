"""The recovery from an overload, in words and in tables: of search `recovery`."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.record import Record
from switchmark.model.search import Goal
from switchmark.report.figures import format_ns


def recovery_text(goal: Goal) -> str:
    """Return the recovery time, or that it is below one period if no frame was lost after the
    overload; `none` if there is no time."""
    if goal.recovery_s is None:
        return "none"
    resolution_s = goal.resolution_s or 0.0
    if goal.recovery_s <= resolution_s:
        return f"< {format_ns(resolution_s * 1e9)}"
    return format_ns(goal.recovery_s * 1e9)


def sentences(records: Sequence[Record]) -> list[str]:
    """Return a sentence for each test of search `recovery`."""
    return [
        _sentence(record, goal)
        for record in records
        if record.search is not None and record.search.name == "recovery"
        for goal in record.search.goals
    ]


def _sentence(record: Record, goal: Goal) -> str:
    overload = f"{(goal.overload_pps or 0) / 1e3:.4g} kpps for {goal.overload_s or 0:g} s"
    switch = record.test.switch
    if goal.recovery_s is not None:
        took = recovery_text(goal).replace("< ", "less than ")
        return f"{switch} lost frames for {took} after an overload of {overload}."
    if "no-overload" in record.doubts:
        return f"{switch}: no overload reached with {overload}, so there is no recovery time."
    return f"{switch} did not recover from {overload}: it lost frames to the end of the trial."
