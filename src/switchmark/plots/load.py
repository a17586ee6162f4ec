"""Plots against the offered load: received rate, loss and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.named import metric
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.plots.base import mark_of, measured, scale_of_metric, split, words_of
from switchmark.plots.chart import Chart, Mark, Scale
from switchmark.plots.references import references

_OFFERED = metric("offered.mpps")
_FEWEST = 3
_FAR_APART = 10
"""The ratio of the largest to the smallest latency above which the scale is logarithmic."""


class _AgainstLoad:
    def __init__(
        self, name: str, summary: str, metric_name: str, *, diagonal: bool = False
    ) -> None:
        self.name, self.summary = name, summary
        self._metric, self._diagonal = metric_name, diagonal

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Draw tests of one path with different rates, or the loads of a search."""
        log = self._metric.startswith("latency")
        chosen = [
            r for r in measured(records) if not r.test.parsed_rate.is_max or (log and r.search)
        ]
        series, panels = split(chosen, "rate")
        marks: list[Mark] = []
        for record in chosen:
            labels = words_of(record.test, series), words_of(record.test, panels)
            if record.search:
                marks += _loads_of(record, *labels) if log else []
                continue
            offered = _OFFERED.of(record)
            mark = mark_of(record, self._metric, offered or 0.0, *labels)
            marks += [mark] if mark and offered else []
        loads: dict[tuple[str, str], int] = {}
        for mark in marks:
            loads[mark.series, mark.panel] = loads.get((mark.series, mark.panel), 0) + 1
        if not any(count >= _FEWEST for count in loads.values()):
            return None
        ends = [mark.y for mark in marks]
        log = log and max(ends) > _FAR_APART * min(ends)
        y = replace(scale_of_metric(self._metric, log=log), percent=self._metric == "loss_ratio")
        return Chart(
            self.name,
            self.summary,
            f"{self.summary}, for {len(loads)} paths and {len(marks)} loads.",
            "lines",
            Scale("offered by all senders (Mpps)"),
            y,
            tuple(sorted(marks, key=lambda mark: (mark.series, mark.panel, mark.x))),
            series=", ".join(AXES[name].label for name in series),
            diagonal=self._diagonal,
            references=references(
                chosen,
                self._metric,
                lambda r: (None, words_of(r.test, series), words_of(r.test, panels)),
                max(mark.y for mark in marks),
            ),
        )


def _loads_of(record: Record, series: str, panel: str) -> list[Mark]:
    """Return the median latencies at the loads of a search, which have no intervals."""
    senders = record.test.pairs * (2 if record.test.direction == "bi" else 1)
    return [
        Mark(
            goal.rate_pps * senders / 1e6,
            goal.latency_ns.p50 / 1e3,
            series,
            panel,
            doubted=is_doubtful(record.doubts),
            switch=record.test.switch,
            note=f"limit: {goal.verdict or record.verdict}",
            key=record.key[:16],
        )
        for goal in (record.search.goals if record.search else ())
        if goal.rate_pps and goal.latency_ns and goal.latency_ns.p50
    ]


RECEIVED = _AgainstLoad("received-against-offered", "Received rate against offered load", "rx.mpps",
                        diagonal=True)  # fmt: skip
LOSS = _AgainstLoad("loss-against-offered", "Loss against offered load", "loss_ratio")
LATENCY = _AgainstLoad(
    "latency-against-load", "Median latency against offered load", "latency.p50_us"
)
