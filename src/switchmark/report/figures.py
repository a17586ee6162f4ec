"""This module writes figures as a reader meets them: rates, times, intervals, and the marks that
stand before them."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.units import PPS, format_pps, scaled, scaled_to
from switchmark.report.json import to_object

__all__ = [
    "ABOVE",
    "BOUND_MARK",
    "BOUND_NOTE",
    "DOUBT_MARK",
    "bound",
    "cable_latency",
    "doubt",
    "format_ns",
    "interval",
    "outcome",
    "rate",
    "share",
]

DOUBT_MARK = "○"
"""Stands before a figure that a doubt was raised about."""

BOUND_MARK = ">= "
"""Stands before a rate that the sender or the receiver limits."""

BOUND_NOTE = f"{BOUND_MARK}the traffic program was the limit; the switch may be faster"

ABOVE = "above"
"""Stands for a floor that is none."""

_NS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
_SMALLEST_SHARE = 0.0001


def rate(content: Printed) -> str:
    """Return the received rate of a test's object, marked where it is doubted or only bounds."""
    if content["rx"] is None:
        return "-"
    return f"{doubt(content)}{bound(content)}{format_pps(content['rx']['pps'])}"


def doubt(content: Printed) -> str:
    """Return the mark of a test's object that is doubted."""
    return f"{DOUBT_MARK} " if content["doubts"] else ""


def bound(content: Printed) -> str:
    """Return the mark of a test's object whose rate only bounds the switch's."""
    return BOUND_MARK if content["lower_bound"] else ""


def outcome(record: Record) -> str:
    """Return a finished test in a few words: its figure and verdict, or why there is none."""
    if record.status != "ok":
        return f"{record.status}: {(record.error or 'no reason is known').partition(chr(10))[0]}"
    content = to_object(record)
    latency = content["latency_ns"] or {}
    median = format_ns(latency.get("p50"))
    cable = cable_latency(content)
    beside = f" ({cable} on a cable)" if cable and cable != ABOVE else ""
    words = [rate(content), f"median {median}{beside}" if median else "", record.verdict]
    return ", ".join(filter(None, words))


def cable_latency(content: Printed) -> str:
    """Return the median latency on the cable; `above` where it is above that of the test, and so
    says nothing of it; nothing where it is not known."""
    told = content["latency_floor_ns"] or {}
    return ABOVE if told.get("holds") is False else format_ns(told.get("p50"))


def format_ns(ns: float | None) -> str:
    """Write a time as `850 ns`, `12.4 us`, `3.21 ms`, or as nothing."""
    return "" if ns is None else scaled(round(ns) if ns < 1e3 else ns, _NS)


def interval(ends: Sequence[float] | None, middle: float | None, unit: str) -> str:
    """Write an interval as `371..384`, in the unit that the figure in its middle is shown in;
    nothing without one."""
    if ends is None or middle is None:
        return ""
    low, high = (scaled_to(end, middle, _NS if unit == "ns" else PPS) for end in ends)
    return f"{low}..{high}"


def share(count: int, whole: int) -> str:
    """Write a share as `1.25%` of a whole; what is more than nothing is not shown as nothing."""
    if not whole:
        return ""
    ratio = count / whole
    return f"<{_SMALLEST_SHARE:.2%}" if 0 < ratio < _SMALLEST_SHARE else f"{ratio:.2%}"
