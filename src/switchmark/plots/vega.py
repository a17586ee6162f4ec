"""This module writes a chart as a specification of Vega-Lite, the same for the page and for paper.

Colours and shapes are told apart by colour-blind readers (Okabe and Ito, 2008) and in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from switchmark.plots.chart import Chart, Mark, Scale, spans

__all__ = ["COLOURS", "specification", "together"]

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8B6F00", "#666666"),
    *("#7A3E9D", "#A6761D"),
)
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
_GREY = "#767676"
_APART = {"scale": {"color": "independent", "shape": "independent"}}
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_PANEL_WIDTH, _HEIGHT = 260, 300
_TICKS = 12
_WORDS_BESIDE = 70
"""So many letters of words stand beside each other below a chart; more of them are aslant."""
_NEVER_HOLLOW = ("curves", "boxes", "stacks", "heat")

Spec = dict[str, Any]


def specification(chart: Chart, width: int = 640) -> Spec:
    """Return the specification of a chart that is `width` points wide, or of panels beside each
    other as far as there is room."""
    layers = _layers(chart)
    panels = chart.panel_names()
    spec: Spec = {
        "$schema": _SCHEMA,
        "title": {"text": chart.title, "anchor": "start", "subtitle": _notes(chart)},
        "description": chart.says,
        "data": {"values": _rows(chart)},
        "config": _config(chart),
    }
    size = {"height": _HEIGHT, "width": width}
    if len(panels) > 1 or chart.rows:
        columns = max(1, width // _PANEL_WIDTH)
        size = {"height": 180, "width": max(_PANEL_WIDTH, width // min(columns, len(panels))) - 60}
        facet: Spec = {"field": "panel", "title": chart.panels, "sort": panels}
        if chart.rows:
            rows = list(dict.fromkeys(mark.row for mark in chart.marks))
            facet = {
                "column": facet,
                "row": {"field": "row", "title": chart.rows, "sort": rows},
            }
            return {**spec, "facet": facet, "spec": {"layer": layers, **size}}
        return {**spec, "facet": facet, "columns": columns, "spec": {"layer": layers, **size}}
    return {**spec, **size, "layer": layers, **_resolved(chart)}


def together(specifications: Sequence[Spec]) -> Spec:
    """Return the specification of several charts below each other."""
    if len(specifications) == 1:
        return specifications[0]
    own = ("$schema", "config")
    each = [{k: v for k, v in spec.items() if k not in own} for spec in specifications]
    config = specifications[0]["config"]
    return {"$schema": _SCHEMA, "vconcat": each, "config": config, "resolve": _APART}


def _resolved(chart: Chart) -> Spec:
    return {"resolve": {"scale": {"y": "independent"}}} if chart.second else {}


def _rows(chart: Chart) -> list[Spec]:
    """Return the marks as rows of data: of a curve only what its line takes."""
    rows = [_row(mark) for mark in chart.marks]
    if chart.kind != "curves":
        return rows
    return [{k: v for k, v in row.items() if k not in ("low", "high", "bounded")} for row in rows]


def _row(mark: Mark) -> Spec:
    low = mark.y if mark.low is None else mark.low
    high = mark.y if mark.high is None else mark.high
    what = "published" if mark.published else "measured"
    kind = "published" if mark.published else "doubted" if mark.doubted else "sure"
    told = mark.told or what
    row: Spec = {"x": mark.x, "y": mark.y, "low": low, "high": high, "series": mark.series}
    row |= {"panel": mark.panel, "row": mark.row, "kind": kind, "bounded": mark.bounded}
    return {**row, "told": told, "key": mark.key}


def _notes(chart: Chart) -> list[str]:
    """Return what explains the marks that are there."""
    marks = (*chart.marks, *chart.second)
    notes = []
    if spans(marks) and chart.kind != "stacks":
        notes.append("bars through marks: 95 % interval of the median")
    if any(mark.doubted for mark in marks) and chart.kind not in _NEVER_HOLLOW:
        notes.append("hollow: doubted")
    if any(mark.bounded for mark in marks) and chart.kind not in _NEVER_HOLLOW:
        notes.append("arrow up: the traffic program was the limit")
    if any(mark.published for mark in marks):
        notes.append("cross: published")
    return ["; ".join(notes)] if notes else []


def _config(chart: Chart) -> Spec:
    beside = _WORDS_BESIDE if len(chart.panel_names()) < 2 else _WORDS_BESIDE // 3
    long = sum(len(word) + 2 for word in chart.x.words) > beside
    return {
        "axisXDiscrete": {"labelAngle": -40 if long else 0, "labelLimit": 160},
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {"gridColor": "#8883", "domainColor": _GREY, "tickColor": _GREY},
        "range": {"category": list(COLOURS), "symbol": list(_SHAPES)},
        "title": {"subtitleColor": _GREY, "fontSize": 14, "subtitleFontSize": 11, "offset": 14},
        "legend": {"symbolStrokeWidth": 2, "labelLimit": 320},
    }


def _scale(scale: Scale, field: str, places: Sequence[float | str] = ()) -> Spec:
    """Return the encoding of a position. Few places are ticks of a logarithmic scale."""
    if scale.words:
        sort = list(scale.words)
        return {"field": field, "type": "nominal", "sort": sort, "title": scale.title}
    axis: Spec = {"format": ".0%"} if scale.percent else {"format": "~s"} if scale.log else {}
    if scale.log and 1 < len(set(places)) <= _TICKS:
        axis = {"values": sorted(set(places)), "format": "d"}
    spec: Spec = {"field": field, "type": "quantitative", "title": scale.title, "axis": axis}
    kind = {"type": "log"} if scale.log else {"zero": scale.zero}
    return {**spec, "scale": {**kind, "nice": not scale.log}}


def _layers(chart: Chart) -> list[Spec]:
    y = _scale(chart.y, "y")
    x = _scale(chart.x, "x", [mark.x for mark in chart.marks])
    if chart.kind == "heat":
        return _heat(chart, x)
    grouped = chart.kind == "bars" and len(chart.series_names()) > 1 and chart.x.words
    offset: Spec = {"xOffset": {"field": "series"}} if grouped else {}
    base: Spec = {"x": x, "y": y, **offset, **_colour(chart)}
    layers = {
        "lines": _lines,
        "bars": _bars,
        "points": _points,
        "curves": _curves,
        "boxes": _boxes,
        "stacks": _stacks,
    }[chart.kind](base)
    layers += [_published(base)] if any(mark.published for mark in chart.marks) else []
    layers += _references(chart)
    if chart.second and chart.y2:
        return [{"layer": layers}, _second(chart, x, chart.y2)]
    return layers


def _colour(chart: Chart) -> Spec:
    names = [name for name in chart.series_names() if name]
    if not names:
        return {"color": {"value": COLOURS[0]}}
    told: Spec = {"field": "series", "type": "nominal", "sort": names}
    legend = {"title": chart.series or None, "orient": "bottom", "columns": 4}
    told |= {"legend": legend, "title": chart.series or None}
    without_shape = chart.kind in ("bars", "stacks", "boxes", "curves")
    return {"color": told} if without_shape else {"color": told, "shape": {**told, "legend": None}}


_MEASURED = {"filter": "datum.kind != 'published'"}
_CURVE_TOOLTIP = [
    {"field": "series", "title": "which"},
    {"field": "x", "format": ".4s"},
    {"field": "y", "format": ".4"},
]
_TOOLTIP = [
    {"field": "series", "title": "which"},
    {"field": "x"},
    {"field": "y", "format": ".4s"},
    {"field": "low", "format": ".4s"},
    {"field": "high", "format": ".4s"},
    {"field": "told", "title": "said"},
]


def _interval(base: Spec) -> Spec:
    encoding = {name: value for name, value in base.items() if name != "shape"}
    encoding |= {"y": {**base["y"], "field": "low"}, "y2": {"field": "high"}}
    return {"transform": [_MEASURED], "mark": {"type": "rule", "size": 1.5}, "encoding": encoding}


def _dots(base: Spec) -> list[Spec]:
    """Return filled marks, hollow ones for what is doubted, and arrows for what is bounded."""
    sure = [_MEASURED, {"filter": "datum.kind == 'sure'"}]
    doubted = [_MEASURED, {"filter": "datum.kind == 'doubted'"}]
    encoding = {**base, "tooltip": _TOOLTIP}
    arrow = {key: value for key, value in base.items() if key != "shape"}
    return [
        {
            "transform": sure,
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": encoding,
        },
        {
            "transform": doubted,
            "mark": {"type": "point", "filled": False, "size": 60, "strokeWidth": 1.8},
            "encoding": encoding,
        },
        {
            "transform": [_MEASURED, {"filter": "datum.bounded"}],
            "mark": {"type": "text", "text": "↑", "dy": -12, "fontSize": 14, "fontWeight": "bold"},
            "encoding": arrow,
        },
    ]


def _lines(base: Spec) -> list[Spec]:
    through = {"transform": [_MEASURED], "mark": {"type": "line", "strokeWidth": 1.8}}
    path = {key: value for key, value in base.items() if key != "shape"}
    return [{**through, "encoding": path}, _interval(base), *_dots(base)]


def _points(base: Spec) -> list[Spec]:
    return [_interval(base), *_dots(base)]


def _curves(base: Spec) -> list[Spec]:
    mark = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.8}
    return [
        {"transform": [_MEASURED], "mark": mark, "encoding": {**base, "tooltip": _CURVE_TOOLTIP}}
    ]


def _bars(base: Spec) -> list[Spec]:
    hollow = {"condition": {"test": "datum.kind == 'doubted'", "value": 0.25}, "value": 0.9}
    outline = {"stroke": base["color"], "fillOpacity": hollow, "tooltip": _TOOLTIP}
    bar = {"type": "bar", "strokeWidth": 1.5}
    interval = _interval({**base, "color": {"value": _GREY}})
    arrow = {**base, "color": {"value": _GREY}}
    return [
        {"transform": [_MEASURED], "mark": bar, "encoding": {**base, **outline}},
        interval,
        {
            "transform": [_MEASURED, {"filter": "datum.bounded"}],
            "mark": {"type": "text", "text": "↑", "dy": -10, "fontSize": 13, "fontWeight": "bold"},
            "encoding": arrow,
        },
    ]


def _boxes(base: Spec) -> list[Spec]:
    mark = {"type": "boxplot", "extent": "min-max", "size": 18}
    return [{"transform": [_MEASURED], "mark": mark, "encoding": base}]


def _stacks(base: Spec) -> list[Spec]:
    mark = {"type": "bar"}
    y = {**base["y"], "stack": "zero"}
    return [{"mark": mark, "encoding": {**base, "y": y, "tooltip": _TOOLTIP}}]


def _published(base: Spec) -> Spec:
    """Return the published values: crosses of the colour of their series."""
    encoding = {key: value for key, value in base.items() if key != "shape"}
    return {
        "transform": [{"filter": "datum.kind == 'published'"}],
        "mark": {"type": "point", "shape": "cross", "filled": False, "size": 90, "strokeWidth": 2},
        "encoding": {**encoding, "tooltip": _TOOLTIP},
    }


def _references(chart: Chart) -> list[Spec]:
    layers: list[Spec] = []
    for reference in chart.references:
        data = {"values": [{"y": reference.y, "name": reference.name}]}
        y = {"field": "y", "type": "quantitative"}
        rule = {"type": "rule", "strokeDash": [5, 4], "color": _GREY}
        text = {"type": "text", "align": "left", "dy": -6, "color": _GREY}
        words = {"y": y, "x": {"value": 4}, "text": {"field": "name"}}
        layers += [
            {"data": data, "mark": rule, "encoding": {"y": y}},
            {"data": data, "mark": text, "encoding": words},
        ]
    if chart.diagonal:
        ends = [float(mark.x) for mark in chart.marks if not isinstance(mark.x, str)]
        data = {"values": [{"x": end, "y": end} for end in (min(ends), max(ends))]} if ends else {}
        encoding = {name: {"field": name, "type": "quantitative"} for name in ("x", "y")}
        line = {"type": "line", "strokeDash": [2, 3], "color": _GREY}
        layers += [{"data": data, "mark": line, "encoding": encoding}] if ends else []
    return layers


def _second(chart: Chart, x: Spec, scale: Scale) -> Spec:
    """Return the marks on the scale at the right: a dashed grey line with hollow squares."""
    y = {**_scale(scale, "y"), "axis": {"orient": "right", "grid": False}}
    base = {"x": x, "y": y, "color": {"value": _GREY}}
    line = {"mark": {"type": "line", "strokeDash": [4, 3]}, "encoding": base}
    dots = {
        "mark": {"type": "point", "shape": "square", "size": 50},
        "encoding": {**base, "tooltip": _TOOLTIP},
    }
    return {"data": {"values": [_row(mark) for mark in chart.second]}, "layer": [line, dots]}


def _heat(chart: Chart, x: Spec) -> list[Spec]:
    rows: Sequence[str] = chart.series_names()
    y: Spec = {"field": "series", "type": "nominal", "sort": list(rows), "title": chart.series}
    colour: Spec = {"field": "y", "type": "quantitative", "title": chart.y.title}
    colour["scale"] = {"scheme": "viridis"}
    cell = {"x": x, "y": y}
    ink = {"condition": {"test": _bright(chart), "value": "black"}, "value": "white"}
    words = {**cell, "text": {"field": "y", "format": ".3s"}, "color": ink}
    return [
        {"mark": "rect", "encoding": {**cell, "color": colour, "tooltip": _TOOLTIP}},
        {"mark": {"type": "text"}, "encoding": words},
    ]


def _bright(chart: Chart) -> str:
    values = [mark.y for mark in chart.marks]
    return f"datum.y > {(min(values) + max(values)) / 2}" if values else "true"
