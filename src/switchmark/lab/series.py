"""The time series of a trial, as read from the traffic processes.

It is read while the trial runs, so that the death of the run loses little, and once more at the
end, when no frame is in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark import clock
from switchmark.lab.workers import Workers
from switchmark.metrics.series import columns_of, joined
from switchmark.model.counters import PathCounters
from switchmark.model.objects import Message
from switchmark.model.series import TimeSeries

_LOOK_NS = 1_000_000_000  # a look takes some 0.1 ms of CPU time
_IN_FLIGHT_NS = 100_000_000  # frames that were due before this have arrived, or are lost
_PAGE = 250  # intervals in one answer


@dataclass(slots=True)
class SeriesReader:
    """Reads the series of one trial from its processes."""

    workers: Workers
    """The traffic processes, armed with a series."""
    interval_ns: int
    """The length of an interval."""
    copies: int
    """The receivers of a frame."""
    counted: bool
    """Whether receivers know which frames arrived."""
    resident: Callable[[], int | None]
    """Returns the resident memory of the switch in KiB; None for a switch without a process."""
    keep: Callable[[Mapping[str, Any]], None]
    """Keeps the figures of finished intervals while the trial runs."""
    alive: Callable[[], None]
    """Raises TrialFailed if the switch or a function has died."""
    count: Callable[[], PathCounters] | None = None
    """Reads the counters of the path; None if intervals have no counters."""
    counters: dict[int, PathCounters] = field(default_factory=dict)
    """The counters of intervals that have ended, by number."""
    _rss_kib: dict[int, int] = field(default_factory=dict)
    _last: PathCounters = field(default_factory=PathCounters)

    def follow(self, at_ns: int, duration_ns: int, before: PathCounters) -> None:
        """Read the intervals once a second while a phase runs from `at_ns` on, and when a longer
        interval has ended. `before` are the counters at its start. Raise TrialFailed if a process
        has died or a port has failed."""
        done, self._last = 0, before
        while (now_ns := clock.monotonic_ns()) + _LOOK_NS < at_ns + duration_ns:
            wait_ns = at_ns + (done + 1) * self.interval_ns + _IN_FLIGHT_NS - now_ns
            is_near = self.interval_ns >= _LOOK_NS and 0 < wait_ns < _LOOK_NS
            clock.sleep((wait_ns if is_near else _LOOK_NS) / 1e9)
            done = self.look(at_ns, done)

    def look(self, at_ns: int, done: int) -> int:
        """Read the intervals that have ended since the first `done`; return how many have ended."""
        self.alive()
        ended = (clock.monotonic_ns() - _IN_FLIGHT_NS - at_ns) // self.interval_ns
        count = max(0, ended - done)
        answers = self._ask(done, count)
        if not count:
            return done
        if (resident := self.resident()) is not None:
            self._rss_kib[ended - 1] = resident
        if self.count is not None:
            self._note(ended - 1, self.count())
        columns = self._columns(answers)
        rss = tuple(self._rss_kib.get(number) for number in range(done, ended))
        self.keep({"first": done, **columns, "switch_rss_kib": rss})
        return ended

    def whole(self, after: PathCounters | None = None) -> TimeSeries:
        """Return the series of the trial that has ended, without its gaps and places. `after` are
        the counters at its end."""
        parts: list[Mapping[str, Any]] = []
        while not parts or len(parts[-1]["offered"]) == _PAGE:
            parts.append(self._columns(self._ask(_PAGE * len(parts), _PAGE)))
        columns = joined(parts)
        if self._rss_kib:
            numbers = range(len(columns["offered"]))
            columns["switch_rss_kib"] = tuple(map(self._rss_kib.get, numbers))
        if self.count is not None and after is not None:
            self._note(len(columns["offered"]) - 2, after)
        return TimeSeries(interval_ns=self.interval_ns, **columns)

    def _note(self, number: int, now: PathCounters) -> None:
        self.counters[number] = now.since(self._last)
        self._last = now

    def _ask(self, first: int, count: int) -> list[Message]:
        return self.workers.send("series", lambda worker: {"first": first, "count": count})

    def _columns(self, answers: Sequence[Message]) -> dict[str, Any]:
        tasks = [task for answer in answers for task in answer["tasks"]]
        return columns_of(tasks, copies=self.copies, counted=self.counted)
