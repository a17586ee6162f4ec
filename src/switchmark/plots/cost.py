"""These plots show what frames cost: cores against rate, and the time of each part for a frame."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.named import metric
from switchmark.model.record import Record
from switchmark.plots.base import mark_of, measured, scale_of_metric, split, words_of
from switchmark.plots.chart import Chart, Mark, Scale

__all__ = ["CORES", "PARTS"]

_ROLES = ("sender", "receiver", "client", "server", "forwarder", "function", "switch")
_MOST_BARS = 40


class _Cores:
    name = "cores-against-rate"
    summary = "Cores that each rate took"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        chosen = measured(records)
        series, panels = split(chosen)
        marks = []
        for record in chosen:
            rate = metric("rx.mpps").of(record)
            words = words_of(record.test, series), words_of(record.test, panels)
            mark = mark_of(record, "cpu.total", rate or 0.0, *words)
            marks += [mark] if mark and rate else []
        if len(marks) < 2:
            return None
        says = f"Cores of all parts against the received rate, for {len(marks)} tests."
        x, y = Scale("received (Mpps)"), scale_of_metric("cpu.total")
        return Chart(self.name, self.summary, says, "points", x, y, tuple(marks))


class _Parts:
    name = "cost-of-a-frame"
    summary = "CPU time of each part for a frame"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        chosen = measured(records)[:_MOST_BARS]
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
            for role in _ROLES
            if (ns := _nanoseconds(record, role))
        ]
        if not marks:
            return None
        words = tuple(dict.fromkeys(str(mark.x) for mark in marks))
        says = f"Nanoseconds of CPU time for a received frame by part, for {len(words)} tests."
        x, y = Scale("test", words=words), Scale("CPU time for a received frame (ns)")
        return Chart(self.name, self.summary, says, "stacks", x, y, tuple(marks), series="part")


def _nanoseconds(record: Record, role: str) -> float | None:
    """Return the CPU time of the parts in a role for each frame received."""
    cores, rate = metric(f"cpu.{role}").of(record), metric("rx.pps").of(record)
    return cores * 1e9 / rate if cores and rate else None


CORES, PARTS = _Cores(), _Parts()
