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
        chosen = [record for record in records if of_latency(record.test) == latency]
        return along(self.name, self.summary, chosen, self.axis, self.metric)


PLOTS = (
    _Along("rate-against-pairs", "Received rate by number of pairs", "pairs", "rx.mpps"),
    _Along("rate-against-chain", "Received rate by length of the chain", "chain", "rx.mpps"),
    _Along("rate-against-chains", "Received rate by number of chains", "chains", "rx.mpps"),
    _Along("rate-against-flows", "Received rate by number of flows", "flows", "rx.mpps"),
    _Along("rate-against-copies", "Received rate by number of copies", "copies", "rx.mpps"),
    _Along("rate-against-cores", "Received rate by CPUs of the switch", "switch-cores", "rx.mpps"),
    _Along("rate-against-burst", "Received rate by burst size", "burst", "rx.mpps"),
    _Along("latency-against-burst", "Mean latency by burst size", "burst", "latency.mean_us"),
    _Along("latency-against-size", "Mean latency by frame size", "frame-size", "latency.mean_us"),
    _Along(
        "latency-against-chain", "Mean latency by length of the chain", "chain", "latency.mean_us"
    ),
)
