"""This module writes figures as a reader meets them: rates, times, intervals, and the marks that
stand before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from switchmark.metrics.searched import SearchValue, precision_of, values_interval
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import repeated_latencies_ns, repeated_rates_pps
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.search import Goal, SearchResult
from switchmark.model.units import PPS, format_pps, scaled, scaled_to
from switchmark.report.json import to_object

DOUBT_MARK = "○"
"""Stands before a figure that a doubt was raised about."""

BOUND_MARK = ">= "
"""Stands before a rate that the sender or the receiver limits."""

BOUND_NOTE = f"{BOUND_MARK}the traffic program was the limit; the switch may be faster"

ABOVE = "above"
"""Stands for a floor that is none."""

_NS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
_UNITS = {"pps": PPS, "ns": _NS, "frames": (("frames", 1.0),)}
_OPEN = "…"
"""Stands for the end of an interval that nobody knows."""

_SMALLEST_SHARE = 0.0001

_SHORT = 3
"""Names of goals no longer than this are abbreviations."""


def rate(content: Printed) -> str:
    """Return the received rate of a test's object, marked where it is doubted or only bounds."""
    if content["rx"] is None:
        return "-"
    return f"{doubt(content)}{bound(content)}{format_pps(content['rx']['pps'])}"


def sure_rate(record: Record, content: Printed, *, count: bool = True) -> str:
    """Return the received rate of a test with what its repeats show, marked as `rate`: the 95 %
    interval, or from the least to the most of too few for one, with their `count`."""
    known = repeated_rates_pps(record)
    text = repeated_figure(content["rx"]["pps"], known, "pps", count)
    return f"{doubt(content)}{bound(content)}{text}"


def sure_latency(record: Record, content: Printed, *, count: bool = True) -> str:
    """Return the median latency of a test as `sure_rate` does its rate."""
    latency = content["latency_ns"] or {}
    middle = latency.get("p50")
    if middle is None:
        return "-"
    text = format_median(latency)
    if not text.startswith("<"):
        text += repeated_figure(middle, repeated_latencies_ns(record), "ns", count).removeprefix(
            format_ns(middle)
        )
    return doubt(content) + text


def repeated_figure(
    value: float, values: Sequence[float], unit: Literal["pps", "ns", "frames"], count: bool = True
) -> str:
    """Write a figure with the 95 % interval of its repeats, or from the least to the most of too
    few for one, as `326 kpps (274..368 of 3)`."""
    ends = median_interval(values)
    if ends is not None:
        return with_interval(value, *ends, unit)
    text = scaled_figure(value, unit)
    if len(values) < 2:
        return text
    least = "..".join(scaled_to(end, value, _UNITS[unit]) for end in (min(values), max(values)))
    return f"{text} ({least}{f' of {len(values)}' * count})"


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
    median = format_median(latency)
    cable = cable_latency(content)
    beside = f" ({cable} on a cable)" if cable and cable != ABOVE else ""
    unsure = format_ns(latency.get("unsure_ns"))
    told = f"{median} ± {unsure}" if unsure else median
    words = [rate(content), f"median {told}{beside}" if median else "", record.verdict]
    return ", ".join(filter(None, words))


def cable_latency(content: Printed) -> str:
    """Return the median latency on the cable; `above` where it is above that of the test, and so
    says nothing of it; nothing where it is not known."""
    told = content["latency_floor_ns"] or {}
    return ABOVE if told.get("holds") is False else format_ns(told.get("p50"))


def format_ns(ns: float | None) -> str:
    """Write a time as `850 ns`, `12.4 us`, `3.21 ms`, or as nothing."""
    return "" if ns is None else scaled(round(ns) if ns < 1e3 else ns, _NS)


def format_median(latency: Mapping[str, Any]) -> str:
    """Write a median with no digit beyond its error (two of that, GUM 7.2.6), or as `<= 44 us`
    where the error is no smaller than the median: then that is all that is known of it."""
    median, error = latency.get("p50"), latency.get("error")
    if median is None or error is None:
        return format_ns(median)
    wrong = error["median_ns"]
    if wrong >= median:
        return f"<= {format_ns(median + wrong - error['stamps_ns'])}"
    place = 10 ** max(len(str(wrong)) - 2, 0)
    return format_ns(round(median / place) * place)


def with_interval(
    value: float, low: float | None, high: float | None, unit: Literal["pps", "ns", "frames"]
) -> str:
    """Write a figure with its interval, as `326 kpps [274, 368]`: in the unit that the figure
    needs; without brackets where no interval is known."""
    text = scaled_figure(value, unit)
    if low is None and high is None:
        return text
    ends = (_OPEN if end is None else scaled_to(end, value, _UNITS[unit]) for end in (low, high))
    return f"{text} [{', '.join(ends)}]"


def with_repeats(
    value: float,
    values: Sequence[float],
    interval: tuple[float, float | None] | None,
    unit: Literal["pps", "ns", "frames"],
    repeats: str = "trials",
) -> str:
    """Write a figure with the 95 % interval of its repeats; where they are too few for one, from
    the least to the most of them, as `326 kpps (274 to 368 in 3 trials)`."""
    if interval is not None:
        return with_interval(value, *interval, unit)
    text = scaled_figure(value, unit)
    if len(values) < 2:
        once = {"searches": "search"}.get(repeats, repeats.removesuffix("s"))
        return f"{text} (1 {once})"
    ends = [scaled_to(end, value, _UNITS[unit]) for end in (min(values), max(values))]
    return f"{text} ({' to '.join(ends)} in {len(values)} {repeats})"


def searched_figure(
    value: float, values: Sequence[SearchValue], unit: Literal["pps", "ns", "frames"]
) -> str:
    """Write what searches found: with the 95 % interval of their median, or from the least to the
    most where they are too few for one, as `326 kpps (274..368 of 3)`."""
    ends = values_interval(values)
    if ends is not None:
        return with_interval(value, *ends, unit)
    known = [each.value for each in values if each.value is not None]
    return repeated_figure(value, known, unit)


def precision(goal: Goal) -> str:
    """Write how precisely a search found what met a goal; nothing where nothing failed."""
    share_apart = precision_of(goal)
    return "" if share_apart is None else percent(share_apart)


def scaled_figure(value: float, unit: Literal["pps", "ns", "frames"]) -> str:
    """Write a figure with three digits and its unit."""
    return format_ns(value) if unit == "ns" else scaled(value, _UNITS[unit])


def goal_name(goal: Goal, search: SearchResult) -> str:
    """Write a goal of a search: `NDR`, `PDR 0.5 %`, `R+`, `10 % of R+`."""
    if goal.goal == "pdr":
        return f"PDR {percent(goal.loss_ratio)}"
    if search.r_plus_pps is not None and goal.goal.replace(".", "").isdecimal():
        return f"{percent(float(goal.goal))} of R+"
    return goal.goal.upper() if len(goal.goal) <= _SHORT else goal.goal


def percent(ratio: float) -> str:
    """Write a share as `1.25 %`; what is more than nothing is not shown as nothing."""
    if 0 < ratio < _SMALLEST_SHARE:
        return f"<{_SMALLEST_SHARE * 100:g} %"
    return f"{round(ratio * 100, 2):g} %"


def share(count: float, whole: float) -> str:
    """Write the share of a count in a whole; nothing where there is none."""
    return percent(count / whole) if whole else ""
