"""Remarks after an answer: the work of the switches, their engines, the baseline, the confidence,
and the tests that were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from switchmark.metrics.doubts import is_doubtful
from switchmark.model.cable import CABLE
from switchmark.model.labels import following, label, telling
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.report.figures import scaled_figure
from switchmark.report.phrases import listed, listed_all
from switchmark.report.standing import MeasuredFigure, figures_of

SURE = 5
"""A sufficient number of repeats to show a difference, which hints recommend."""


def semantics(records: Sequence[Record]) -> list[str]:
    """Return a remark on an order of these switches if their semantics differ. The baseline does
    not count."""
    by_kind: dict[str, dict[str, None]] = {}
    for record in records:
        if record.semantics and record.test.switch != CABLE:
            by_kind.setdefault(record.semantics, {})[record.test.switch] = None
    if len(by_kind) < 2:
        return []
    groups = [f"{listed_all(list(switches))} {kind}" for kind, switches in by_kind.items()]
    return [
        f"The switches do different work ({'; '.join(groups)}): an order shows measured speed "
        "only, not which switch is better."
    ]


def engines(records: Sequence[Record]) -> list[str]:
    """Return the engines of the switches, if the engine depends on the switch."""
    tests = [record.test for record in records]
    remarks = []
    for axis in following(tests, "switch"):
        by_value: dict[str, dict[str, None]] = {}
        for test in tests:
            by_value.setdefault(getattr(test, axis), {})[test.switch] = None
        groups = [f"{listed_all(list(names))} with {value}" for value, names in by_value.items()]
        name = AXES[axis].label
        remarks.append(
            f"The switches were measured with different {name}s ({'; '.join(groups)}): the {name} "
            "may explain a difference."
        )
    return remarks


def cables(records: Sequence[Record]) -> list[str]:
    """Return the baseline, the figures of the traffic program on a cable, if the run has them."""
    figures = [f for r in records if r.test.switch == CABLE for f in figures_of(r)]
    remarks = []
    for unit in dict.fromkeys(figure.unit for figure in figures):
        ordered = sorted((f for f in figures if f.unit == unit), key=lambda figure: figure.value)
        ends = dict.fromkeys(
            scaled_figure(figure.value, unit) for figure in (ordered[0], ordered[-1])
        )
        text = " to ".join(ends)
        quantity = "median delay " * (unit == "ns")
        remarks.append(f"Baseline (no switch): {quantity}{text}.")
    return remarks


def sureness(claims: Sequence[MeasuredFigure]) -> list[str]:
    """Return the confidence of the claims, and the number of their tests with doubts."""
    remarks = []
    if claims:
        remarks.append("All comparisons of this run together hold with 95 % confidence.")
    doubted = {id(figure.record): is_doubtful(figure.record.doubts) for figure in claims}
    if count := sum(doubted.values()):
        many = f"{count} of these {len(doubted)}" if count < len(doubted) else "All of these"
        remarks.append(f"{many} tests have doubts that may falsify a figure: see their rows.")
    return remarks


def left_out(records: Sequence[Record], functional: Sequence[Record]) -> list[str]:
    """Return which tests the answer leaves out, and why."""
    remarks = []
    axes = telling([record.test for record in records])
    if functional:
        names = [label(record.test, axes) for record in functional]
        remarks.append(f"Left out because too many parts share a core: {listed(names)}.")
    gone = [record for record in records if record.status != "ok"]
    if gone and len(gone) == len(records):
        statuses = Counter(record.status for record in gone)
        counts = [f"{count} {status}" for status, count in statuses.items()]
        return [f"Nothing was measured: {listed_all(counts)}."]
    if gone:
        names = [f"{label(record.test, axes)} ({record.status})" for record in gone]
        remarks.append(f"Not measured: {listed(names)}.")
    empty = [
        label(record.test, axes)
        for record in records
        if record.status == "ok" and not record.imported and not any(figures_of(record))
        if record.test.search != "recovery"  # `report.recovery` has its sentence
    ]
    if empty:
        remarks.append(f"No figure was found for {listed(empty)}.")
    for tool in dict.fromkeys(r.imported.tool for r in records if r.imported):
        names = [
            label(record.test, axes)
            for record in records
            if record.imported and record.imported.tool == tool
        ]
        remarks.append(f"From a file of {tool}: {listed(names)}.")
    return remarks
