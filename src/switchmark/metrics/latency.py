"""Latency of a test: the trials' histograms merged, and percentiles only where they mean much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from switchmark.model.record import Latency, Record

__all__ = ["HIGHEST_NS", "from_counts", "latency_ns"]

HIGHEST_NS = 100_000_000_000
"""The highest latency that the traffic program tells apart (`traffic/src/histogram.h`)."""

_PERCENTILES = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}
"""In thousandths."""

_MIN_BEYOND = 10


def latency_ns(record: Record) -> dict[str, Any] | None:
    """`latency_ns`: nanoseconds of all frames of all trials; None where none was measured.

    A percentile is None unless at least ten samples lie beyond it. Minimum, mean and maximum
    are exact; percentiles are the histogram's, three digits of them.
    """
    found = [trial.latency for trial in record.trials if trial.latency and trial.latency.count]
    if not found:
        return None
    count = sum(latency.count for latency in found)
    highest = max(latency.max for latency in found)
    return {
        "kind": found[0].kind,
        "count": count,
        "min": min(latency.min for latency in found),
        "mean": sum(latency.mean * latency.count for latency in found) / count,
        **_percentiles(found, count, highest),
        "max": highest,
    }


def _percentiles(found: Sequence[Latency], count: int, highest: int) -> dict[str, int | None]:
    told = [name for name, p in _PERCENTILES.items() if count * (1000 - p) >= _MIN_BEYOND * 1000]
    values: dict[str, int | None] = dict.fromkeys(_PERCENTILES)
    if len(found) == 1:
        values.update({name: getattr(found[0], name) for name in told})
    elif told and all(latency.histogram for latency in found):
        from hdrh.histogram import HdrHistogram

        merged = HdrHistogram.decode(found[0].histogram)
        for latency in found[1:]:
            merged.add(HdrHistogram.decode(latency.histogram))
        for name in told:
            value = merged.get_value_at_percentile(_PERCENTILES[name] / 10)
            values[name] = min(int(value), highest)
    return values


def from_counts(
    kind: Literal["rtt", "one-way"], histograms: Sequence[Mapping[str, Any]]
) -> Latency | None:
    """A trial's latency from the traffic program's histograms: `count`, `min`, `max`, `sum` in
    nanoseconds and `counts`, pairs of HdrHistogram's index and count. None without samples."""
    found = [histogram for histogram in histograms if histogram["count"]]
    if not found:
        return None
    from hdrh.histogram import HdrHistogram

    merged = HdrHistogram(1, HIGHEST_NS, 3)
    for histogram in found:
        for index, times in histogram["counts"]:
            merged.record_value(_value(index), times)
    count = sum(histogram["count"] for histogram in found)
    highest = max(histogram["max"] for histogram in found)
    percentiles = {
        name: min(int(merged.get_value_at_percentile(p / 10)), highest)
        if count * (1000 - p) >= _MIN_BEYOND * 1000
        else None
        for name, p in _PERCENTILES.items()
    }
    return Latency(
        kind=kind,
        count=count,
        min=min(histogram["min"] for histogram in found),
        mean=sum(histogram["sum"] for histogram in found) / count,
        **percentiles,
        max=highest,
        histogram=merged.encode().decode(),
    )


def _value(index: int) -> int:
    """The lowest value that HdrHistogram counts at this index (2048 sub-buckets)."""
    bucket, sub = (index >> 10) - 1, index & 1023
    return sub if bucket < 0 else (sub + 1024) << bucket
