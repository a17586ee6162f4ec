"""The table of plots. To add a plot, add its file and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.record import Record
from switchmark.plots import cost, counts, latency, load, outage, over_time, ranking, size
from switchmark.plots.base import Plot
from switchmark.plots.chart import Chart
from switchmark.plots.scales import in_handy_units
from switchmark.plugins import Table, load_plugins

_FEW_PANELS = 4

TABLE: Table[Plot] = load_plugins(
    "switchmark.plots",
    Plot,  # type: ignore[type-abstract]
    (
        ranking.BARS,
        size.RATE,
        size.GBPS,
        load.RECEIVED,
        load.LOSS,
        load.LATENCY,
        latency.CDF,
        latency.PERCENTILES,
        outage.RECEIVED,
        outage.LATENCY,
        over_time.RECEIVED,
        over_time.LATENCY,
        *counts.PLOTS,
        ranking.HEAT,
        cost.CORES,
        cost.PARTS,
        ranking.BOXES,
    ),
)


def charts(records: Sequence[Record]) -> list[Chart]:
    """Return the charts of all plots that apply to these records, in the order of the table.

    A chart along an axis precedes the bars of all tests if these would need a panel for each value
    of the axis or would omit tests. It replaces them if it has the same bars, or if they would need
    many panels.
    """
    drawn = (plot.draw(records) for plot in TABLE.values())
    charts = [in_handy_units(chart) for chart in drawn if chart is not None]
    answer = next((chart for chart in charts if chart.along or chart.kind == "lines"), None)
    if answer is None or charts[0].kind != "bars":
        return charts
    if len(charts[0].panel_names()) > 1 or len(charts[0].marks) < len(answer.marks):
        bars = charts.pop(0)
        charts.remove(answer)
        few = len(bars.panel_names()) <= _FEW_PANELS and answer.kind == "lines"
        charts[:0] = [answer, bars] if few else [answer]
    return charts
