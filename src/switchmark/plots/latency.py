"""Plots of latency distributions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from switchmark.metrics.distribution import cdf
from switchmark.metrics.doubts import is_doubtful
from switchmark.model.record import Record
from switchmark.plots.base import measured, split, words_of
from switchmark.plots.chart import Chart, Mark, Scale

_POINTS, _FEWEST_POINTS, _ALL_POINTS = 300, 20, 9000
"""Points of a curve: the usual and the least number, and the limit for all curves together. More
points of a curve are not visible."""

_NEAR_END = 0.99
"""The share beyond which all points are kept."""

_SURE = 10
"""The number of samples that must lie beyond a percentile for it to be drawn."""


class _Distribution:
    name = "latency-distribution"
    summary = "Latency distribution (CDF)"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        marks = _curves(records, lambda late, share, count: (late, share))
        x, y = Scale("latency (us)", log=True), Scale("share of the frames", percent=True)
        return _chart(self.name, self.summary, marks, x, y)


class _Percentiles:
    name = "latency-percentiles"
    summary = "Tail latency (p90, p99, p99.9, ...)"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        marks = _curves(records, _beyond)
        x = Scale("percentile", log=True, tail=True)
        return _chart(self.name, self.summary, marks, x, Scale("latency (us)", log=True))


def _beyond(late: float, share: float, count: int) -> tuple[float, float] | None:
    """Return a percentile as the number of frames with one later frame among them; None if too few
    samples lie beyond it."""
    return (1 / (1 - share), late) if (1 - share) * count >= _SURE else None


def _curves(records: Sequence[Record], placed: object) -> list[Mark]:
    chosen = [record for record in measured(records) if cdf(record)]
    series, panels = split(chosen)
    points = max(_FEWEST_POINTS, min(_POINTS, _ALL_POINTS // max(1, len(chosen))))
    marks = []
    for record in chosen:
        count = sum(trial.latency.count for trial in record.trials if trial.latency)
        labels = words_of(record.test, series), words_of(record.test, panels)
        note = f"limit: {record.verdict}"
        for late, share in thinned(cdf(record), points):
            position = placed(late, share, count)  # type: ignore[operator]
            if position is not None and position[0] > 0 and position[1] > 0:
                marks.append(
                    Mark(
                        position[0],
                        position[1],
                        *labels,
                        doubted=is_doubtful(record.doubts),
                        switch=record.test.switch,
                        note=note,
                        key=record.key[:16],
                    )
                )
    return marks


def thinned(
    points: Sequence[tuple[float, float]], most: int = _POINTS
) -> list[tuple[float, float]]:
    """Return about `most` points including the last one, densest at the tail."""
    step, index = 1 / most, 0
    end = bisect_right(points, _NEAR_END, key=_share)
    thinned: list[tuple[float, float]] = []
    while index < end:
        thinned.append(points[index])
        index = max(index + 1, bisect_left(points, points[index][1] + step, index, key=_share))
    thinned += points[end:]
    return (
        thinned
        if len(thinned) <= 2 * most
        else [*thinned[:: -(-len(thinned) // most)], thinned[-1]]
    )


def _share(point: tuple[float, float]) -> float:
    return point[1]


def _chart(name: str, title: str, marks: Sequence[Mark], x: Scale, y: Scale) -> Chart | None:
    if not marks:
        return None
    curves = len({(mark.series, mark.panel) for mark in marks})
    says = f"{title}: {curves} curves of {y.title} against {x.title}."
    return Chart(name, title, says, "curves", x, y, tuple(marks))


CDF = _Distribution()
PERCENTILES = _Percentiles()
