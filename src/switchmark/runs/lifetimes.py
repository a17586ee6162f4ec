"""The start and stop times of processes, which a run waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from switchmark import clock


class Lifetimes:
    """The start and stop times of processes, by the name of their Spawn; a later process replaces
    an earlier one of the same name.

    A start lasts from the exec to the end of the first Wait for the process, plus the time of each
    further Wait for it. Steps in between do not count. A process without a Wait starts in no time.
    """

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._start_s: defaultdict[str, float] = defaultdict(float)
        self._stop_s: dict[str, float] = {}

    @contextmanager
    def starting(self, name: str) -> Iterator[None]:
        """Record the exec of a process, which happens in the block."""
        self._stop_s.pop(name, None)
        self._start_s[name] = 0.0
        self._begun[name] = clock.monotonic()
        yield

    @contextmanager
    def waiting(self, name: str | None) -> Iterator[None]:
        """Record a Wait for a process, or for none, which happens in the block."""
        begun = self._begun.pop(name, clock.monotonic()) if name else 0.0
        try:
            yield
        finally:
            if name:
                self._start_s[name] += clock.monotonic() - begun

    @contextmanager
    def stopping(self, name: str) -> Iterator[None]:
        """Record the end of a process, which the block waits for."""
        begun = clock.monotonic()
        try:
            yield
        finally:
            self._stop_s[name] = clock.monotonic() - begun

    def start_s(self, names: Iterable[str]) -> float | None:
        """Return the seconds that these processes took to start; None if they never started."""
        taken = [self._start_s[name] for name in names if name in self._start_s]
        return round(sum(taken), 3) if taken else None

    def stop_s(self, names: Iterable[str]) -> float | None:
        """Return the seconds that these processes took to stop; None if they still run."""
        taken = [self._stop_s[name] for name in names if name in self._stop_s]
        return round(sum(taken), 3) if taken else None
