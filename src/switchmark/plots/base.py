"""The contract of a plot, and the conversion of records to marks.

A plot selects the records that it applies to and draws them, or returns no chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from switchmark.errors import UsageError
from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.named import metric
from switchmark.metrics.throughput import is_lower_bound, of_latency
from switchmark.model.axis import field_name
from switchmark.model.cable import CABLE
from switchmark.model.labels import is_bare, telling
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.plots.chart import Chart, Kind, Mark, Scale
from switchmark.plots.references import Place, references

_SHORTER = {
    "latency.p50_us": "median latency",
    "rx.mpps": "received rate",
    "rx.gbps_l1": "received rate",
}
"""Axis titles for metrics with an unsuitable description."""

_FEW_PLACES = 3
"""The number of positions up to which a metric along an axis has grouped bars. A line would suggest
values between them."""

_FAR_APART = 8
"""The ratio of the largest to the smallest value above which an axis is logarithmic."""


class Plot(Protocol):
    """A way to draw records."""

    name: str
    """Its name, such as `rate-against-size`."""

    summary: str
    """A short description."""

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Return the chart of these records; None if the plot does not apply to them."""
        ...


def measured(records: Sequence[Record]) -> list[Record]:
    """Return the records that have results."""
    return [record for record in records if record.status == "ok" and record.trials]


def figure_of(record: Record) -> str:
    """Return the name of the main metric of a test."""
    if record.test.dimension == "outage":
        return "outage.s"
    return "latency.p50_us" if of_latency(record.test) else "rx.mpps"


def mark_of(
    record: Record, name: str, x: float | str, series: str = "", panel: str = "", row: str = ""
) -> Mark | None:
    """Return the mark of a record's metric at a position; None if the metric is unknown."""
    chosen = metric(name)
    value = chosen.of(record)
    if value is None:
        return None
    low, high = chosen.interval(record) or (None, None)
    repeats = chosen.repeats(record) if low is None else []
    if ranged := len(repeats) > 1:
        low, high = min(repeats), max(repeats)
    bounded = name.startswith("rx.") and is_lower_bound(record.verdict)
    doubts = f"; {', '.join(record.doubts)}" if record.doubts else ""
    return Mark(
        x,
        value,
        series,
        panel,
        row,
        low,
        high,
        ranged=ranged,
        doubted=is_doubtful(record.doubts),
        bounded=bounded,
        switch=record.test.switch,
        note=f"limit: {record.verdict}{doubts}",
        key=record.key[:16],
    )


def without_baseline(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records of switches, and those of the cable if there are both. The cable is the
    baseline of the switches, so charts show it as a reference."""
    cables = [record for record in records if record.test.switch == CABLE]
    others = [record for record in records if record.test.switch != CABLE]
    return (others, cables) if others else (cables, [])


def place(test: Test, axis: str) -> float | str:
    """Return the position of a test on an axis: a number, or the value as text."""
    value = getattr(test, field_name(axis))
    value = AXES[field_name(axis)].meaning(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return "none" if value is None else str(value)


def words_of(test: Test, axes: Sequence[str]) -> str:
    """Return the values of a test on some axes as text."""
    parts = []
    for name in axes:
        value = getattr(test, name)
        text = "none" if value is None else str(value)
        parts.append(f"{AXES[name].label} {text}" if is_bare(value) else text)
    return ", ".join(parts)


def split(records: Sequence[Record], *placed: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the axes that distinguish the series of a chart, and the axes that distinguish its
    panels.

    These are the axes on which the records differ, except the axes in `placed`.
    """
    axes = telling([record.test for record in records])
    others = tuple(name for name in axes if name not in placed)
    if len(others) < 2 or len({words_of(r.test, others) for r in records}) <= 4:
        return others, ()
    first = "switch" if "switch" in others else others[0]
    return (first,), tuple(name for name in others if name != first)


def scale_of_axis(axis: str, records: Sequence[Record]) -> Scale:
    """Return the scale of a test axis."""
    axis_record = AXES[field_name(axis)]
    places = [place(record.test, axis) for record in records]
    title = f"{axis_record.label} ({axis_record.unit})" if axis_record.unit else axis_record.label
    if any(isinstance(place, str) for place in places):
        return Scale(title, categories=tuple(dict.fromkeys(map(_category, places))))
    numbers = [place for place in places if isinstance(place, float)]
    log = bool(numbers) and 0 < _FAR_APART * min(numbers) < max(numbers)
    return Scale(title, log=log, zero=False)


def _category(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:g}"


def scale_of_metric(name: str, *, log: bool = False) -> Scale:
    """Return the scale of a metric."""
    try:
        chosen = metric(name)
    except UsageError:
        return Scale(name, log=log)
    title = _SHORTER.get(name) or chosen.description.partition(",")[0]
    return Scale(f"{title} ({chosen.unit})" if chosen.unit else title, log=log)


def along(
    name: str,
    title: str,
    records: Sequence[Record],
    axis: str,
    metric_name: str,
    *,
    kind: Kind = "lines",
    log: bool = False,
) -> Chart | None:
    """Return a chart of a metric along an axis, with a series for each combination of the other
    axes; None if no series has two points."""
    chosen, cables = without_baseline(measured(records))
    series, panels = split(chosen, field_name(axis))
    scale = scale_of_axis(axis, chosen)
    places = sorted({x for x in (place(r.test, axis) for r in chosen) if isinstance(x, float)})
    if kind == "lines" and not scale.categories and len(places) <= _FEW_PLACES:
        kind, scale = "bars", Scale(scale.title, categories=tuple(map(_category, places)))

    def position(record: Record) -> float | str:
        x = place(record.test, axis)
        return _category(x) if scale.categories else x

    marks = []
    for record in chosen:
        labels = words_of(record.test, series), words_of(record.test, panels)
        mark = mark_of(record, metric_name, position(record), *labels)
        marks += [mark] if mark else []
    by_series: dict[tuple[str, str], set[float | str]] = {}
    for mark in marks:
        by_series.setdefault((mark.series, mark.panel), set()).add(mark.x)
    if not any(len(places) > 1 for places in by_series.values()):
        return None
    marks.sort(key=lambda mark: (mark.series, mark.panel, _rank(mark.x, scale)))

    def placed(record: Record) -> Place:
        series_label = "" if record.test.switch == CABLE else words_of(record.test, series)
        return position(record), series_label, words_of(record.test, panels)

    held = references(chosen, metric_name, placed, max(mark.y for mark in marks), cables)
    titled = ", ".join(AXES[name].label for name in series)
    y = scale_of_metric(metric_name, log=log)
    says = f"{title}: {y.title} against {scale.title}, {len(marks)} figures."
    return Chart(
        name,
        title,
        says,
        kind,
        scale,
        y,
        tuple(marks),
        series=titled,
        references=held,
        along=True,
    )


def _rank(x: float | str, scale: Scale) -> float:
    """Return the order of a position on its axis."""
    return scale.categories.index(x) if isinstance(x, str) else x
