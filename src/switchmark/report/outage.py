"""The outages of tests as text: the figures of a table, and the sentences of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from types import MappingProxyType

from switchmark.metrics.outage import Outage, Phases, outages, phases_of, recovery_s
from switchmark.model.event import Event
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import AXES
from switchmark.report.figures import doubt_mark, format_ns, repeated_figure
from switchmark.report.phrases import listed_all

_HAPPENED: Mapping[str, str] = MappingProxyType(
    {
        "restart": "it was restarted",
        "kill": "it was killed and started again",
        "upgrade": "another version was started",
        "pause": "its processes stood still",
        "port-down": "a link went down and up again",
        "reconfigure": "its configuration changed",
    }
)
"""What happened to a switch, by the kind of event."""

_LATER = "not in the trial"
"""The text for something that did not happen before the end of a trial."""


def outage_text(record: Record, *, count: bool = True) -> str:
    """Return the outage of a test with its interval or its range, and a mark for doubts; `-` if it
    is not known."""
    found = outages(record)
    if not found:
        return "-"
    return doubt_mark(record.doubts) + _length(found, [one.s for one in found], count=count)


def by_loss_text(record: Record) -> str:
    """Return the outage by lost frames."""
    return _of_method(record, lambda outage: outage.by_loss_s)


def by_time_text(record: Record) -> str:
    """Return the outage by the times of arrivals."""
    return _of_method(record, lambda outage: outage.by_time_s)


def span_text(record: Record) -> str:
    """Return when the outage began and ended, from the event: `0.1 to 410 ms`."""
    found = [one for one in outages(record) if one.began_s is not None and one.by_time_s]
    if not found:
        return ""
    began = median(one.began_s or 0.0 for one in found)
    ends = [one.ended_s for one in found if one.ended_s is not None]
    ended = _time(median(ends)) if len(ends) == len(found) else _LATER
    return f"{_time(began)} to {ended}"


def phase_text(record: Record, read: Callable[[Phases], float | None]) -> str:
    """Return the median of a part of the outage over the trials; empty if it is not known."""
    values = [read(phases) for phases in map(phases_of, record.trials) if phases is not None]
    known = [value for value in values if value is not None]
    return _time(median(known)) if known else ""


def recovery_text(record: Record) -> str:
    """Return the time until p99 was again within 10 %; empty if it is not known."""
    known = [value for value in map(recovery_s, record.trials) if value is not None]
    return _time(median(known)) if known else ""


def lost_text(record: Record) -> str:
    """Return the median number of lost frames."""
    found = outages(record)
    return f"{median(one.lost for one in found):.0f}" if found else ""


def count_text(record: Record, read: Callable[[TrialResult], int]) -> str:
    """Return a count over all trials; empty if it is 0."""
    total = sum(map(read, record.trials))
    return str(total) if total else ""


def sentences(records: Sequence[Record]) -> list[str]:
    """Return a sentence about the outages of each group of tests that differ in the switch only:
    `ovs-dpdk lost 0.41 s of traffic when it was killed and started again, vpp 1.32 s`."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        if record.test.events and outages(record):
            others = (name for name in AXES if name not in ("switch", "engine"))
            key = tuple(getattr(record.test, name) for name in others)
            groups.setdefault(key, []).append(record)
    return [_sentence(group) for group in groups.values()]


def _sentence(group: Sequence[Record]) -> str:
    group = sorted(group, key=lambda record: median(one.s for one in outages(record)))
    event: Event = group[0].test.events[0]
    first, *rest = [_clause(record) for record in group]
    name, length, verb = first
    head = f"{name} {verb} {length} of traffic when {_HAPPENED[event.kind]}"
    others = []
    for name, length, next_verb in rest:
        others.append(f"{name} {length}" if next_verb == verb else f"{name} {next_verb} {length}")
        verb = next_verb
    return f"{', '.join((head, listed_all(others))) if others else head}."


def _clause(record: Record) -> tuple[str, str, str]:
    """Return the switch, the length of its outage, and what it did with the traffic: frames that
    waited are late, not lost."""
    found = outages(record)
    length = _length(found, [one.s for one in found], count=True)
    kept = sum(one.by_time_s > 2 * one.by_loss_s and not one.agrees for one in found)
    verb = "delayed" if 2 * kept > len(found) else "lost"
    if not all(one.is_over for one in found):
        return record.test.switch, f"the rest ({length})", verb
    return record.test.switch, length, verb


def _of_method(record: Record, read: Callable[[Outage], float]) -> str:
    found = outages(record)
    return _length(found, [read(one) for one in found], count=False) if found else ""


def _length(found: Sequence[Outage], values: Sequence[float], *, count: bool) -> str:
    """Return lengths in seconds as text. Below the period of the frames, nothing was seen."""
    middle, period_s = median(values), median(one.period_s for one in found)
    if middle < period_s:
        return f"< {format_ns(period_s * 1e9)}"
    return repeated_figure(middle * 1e9, [value * 1e9 for value in values], "ns", count)


def _time(seconds: float) -> str:
    sign = "-" if seconds < 0 else ""
    return sign + format_ns(abs(seconds) * 1e9)
