"""A trend as an HTML page: the outcome, a table of all series, and charts of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.trend import LEVEL
from switchmark.plots.chart import Chart, Mark, Reference, Scale
from switchmark.plots.scales import in_handy_units
from switchmark.report.headline import circumstances
from switchmark.report.page import figure_of_page, html_table, page_of
from switchmark.report.trend import Series, Trend
from switchmark.report.trend_text import (
    HEAD,
    change_lines,
    name_of,
    notes_of,
    result_line,
    row,
    state,
)

_MEASURED, _ADJUSTED, _CABLE = "measured", "adjusted by the baseline", "baseline"

_STILLS = 12
"""The number of charts with a static picture."""

_AXES = {"time": "time since the first run (days)", "run": "run", "version": "version"}

_UNITS = {"pps": (1e-6, "received rate (Mpps)"), "ns": (1e-3, "latency (us)")}
"""The factor from the unit of a figure to that of its chart, and the title of the axis."""


def page_of_trend(trend: Trend) -> str:
    """Return the page of a trend. Series with changes come first."""
    series = sorted(trend.series, key=lambda one: (not one.is_worse, not one.changes))
    drawn: list[Chart] = []
    parts = ["<main id='main'>"]
    if trend.conditions:
        parts.append(f"<p class='answer'>{escape(result_line(trend))}</p>")
        parts += [
            f"<p class='answer'>{escape(name_of(failure.series, trend))}: "
            f"{escape(failure.condition)}: {escape(failure.reason)}</p>"
            for failure in trend.failures
        ]
    rows = [(*row(one, trend), state(one, trend).partition(":")[0]) for one in series]
    parts.append(
        html_table(f"{len(series)} series of {len(trend.runs)} runs", (*HEAD, "result"), rows)
    )
    parts += [f"<p>{escape(note)}</p>" for note in notes_of(trend)]
    for number, one in enumerate(series):
        label = f"series-{number}"
        parts.append(
            f"<section aria-labelledby='{label}'><h2 id='{label}'>"
            f"{escape(name_of(one, trend))}, {escape(one.figure.name)}</h2>"
        )
        parts += [f"<p>{escape(line)}</p>" for line in change_lines(one) or ["no change"]]
        for chart in map(in_handy_units, charts_of(one, trend)):
            parts.append(figure_of_page(chart, len(drawn), still=len(drawn) < _STILLS))
            drawn.append(chart)
        parts.append("</section>")
    parts += [
        "<section><h2>Method</h2><p>Each run is judged by the runs before it. A change is shown if"
        f" chance alone shows one as large in less than 1 of {1 / LEVEL:.0f} runs. p is that"
        " probability.</p></section></main>"
    ]
    records = [night.record for one in series for night in one.nights]
    head = f"Trend of {len(trend.runs)} runs"
    return page_of(f"switchmark: {head}", parts, drawn, top=(head, circumstances(records)))


def charts_of(series: Series, trend: Trend) -> list[Chart]:
    """Return the charts of a series: the judged figure of each night with the level of each state,
    and if that is adjusted by the baseline, the measured figure and the baseline."""
    factor, title = _UNITS.get(series.figure.unit, (1.0, series.figure.name))
    places = [trend.x(series, night) for night in series.nights]
    names = tuple(str(place) for place in dict.fromkeys(places)) if trend.place != "time" else ()
    name = name_of(series, trend)

    def marks(figure: str, values: Sequence[float | None]) -> list[Mark]:
        return [
            Mark(
                x,
                factor * value,
                figure,
                doubted=figure != _CABLE and is_doubtful(night.record.doubts),
                note=night.run,
            )
            for x, value, night in zip(places, values, series.nights, strict=True)
            if value is not None
        ]

    def chart(kind: str, drawn: Sequence[Mark], held: Sequence[Reference] = ()) -> Chart:
        return Chart(
            f"trend-{kind.replace(' ', '-')}",
            f"{name}: {series.figure.name}, {kind}",
            f"{name}: {series.figure.name} of {len(places)} runs, {kind}.",
            "lines" if trend.place != "version" else "points",
            Scale(_AXES[trend.place], categories=names),
            Scale(title, zero=False),
            tuple(drawn),
            series="figure",
            references=tuple(held),
            order=(_MEASURED, _CABLE),
        )

    levels = [
        Reference(factor * series.level(one), "level", x=places[index], unit=_unit(title))
        for one in series.states
        for index in dict.fromkeys((one.start, one.end - 1))
    ]
    judged = _ADJUSTED if series.uses_cable else _MEASURED
    charts = [chart(judged, marks(judged, series.values), levels)]
    if series.uses_cable:
        measured = marks(_MEASURED, [night.value for night in series.nights])
        cables = marks(_CABLE, [night.cable for night in series.nights])
        charts.append(chart("measured and baseline", [*measured, *cables]))
    return charts


def _unit(title: str) -> str:
    return Scale(title).unit
