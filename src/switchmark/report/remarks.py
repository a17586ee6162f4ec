"""This module says what goes with an answer: what work was done, what a cable carries, how sure an
order is, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from switchmark.model.cable import CABLE
from switchmark.model.labels import following, label, telling
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.report.figures import scaled_figure
from switchmark.report.standing import Figure, figures_of
from switchmark.report.words import listed, listed_all

SURE = 5
"""So many repeats have an interval, and can show a difference."""


def semantics(records: Sequence[Record]) -> list[str]:
    """Say which work each switch does, where they do not do the same."""
    kinds = {record.test.switch: record.semantics for record in records if record.semantics}
    if len(set(kinds.values())) < 2:
        return []
    by_kind: dict[str | None, list[str]] = {}
    for switch, kind in kinds.items():
        by_kind.setdefault(kind, []).append(switch)
    each = [f"{listed_all(switches)} {kind}" for kind, switches in by_kind.items()]
    return [f"They do different work ({'; '.join(each)}): do not rank them."]


def engines(records: Sequence[Record]) -> list[str]:
    """Say which engine each switch was measured with, where each has one and they differ."""
    tests = [record.test for record in records]
    said = []
    for axis in following(tests, "switch"):
        by_value: dict[str, dict[str, None]] = {}
        for test in tests:
            by_value.setdefault(getattr(test, axis), {})[test.switch] = None
        each = [f"{listed_all(list(names))} with {value}" for value, names in by_value.items()]
        words = AXES[axis].words
        said.append(
            f"They were measured with different {words}s ({'; '.join(each)}): a difference may be "
            f"the {words}'s."
        )
    return said


def cables(records: Sequence[Record]) -> list[str]:
    """Return the baseline: what the traffic program does on a cable, if the run has such tests."""
    figures = [f for r in records if r.test.switch == CABLE for f in figures_of(r)]
    said = []
    for unit in dict.fromkeys(figure.unit for figure in figures):
        known = sorted((f for f in figures if f.unit == unit), key=lambda each: each.value)
        ends = dict.fromkeys(scaled_figure(each.value, unit) for each in (known[0], known[-1]))
        words = " to ".join(ends)
        what = "median delay " * (unit == "ns")
        said.append(f"Baseline (no switch): {what}{words}.")
    return said


def sureness(claims: Sequence[Figure]) -> list[str]:
    """Say how sure the order is that was told."""
    said = []
    if claims:
        said.append("All comparisons of this run together hold with 95 % confidence.")
    doubted = {id(figure.record): figure.record.doubts for figure in claims}
    if count := sum(map(bool, doubted.values())):
        many = f"{count} of these {len(doubted)}" if count < len(doubted) else "All of these"
        said.append(f"{many} tests have doubts: see their rows.")
    return said


def left_out(records: Sequence[Record], functional: Sequence[Record]) -> list[str]:
    """Say what nothing is told of, and why."""
    said = []
    axes = telling([record.test for record in records])
    if functional:
        names = [label(record.test, axes) for record in functional]
        said.append(f"Left out, as too many parts share a core: {listed(names)}.")
    gone = [record for record in records if record.status != "ok"]
    if gone and len(gone) == len(records):
        statuses = Counter(record.status for record in gone)
        words = [f"{count} {status}" for status, count in statuses.items()]
        return [f"Nothing was measured: {listed_all(words)}."]
    if gone:
        names = [f"{label(record.test, axes)} ({record.status})" for record in gone]
        said.append(f"Not measured: {listed(names)}.")
    empty = [
        label(record.test, axes)
        for record in records
        if record.status == "ok" and not any(figures_of(record))
    ]
    if empty:
        said.append(f"No figure was found of {listed(empty)}.")
    return said
