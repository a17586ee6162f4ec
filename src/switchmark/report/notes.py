"""Notes below a table: explanations of marks and doubts, details of searches, and reasons of
failures."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.cpu import cost
from switchmark.metrics.doubts import TABLE
from switchmark.metrics.latency import cable_latency_ns, latency_ns
from switchmark.metrics.throughput import is_lower_bound
from switchmark.model.cable import CableLatency
from switchmark.model.labels import label, telling
from switchmark.model.record import Record
from switchmark.model.search import OneSearch, SearchResult
from switchmark.report.figures import BOUND_NOTE, MARKS, format_ns, goal_name

_DOUBTS = "doubts (! the figure may be wrong, ✗ do not use it):"

SHOWN_CORES = 0.005
"""The CPU time in interrupts, in cores, below which it is not shown."""


def footnotes(records: Sequence[Record]) -> list[str]:
    """Return the notes for the tables of these records, with at least a line for each subject."""
    notes = _doubts(records)
    if any(isinstance(record.floor, CableLatency) for record in records):
        notes.append("floor: the baseline latency, without a switch; it is not subtracted")
    notes += _errors(records)
    axes = telling([record.test for record in records])
    together = [
        label(record.test, axes)
        for record in records
        if record.test.placement == "auto"
        and record.placement
        and record.placement.policy == "shared-process"
    ]
    if together:
        notes.append(
            "too few cores: sender and receiver share one process (--placement auto): "
            + ", ".join(together)
        )
    notes += [
        f"{label(record.test, axes)}: no baseline, as the cable was slower than the switch "
        f"({format_ns(floor.p50)}): the host changed in between"
        for record in records
        if isinstance(floor := cable_latency_ns(record), CableLatency) and floor.holds is False
    ]
    notes += [
        f"{label(record.test, axes)}: {note}"
        for record in records
        if record.search
        and record.search.name != "max"
        and record.status == "ok"
        and record.imported is None
        for note in _search(record.search, record.test.finals)
    ]
    for record in records:
        notes += [f"{label(record.test, axes)}: {note}" for note in _costs(record)]
    notes += _softirq(records)
    if any(is_lower_bound(record.verdict) for record in records):
        notes.append(BOUND_NOTE)
    notes += [
        f"test {record.number} {record.status}: {record.error or 'unknown reason'}"
        for record in records
        if record.status != "ok"
    ]
    notes += dict.fromkeys(
        difference
        for record in records
        if record.origin
        for difference in record.origin.differences
    )
    notes += dict.fromkeys(note for record in records for note in _imported(record))
    by_switch = {record.test.switch: version_text(record) for record in records}
    versions = [f"{switch} {version}" for switch, version in by_switch.items() if version]
    return [*notes, f"versions: {', '.join(versions)}"] if versions else notes


def _imported(record: Record) -> list[str]:
    """Return the source of figures that this program did not measure, and their definitions."""
    found = record.imported
    if found is None:
        return []
    notes = [f"{found.tool}: measured by {found.measured_by}; its file has no counts of frames"]
    return notes + [f"{found.tool}, {name}: {reason}" for name, reason in found.differs.items()]


def version_text(record: Record) -> str:
    """Return the version of a test's switch with its mode; empty if unknown."""
    return " ".join(filter(None, (record.switch_version, record.switch_mode)))


def _doubts(records: Sequence[Record]) -> list[str]:
    """Return the distinct doubts of these records with their meaning and their cure."""
    doubts = dict.fromkeys(doubt for record in records for doubt in record.doubts)
    names = sorted(doubts.keys() & TABLE.keys())  # a stored record may have others
    lines = [
        f"  {MARKS[TABLE[name].severity]:1} {name}: {TABLE[name].meaning}. Fix: {TABLE[name].cure}"
        for name in names
    ]
    return [_DOUBTS, *lines] if doubts else []


def _errors(records: Sequence[Record]) -> list[str]:
    """Return the largest error bound of the median latencies."""
    errors = [
        latency.error for record in records if (latency := latency_ns(record)) and latency.error
    ]
    if not errors:
        return []
    most = max(errors, key=lambda error: error.median_ns)
    parts = {
        "timestamps": most.stamps_ns,
        "cycle counters of two CPUs": most.skew_ns,
        "two clocks": most.clocks_ns,
        "histogram": most.histogram_ns,
    }
    text = ", ".join(f"{name} {format_ns(ns)}" for name, ns in parts.items() if ns)
    return [f"latency: medians are accurate to ± {format_ns(most.median_ns)} ({text})"]


def _softirq(records: Sequence[Record]) -> list[str]:
    """Return whether the cores of the parts include the kernel's interrupts."""
    costs = [cost(record) for record in records]
    kernels = [figures.kernel_softirq for figures in costs if figures and figures.kernel_softirq]
    within = {kernel.within_threads for kernel in kernels if kernel.cores >= SHOWN_CORES}
    if within == {True}:
        return ["softirq time is included in the CPU use of the processes"]
    if within == {False}:
        return ["softirq time is not included in the CPU use of the processes"]
    return []


def _costs(record: Record) -> list[str]:
    """Return the cycles per frame, if the processor counts them, and disagreements of two
    counters."""
    costs = cost(record)
    if costs is None:
        return []
    notes = []
    parts = costs.perf.parts if costs.perf else {}
    cycles = {role: part.cycles_per_frame for role, part in parts.items()}
    counts = [f"{role} {count:.0f}" for role, count in cycles.items() if count is not None]
    if costs.perf and counts:
        kind = "user-space cycles" if costs.perf.user_only else "cycles"
        notes.append(f"{kind} per frame: {', '.join(counts)}")
    notes += [
        f"{case.part} {case.scheduler_cores:.2f} cores by the scheduler, "
        f"{case.cycle_cores:.2f} by the cycle counter of {case.counted_by}"
        for case in costs.disagreements
    ]
    return notes


def _search(search: SearchResult, finals: int) -> list[str]:
    """Return the details of a search that its rows omit: the number of searches and trials, goals
    that no rate met, the buffer size from a burst, and missing bursts."""
    many = len(search.repeats)
    notes = [f"{search.trials} trials" + f" in {many} searches" * (many > 1)]
    for goal in search.goals:
        if goal.bursts is not None and goal.bursts < finals * many:
            notes.append(f"mean of {goal.bursts} of {finals * many} bursts")
        if goal.corrected_buffer_s is not None:
            notes.append(f"buffer time {format_ns(goal.corrected_buffer_s * 1e9)}")
        if goal.burst_frames is None and goal.rate_pps is None:
            notes.append(f"no rate met {goal_name(goal, search)}")
        elif gone := sum(_is_unmet(repeat, goal.goal) for repeat in search.repeats):
            notes.append(f"no rate met {goal_name(goal, search)} in {gone} of {many} searches")
    return [", ".join(notes)]


def _is_unmet(one: OneSearch, name: str) -> bool:
    """Return whether no rate met a goal in one search."""
    goals = [goal for goal in one.goals if goal.goal == name]
    return all(goal.burst_frames is None and goal.rate_pps is None for goal in goals)
