"""The outage of a trial with an event, by the two methods of RFC 6201, section 1.1: the frames lost
over the offered rate, and the time between the arrivals of the last frame before the outage and of
the first frame after it.

The methods differ if frames waited in the outage and arrived late: these are not lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from switchmark.model.event import EventResult
from switchmark.model.record import Record, TrialResult
from switchmark.model.series import Gap, TimeSeries

_NEAR = 1.1
"""A 99th percentile is what it was before an event if it is at most so many times as large."""


@dataclass(frozen=True, slots=True)
class Outage:
    """The outage after the first event of a trial. Times are in seconds, and those of a moment are
    from the beginning of the event."""

    kind: str
    """The kind of event."""
    flow: str
    """The flow; empty for all flows."""
    period_s: float
    """The time between two frames: the resolution."""
    unsure_s: float
    """The largest error: a period, and for the times of arrivals the largest latency before the
    event."""
    lost: int
    """Frames lost by the event: those due from its beginning on, for twice the time until the
    switch had settled and frames arrived again, in whole intervals. For one flow, those of its
    longest gaps. If the outage does not end, also frames that could not be sent."""
    by_loss_s: float
    """These frames over the offered rate."""
    by_time_s: float
    """The longest time without an arrival that began by then, less a period; for all flows that of
    the flow with the longest one."""
    began_s: float | None
    """The arrival of the last frame before that time; None without such a time."""
    ended_s: float | None
    """The arrival of the first frame after it; None if no frame arrived any more."""

    @property
    def agrees(self) -> bool:
        """Return whether the two methods agree within their errors."""
        return abs(self.by_loss_s - self.by_time_s) <= self.unsure_s

    @property
    def s(self) -> float:
        """Return the outage: by loss if the methods agree, else by the method with more."""
        return self.by_loss_s if self.agrees else max(self.by_loss_s, self.by_time_s)

    @property
    def is_over(self) -> bool:
        """Return whether frames arrived again."""
        return self.ended_s is not None or self.began_s is None


@dataclass(frozen=True, slots=True)
class Phases:
    """The parts of an outage in seconds, in order. None for a part that did not end."""

    stop_s: float
    """The time until the switch was gone or its link was down."""
    start_s: float | None
    """The time until the switch was there again with its configuration."""
    links_s: float | None
    """The time until it reported all of its links."""
    rest_s: float | None
    """The time from there to the first frame, such as learning; 0 if frames arrived before."""


def outage_of(trial: TrialResult) -> Outage | None:
    """Return the outage of all flows after the first event of a trial; None without an event, or
    without a series with gaps."""
    event, series = _event(trial), trial.series
    if event is None or series is None or series.gaps is None:
        return None
    flows = outages_by_flow(trial)
    # A sender that had no room catches up after the outage, unless the trial ends before that.
    unsent = 0 if all(one.is_over for one in flows) else trial.tx_unsent
    lost = _lost_by(series, event, flows) + unsent
    began = [one.began_s for one in flows if one.began_s is not None]
    ended = [one.ended_s for one in flows if one.began_s is not None]
    rate_pps = _rate_pps(trial)
    return Outage(
        kind=event.kind,
        flow="",
        period_s=1 / rate_pps,
        unsure_s=max((one.unsure_s for one in flows), default=0.0),
        lost=lost,
        by_loss_s=lost / rate_pps,
        by_time_s=max((one.by_time_s for one in flows), default=0.0),
        began_s=min(began, default=None),
        ended_s=None if None in ended else max((s for s in ended if s is not None), default=None),
    )


def outages_by_flow(trial: TrialResult) -> list[Outage]:
    """Return the outage of each flow of a trial after its first event."""
    event, series = _event(trial), trial.series
    if event is None or series is None:
        return []
    flows = trial.per_flow
    sent = sum(flow.tx for flow in flows)
    jitter_s = _latency_before_s(series, event)
    outages = []
    for flow in flows:
        rate_pps = _rate_pps(trial) * flow.tx / sent if sent else 0.0
        period_s = 1 / rate_pps if rate_pps else 0.0
        gaps = [gap for gap in _gaps(series) if gap.flow == flow.flow]
        silence = _longest(gaps, event, trial.elapsed_ns)
        is_over = silence is None or silence.after_ns is not None
        until_ns = _until_ns(event, None if silence is None else silence.after_ns)
        of_event = [
            gap.lost
            for gap in gaps
            if (gap.after_ns is None or gap.after_ns > event.began_ns)
            and (gap.before_ns or 0) < until_ns
        ]
        lost = sum(of_event) + (0 if is_over or len(flows) > 1 else trial.tx_unsent)
        began_ns = silence.before_ns if silence else None
        ended_ns = silence.after_ns if silence else None
        length_s = 0.0 if silence is None else _length_ns(silence, trial.elapsed_ns) / 1e9
        outages.append(
            Outage(
                kind=event.kind,
                flow=flow.flow,
                period_s=period_s,
                unsure_s=period_s + jitter_s,
                lost=lost,
                by_loss_s=lost * period_s,
                by_time_s=max(0.0, length_s - period_s),
                began_s=None if silence is None else ((began_ns or 0) - event.began_ns) / 1e9,
                ended_s=None if ended_ns is None else (ended_ns - event.began_ns) / 1e9,
            )
        )
    return outages


def phases_of(trial: TrialResult) -> Phases | None:
    """Return the parts of the outage after the first event of a trial; None without an event."""
    event, outage = _event(trial), outage_of(trial)
    if event is None:
        return None
    moments = (event.began_ns, event.disturbed_ns, event.restored_ns, event.settled_ns)
    stop_s, start_s, links_s = (
        None if before is None or after is None else (after - before) / 1e9
        for before, after in pairwise(moments)
    )
    rest_s = None
    if outage is not None and outage.is_over and event.settled_ns is not None:
        settled_s = (event.settled_ns - event.began_ns) / 1e9
        rest_s = max(0.0, (outage.ended_s or 0.0) - settled_s)
    assert stop_s is not None
    return Phases(stop_s, start_s, links_s, rest_s)


def recovery_s(trial: TrialResult) -> float | None:
    """Return the time from the first event until the 99th percentile of the latency of an interval
    is again at most 10 % above its median before the event, and frames arrive. None if that did not
    happen, or the percentile is not known."""
    event, series, outage = _event(trial), trial.series, outage_of(trial)
    if event is None or series is None or outage is None or not outage.is_over:
        return None
    first = event.began_ns // series.interval_ns
    usual = [value for value in series.p99_ns[:first] if value is not None]
    if not usual:
        return None
    limit_ns, over_ns = _NEAR * median(usual), event.began_ns + 1e9 * (outage.ended_s or 0.0)
    for number, value in list(enumerate(series.p99_ns))[first:-1]:
        end_ns = (number + 1) * series.interval_ns
        if end_ns > over_ns and value is not None and value <= limit_ns:
            return max(outage.ended_s or 0.0, (end_ns - series.interval_ns - event.began_ns) / 1e9)
    return None


def outages_ns(record: Record) -> list[float | None]:
    """Return the outage of each trial in nanoseconds."""
    return [None if one is None else one.s * 1e9 for one in map(outage_of, record.trials)]


def outages(record: Record) -> list[Outage]:
    """Return the outages of the trials of a test that have one."""
    return [one for one in map(outage_of, record.trials) if one is not None]


def _event(trial: TrialResult) -> EventResult | None:
    return trial.evidence.events[0] if trial.evidence.events else None


def _rate_pps(trial: TrialResult) -> float:
    """Return the rate at which frames were due."""
    return (trial.tx_frames + trial.tx_unsent) * 1e9 / trial.elapsed_ns or 1.0


def _lost_by(series: TimeSeries, event: EventResult, flows: Sequence[Outage]) -> int:
    """Return the frames lost from an event on, until its effects are over: later losses have
    another cause."""
    lost = series.lost or ()
    first = event.began_ns // series.interval_ns
    if not all(one.is_over for one in flows):
        return sum(lost[first:])
    ended_ns = event.began_ns + 1e9 * max((one.ended_s or 0.0 for one in flows), default=0.0)
    last = int(_until_ns(event, ended_ns) // series.interval_ns)
    return sum(lost[first : last + 1])


def _until_ns(event: EventResult, ended_ns: float | None) -> float:
    """Return the moment until which a loss counts as an effect of an event: twice the time until
    the switch had settled and frames arrived again."""
    over_ns = max(ended_ns or 0, event.settled_ns or event.began_ns)
    return event.began_ns + 2 * (over_ns - event.began_ns)


def _latency_before_s(series: TimeSeries, event: EventResult) -> float:
    """Return the largest latency in the whole intervals before an event."""
    values = series.max_ns[: event.began_ns // series.interval_ns]
    return max((value for value in values if value is not None), default=0) / 1e9


def _gaps(series: TimeSeries) -> Iterable[Gap]:
    return (*(series.gaps or ()), *(series.silences or ()))


def _longest(gaps: Sequence[Gap], event: EventResult, elapsed_ns: int) -> Gap | None:
    """Return the gap or silence with the longest time between two arrivals that ended after an
    event began, and began while its effects lasted; None if there is none."""
    until_ns = math.inf if event.settled_ns is None else _until_ns(event, None)
    later = [
        gap
        for gap in gaps
        if (gap.after_ns is None or gap.after_ns > event.began_ns)
        and (gap.before_ns or 0) < until_ns
    ]
    return max(later, key=lambda gap: _length_ns(gap, elapsed_ns), default=None)


def _length_ns(gap: Gap, elapsed_ns: int) -> int:
    """Return the time between the arrivals around a gap, which may last to the end of the trial."""
    after_ns = elapsed_ns if gap.after_ns is None else gap.after_ns
    return after_ns - (gap.before_ns or 0)
