"""The clock of another kernel is told against this host's, by exchanges of messages: the one that
came back soonest tells most, as what it shows was seen within that time.

Its drift is measured between two such moments that are far enough apart. Nothing here asks anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_UNSURE_RATE = 1e-4
"""By how much the rate that a kernel tells of its counter may be wrong: a crystal that nobody
corrects is off by less. A measured one that is less sure is not taken."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment is when the other counter showed `ticks`, and this host's clock `ns`, give or take
    `unsure_ns`."""

    ticks: int
    ns: int
    unsure_ns: int


def moment_of(exchanges: Iterable[tuple[int, int, int]]) -> Moment:
    """Return the moment that some exchanges tell: of each, when it was asked, the ticks that were
    answered, and when the answer came."""
    asked, ticks, answered = min(exchanges, key=lambda each: each[2] - each[0])
    return Moment(ticks, (asked + answered) // 2, (answered - asked + 1) // 2)


class FarClock:
    """A far clock is a counter of `hz` ticks a second, as its kernel says, and the moments of it:
    the `first` and the last one."""

    def __init__(self, hz: int) -> None:
        self._told_hz = hz
        self._first: Moment | None = None
        self._last: Moment | None = None
        self._armed = (0, 0, hz)

    def arm(self, moment: Moment) -> dict[str, int]:
        """Return the clock that shows this host's time, from the moment on: `ns` at `ticks`, and
        the ticks of a second of this host, `hz`."""
        self._first = self._first or moment
        self._last = moment
        self._armed = (moment.ticks, moment.ns, self._hz(self._first, moment))
        return dict(zip(("ticks", "ns", "hz"), self._armed, strict=True))

    def unsure_ns(self, now: Moment) -> int:
        """Return by how much the clock was wrong at most between its last moment and `now`."""
        assert self._last is not None
        ticks, ns, hz = self._armed
        shown = ns + (now.ticks - ticks) * 1_000_000_000 // hz
        return max(self._last.unsure_ns, abs(shown - now.ns) + now.unsure_ns)

    @property
    def drift(self) -> float:
        """Return by which share the counter runs faster than its kernel says, by this host's
        clock."""
        return self._armed[2] / self._told_hz - 1

    def _hz(self, first: Moment, last: Moment) -> int:
        span_ns = last.ns - first.ns
        if span_ns <= 0 or first.unsure_ns + last.unsure_ns > _UNSURE_RATE * span_ns:
            return self._told_hz
        return round((last.ticks - first.ticks) * 1e9 / span_ns)
