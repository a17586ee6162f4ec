"""The Vega-Lite specification of a chart, the same for the HTML report and for papers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from switchmark.plots.chart import Chart, Reference, spans
from switchmark.plots.layers import COLOURS, GREY, Spec, layers_of, row_of

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
_APART = {"scale": {"color": "independent", "shape": "independent"}}
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_PANEL_WIDTH, _HEIGHT = 260, 300
_UPRIGHT = 0.75
"""The largest ratio of height to width."""

_FAR_APART = 5
"""The ratio of the panels' maxima above which a common scale would hide the lower panel."""

_WORDS_BESIDE = 70
"""The number of letters below the x axis above which labels are rotated."""
_LETTER, _SMALL_LETTER = 8, 6
"""The widths of a letter in the title and in the subtitle, in points."""

_NEVER_HOLLOW = ("curves", "boxes", "stacks", "heat")


def specification(chart: Chart, width: int = 640, *, whole: bool = False) -> Spec:
    """Return the specification of a chart with a width of `width` points, with panels in as many
    columns as fit. With `whole`, the width includes axes and labels."""
    layers = layers_of(chart)
    panels = chart.panel_names()
    spec: Spec = {
        "$schema": _SCHEMA,
        "title": {
            "text": textwrap.wrap(chart.title, width // _LETTER),
            "anchor": "start",
            "subtitle": [
                line
                for note in _notes(chart)
                for line in textwrap.wrap(note, width // _SMALL_LETTER)
            ],
        },
        "description": chart.says,
        "data": {"values": _rows(chart)},
        "config": _config(chart),
    }
    size = {"height": min(_HEIGHT, round(_UPRIGHT * width)), "width": width}
    beside_scales = {"autosize": {"type": "fit-x", "contains": "padding"}} if whole else {}
    if len(panels) > 1 or chart.rows:
        columns = max(1, width // _PANEL_WIDTH)
        resolved = {"resolve": {"scale": {"y": "independent"}}} if _far_apart(chart) else {}
        size = {"height": 180, "width": max(_PANEL_WIDTH, width // min(columns, len(panels))) - 60}
        facet: Spec = {"field": "panel", "title": chart.panels, "sort": panels}
        if chart.rows:
            rows = list(dict.fromkeys(mark.row for mark in chart.marks))
            facet = {
                "column": facet,
                "row": {"field": "row", "title": chart.rows, "sort": rows},
            }
            return {**spec, "facet": facet, "spec": {"layer": layers, **size}}
        inner = {"layer": layers, **size}
        return {**spec, "facet": facet, "columns": columns, "spec": inner, **resolved}
    return {**spec, **size, **beside_scales, "layer": layers, **_resolved(chart)}


def together(specifications: Sequence[Spec]) -> Spec:
    """Return the specification of several charts in a column."""
    if len(specifications) == 1:
        return specifications[0]
    top_level = ("$schema", "config")
    specs = [{k: v for k, v in spec.items() if k not in top_level} for spec in specifications]
    config = specifications[0]["config"]
    return {"$schema": _SCHEMA, "vconcat": specs, "config": config, "resolve": _APART}


def _far_apart(chart: Chart) -> bool:
    """Return whether a common scale would leave some panels empty. Such panels get separate scales
    and a note."""
    if chart.y.log or chart.rows or chart.second or chart.kind == "heat":
        return False
    highest: dict[str, float] = {}
    for mark in chart.marks:
        highest[mark.panel] = max(highest.get(mark.panel, 0.0), mark.y)
    return len(highest) > 1 and max(highest.values()) > _FAR_APART * min(highest.values())


def _resolved(chart: Chart) -> Spec:
    return {"resolve": {"scale": {"y": "independent"}}} if chart.second else {}


def _rows(chart: Chart) -> list[Spec]:
    """Return the marks as rows of data, reduced to the needed fields for a curve."""
    rows = [row_of(mark) for mark in chart.marks]
    if chart.kind != "curves":
        return rows + _held(chart.references)
    return [{k: v for k, v in row.items() if k not in ("low", "high", "bounded")} for row in rows]


def _held(references: Sequence[Reference]) -> list[Spec]:
    """Return references as rows of data. The name of a line is at its maximum, on the right of that
    point, or on the left of the last point."""
    lines: dict[tuple[str, str], list[Reference]] = {}
    for reference in references:
        lines.setdefault((reference.name, reference.panel), []).append(reference)
    rows = []
    for line in lines.values():
        highest = max(line, key=lambda point: point.y)
        for reference in line:
            row = _held_row(reference)
            if reference is highest and reference.x is not None:
                row["named"] = "left" if reference is line[-1] else "right"
            rows.append(row)
    return rows


def _held_row(reference: Reference) -> Spec:
    low = reference.y if reference.low is None else reference.low
    high = reference.y if reference.high is None else reference.high
    kind = "across" if reference.x is None else "along"
    row: Spec = {
        "y": reference.y,
        "low": low,
        "high": high,
        "series": reference.name,
        "panel": reference.panel,
    }
    row |= {"row": "", "kind": kind, "bounded": False, "note": "reference", "key": ""}
    return row if reference.x is None else {**row, "x": reference.x}


def _notes(chart: Chart) -> list[str]:
    """Return the legend of the marks in this chart."""
    marks = (*chart.marks, *chart.second)
    notes = []
    if spans(marks) and chart.kind not in ("stacks", "heat"):
        notes.append("bars through marks: 95 % interval of the median")
    if any(mark.doubted for mark in marks) and chart.kind not in _NEVER_HOLLOW:
        notes.append("hollow: doubted")
    bounded = [mark for mark in marks if mark.bounded and chart.kind not in _NEVER_HOLLOW]
    if any(not mark.published for mark in bounded):
        notes.append("arrow up: the traffic generator was the limit")
    if any(mark.published for mark in marks):
        at_least = ", with an arrow: at least" if any(mark.published for mark in bounded) else ""
        notes.append(f"cross: published{at_least}")
    if chart.second and chart.y2:
        notes.append(f"white squares: {chart.y2.title}, at the right")
    if chart.kind == "bars" and (
        held := [reference for reference in chart.references if reference.x is not None]
    ):
        notes.append(
            f"grey lines: {', '.join(dict.fromkeys(reference.name for reference in held))}"
        )
    if len(chart.panel_names()) > 1 and _far_apart(chart):
        notes.append("each panel has its own scale")
    texts = ["; ".join(notes)] if notes else []
    return [*texts, chart.note] if chart.note else texts


def _config(chart: Chart) -> Spec:
    beside = _WORDS_BESIDE if len(chart.panel_names()) < 2 else _WORDS_BESIDE // 3
    long = sum(len(word) + 2 for word in chart.x.categories) > beside
    return {
        "axisXDiscrete": {"labelAngle": -40 if long else 0, "labelLimit": 160},
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {"gridColor": "#8883", "domainColor": GREY, "tickColor": GREY},
        "range": {"category": list(COLOURS), "symbol": list(_SHAPES)},
        "title": {"subtitleColor": GREY, "fontSize": 14, "subtitleFontSize": 11, "offset": 14},
        "legend": {"symbolStrokeWidth": 2, "labelLimit": 320},
    }
