"""Plots of trials with an event: received frames and latency over time, a panel for each switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from switchmark.model.record import Record, TrialResult
from switchmark.model.series import TimeSeries
from switchmark.plots.base import measured, split, words_of
from switchmark.plots.chart import Chart, Mark, Scale

_EVENT = "event"

_Read = Callable[[TimeSeries, int], float | None]


def _received(series: TimeSeries, number: int) -> float | None:
    return series.received[number] * 1e6 / series.interval_ns


def _latency(series: TimeSeries, number: int) -> float | None:
    highest = series.max_ns[number]
    return None if highest is None else highest / 1e3


@dataclass
class _OutageOverTime:
    name: str
    summary: str
    y: Scale
    read: _Read

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Draw the first trial of each test with an event, in seconds from the event."""
        chosen = [record for record in measured(records) if _drawn(record) is not None]
        if not chosen:
            return None
        axes, panels = split(chosen)
        marks: list[Mark] = []
        for record in chosen:
            panel = words_of(record.test, (*axes, *panels)) or record.test.switch
            points = list(self._points(record))
            marks += [
                Mark(x, y, self.y.title, panel, switch=record.test.switch, key=record.key[:16])
                for x, y in points
            ]
            heights = [y for _, y in points]
            lowest = min(heights) if self.y.log else 0.0
            marks += [
                Mark(0.0, height, _EVENT, panel, switch=record.test.switch, key=record.key[:16])
                for height in (lowest, max(heights))
            ]
        says = (
            f"{self.summary}: {self.y.title} against the time from the event, {len(chosen)} tests."
        )
        x = Scale("time from the event (s)", zero=False)
        order = (self.y.title, _EVENT)
        return Chart(self.name, self.summary, says, "curves", x, self.y, tuple(marks), order=order)

    def _points(self, record: Record) -> Iterator[tuple[float, float]]:
        trial = _drawn(record)
        assert trial is not None and trial.series is not None
        began_s = trial.evidence.events[0].began_ns / 1e9
        for number, start_s in enumerate(trial.series.starts_s):
            if (number + 1) * trial.series.interval_ns > trial.elapsed_ns:
                break
            value = self.read(trial.series, number)
            if value is not None and (value > 0 or not self.y.log):
                middle_s = start_s + trial.series.interval_ns / 2e9
                yield round(middle_s - began_s, 4), value


def _drawn(record: Record) -> TrialResult | None:
    """Return the first trial of a test with an event and a series; None if there is none."""
    return next((t for t in record.trials if t.evidence.events and t.series is not None), None)


RECEIVED = _OutageOverTime(
    "received-around-event",
    "Received rate around the event",
    Scale("received (kpps)"),
    _received,
)
LATENCY = _OutageOverTime(
    "latency-around-event",
    "Largest latency around the event",
    Scale("largest latency (us)", log=True),
    _latency,
)
