"""The Vega-Lite layers for the marks of a chart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any

from switchmark.plots.chart import Chart, Mark, Scale, is_range, spans
from switchmark.plots.looks import COLOURS, GREY, INK, look_of_switch, looks_of

_TICKS = 12
_LETTERS = 44
"""The number of letters that fit on a line of a vertical axis title."""

VALUES = "values"
"""The name of the layer with the values of bars."""

_HEADROOM = 1.15
"""The ratio of a scale to the largest bar, which leaves room for values and arrows."""

_DODGE, _MOST_DODGED = 4, 6
"""The distance of series at the same position, in points, and the most series for it."""

_AROUND_ONE = 2
"""The factor by which a logarithmic scale extends to both sides of a single value."""

_DECADES = 4
"""The number of decades from which a logarithmic scale has no ticks between powers of ten."""

Spec = dict[str, Any]


def row_of(mark: Mark) -> Spec:
    """Return a mark as a row of data."""
    low = mark.y if mark.low is None else mark.low
    high = mark.y if mark.high is None else mark.high
    origin = "published" if mark.published else "measured"
    kind = "published" if mark.published else "doubted" if mark.doubted else "sure"
    title = mark.note or origin
    row: Spec = {"x": mark.x, "y": mark.y, "low": low, "high": high, "series": mark.series}
    row["spread"] = _spread(mark)
    row |= {"panel": mark.panel, "row": mark.row, "kind": kind, "bounded": mark.bounded}
    if mark.published:
        row |= {"as": _published_as(mark), "uncertain": mark.uncertain}
    return {**row, "note": title, "key": mark.key}


def _published_as(mark: Mark) -> str:
    """Return how a published mark is drawn."""
    if mark.bounded or mark.at_most:
        return "least" if mark.bounded else "most"
    return "range" if is_range(mark) else "value"


def _spread(mark: Mark) -> str:
    """Return the interval of a mark as text."""
    if mark.low is None or mark.high is None or mark.low == mark.high:
        return ""
    kind = "minimum and maximum" if mark.ranged else "95 % interval"
    kind = "published" if mark.published else kind
    return f"{mark.low:.4g} to {mark.high:.4g} ({kind})"


def _scale(scale: Scale, field: str, places: Sequence[float | str] = ()) -> Spec:
    """Return the encoding of a position. On a logarithmic scale with few values, the values are the
    ticks."""
    if scale.categories:
        sort = list(scale.categories)
        return {"field": field, "type": "nominal", "sort": sort, "title": scale.title}
    spec: Spec = {"field": field, "type": "quantitative", "title": scale.title}
    if not scale.log:
        axis: Spec = {"format": ".0%"} if scale.percent else {}
        axis |= {"tickCount": _TICKS} if field == "x" else {}
        if 1 < len(set(places)) <= _TICKS and all(float(place).is_integer() for place in places):
            values = sorted(set(places))
            apart = {"labelOverlap": "greedy", "labelSeparation": 6}
            axis = {"values": values, "format": "d", **apart}
        return {**spec, "axis": axis, "scale": {"zero": scale.zero, "nice": True}}
    numbers = {float(place) for place in places}
    few = len(numbers) <= _TICKS and all(number.is_integer() for number in numbers)
    ticks = sorted(numbers) if few else _ticks([*numbers])
    number_format = {"format": "d"} if few else {"labelExpr": _NUMBERS}
    if scale.percent:
        number_format = {"format": "~%"}
    if scale.tail:
        number_format = {"labelExpr": _PERCENTILES}
    axis = {"values": ticks, **number_format}
    if scale.title.endswith(" (us)"):
        spec["title"] = scale.title.removesuffix(" (us)")
        axis = {"values": ticks, "labelExpr": _TIMES}
    kind: Spec = {"type": "log", "nice": False, "padding": 8}
    if len(numbers) == 1:  # the scale would have no extent
        (only,) = numbers
        kind["domain"] = [only / _AROUND_ONE, only * _AROUND_ONE]
        axis["values"] = [only]
    return {**spec, "axis": axis, "scale": kind}


def _upright(scale: Spec) -> Spec:
    """Return a scale with its title wrapped to the height of a chart."""
    return {**scale, "title": textwrap.wrap(scale["title"], _LETTERS) or None}


_NUMBERS = "format(datum.value, datum.value < 1 ? '~g' : '~s')"
"""Formats numbers below 1 without an SI prefix, which would precede the prefix of the unit."""

_PERCENTILES = "'p' + format(100 - 100 / datum.value, '.8~g')"
"""Formats n as the percentile with one later value in n."""

_TIMES = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' s' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' ms' : "
    "format(datum.value, '~g') + ' us'"
)
"""Formats microseconds in a suitable unit."""


def _ticks(values: Sequence[float]) -> list[float]:
    """Return the powers of ten in the range of some values, and the steps 2 and 5 if there are few
    powers."""
    positive = [value for value in values if value > 0]
    if not positive:
        return []
    first, last = floor(log10(min(positive))), ceil(log10(max(positive)))
    steps = (1, 2, 5) if last - first < _DECADES else (1,)
    return [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]


def layers_of(chart: Chart, *, apart: bool = False) -> list[Spec]:
    """Return the layers of a chart: its marks and its reference lines. `apart` means that panels
    have separate scales. The layer `values` has the values of bars as text."""
    all_ends = (end for mark in chart.marks for end in (mark.low, mark.high, mark.y))
    ends = [end for end in all_ends if end is not None]
    y = _upright(_scale(chart.y, "y", ends if chart.y.log else []))
    if chart.kind == "bars" and not chart.y.log and not chart.second and not apart:
        highest = max([*ends, *(reference.high or reference.y for reference in chart.references)])
        y = {**y, "scale": {**y["scale"], "domainMax": _HEADROOM * highest}}
    elif chart.kind == "bars" and chart.y.log:
        # Bars begin at 0, which a logarithmic scale does not have.
        least = 10.0 ** floor(log10(min(end for end in ends if end > 0) / _AROUND_ONE))
        y = {**y, "scale": {**y["scale"], "domain": [least, _AROUND_ONE * max(ends)]}}
    elif chart.kind in ("lines", "points") and not chart.y.log and not apart and _arrows(chart):
        y = {**y, "scale": {**y["scale"], "domainMax": _HEADROOM * max(ends)}}
    x = _scale(chart.x, "x", [mark.x for mark in chart.marks])
    if chart.kind == "heat":
        return _heat(chart, x)
    grouped = chart.kind == "bars" and beside_each_other(chart)
    beside = {"field": "series", "scale": {"domain": chart.series_names()}}
    offset: Spec = {"xOffset": beside} if grouped else {}
    base: Spec = {"x": x, "y": y, **offset, **_colour(chart)}
    layers = {
        "lines": _lines,
        "bars": _bars,
        "points": _points,
        "curves": _curves,
        "boxes": _boxes,
        "stacks": _stacks,
    }[chart.kind](base)
    if chart.kind in ("lines", "points") and not chart.x.categories and spans(chart.marks):
        layers = _dodged(layers, chart.series_names())
    if any(mark.published for mark in chart.marks):
        layers += _published(base, upright=chart.kind != "curves")
    layers += _references(chart, x)
    if chart.second and chart.y2:
        # The marks of the second scale would cover the values of bars.
        layers = [layer for layer in layers if not str(layer.get("name")).startswith(VALUES)]
        return [{"layer": layers}, _second(chart, {"x": x, **offset}, chart.y2)]
    return layers


def _arrows(chart: Chart) -> bool:
    """Return whether a chart has marks with arrows or question marks."""
    return any(mark.bounded or mark.at_most or mark.uncertain for mark in chart.marks)


def beside_each_other(chart: Chart) -> bool:
    """Return whether bars of several series share a position and must be grouped."""
    places = [(mark.panel, mark.row, mark.x) for mark in (*chart.marks, *chart.second)]
    several = len(chart.series_names()) > 1 and bool(chart.x.categories)
    return several and len(set(places)) < len(places)


def _colour(chart: Chart) -> Spec:
    looks = looks_of(chart)
    if not looks:
        return {"color": _of_places(chart)}
    title = chart.series or None
    legend = {"title": title}
    common: Spec = {"field": "series", "type": "nominal", "title": title, "legend": legend}

    def scaled(values: Sequence[object]) -> Spec:
        return {**common, "scale": {"domain": list(looks), "range": list(values)}}

    colour = scaled([look.colour for look in looks.values()])
    if chart.kind in ("bars", "stacks", "boxes"):
        return {"color": colour}
    dash = {**scaled([list(look.dash) for look in looks.values()]), "legend": None}
    dashes = {"strokeDash": dash} if len({look.dash for look in looks.values()}) > 1 else {}
    if chart.kind == "curves":
        return {"color": colour, **dashes}
    return {"color": colour, "shape": scaled([look.shape for look in looks.values()]), **dashes}


def _of_places(chart: Chart) -> Spec:
    """Return the colour of a chart without series: that of the switch at each position."""
    switches = {mark.x: mark.switch for mark in chart.marks if isinstance(mark.x, str)}
    all_switches = {mark.switch for mark in chart.marks}
    if len(all_switches) == 1 and (only := min(all_switches)):
        return {"value": look_of_switch(only).colour}
    if "" in all_switches or not switches or len(all_switches) != len(switches):
        return {"value": COLOURS[0]}
    colours = [look_of_switch(switch).colour for switch in switches.values()]
    scale = {"domain": list(switches), "range": colours}
    return {"field": "x", "type": "nominal", "scale": scale, "legend": None}


_MEASURED = {"filter": "datum.kind == 'sure' || datum.kind == 'doubted'"}


def _named_values(base: Spec) -> list[Spec]:
    """Return tooltip entries for the series, the position and the value of a mark, with the axis
    titles."""
    color = base.get("color", {})
    titled = (base["x"]["title"], " ".join(_lines_of(base["y"]["title"])))
    rows: list[Spec] = []
    if color.get("field") == "series":
        rows.append({"field": "series", "title": color.get("title") or "series"})
    formats = ({} if base["x"]["type"] == "nominal" else {"format": ".4~g"}, {"format": ".4~g"})
    for name, title, format_spec in zip("xy", titled, formats, strict=True):
        rows.append({"field": name, "title": title, **format_spec})
    return rows


def _lines_of(title: str | list[str] | None) -> list[str]:
    return [title] if isinstance(title, str) else title or []


def _tooltip(base: Spec) -> list[Spec]:
    """Return the tooltip of a mark."""
    return [
        *_named_values(base),
        {"field": "spread", "title": "spread"},
        {"field": "note", "title": "note"},
    ]


def _plain(base: Spec, *others: str) -> Spec:
    """Return an encoding without shapes and dashes, and without `others`."""
    return {k: v for k, v in base.items() if k not in ("shape", "strokeDash", *others)}


def _interval(base: Spec) -> Spec:
    encoding = _plain(base)
    encoding |= {"y": {**base["y"], "field": "low"}, "y2": {"field": "high"}}
    return {"transform": [_MEASURED], "mark": {"type": "rule", "size": 1.5}, "encoding": encoding}


def _dots(base: Spec) -> list[Spec]:
    """Return filled points, hollow points for doubted marks, and arrows for bounded marks."""
    sure = [_MEASURED, {"filter": "datum.kind == 'sure'"}]
    doubted = [_MEASURED, {"filter": "datum.kind == 'doubted'"}]
    encoding = {**_plain(base), "tooltip": _tooltip(base)}
    encoding |= {"shape": base["shape"]} if "shape" in base else {}
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
        _arrow(base),
    ]


_ARROW_DOWN = "M0,1L0.62,0.3L0.22,0.3L0.22,-1L-0.22,-1L-0.22,0.3L-0.62,0.3Z"
_ARROW_LEFT = "M-1,0L-0.3,0.62L-0.3,0.22L1,0.22L1,-0.22L-0.3,-0.22L-0.3,-0.62Z"
_ARROW_RIGHT = "M1,0L0.3,0.62L0.3,0.22L-1,0.22L-1,-0.22L0.3,-0.22L0.3,-0.62Z"
_ARROW = "M0,-1L0.62,-0.3L0.22,-0.3L0.22,1L-0.22,1L-0.22,-0.3L-0.62,-0.3Z"


def _arrow(base: Spec) -> Spec:
    """Return the up arrows for bounded marks, above the interval so that it does not cross them."""
    encoding = _plain(base)
    encoding |= {"y": {**base["y"], "field": "high"}}
    mark = {"type": "point", "shape": _ARROW, "size": 330, "filled": True, "opacity": 1}
    return {
        "transform": [_MEASURED, {"filter": "datum.bounded"}],
        "mark": {**mark, "yOffset": -16},
        "encoding": encoding,
    }


def _lines(base: Spec) -> list[Spec]:
    through = {"transform": [_MEASURED], "mark": {"type": "line", "strokeWidth": 1.8}}
    path = {key: value for key, value in base.items() if key != "shape"}
    return [{**through, "encoding": path}, _interval(base), *_dots(base)]


def _dodged(layers: Sequence[Spec], names: Sequence[str]) -> list[Spec]:
    """Return layers in which the series stand side by side, so that their intervals do not cover
    each other. With many series, the layers stay as they are."""
    if not 1 < len(names) <= _MOST_DODGED:
        return [*layers]
    dodged = []
    for number, name in enumerate(names):
        only = {"filter": {"field": "series", "equal": name}}
        aside = {"xOffset": _DODGE * (number - (len(names) - 1) / 2)}
        for layer in layers:
            mark = {**layer["mark"], **aside}
            dodged.append({**layer, "transform": [*layer["transform"], only], "mark": mark})
    return dodged


def _points(base: Spec) -> list[Spec]:
    return [_interval(base), *_dots(base)]


def _curves(base: Spec) -> list[Spec]:
    mark = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.8}
    return [
        {
            "transform": [_MEASURED],
            "mark": mark,
            "encoding": {**base, "tooltip": _named_values(base)},
        }
    ]


def _bars(base: Spec) -> list[Spec]:
    hollow = {"condition": {"test": "datum.kind == 'doubted'", "value": 0.25}, "value": 0.9}
    outline = {"stroke": base["color"], "fillOpacity": hollow, "tooltip": _tooltip(base)}
    bar = {"type": "bar", "strokeWidth": 1.5}
    if "domain" in base["y"].get("scale", {}):
        outline |= {
            "y": {**base["y"], "stack": None},
            "y2": {"datum": base["y"]["scale"]["domain"][0]},
        }
    interval = _interval({**base, "color": {"value": INK}})
    return [
        {"transform": [_MEASURED], "mark": bar, "encoding": {**base, **outline}},
        interval,
        _arrow(base),
        *_values(base),
    ]


def _values(base: Spec) -> list[Spec]:
    """Return the values of bars as text above their intervals, arrows, and crosses of published
    values that are alike."""
    encoding = {
        name: value for name, value in base.items() if name not in ("color", "shape", "strokeDash")
    }
    encoding |= {"y": {**base["y"], "field": "high"}}
    number_format = str(base["y"].get("axis", {}).get("format", ".3~r"))
    encoding["text"] = {
        "field": "y",
        "format": ".0%" if "%" in number_format else number_format,
        "type": "quantitative",
    }
    return [
        {
            "name": f"{VALUES}{number}",
            "transform": [_MEASURED, {"filter": condition}],
            "mark": {"type": "text", "dy": dy},
            "encoding": encoding,
        }
        for number, (condition, dy) in enumerate((("!datum.bounded", -13), ("datum.bounded", -34)))
    ]


def _boxes(base: Spec) -> list[Spec]:
    mark = {"type": "boxplot", "extent": "min-max", "size": 18}
    return [{"transform": [_MEASURED], "mark": mark, "encoding": base}]


def _stacks(base: Spec) -> list[Spec]:
    mark = {"type": "bar"}
    y = {**base["y"], "stack": "zero"}
    return [{"mark": mark, "encoding": {**base, "y": y, "tooltip": _tooltip(base)}}]


_UNCERTAIN_OPACITY = 0.45
_DISTANCE = 13
"""The distance of an arrow from its tick, in pixels."""


def _published(base: Spec, *, upright: bool) -> list[Spec]:
    """Return the published values in the colour of their series: crosses, bars for ranges, and
    ticks with arrows for bounds. Ranges and bounds are about the y axis if they are `upright`, else
    about the x axis. Uncertain ones are pale and have a question mark."""
    along = "y" if upright else "x"
    plain = _plain(base)
    faint = {"condition": {"test": "datum.uncertain", "value": _UNCERTAIN_OPACITY}, "value": 1}
    of_all = {"test": "datum.series === ''", "value": GREY}
    colour = {**base["color"], "condition": of_all} if "field" in base["color"] else base["color"]
    encoding = {**plain, "color": colour, "opacity": faint, "tooltip": _tooltip(base)}

    def layer(name: str, mark: Spec, **others: Spec) -> Spec:
        chosen = f"datum.kind == 'published' && ({name})"
        return {
            "transform": [{"filter": chosen}],
            "mark": mark,
            "encoding": {**encoding, **others},
        }

    low, high = ({along: {**base[along], "field": field}} for field in ("low", "high"))
    spanned = {**low, f"{along}2": {"field": "high"}}
    arrow = {"type": "point", "size": 260, "filled": True}
    least = {**arrow, "shape": _ARROW if upright else _ARROW_RIGHT}
    most = {**arrow, "shape": _ARROW_DOWN if upright else _ARROW_LEFT}
    away = _DISTANCE if upright else -_DISTANCE  # y grows downwards
    orient = "horizontal" if upright else "vertical"
    tick = {"type": "tick", "thickness": 2.5, "size": 13, "orient": orient, "opacity": 1}
    cross = {"type": "point", "shape": "cross", "filled": False, "size": 90, "strokeWidth": 2}
    mark = {"type": "text", "text": "?", "dx": 11, "fontWeight": "bold", "fontSize": 13}
    mark |= {} if upright else {"dy": -11}
    halo = {"value": "white"}
    return [
        layer("datum.as == 'value'", {**cross, "strokeWidth": 5.5, "opacity": 0.9}, color=halo),
        layer("datum.as == 'value'", cross),
        layer("datum.as == 'range'", {"type": "rule", "size": 5.5}, **spanned, color=halo),
        layer("datum.as == 'range'", {"type": "rule", "size": 2.5}, **spanned),
        layer("datum.as == 'range'", tick, **low),
        layer("datum.as == 'range'", tick, **high),
        layer("datum.as == 'least' || datum.as == 'most'", tick),
        layer("datum.as == 'least'", {**least, f"{along}Offset": -away}),
        layer("datum.as == 'most'", {**most, f"{along}Offset": away}),
        layer("datum.uncertain", mark),
    ]


_DASHED = {"strokeDash": [5, 4], "color": INK}
_SAID = {"type": "text", "color": GREY, "baseline": "bottom", "dy": -3}
_HELD_TOOLTIP = [
    {"field": "series", "title": "line"},
    {"field": "y", "title": "value", "format": ".4~g"},
    {"field": "low", "title": "from", "format": ".4~g"},
    {"field": "high", "title": "to", "format": ".4~g"},
]


def _across(*, named: bool) -> list[Spec]:
    """Return horizontal lines with their intervals, and with their names if they are `named`."""
    chosen = [{"filter": "datum.kind == 'across'"}]
    y, low = ({"field": name, "type": "quantitative"} for name in ("y", "low"))
    band = {"type": "rect", "color": GREY, "opacity": 0.1}
    text: Spec = {"y": y, "text": {"field": "label"}}
    below = {"baseline": "top", "dy": 3}  # the first line is the highest
    sides: tuple[tuple[str, Spec, Spec], ...]
    sides = (("left", {"value": 4}, {}), ("right", {"value": "width"}, below))
    names: list[Spec] = [
        {
            "transform": [*chosen, {"filter": f"datum.side == '{side}'"}],
            "mark": {**_SAID, "align": side, **below},
            "encoding": {**text, "x": x},
        }
        for side, x, below in sides
    ]
    return [
        {"transform": chosen, "mark": band, "encoding": {"y": low, "y2": {"field": "high"}}},
        {
            "transform": chosen,
            "mark": {"type": "rule", **_DASHED},
            "encoding": {"y": y, "tooltip": _HELD_TOOLTIP},
        },
        *(names if named else ()),
    ]


def _along(x: Spec, *, ticks: bool) -> list[Spec]:
    """Return lines along the x axis, with the name of a line at its maximum. With `ticks`, return a
    tick for each bar."""
    chosen = [{"filter": "datum.kind == 'along'"}]
    y, low = ({"field": name, "type": "quantitative"} for name in ("y", "low"))
    of, detail = {"x": x, "y": y}, {"detail": {"field": "series"}}
    if ticks:
        tick = {"type": "tick", "thickness": 2, "color": GREY}
        encoding = {**of, "tooltip": _HELD_TOOLTIP}
        return [{"transform": chosen, "mark": tick, "encoding": encoding}]
    band = {"type": "area", "color": GREY, "opacity": 0.1}
    within = {"x": x, "y": low, "y2": {"field": "high"}, **detail}
    return [
        {"transform": chosen, "mark": band, "encoding": within},
        {
            "transform": chosen,
            "mark": {"type": "line", **_DASHED},
            "encoding": {**of, **detail, "tooltip": _HELD_TOOLTIP},
        },
        *(_named(of, side, align, dx) for side, align, dx in _SIDES),
    ]


_SIDES = (("right", "left", 4), ("left", "right", -4))


def _named(of: Spec, side: str, align: str, dx: int) -> Spec:
    """Return the names of lines on one side of a point."""
    return {
        "transform": [{"filter": f"datum.named == '{side}'"}],
        "mark": {**_SAID, "align": align, "dx": dx},
        "encoding": {**of, "text": {"field": "series"}},
    }


def _references(chart: Chart, x: Spec) -> list[Spec]:
    layers: list[Spec] = []
    if any(reference.x is None for reference in chart.references):
        layers += _across(named=chart.kind != "bars")  # a bar may cover a name
    if any(reference.x is not None for reference in chart.references):
        layers += _along(x, ticks=chart.kind == "bars")
    if chart.diagonal:
        ends = [float(mark.x) for mark in chart.marks if not isinstance(mark.x, str)]
        data = {"values": [{"x": end, "y": end} for end in (min(ends), max(ends))]} if ends else {}
        encoding = {name: {"field": name, "type": "quantitative"} for name in ("x", "y")}
        line = {"type": "line", "strokeDash": [2, 3], "color": GREY, "clip": True}
        layers += [{"data": data, "mark": line, "encoding": encoding}] if ends else []
    return layers


def _second(chart: Chart, place: Spec, scale: Scale) -> Spec:
    """Return the marks on the scale on the right: a dashed line for each series with white squares,
    or crosses for published values."""
    y = {**_upright(_scale(scale, "y")), "axis": {"orient": "right", "grid": False}}
    several = len({mark.series for mark in chart.second}) > 1
    colour = _colour(chart)["color"] if several else {"value": GREY}
    base = {**place, "y": y, "color": colour}
    dashed = {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1.2}
    line = {"transform": [_MEASURED], "mark": dashed, "encoding": base}
    shape = {
        "condition": {"test": "datum.kind == 'published'", "value": "cross"},
        "value": "square",
    }
    dots = {
        "mark": {"type": "point", "size": 60, "fill": "white", "opacity": 1, "strokeWidth": 2},
        "encoding": {**base, "shape": shape, "tooltip": _tooltip(base)},
    }
    return {"data": {"values": [row_of(mark) for mark in chart.second]}, "layer": [line, dots]}


def _heat(chart: Chart, x: Spec) -> list[Spec]:
    rows: Sequence[str] = chart.series_names()
    y: Spec = {"field": "series", "type": "nominal", "sort": list(rows), "title": chart.series}
    colour: Spec = {"field": "y", "type": "quantitative", "title": chart.y.title}
    colour["scale"] = {"scheme": "viridis"}
    cell = {"x": x, "y": y}
    ink = {"condition": {"test": _bright(chart), "value": "black"}, "value": "white"}
    cells = [
        {"field": "series", "title": chart.series},
        {"field": "x", "title": chart.x.title},
        {"field": "y", "title": chart.y.title, "format": ".4~g"},
    ]
    label = {**cell, "text": {"field": "y", "format": ".3s"}, "color": ink}
    return [
        {"mark": "rect", "encoding": {**cell, "color": colour, "tooltip": cells}},
        {"mark": {"type": "text"}, "encoding": label},
    ]


def _bright(chart: Chart) -> str:
    values = [mark.y for mark in chart.marks]
    return f"datum.y > {(min(values) + max(values)) / 2}" if values else "true"
