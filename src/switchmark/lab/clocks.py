"""The offset and the drift of another kernel's clock, relative to this host's clock.

The offset comes from message exchanges. The exchange with the shortest round trip is the most
accurate, because the remote clock was read within that time. The drift comes from two such readings
with enough time between them. This module sends no messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_UNSURE_RATE = 1e-4
"""The maximum relative error of a counter frequency that a kernel reports; a free-running crystal
is more accurate than this. A measured frequency with a larger error is discarded."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading of the other counter."""

    ticks: int
    """The reading."""
    ns: int
    """The time on this host's clock at the reading."""
    unsure_ns: int
    """The largest possible error of `ns`."""


def moment_of(exchanges: Iterable[tuple[int, int, int]]) -> Moment:
    """Return the most accurate reading of some exchanges. An exchange is the time of the request,
    the ticks in the answer, and the time of the answer."""
    sent_ns, ticks, answered = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    return Moment(ticks, (sent_ns + answered) // 2, (answered - sent_ns + 1) // 2)


class FarClock:
    """The clock of another kernel: a counter with a nominal frequency of `hz`, and its first and
    last reading."""

    def __init__(self, hz: int) -> None:
        self._told_hz = hz
        self._first: Moment | None = None
        self._last: Moment | None = None
        self._armed = (0, 0, hz)

    def arm(self, moment: Moment) -> dict[str, int]:
        """Return the parameters that convert the counter to this host's time from now on: `ns` at
        `ticks`, and `hz`, the ticks per second of this host."""
        self._first = self._first or moment
        self._last = moment
        self._armed = (moment.ticks, moment.ns, self._hz(self._first, moment))
        return dict(zip(("ticks", "ns", "hz"), self._armed, strict=True))

    def unsure_ns(self, now: Moment) -> int:
        """Return the maximum error of the clock between its last reading and `now`."""
        assert self._last is not None
        ticks, ns, hz = self._armed
        shown_ns = ns + (now.ticks - ticks) * 1_000_000_000 // hz
        return max(self._last.unsure_ns, abs(shown_ns - now.ns) + now.unsure_ns)

    @property
    def drift(self) -> float:
        """Return the relative drift of the counter: by which share it runs faster than its nominal
        frequency, measured by this host's clock."""
        return self._armed[2] / self._told_hz - 1

    def _hz(self, first: Moment, last: Moment) -> int:
        span_ns = last.ns - first.ns
        if span_ns <= 0 or first.unsure_ns + last.unsure_ns > _UNSURE_RATE * span_ns:
            return self._told_hz
        return round((last.ticks - first.ticks) * 1e9 / span_ns)
