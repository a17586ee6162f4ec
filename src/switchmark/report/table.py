"""Tests as rows of a table: the columns that tell them apart, and what was found.

`rows` is text and serves every report; only `print_table` knows the terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import IO, Any

from switchmark.campaign.expand import label, telling
from switchmark.metrics.cpu import cost
from switchmark.metrics.doubts import TABLE
from switchmark.metrics.throughput import is_lower_bound
from switchmark.model.record import Record
from switchmark.model.units import format_pps
from switchmark.report.json import to_object

__all__ = [
    "BOUND_MARK",
    "BOUND_NOTE",
    "DOUBT_MARK",
    "columns_and_rows",
    "footnotes",
    "format_ns",
    "outcome",
    "print_table",
    "rate",
]

DOUBT_MARK = "○"
"""Stands before a figure that a doubt was raised about."""

BOUND_MARK = ">= "
"""Stands before a rate that the sender or the receiver limits."""

BOUND_NOTE = f"{BOUND_MARK}the traffic program was the limit; the switch may be faster"

_WIDTH_OF_A_PIPE = 200
_SHOWN_CORES = 0.005

_ALWAYS = ("switch", "engine", "frame_size")
_NUMERIC = ("received", "Gbps L1", "lost", "p50", "floor p50", "p99", "frame size")
_FOUND = ("semantics", "received", "Gbps L1", "lost", "p50", "floor p50", "p99", "cores", "verdict")


def columns_and_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row of text for each record, in their order. A column that is empty
    in all rows is left out."""
    tests = [record.test for record in records]
    axes = list(dict.fromkeys((*_ALWAYS, *telling(tests))))
    headings = [axis.replace("_", " ") for axis in axes] + list(_FOUND)
    rows = [
        [_axis(getattr(record.test, axis)) for axis in axes] + _found(record) for record in records
    ]
    kept = [i for i in range(len(headings)) if any(row[i] for row in rows)]
    return [headings[i] for i in kept], [[row[i] for i in kept] for row in rows]


def footnotes(records: Sequence[Record]) -> list[str]:
    """What the marks of the table mean, and why tests failed."""
    notes = []
    doubts = Counter(doubt for record in records for doubt in record.doubts)
    if doubts:
        each = ", ".join(f"{name} ({n} of {len(records)})" for name, n in sorted(doubts.items()))
        notes.append(f"{DOUBT_MARK} doubted: {each}")
        known = sorted(doubts.keys() & TABLE.keys())  # a stored record may have others
        notes += [f"  {name}: cured by {TABLE[name].cure}" for name in known]
    if any(record.floor and "p50" in record.floor for record in records):
        notes.append("floor: the same test on a cable instead of its switch; it is not subtracted")
    axes = telling([record.test for record in records])
    notes += [
        f"{label(record.test, axes)}: {_goal(goal)}, {record.search['trials']} trials"
        for record in records
        if record.search and record.search["name"] != "max"
        for goal in record.search["goals"]
    ]
    for record in records:
        notes += [f"{label(record.test, axes)}: {note}" for note in _costs(record)]
    if any(is_lower_bound(record.verdict) for record in records):
        notes.append(BOUND_NOTE)
    kinds = {record.semantics for record in records if record.semantics}
    if len(kinds) > 1:
        notes.append(f"{', '.join(sorted(kinds))}: different work; do not rank across them")
    if any(record.status == "ok" and "cores-overcommitted" in record.doubts for record in records):
        notes.append("cores-overcommitted: a functional result, left out of rankings")
    notes += [
        f"test {record.number} {record.status}: {record.error or 'no reason is known'}"
        for record in records
        if record.status != "ok"
    ]
    return notes


def print_table(records: Sequence[Record], stream: IO[str]) -> None:
    """The table and its notes, as wide as the terminal, or as it needs to be in a pipe."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    headings, rows = columns_and_rows(records)
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for heading in headings:
        numeric = heading in _NUMERIC
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(
        file=stream,
        width=None if stream.isatty() else _WIDTH_OF_A_PIPE,
        markup=False,
        highlight=False,
    )
    console.print(table)
    for note in footnotes(records):
        console.print(note, soft_wrap=True)


def rate(content: dict[str, Any]) -> str:
    """The received rate of a test's object, marked where it is doubted or only bounds."""
    if content["rx"] is None:
        return "-"
    doubt = f"{DOUBT_MARK} " if content["doubts"] else ""
    return f"{doubt}{_bound(content)}{format_pps(content['rx']['pps'])}"


def _bound(content: dict[str, Any]) -> str:
    return BOUND_MARK if content["lower_bound"] else ""


def outcome(record: Record) -> str:
    """A finished test in a few words: its figure and verdict, or why there is none."""
    if record.status != "ok":
        return f"{record.status}: {(record.error or 'no reason is known').partition(chr(10))[0]}"
    content = to_object(record)
    latency = content["latency_ns"] or {}
    median = format_ns(latency.get("p50"))
    floor = format_ns((content["latency_floor_ns"] or {}).get("p50"))
    beside = f" ({floor} on a cable)" if floor else ""
    words = [rate(content), f"median {median}{beside}" if median else "", record.verdict]
    return ", ".join(filter(None, words))


def format_ns(ns: float | None) -> str:
    """`850 ns`, `12.4 us`, `3.21 ms`, or nothing."""
    if ns is None:
        return ""
    for limit, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= limit:
            return f"{ns / limit:.3g} {unit}"
    return f"{ns:.0f} ns"


def _found(record: Record) -> list[str]:
    content = to_object(record)
    if content["rx"] is None:
        return [record.semantics or "", record.status, *[""] * (len(_FOUND) - 2)]
    latency = content["latency_ns"] or {}
    sent = content["tx"]["frames"]
    return [
        record.semantics or "",
        rate(content),
        f"{_bound(content)}{content['rx']['gbps_l1']:.3g}",
        f"{content['lost'] / sent:.2%}" if sent else "",
        format_ns(latency.get("p50")),
        format_ns((content["latency_floor_ns"] or {}).get("p50")),
        format_ns(latency.get("p99")),
        _cores(content),
        record.verdict if record.status == "ok" else record.status,
    ]


def _cores(content: dict[str, Any]) -> str:
    """The cores of each role; in parentheses what another counter says of them, and the kernel's
    interrupts."""
    busy = {each["part"]: each for each in content["cost"]["disagreements"]}
    words = []
    for role, cores in content["cpu"].items():
        if cores is not None:
            other = f" ({busy[role]['cycle_cores']:.2f} by cycles)" if role in busy else ""
            words.append(f"{role} {cores:.2f}{other}")
    kernel = content["cost"]["kernel_softirq"]
    if kernel and kernel["cores"] >= _SHOWN_CORES:
        within = "of which " if kernel["within_threads"] else ""
        words.append(f"{within}softirq {kernel['cores']:.2f}")
    return ", ".join(words)


def _costs(record: Record) -> list[str]:
    """What a frame cost, where the processor counts, and where two counters tell different
    things."""
    found = cost(record)
    if found is None:
        return []
    notes = []
    perf = found["perf"] or {"parts": {}}
    cycles = {role: part["cycles_per_frame"] for role, part in perf["parts"].items()}
    words = [f"{role} {count:.0f}" for role, count in cycles.items() if count is not None]
    if words:
        kind = "cycles outside of the kernel" if perf["user_only"] else "cycles"
        notes.append(f"{kind} a frame: {', '.join(words)}")
    notes += [
        f"{each['part']} {each['scheduler_cores']:.2f} cores by the scheduler, "
        f"{each['cycle_cores']:.2f} by the cycle counter of {each['counted_by']}"
        for each in found["disagreements"]
    ]
    return notes


def _goal(goal: dict[str, Any]) -> str:
    """A goal of a search: its rate with the bounds, or its burst, and the median latency."""
    bound = BOUND_MARK if is_lower_bound(goal["verdict"] or "") else ""
    if "burst_frames" in goal:
        held_s = goal["corrected_buffer_s"]
        buffer = "" if held_s is None else f", a buffer of {format_ns(held_s * 1e9)}"
        return f"{goal['goal']} {bound}{goal['burst_frames']:.0f} frames{buffer}"
    words = [f"{goal['goal']} {bound}{format_pps(goal['rate_pps'])}"]
    if goal["high_pps"] is not None:
        words.append(f"less than {format_pps(goal['high_pps'])}")
    median = format_ns((goal["latency_ns"] or {}).get("p50"))
    return ", ".join([*words, *([f"median {median}"] if median else [])])


def _axis(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
