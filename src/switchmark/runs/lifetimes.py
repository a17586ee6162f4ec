"""This module keeps how long processes take to start and to stop: what a run stands still for."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Lifetimes:
    """The times of processes are kept by the name of their Spawn, those of the latest of a name.

    A start lasts from the exec to the end of the first Wait for the process, and through each
    further Wait for it; what is done in between is not its own. A process that nothing waits for
    has started at once.
    """

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._start_s: defaultdict[str, float] = defaultdict(float)
        self._stop_s: dict[str, float] = {}

    @contextmanager
    def starting(self, name: str) -> Iterator[None]:
        """Note the exec of a process, which is done within."""
        self._stop_s.pop(name, None)
        self._start_s[name] = 0.0
        self._begun[name] = time.monotonic()
        yield

    @contextmanager
    def waiting(self, name: str | None) -> Iterator[None]:
        """Note a Wait for a process, or for none, which is done within."""
        begun = self._begun.pop(name, time.monotonic()) if name else 0.0
        try:
            yield
        finally:
            if name:
                self._start_s[name] += time.monotonic() - begun

    @contextmanager
    def stopping(self, name: str) -> Iterator[None]:
        """Note the end of a process, which is awaited within."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._stop_s[name] = time.monotonic() - begun

    def start_s(self, names: Iterable[str]) -> float | None:
        """Return the seconds that these processes took to start; None of none."""
        taken = [self._start_s[name] for name in names if name in self._start_s]
        return round(sum(taken), 3) if taken else None

    def stop_s(self, names: Iterable[str]) -> float | None:
        """Return the seconds that these processes took to stop; None of none that has ended."""
        taken = [self._stop_s[name] for name in names if name in self._stop_s]
        return round(sum(taken), 3) if taken else None
