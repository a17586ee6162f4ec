"""Statistics from stored latency histograms: any percentile, the standard deviation, and the CDF.

Values from a histogram are accurate to three digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt

from switchmark.metrics.latency import counts_of, value_at
from switchmark.model.latency import Latency
from switchmark.model.record import Record

_MIN_BEYOND = 10
"""The number of samples that must lie on both sides of a percentile for it to be reported."""


@lru_cache(maxsize=8192)
def percentile_ns(latency: Latency, percent: Fraction) -> int | None:
    """Return the upper end of the histogram bin that holds the percentile, at most the maximum
    latency. None without a histogram, or if too few samples lie beyond the percentile."""
    share = percent / 100
    if latency.histogram is None or latency.count * min(share, 1 - share) < _MIN_BEYOND:
        return None
    rank, counted = ceil(latency.count * share), 0
    for index, times in counts_of(latency.histogram).items():
        counted += times
        if counted >= rank:
            return min(value_at(index + 1) - 1, latency.max)
    return latency.max


@lru_cache(maxsize=2048)
def stdev_ns(latency: Latency) -> float | None:
    """Return the standard deviation of the samples; None if there are fewer than two samples or no
    histogram.

    A sample counts as the middle of its bin.
    """
    if latency.histogram is None or latency.count < 2:
        return None
    middles = {
        (value_at(index) + value_at(index + 1) - 1) / 2: times
        for index, times in counts_of(latency.histogram).items()
    }
    mean = _mean(middles)
    squares = sum(times * (value - mean) ** 2 for value, times in middles.items())
    return sqrt(squares / (latency.count - 1))


def cdf(record: Record) -> list[tuple[float, float]]:
    """Return the CDF of all latencies of a test: pairs of microseconds and the share of samples
    that are not greater. Empty if no latency was measured or a histogram is missing."""
    latencies = [trial.latency for trial in record.trials if trial.latency and trial.latency.count]
    if not latencies or any(latency.histogram is None for latency in latencies):
        return []
    highest = max(latency.max for latency in latencies)
    return list(_points(tuple(latency.histogram or "" for latency in latencies), highest))


@lru_cache(maxsize=1024)
def _points(histograms: tuple[str, ...], highest: int) -> tuple[tuple[float, float], ...]:
    counts: Counter[int] = Counter()
    for histogram in histograms:
        counts.update(counts_of(histogram))
    total, counted, points = sum(counts.values()), 0, []
    for index in sorted(counts):
        counted += counts[index]
        points.append((min(value_at(index + 1) - 1, highest) / 1e3, counted / total))
    return tuple(points)


def _mean(values: Mapping[float, int]) -> float:
    return sum(value * times for value, times in values.items()) / sum(values.values())
