"""The progress of a run: a bar on a terminal, plain lines elsewhere, JSON on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from switchmark.campaign.run import Progress
from switchmark.model.labels import label, telling
from switchmark.model.printable import printable
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.report.figures import outcome
from switchmark.report.json import to_object
from switchmark.runs.jsonl import to_line

_AGAIN_S = 10.0
"""The minimum interval between lines about repeated short visits."""


class Watch(Progress, Protocol):
    """A progress display that lasts for a block."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def watch(tests: Sequence[Test], quiet: bool) -> Watch:
    """Return the progress display for the type of stderr."""
    if quiet:
        return _Silent()
    return _Bar(tests) if sys.stderr.isatty() else _Lines(tests)


class _Silent:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        pass

    def trial(self, result: TrialResult) -> None:
        pass

    def end(self, record: Record) -> None:
        pass


class _Lines(_Silent):
    """Two lines per test: its start, printed at the first visit and again after an interval, and
    its outcome."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self._axes = telling(tests)
        self._begun: set[Test] = set()
        self._last, self._now = "", ""
        self._said_s = 0.0

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        left = "" if left_s is None else f", {clock(left_s)} left"
        self._now = f"[{position}/{total}] {label(test, self._axes)}{left}"
        if test not in self._begun or time.monotonic() - self._said_s > _AGAIN_S:
            self._say()
        self._begun.add(test)

    def end(self, record: Record) -> None:
        if self._last != self._now:
            self._say()
        print(f"    {outcome(record)}", file=sys.stderr, flush=True)

    def _say(self) -> None:
        self._last, self._said_s = self._now, time.monotonic()
        print(self._now, file=sys.stderr, flush=True)


class _Bar(_Silent):
    """A bar at the bottom of the terminal; test outcomes scroll above it."""

    def __init__(self, tests: Sequence[Test]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        self._axes = telling(tests)
        self._trials = 0
        self._test = ""
        self._bars = Bars(
            MofNCompleteColumn(),
            BarColumn(24),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[left]}", style="dim"),
            console=Console(file=sys.__stderr__, highlight=False),
            transient=True,
        )
        self._task = self._bars.add_task("", total=len(tests), left="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        self._test, self._trials = printable(label(test, self._axes)), 0
        left = "" if left_s is None else f"{clock(left_s)} left"
        self._bars.update(
            self._task, completed=position - 1, total=total, description=self._test, left=left
        )

    def trial(self, result: TrialResult) -> None:
        self._trials += 1
        self._bars.update(self._task, description=f"{self._test}, trial {self._trials} done")

    def end(self, record: Record) -> None:
        self._bars.console.print(f"{self._test}: {printable(outcome(record))}", markup=False)
        self._bars.advance(self._task)


class JsonObjects(_Silent):
    """One JSON object per test on stdout as soon as the test ends; all calls also go to the inner
    progress display."""

    def __init__(self, inner: Watch) -> None:
        self._inner = inner

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def begin(self, test: Test, position: int, total: int, left_s: float | None) -> None:
        self._inner.begin(test, position, total, left_s)

    def trial(self, result: TrialResult) -> None:
        self._inner.trial(result)

    def end(self, record: Record) -> None:
        print(to_line(to_object(record)), flush=True)
        self._inner.end(record)


def clock(seconds: float) -> str:
    """Write a time as `2:05` or `1:02:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
