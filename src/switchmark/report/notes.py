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
from switchmark.report.figures import BOUND_NOTE, DOUBT_MARK, format_ns, goal_name

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
        f"({format_ns(told.p50)}): the host changed in between"
        for record in records
        if isinstance(told := cable_latency_ns(record), CableLatency) and told.holds is False
    ]
    notes += [
        f"{label(record.test, axes)}: {note}"
        for record in records
        if record.search and record.search.name != "max" and record.status == "ok"
        for note in _search(record.search, record.test.finals)
    ]
    for record in records:
        notes += [f"{label(record.test, axes)}: {note}" for note in _costs(record)]
    notes += _softirq(records)
    if any(is_lower_bound(record.verdict) for record in records):
        notes.append(BOUND_NOTE)
    notes += [
        f"test {record.number} {record.status}: {record.error or 'no reason is known'}"
        for record in records
        if record.status != "ok"
    ]
    notes += dict.fromkeys(
        each for record in records if record.origin for each in record.origin.differences
    )
    known = {record.test.switch: version_told(record) for record in records}
    versions = [f"{switch} {version}" for switch, version in known.items() if version]
    return [*notes, f"versions: {', '.join(versions)}"] if versions else notes


def version_told(record: Record) -> str:
    """Return the version of a test's switch with its mode; empty if unknown."""
    return " ".join(filter(None, (record.switch_version, record.switch_mode)))


def _doubts(records: Sequence[Record]) -> list[str]:
    """Return the distinct doubts of these records with their meaning and their cure."""
    doubts = dict.fromkeys(doubt for record in records for doubt in record.doubts)
    known = sorted(doubts.keys() & TABLE.keys())  # a stored record may have others
    each = [f"{name}: {TABLE[name].meaning}. Fix: {TABLE[name].cure}" for name in known]
    return [f"{DOUBT_MARK} figures with doubts:", *(f"  {line}" for line in each)] if doubts else []


def _errors(records: Sequence[Record]) -> list[str]:
    """Return the largest error bound of the median latencies."""
    errors = [each.error for record in records if (each := latency_ns(record)) and each.error]
    if not errors:
        return []
    most = max(errors, key=lambda error: error.median_ns)
    parts = {
        "stamps": most.stamps_ns,
        "counters of two CPUs": most.skew_ns,
        "two clocks": most.clocks_ns,
        "histogram": most.histogram_ns,
    }
    told = ", ".join(f"{name} {format_ns(ns)}" for name, ns in parts.items() if ns)
    return [f"latency: medians are accurate to ± {format_ns(most.median_ns)} ({told})"]


def _softirq(records: Sequence[Record]) -> list[str]:
    """Return whether the cores of the parts include the kernel's interrupts."""
    costs = [cost(record) for record in records]
    kernels = [each.kernel_softirq for each in costs if each and each.kernel_softirq]
    within = {each.within_threads for each in kernels if each.cores >= SHOWN_CORES}
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
    words = [f"{role} {count:.0f}" for role, count in cycles.items() if count is not None]
    if costs.perf and words:
        kind = "user-space cycles" if costs.perf.user_only else "cycles"
        notes.append(f"{kind} per frame: {', '.join(words)}")
    notes += [
        f"{each.part} {each.scheduler_cores:.2f} cores by the scheduler, "
        f"{each.cycle_cores:.2f} by the cycle counter of {each.counted_by}"
        for each in costs.disagreements
    ]
    return notes


def _search(search: SearchResult, finals: int) -> list[str]:
    """Return the details of a search that its rows omit: the number of searches and trials, goals
    that no rate met, the buffer size from a burst, and missing bursts."""
    many = len(search.repeats)
    notes = [f"{search.trials} trials" + f" in {many} searches" * (many > 1)]
    for goal in search.goals:
        if goal.bursts is not None and goal.bursts < finals * many:
            notes.append(f"enough for {goal.bursts} bursts of {finals * many}")
        if goal.corrected_buffer_s is not None:
            notes.append(f"a buffer of {format_ns(goal.corrected_buffer_s * 1e9)}")
        if goal.burst_frames is None and goal.rate_pps is None:
            notes.append(f"no rate met {goal_name(goal, search)}")
        elif gone := sum(_is_unmet(each, goal.goal) for each in search.repeats):
            notes.append(f"no rate met {goal_name(goal, search)} in {gone} of {many} searches")
    return [", ".join(notes)]


def _is_unmet(one: OneSearch, name: str) -> bool:
    """Return whether no rate met a goal in one search."""
    own = [goal for goal in one.goals if goal.goal == name]
    return all(goal.burst_frames is None and goal.rate_pps is None for goal in own)
