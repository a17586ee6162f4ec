"""This module reads the counters of a path when they stand still: what is of one phase is then not
in the accounts of the next (docs/decisions/0003)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from switchmark.model.counters import PathCounters

_LIMIT_S = 2.0
_PUSHES = 3


@dataclass(slots=True)
class Standstill:
    """This object reads counters by `read`. What a switch has taken in and told nothing more of is
    in a queue that waits for the next frame, or it is `gone`: no more frames bring it out."""

    read: Callable[[], PathCounters]
    gone: int = 0

    def counters(self, apart_s: float, push: Callable[[], None] | None = None) -> PathCounters:
        """Return the counters when two readings that are `apart_s` apart are the same, or after
        some seconds; of 0, at once. While frames are inside the switch `push` sends some more."""
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
        deadline = time.monotonic() + _LIMIT_S
        now = self._read()
        while apart_s and time.monotonic() < deadline:
            time.sleep(apart_s)
            before, now = now, self._read()
            if (now.links, now.functions) == (before.links, before.functions):
                break
        return now

    def _read(self) -> PathCounters:
        return replace(self.read(), read_ns=time.monotonic_ns())
