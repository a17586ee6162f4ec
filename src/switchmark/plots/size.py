"""Plots of the rate against the frame size."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.throughput import of_latency
from switchmark.model.record import Record
from switchmark.plots.base import along
from switchmark.plots.chart import Chart


class _AgainstSize:
    def __init__(self, name: str, summary: str, metric: str) -> None:
        self.name, self.summary, self._metric = name, summary, metric

    def draw(self, records: Sequence[Record]) -> Chart | None:
        rates = [record for record in records if not of_latency(record.test)]
        return along(self.name, self.summary, rates, "frame-size", self._metric)


RATE = _AgainstSize("rate-against-size", "Received rate by frame size", "rx.mpps")
GBPS = _AgainstSize("gbps-against-size", "Received rate in bits by frame size", "rx.gbps_l1")
