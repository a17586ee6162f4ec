"""The Vega-Lite specification of a chart, the same for the HTML report and for papers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from switchmark.plots.chart import Chart, Kind, Mark, Reference, is_range
from switchmark.plots.layers import VALUES, Spec, beside_each_other, layers_of, row_of
from switchmark.plots.looks import COLOURS, GREY, SHAPES

_APART = {"scale": {"color": "independent", "shape": "independent"}}
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_PANEL_WIDTH, _HEIGHT = 260, 300
_UPRIGHT = 0.75
"""The largest ratio of height to width."""

_FAR_APART = 5
"""The ratio of the panels' maxima above which a common scale would hide the lower panel."""

_LETTER, _SMALL_LETTER = 8, 6
"""The widths of a letter in the title and in the subtitle, in points."""

_WIDTH = 640

_VALUE_WIDTH, _SYMBOL_WIDTH = 40, 30
"""The widths of the value at a bar, and of a symbol of the legend with its spaces, in points."""

_NEVER_HOLLOW = ("curves", "boxes", "stacks", "heat")


def specification(
    chart: Chart, width: int = 640, *, whole: bool = False, source: Sequence[str] = ()
) -> Spec:
    """Return the specification of a chart with a width of `width` points, with panels in as many
    columns as fit. With `whole`, the width includes axes and labels. `source` are lines on the
    origin of the figures."""
    spec = _specification(chart, width, whole=whole)
    spec["title"] = {
        "text": textwrap.wrap(chart.title, width // _LETTER),
        "anchor": "start",
        "subtitle": [
            line
            for note in (*_notes(chart), *source)
            for line in textwrap.wrap(note, width // _SMALL_LETTER)
        ],
    }
    inner = spec.get("spec", spec)
    aslant = sum(len(word) + 2 for word in chart.x.categories) * _SMALL_LETTER > inner["width"]
    spec["config"]["axisXDiscrete"]["labelAngle"] = -40 if aslant else 0
    if not _has_room(chart, inner["width"]):
        inner["layer"] = [
            layer for layer in inner["layer"] if not str(layer.get("name")).startswith(VALUES)
        ]
    spec["config"]["legend"]["columns"] = _columns(chart, width)
    return spec


def specification_of_page(chart: Chart) -> Spec:
    """Return the specification of a chart for the script of a page, which knows the width: the
    lines of the title are whole, and bars have their values."""
    spec = _specification(chart, _WIDTH)
    spec["title"] = {"text": [chart.title], "anchor": "start", "subtitle": _notes(chart)}
    return spec


def _has_room(chart: Chart, width: int) -> bool:
    """Return whether the values of bars fit above them. Each position has room for the bars of all
    series, if bars of several series stand there."""
    series = len(chart.series_names()) if beside_each_other(chart) else 1
    return len({mark.x for mark in chart.marks}) * series * _VALUE_WIDTH <= width


def _panel_columns(panels: int, width: int) -> int:
    """Return the number of panels in a row: as many as fit, spread evenly over the rows."""
    fit = max(1, width // _PANEL_WIDTH)
    rows = -(-panels // fit)
    return -(-panels // rows)


def _columns(chart: Chart, width: int) -> int:
    """Return the number of entries of the legend in a row."""
    longest = max((len(name) for name in chart.series_names()), default=0)
    return max(1, width // (_SYMBOL_WIDTH + _SMALL_LETTER * longest))


def _specification(chart: Chart, width: int, *, whole: bool = False) -> Spec:
    """Return the specification of a chart without its title."""
    layers = layers_of(chart, apart=len(chart.panel_names()) > 1 and _far_apart(chart))
    panels = chart.panel_names()
    spec: Spec = {
        "$schema": _SCHEMA,
        "description": chart.says,
        "data": {"values": _rows(chart)},
        "config": _config(),
    }
    size = {"height": min(_HEIGHT, round(_UPRIGHT * width)), "width": width}
    beside_scales = {"autosize": {"type": "fit-x", "contains": "padding"}} if whole else {}
    if len(panels) > 1 or chart.rows:
        columns = _panel_columns(len(panels), width)
        resolved = {"resolve": {"scale": {"y": "independent"}}} if _far_apart(chart) else {}
        size = {"height": 180, "width": max(_PANEL_WIDTH, width // columns) - 60}
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
    """Return the marks as rows of data, reduced to the needed fields for the points of a curve."""
    rows = [row_of(mark) for mark in chart.marks]
    if chart.kind != "curves":
        return rows + _held(chart.references)
    unused = ("low", "high", "bounded")
    return [
        row if "as" in row else {k: v for k, v in row.items() if k not in unused} for row in rows
    ]


def _held(references: Sequence[Reference]) -> list[Spec]:
    """Return references as rows of data. The name of a line is at its maximum, on the right of that
    point, or on the left of the last point."""
    lines: dict[tuple[str, str], list[Reference]] = {}
    for reference in references:
        lines.setdefault((reference.name, reference.panel), []).append(reference)
    rows = []
    downward = sorted(lines.values(), key=lambda line: -max(point.y for point in line))
    for number, line in enumerate(downward):
        highest = max(line, key=lambda point: point.y)
        for reference in line:
            row = _held_row(reference)
            row["side"] = ("left", "right")[number % 2]
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
    row |= {"row": "", "kind": kind, "bounded": False, "spread": "", "note": "reference", "key": ""}
    if reference.x is None:
        return {**row, "label": f"{reference.name} {reference.y:.3g}"}
    return {**row, "x": reference.x}


_SPREADS = {
    False: "95 % interval of the median",
    True: "minimum and maximum of few trials",
}
"""The meaning of error bars, by whether they are ranges."""


def _notes(chart: Chart) -> list[str]:
    """Return the legend of the marks in this chart."""
    marks = (*chart.marks, *chart.second)
    notes = []
    spread = [m for m in marks if not m.published and m.low is not None and m.low != m.high]
    if spread and chart.kind not in ("stacks", "heat"):
        kinds = {mark.ranged for mark in spread}
        names = [_SPREADS[ranged] for ranged in (False, True) if ranged in kinds]
        notes.append(f"error bars: {' or '.join(names)}")
    if any(mark.doubted for mark in marks) and chart.kind not in _NEVER_HOLLOW:
        notes.append("hollow: may be wrong")
    bounded = [mark for mark in marks if mark.bounded and chart.kind not in _NEVER_HOLLOW]
    if any(not mark.published for mark in bounded):
        notes.append("arrow up: the traffic generator was the limit")
    notes += _of_published([mark for mark in marks if mark.published], chart.kind)
    if chart.second and chart.y2:
        notes.append(f"white squares: {chart.y2.title}, at the right")
    if chart.kind == "bars":
        notes += _notes_on_lines(chart.references)
    if len(chart.panel_names()) > 1 and _far_apart(chart):
        notes.append("each panel has its own scale")
    texts = ["; ".join(notes)] if notes else []
    return [*texts, chart.note] if chart.note else texts


def _notes_on_lines(references: Sequence[Reference]) -> list[str]:
    """Return the meaning of the lines of a bar chart, with the value of a line that has one."""
    notes = []
    for name in dict.fromkeys(reference.name for reference in references):
        line = [reference for reference in references if reference.name == name]
        across = {f"{reference.y:.3g}" for reference in line if reference.x is None}
        value = f" {across.pop()}" if len(across) == 1 and len(line) == 1 else ""
        shape = "dashed" if line[0].x is None else "grey"
        notes.append(f"{shape} line: {name}{value}")
    return notes


def _of_published(marks: Sequence[Mark], kind: Kind) -> list[str]:
    """Return the legend of published marks. Those of curves are along the x axis."""
    up, down = ("right", "left") if kind == "curves" else ("up", "down")
    found = {
        "cross": any(not (m.bounded or m.at_most or is_range(m)) for m in marks),
        "bar with two ends": any(is_range(m) for m in marks),
        f"arrow {up}": any(m.bounded for m in marks),
        f"arrow {down}": any(m.at_most for m in marks),
    }
    titles = {
        "cross": "published",
        "bar with two ends": "published as a range",
        f"arrow {up}": "published as at least",
        f"arrow {down}": "published as at most",
    }
    notes = [f"{mark}: {titles[mark]}" for mark, is_there in found.items() if is_there]
    return notes + ["?: uncertain"] * any(mark.uncertain for mark in marks)


def _config() -> Spec:
    return {
        "axisXDiscrete": {"labelAngle": 0, "labelLimit": 160},
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {"gridColor": "#8883", "domainColor": GREY, "tickColor": GREY},
        "range": {"category": list(COLOURS), "symbol": list(SHAPES)},
        "title": {"subtitleColor": GREY, "fontSize": 14, "subtitleFontSize": 11, "offset": 14},
        "legend": {"symbolStrokeWidth": 2, "labelLimit": 320, "orient": "bottom"},
    }
