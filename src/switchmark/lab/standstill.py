"""Reading the counters of a path at standstill, so that no frame of one phase counts in the next
(docs/decisions/0003)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from switchmark import clock
from switchmark.model.counters import PathCounters

_LIMIT_S = 2.0
_PUSHES = 3


@dataclass(slots=True)
class Standstill:
    """Reads counters until they are stable."""

    read: Callable[[], PathCounters]
    """Reads the counters of the path."""
    gone: int = 0
    """The number of lost frames. Frames that entered the switch and were neither forwarded nor
    dropped may be in a queue that waits for the next frame; they are gone if more frames do not
    push them out."""

    def counters(self, apart_s: float, push: Callable[[], None] | None = None) -> PathCounters:
        """Return the counters once two readings, `apart_s` apart, are the same, or after a time
        limit. If `apart_s` is 0, return the first reading. `push` sends some frames while frames
        are inside the switch."""
        now = self._still(apart_s)
        if push is None:
            return now
        for _ in range(_PUSHES):
            if now.inside <= self.gone:
                break
            push()
            now = self._still(apart_s)
        self.gone = now.inside
        return now

    def _still(self, apart_s: float) -> PathCounters:
        deadline = clock.monotonic() + _LIMIT_S
        now = self._read()
        while apart_s and clock.monotonic() < deadline:
            clock.sleep(apart_s)
            before, now = now, self._read()
            if (now.links, now.functions) == (before.links, before.functions):
                break
        return now

    def _read(self) -> PathCounters:
        return replace(self.read(), read_ns=clock.monotonic_ns())
