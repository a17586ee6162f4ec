"""Bar charts in plain text, a separate chart for each combination of semantics and dimension."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.named import METRICS
from switchmark.model.labels import label, telling
from switchmark.model.record import Record
from switchmark.report.figures import doubt_mark, format_median, rate
from switchmark.report.json import to_object
from switchmark.report.outage import outage_text

_EIGHTHS = " ▏▎▍▌▋▊▉"
_HOLLOW = "░"
_QUANTITIES = {
    "latency": "median latency, less is better",
    "outage": "outage after the event, less is better",
}


def bars(records: Sequence[Record], width: int = 100) -> list[str]:
    """Return the lines to print: the received rate for throughput tests, and the median latency, if
    it is known, for latency tests. The bar of a doubted test is hollow. Tests without results have
    no bar."""
    charts: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if _figure(record) is not None:
            title = (record.test.dimension, record.semantics or "unknown")
            charts.setdefault(title, []).append(record)
    lines = []
    for (dimension, semantics), drawn in charts.items():
        quantity = _QUANTITIES.get(dimension, "received rate")
        lines += [f"{semantics}: {quantity}", *_chart(drawn, width), ""]
    return lines[:-1]


def _figure(record: Record) -> tuple[float, str] | None:
    content = to_object(record)
    if record.test.dimension == "outage":
        outage_s = METRICS["outage.s"].of(record)
        return None if outage_s is None else (outage_s, outage_text(record))
    if record.test.dimension == "latency":
        median = (content["latency_ns"] or {}).get("p50")
        mark = doubt_mark(record.doubts)
        return None if median is None else (median, mark + format_median(content["latency_ns"]))
    return None if content["rx"] is None else (content["rx"]["pps"], rate(content))


def _chart(records: Sequence[Record], width: int) -> list[str]:
    axes = telling([record.test for record in records])
    names = [label(record.test, axes) for record in records]
    figures = [_figure(record) or (0.0, "") for record in records]
    column = max(map(len, names))
    room = max(width - column - max(len(text) for _, text in figures) - 4, 8)
    highest = max(value for value, _ in figures) or 1
    return [
        f"  {name:{column}} {_bar(value / highest * room, is_doubtful(record.doubts))} {text}"
        for name, (value, text), record in zip(names, figures, records, strict=True)
    ]


def _bar(length: float, hollow: bool) -> str:
    if hollow:
        return _HOLLOW * max(round(length), 1)
    whole, eighths = divmod(round(length * 8), 8)
    return "█" * whole + _EIGHTHS[eighths].strip() or _EIGHTHS[1]
