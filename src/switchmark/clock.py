"""The clock of a run: all code that measures a path reads the time and waits here.

A replay of a recorded run sets another clock, which shows the recorded times and does not wait.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_STAMP = "%Y-%m-%dT%H:%M:%S%z"


class Clock:
    """The clock of this host."""

    def monotonic_ns(self) -> int:
        """Return the nanoseconds of CLOCK_MONOTONIC, which the traffic program reads too."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def epoch_s(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


_CURRENT = ContextVar("clock", default=Clock())  # noqa: B039 - a Clock has no state


def monotonic_ns() -> int:
    """Return the nanoseconds of CLOCK_MONOTONIC."""
    return _CURRENT.get().monotonic_ns()


def monotonic() -> float:
    """Return the seconds of CLOCK_MONOTONIC."""
    return _CURRENT.get().monotonic_ns() / 1e9


def epoch_s() -> float:
    """Return the seconds since 1970."""
    return _CURRENT.get().epoch_s()


def stamp() -> str:
    """Return the local date and time, as records have it."""
    return time.strftime(_STAMP, time.localtime(_CURRENT.get().epoch_s()))


def sleep(seconds: float) -> None:
    """Wait."""
    _CURRENT.get().sleep(seconds)


@contextmanager
def replaced_by(clock: Clock) -> Iterator[None]:
    """Use another clock within a block."""
    token = _CURRENT.set(clock)
    try:
        yield
    finally:
        _CURRENT.reset(token)
