"""Plots of a rate or a latency against a count: pairs, functions in a row, flows, copies, CPUs, and
frames in a burst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.metrics.throughput import of_latency
from switchmark.model.record import Record
from switchmark.plots.base import along
from switchmark.plots.chart import Chart


@dataclass
class _Along:
    name: str
    summary: str
    axis: str
    metric: str

    def draw(self, records: Sequence[Record]) -> Chart | None:
        latency = self.metric.startswith("latency")
        shown = [record for record in records if of_latency(record.test) == latency]
        return along(self.name, self.summary, shown, self.axis, self.metric)


PLOTS = (
    _Along("rate-against-pairs", "Rate of all pairs together", "pairs", "rx.mpps"),
    _Along("rate-against-chain", "Rate through functions in a row", "chain", "rx.mpps"),
    _Along("rate-against-chains", "Rate of chains side by side", "chains", "rx.mpps"),
    _Along("rate-against-flows", "Rate with more flows", "flows", "rx.mpps"),
    _Along("rate-against-copies", "Rate with more copies of a frame", "copies", "rx.mpps"),
    _Along("rate-against-cores", "Rate with more CPUs", "switch-cores", "rx.mpps"),
    _Along("rate-against-burst", "Rate with longer bursts", "burst", "rx.mpps"),
    _Along("latency-against-burst", "Latency with longer bursts", "burst", "latency.mean_us"),
    _Along("latency-against-size", "Latency at each frame size", "frame-size", "latency.mean_us"),
    _Along(
        "latency-against-chain", "Latency through functions in a row", "chain", "latency.mean_us"
    ),
)
