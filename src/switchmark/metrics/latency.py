"""Latency of trials: exact merging of histograms, percentiles with enough samples, and delay
variation (RFC 5481)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from switchmark.errors import UsageError
from switchmark.metrics.uncertainty import error_of
from switchmark.model.cable import CableLatency, NoCableLatency
from switchmark.model.latency import (
    Lag,
    Latency,
    LatencyFigures,
    Stamps,
    Variation,
    VariationFigures,
)
from switchmark.model.objects import Message
from switchmark.model.record import Record, TrialResult

HIGHEST_NS = 100_000_000_000
"""The highest latency that the traffic program's histogram can hold (`traffic/src/histogram.h`)."""

PERCENTILES = {
    "p50": 500_000,
    "p90": 900_000,
    "p99": 990_000,
    "p999": 999_000,
    "p9999": 999_900,
    "p99999": 999_990,
    "p999999": 999_999,
}
"""Percentiles in millionths."""

MIN_BEYOND = 10
"""The samples that must lie beyond a percentile; it is None with fewer."""

_ALL = 1_000_000
_OF_VARIATION = ("p50", "p90", "p99", "p999")

_Counts = Mapping[int, int]
"""Samples by the index of HdrHistogram (lowest 1, three digits)."""


def latency_ns(record: Record) -> LatencyFigures | None:
    """Return the field `latency_ns` of a test: the latency over all its trials."""
    return latency_of(record.trials)


def cable_latency_ns(record: Record) -> CableLatency | NoCableLatency | None:
    """Return the field `latency_floor_ns` of a test: the baseline latency of the cable, and whether
    it is valid for this test. None if the record has no baseline."""
    floor = record.floor
    if floor is None:
        return None
    latency = latency_of(record.trials)
    median, cable = (
        latency.p50 if latency else None,
        floor.p50 if isinstance(floor, CableLatency) else None,
    )
    holds = None if median is None or cable is None else cable <= median
    return floor.model_copy(update={"holds": holds})


def latency_of(trials: Sequence[TrialResult]) -> LatencyFigures | None:
    """Return the latency of all frames of some trials; None if no latency was measured. Minimum,
    mean and maximum are exact. Percentiles come from the histogram and have three digits."""
    figures = figures_of([trial.latency for trial in trials if trial.latency])
    if figures is None:
        return None
    unsure = [bounds for trial in trials if (bounds := trial.evidence.unsure_ns)]
    if unsure:
        figures = figures.model_copy(update={"unsure_ns": max(unsure)})
    error = error_of(figures, trials, _earliest_median(trials))
    return figures if error is None else figures.model_copy(update={"error": error})


def _earliest_median(trials: Sequence[TrialResult]) -> int | None:
    """Return the median latency of some trials if their frames had arrived at the earliest possible
    time, right after the poll before their detection; None if a trial has no such data."""
    sampled = [trial.latency for trial in trials if trial.latency and trial.latency.count]
    texts = [latency.earliest for latency in sampled if latency.earliest is not None]
    if not texts or len(texts) < len(sampled):
        return None
    return _median_of(tuple(texts), max(latency.max for latency in sampled))


@lru_cache(maxsize=1024)
def _median_of(histograms: tuple[str, ...], highest: int) -> int | None:
    counts: Counter[int] = Counter()
    for text in histograms:
        counts.update(counts_of(text))
    return _percentiles(counts, sum(counts.values()), highest, ("p50",))["p50"]


def figures_of(parts: Sequence[Latency]) -> LatencyFigures | None:
    """Return the combined figures of several latencies; None without samples."""
    whole = merged(parts, histogram=False)
    if whole is None:
        return None
    members = whole.model_dump(exclude={"histogram", "earliest", "ipdv"})
    ipdv = None
    if whole.ipdv is not None:
        ipdv = VariationFigures(**whole.ipdv.model_dump(exclude={"histogram"}))
    pdv = None if whole.p999 is None else whole.p999 - whole.min
    return LatencyFigures(**members, pdv=pdv, ipdv=ipdv)


def merged(parts: Sequence[Latency], *, histogram: bool = True) -> Latency | None:
    """Return several latencies merged into one; None without samples.

    If one of them has no histogram, the merged latency has no percentiles. A merged `histogram` is
    written only on request, because encoding takes longer than all other steps together.
    """
    sampled = tuple(part for part in parts if part.count)
    if len(sampled) <= 1:
        return sampled[0] if sampled else None
    return _merged(sampled, histogram)


@lru_cache(maxsize=1024)
def _merged(sampled: tuple[Latency, ...], histogram: bool) -> Latency:
    variations = [part.ipdv for part in sampled if part.ipdv and part.ipdv.count]
    return Latency(
        kind=sampled[0].kind,
        **_summary(sampled, tuple(PERCENTILES), histogram),
        earliest=_earliest(sampled) if histogram else None,
        ipdv=Variation(**_summary(variations, _OF_VARIATION, histogram)) if variations else None,
    )


def _earliest(parts: Sequence[Latency]) -> str | None:
    counts: Counter[int] = Counter()
    for part in parts:
        if part.earliest is None:
            return None
        counts.update(counts_of(part.earliest))
    return _encoded(counts)


def _summary(
    parts: Sequence[Latency] | Sequence[Variation], names: Sequence[str], histogram: bool
) -> dict[str, Any]:
    count = sum(part.count for part in parts)
    highest = max(part.max for part in parts)
    texts = [part.histogram for part in parts if part.histogram is not None]
    is_complete = len(texts) == len(parts)
    counts: Counter[int] = Counter()
    for text in texts if is_complete else ():
        counts.update(counts_of(text))
    return {
        "count": count,
        "min": min(part.min for part in parts),
        "mean": sum(part.mean * part.count for part in parts) / count,
        "max": highest,
        **_percentiles(counts, count, highest, names),
        "histogram": _encoded(counts) if is_complete and histogram else None,
    }


def from_counts(
    kind: Literal["rtt", "one-way"],
    histograms: Sequence[Message],
    variations: Sequence[Message] = (),
    earliest: Sequence[Message] = (),
) -> Latency | None:
    """Return the latency of a trial from the traffic program's histograms; None without samples.

    A histogram has `count`, `min`, `max` and `sum` in nanoseconds, and `counts`: pairs of
    HdrHistogram's index and count. `variations` are the histograms of IPDV, and `earliest` those of
    the latencies with the earliest possible arrival times.
    """
    members = _described(histograms, tuple(PERCENTILES))
    varied = _described(variations, _OF_VARIATION)
    if members is None:
        return None
    early = _described(earliest, ())
    return Latency(
        kind=kind,
        **members,
        earliest=early and early["histogram"],
        ipdv=None if varied is None else Variation(**varied),
    )


def lags_of(reports: Mapping[str, Sequence[Message]]) -> dict[str, Lag]:
    """Return by flow how far its senders lagged behind schedule, from the traffic program's
    histograms. Flows without a schedule are left out."""
    lags = {
        flow: _described([task["lag"] for task in tasks if "lag" in task], _OF_VARIATION)
        for flow, tasks in reports.items()
    }
    return {flow: Lag(**figures) for flow, figures in lags.items() if figures is not None}


def stamps_of(received: Mapping[str, Message]) -> dict[str, Stamps]:
    """Return by flow the source of its receive timestamps and their uncertainty. Flows without
    timestamps or frames are left out."""
    stamps = {}
    for flow, report in received.items():
        stamped = report.get("stamps")
        width = stamped and _described([stamped["width"]], ("p50", "p99"))
        if stamped and width:
            figures = {name: width[name] for name in ("p50", "p99", "max")}
            stamps[flow] = Stamps(by=stamped["by"], noted=stamped["noted"], **figures)
    return stamps


def _described(histograms: Sequence[Message], names: Sequence[str]) -> dict[str, Any] | None:
    sampled = [histogram for histogram in histograms if histogram["count"]]
    if not sampled:
        return None
    counts: Counter[int] = Counter()
    for histogram in sampled:
        for index, times in histogram["counts"]:
            counts[index] += times
    count = sum(histogram["count"] for histogram in sampled)
    highest = max(histogram["max"] for histogram in sampled)
    return {
        "count": count,
        "min": min(histogram["min"] for histogram in sampled),
        "mean": sum(histogram["sum"] for histogram in sampled) / count,
        "max": highest,
        **_percentiles(counts, count, highest, names),
        "histogram": _encoded(counts),
    }


def _percentiles(
    counts: _Counts, count: int, highest: int, names: Sequence[str]
) -> dict[str, int | None]:
    """Return the upper end of the bin that holds each percentile, at most the maximum."""
    values: dict[str, int | None] = dict.fromkeys(names)
    ranks = [
        (-(-count * PERCENTILES[name] // _ALL), name)
        for name in names
        if count * (_ALL - PERCENTILES[name]) >= MIN_BEYOND * _ALL
    ]
    counted, waiting = 0, iter(ranks)
    rank, name = next(waiting, (0, ""))
    for index in sorted(counts):
        counted += counts[index]
        while name and rank <= counted:
            values[name] = min(value_at(index + 1) - 1, highest)
            rank, name = next(waiting, (0, ""))
    return values


def _encoded(counts: _Counts) -> str:
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1, HIGHEST_NS, 3)
    for index, times in counts.items():  # same as record_value, ten times as fast
        histogram.counts[index] = times
    histogram.total_count = sum(counts.values())
    histogram.min_value, histogram.max_value = value_at(min(counts)), value_at(max(counts))
    return str(histogram.encode().decode())


@lru_cache(maxsize=8192)
def counts_of(text: str) -> _Counts:
    """Return the samples of a stored histogram by index in ascending order. Callers must not change
    it."""
    import numpy as np
    from hdrh.histogram import HdrHistogram

    try:
        decoded = HdrHistogram.decode(text)
    except Exception as error:  # hdrh, zlib and ctypes raise various types
        raise UsageError(f"a stored histogram of latencies cannot be read: {error}") from error
    # HdrHistogram's iterator takes 40 ms. Its array has the same index as `_Counts`.
    counts = np.ctypeslib.as_array(decoded.counts)
    indices = np.flatnonzero(counts)
    return dict(zip(indices.tolist(), counts[indices].tolist(), strict=True))


def value_at(index: int) -> int:
    """Return the lowest value that HdrHistogram counts at this index (2048 sub-buckets)."""
    bucket, sub = (index >> 10) - 1, index & 1023
    return sub if bucket < 0 else (sub + 1024) << bucket
