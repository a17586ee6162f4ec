"""Figures as text: rates, times, intervals, and the marks before them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from switchmark.metrics.doubts import Severity, severity_of
from switchmark.metrics.named import METRICS
from switchmark.metrics.searched import SearchValue, precision_of, values_interval
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.throughput import repeated_latencies_ns, repeated_rates_pps
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.search import Goal, SearchResult
from switchmark.model.units import PPS, format_pps, scaled, scaled_to
from switchmark.report.json import to_object

MARKS: Mapping[Severity, str] = MappingProxyType(
    {"invalid": "✗", "caution": "!", "information": ""}
)
"""The mark of a figure, by the severity of its most severe doubt."""

BOUND_MARK = ">= "
"""The mark before a rate that the sender or the receiver limited."""

BOUND_NOTE = f"{BOUND_MARK}the traffic generator was the limit; the switch may be faster"

ABOVE = "above"
"""The text for a baseline latency that is invalid because it is above the test's latency."""

_NS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
_UNITS = {"pps": PPS, "ns": _NS, "frames": (("frames", 1.0),)}
_OPEN = "…"
"""The text for an unknown end of an interval."""

_SMALLEST_SHARE = 0.0001

_SHORT = 3
"""The greatest length of a goal's name that is an abbreviation."""


def rate(content: Printed) -> str:
    """Return the received rate in a test's object, with marks for doubts and bounds."""
    if content["rx"] is None:
        return "-"
    return f"{doubt(content)}{bound(content)}{format_pps(content['rx']['pps'])}"


def sure_rate(record: Record, content: Printed, *, count: bool = True) -> str:
    """Return the received rate of a test as in `rate`, with the 95 % interval of its repeats, or
    their range and `count` if they are too few."""
    rates = repeated_rates_pps(record)
    text = repeated_figure(content["rx"]["pps"], rates, "pps", count)
    return f"{doubt(content)}{bound(content)}{text}"


def sure_latency(record: Record, content: Printed, *, count: bool = True) -> str:
    """Return the median latency of a test, in the form of `sure_rate`."""
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
    """Return a figure with the 95 % interval of its repeats, or with their range if they are too
    few: `326 kpps (274..368 of 3)`."""
    ends = median_interval(values)
    if ends is not None:
        return with_interval(value, *ends, unit)
    text = scaled_figure(value, unit)
    if len(values) < 2:
        return text
    least = "..".join(scaled_to(end, value, _UNITS[unit]) for end in (min(values), max(values)))
    return f"{text} ({least}{f' of {len(values)}' * count})"


def doubt(content: Printed) -> str:
    """Return the mark for doubts in a test's object."""
    return doubt_mark(content["doubts"])


def doubt_mark(doubts: Collection[str]) -> str:
    """Return the mark before a figure with these doubts; empty if they do not falsify it."""
    mark = MARKS[severity_of(doubts)]
    return f"{mark} " if mark else ""


def bound(content: Printed) -> str:
    """Return the mark for a rate that is only a lower bound."""
    return BOUND_MARK if content["lower_bound"] else ""


def outcome(record: Record) -> str:
    """Return a finished test in a few words: its figure and verdict, or the reason for no
    result."""
    if record.status != "ok":
        return f"{record.status}: {(record.error or 'unknown reason').partition(chr(10))[0]}"
    content = to_object(record)
    latency = content["latency_ns"] or {}
    median = format_median(latency)
    outage_s = METRICS["outage.s"].of(record)
    if outage_s is not None:
        return f"{doubt(content)}outage {format_ns(outage_s * 1e9)}"
    cable = cable_latency(content)
    beside = f" (baseline {cable})" if cable and cable != ABOVE else ""
    unsure = format_ns(latency.get("unsure_ns"))
    figure = f"{median} ± {unsure}" if unsure else median
    parts = [rate(content), f"median {figure}{beside}" if median else "", record.verdict]
    return ", ".join(filter(None, parts))


def cable_latency(content: Printed) -> str:
    """Return the median latency of the baseline; `above` if it is invalid because it is above the
    test's latency; empty if it is unknown."""
    floor = content["latency_floor_ns"] or {}
    return ABOVE if floor.get("holds") is False else format_ns(floor.get("p50"))


def format_ns(ns: float | None) -> str:
    """Return a time as `850 ns`, `12.4 us`, `3.21 ms`, or empty for None."""
    return "" if ns is None else scaled(round(ns) if ns < 1e3 else ns, _NS)


def format_median(latency: Mapping[str, Any]) -> str:
    """Return a median rounded to its error (two digits of the error, GUM 7.2.6), or `<= 44 us` if
    the error is at least as large as the median."""
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
    """Return a figure with its interval as `326 kpps [274, 368]`, in the unit of the figure. There
    are no brackets without an interval."""
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
    """Return a figure with the 95 % interval of its repeats, or with their range if they are too
    few: `326 kpps (274 to 368 in 3 trials)`."""
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
    """Return the value of searches with the 95 % interval of their median, or with their range if
    they are too few: `326 kpps (274..368 of 3)`."""
    ends = values_interval(values)
    if ends is not None:
        return with_interval(value, *ends, unit)
    found = [one.value for one in values if one.value is not None]
    return repeated_figure(value, found, unit)


def precision(goal: Goal) -> str:
    """Return the precision of a search for a goal; empty if no load failed."""
    share_apart = precision_of(goal)
    return "" if share_apart is None else percent(share_apart)


def scaled_figure(value: float, unit: Literal["pps", "ns", "frames"]) -> str:
    """Return a figure with three digits and its unit."""
    return format_ns(value) if unit == "ns" else scaled(value, _UNITS[unit])


def goal_name(goal: Goal, search: SearchResult) -> str:
    """Return the name of a search goal: `NDR`, `PDR 0.5 %`, `R+`, `10 % of R+`."""
    if goal.goal == "pdr":
        return f"PDR {percent(goal.loss_ratio)}"
    if search.r_plus_pps is not None and goal.goal.replace(".", "").isdecimal():
        return f"{percent(float(goal.goal))} of R+"
    return goal.goal.upper() if len(goal.goal) <= _SHORT else goal.goal


def percent(ratio: float) -> str:
    """Return a share as `1.25 %`. A small positive share does not appear as 0."""
    if 0 < ratio < _SMALLEST_SHARE:
        return f"<{_SMALLEST_SHARE * 100:g} %"
    return f"{round(ratio * 100, 2):g} %"


def share(count: float, whole: float) -> str:
    """Return a count as a share of a whole; empty if the whole is 0."""
    return percent(count / whole) if whole else ""
