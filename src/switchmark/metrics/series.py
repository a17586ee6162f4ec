"""The figures of each interval of a trial, from what the traffic processes counted in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from switchmark.metrics.latency import MIN_BEYOND, PERCENTILES
from switchmark.model.objects import Message

_HALF_BITS = 5  # same as `traffic/src/series.h`
_ALL = 1_000_000
_NAMES = ("p50", "p99", "p999")


def columns_of(tasks: Sequence[Message], *, copies: int, counted: bool) -> dict[str, Any]:
    """Return the members of a `TimeSeries` that are lists, from the counts of all tasks.

    Every frame has `copies` receivers. Without `counted`, receivers do not know which frames
    arrived, so the losses of an interval are unknown.
    """
    sending = [task["sent"] for task in tasks if "sent" in task]
    receiving = [task["received"] for task in tasks if "received" in task]
    offered = _added([task["sent"] for task in sending])
    arrived = _added([task["arrived"] for task in receiving])
    latencies = [
        _together(bins) for bins in zip(*(task["latency"] for task in receiving), strict=True)
    ]
    highest = [max(values) for values in zip(*(task["highest"] for task in receiving), strict=True)]
    figures = [_figures(bins, most) for bins, most in zip(latencies, highest, strict=True)]
    lost = tuple(copies * one - other for one, other in zip(offered, arrived, strict=True))
    return {
        "offered": offered,
        "lost": lost if counted else None,
        **{
            name: _added([task[name] for task in receiving])
            for name in ("received", "duplicated", "reordered")
        },
        **{f"{name}_ns": tuple(one[name] for one in figures) for name in (*_NAMES, "max")},
    }


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of consecutive intervals, one after the other."""
    first = parts[0]
    return {
        name: None if first[name] is None else tuple(v for part in parts for v in part[name])
        for name in first
    }


def _added(columns: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sum(row) for row in zip(*columns, strict=True))


def _together(bins: Sequence[Sequence[Sequence[int]]]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for one in bins:
        for index, frames in one:
            counts[index] += frames
    return counts


def _figures(bins: Mapping[int, int], highest: int) -> dict[str, int | None]:
    """Return the upper end of the bin that holds each percentile, at most the maximum."""
    count = sum(bins.values())
    found: dict[str, int | None] = dict.fromkeys((*_NAMES, "max"))
    if not count:
        return found
    found["max"] = highest
    counted = 0
    waiting = [
        (-(-count * PERCENTILES[name] // _ALL), name)
        for name in _NAMES
        if count * (_ALL - PERCENTILES[name]) >= MIN_BEYOND * _ALL
    ]
    for index in sorted(bins):
        counted += bins[index]
        while waiting and waiting[0][0] <= counted:
            found[waiting.pop(0)[1]] = min(_lowest(index + 1) - 1, highest)
    return found


def _lowest(index: int) -> int:
    """Return the lowest latency of a bin, in nanoseconds."""
    half = 1 << _HALF_BITS
    bucket, sub = (index >> _HALF_BITS) - 1, index & (half - 1)
    return sub if bucket < 0 else (sub + half) << bucket
