"""Plots of CPU cost: cores against rate, and the CPU time of the parts per frame."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.cpu import cores_by_role
from switchmark.metrics.named import metric
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.plots.base import mark_of, measured, scale_of_metric, split, words_of
from switchmark.plots.chart import Chart, Mark, Scale

_LOADS = [name for name, axis in AXES.items() if axis.of == "load"]
"""The axes of the load. Tests that differ on these axes share a panel, because their rates
distinguish them."""

_MOST_BARS = 40


_UNKNOWN = "without parts that share a process: their CPU time is unknown"


class _Cores:
    name = "cores-against-rate"
    summary = "CPU use against received rate"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        chosen = measured(records)
        series, panels = split(chosen, *_LOADS)
        marks = []
        for record in chosen:
            rate = metric("rx.mpps").of(record)
            labels = words_of(record.test, series), words_of(record.test, panels)
            mark = mark_of(record, "cpu.total", rate or 0.0, *labels)
            marks += [mark] if mark and rate else []
        if len(marks) < 2:
            return None
        says = f"Cores of all parts against the received rate, for {len(marks)} tests."
        x, y = Scale("received (Mpps)"), scale_of_metric("cpu.total")
        note = "" if len(marks) == len(chosen) else _UNKNOWN
        return Chart(self.name, self.summary, says, "points", x, y, tuple(marks), note=note)


class _Parts:
    name = "cost-of-a-frame"
    summary = "CPU time per received frame, by part"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        measured_tests = measured(records)
        complete = [
            record for record in measured_tests if metric("cpu.total").of(record) is not None
        ]
        chosen = (complete or measured_tests)[:_MOST_BARS]
        axes, panels = split(chosen)
        marks = [
            Mark(
                words_of(record.test, axes or ("switch",)),
                ns,
                role,
                words_of(record.test, panels),
                key=record.key[:16],
            )
            for record in chosen
            for role, ns in _nanoseconds(record).items()
        ]
        if not marks:
            return None
        order = tuple(dict.fromkeys(str(mark.x) for mark in marks))
        drawn = len({mark.key for mark in marks})
        says = f"CPU time of each part per received frame (ns), of {_tests(drawn)}."
        title = ", ".join(AXES[name].label for name in axes) or "switch"
        x, y = Scale(title, categories=order), Scale("CPU time per received frame (ns)")
        note = "" if complete else _UNKNOWN
        if complete and len(complete) < len(measured_tests):
            note = (
                f"without {_tests(len(measured_tests) - len(complete))} whose parts share a process"
            )
        return Chart(
            self.name, self.summary, says, "stacks", x, y, tuple(marks), series="part", note=note
        )


def _tests(number: int) -> str:
    return f"{number} test{'s' * (number != 1)}"


def _nanoseconds(record: Record) -> dict[str, float]:
    """Return the CPU time of the parts by role for a received frame, if it is known."""
    rate = metric("rx.pps").of(record)
    if not rate:
        return {}
    cores = cores_by_role(record)
    return {role.replace("+", " and "): used * 1e9 / rate for role, used in cores.items() if used}


CORES, PARTS = _Cores(), _Parts()
