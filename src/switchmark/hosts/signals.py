"""Signal handling: SIGINT, SIGTERM and SIGHUP raise one `Interrupted`, except in shielded blocks.

Python discards an exception that is raised in a finalizer or in the callback of a weak reference
(each import has such callbacks). An `Interrupted` that is lost there is raised again.

This module knows nothing of runs. Its state belongs to the process, like signal handlers; use it in
the main thread only.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from switchmark.errors import CommandTimedOut, Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_AGAIN_S = 0.001
"""The time until an `Interrupted` that Python discarded is raised again: the finalizer must have
ended."""

_HANGS_S = 1.0
"""A second Ctrl-C within this time counts as the same interruption."""


class _State:
    depth = 0
    pending: int | None = None
    raised = False
    number = 0
    """The signal that was raised."""
    message = ""
    endable: tuple[int, float] | None = None
    """The depth of shields around a body that another signal may end, and the time when it
    began."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted at the first signal. The following clean-up cannot be interrupted, except
    where it hangs (`ending_what_hangs`).

    A signal that was ignored before (SIGHUP under nohup) stays ignored.
    """
    _State.pending, _State.raised, _State.endable = None, False, None
    previous = {
        number: signal.signal(number, _handle)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    alarm, hook = signal.signal(signal.SIGALRM, _handle_again), sys.unraisablehook

    def report(discarded: sys.UnraisableHookArgs) -> None:
        if discarded.exc_type is Interrupted:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            hook(discarded)

    sys.unraisablehook = report
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for number, handler in (*previous.items(), (signal.SIGALRM, alarm)):
            signal.signal(number, handler)


def check_interrupted(error: Exception) -> None:
    """Raise Interrupted from an error that followed a signal: a library may have caught the
    Interrupted and raised its own error instead."""
    if _State.raised:
        raise Interrupted(_State.message) from error


class shielded:  # noqa: N801 (reads as a verb: `with shielded():`)
    """Hold an interruption back until the outermost shield ends.

    If the body fails, its error comes first, and the next shield, usually the unwinding, raises the
    interruption.
    """

    def __enter__(self) -> None:
        _State.depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _State.depth -= 1
        if _State.depth == 0 and _State.pending is not None and kind is None:
            _interrupt(_State.pending)


@contextmanager
def ending_what_hangs() -> Iterator[None]:
    """Let another signal, after the first, end a body that hangs, with CommandTimedOut; shields
    inside the body prevent that."""
    _State.endable = (_State.depth, time.monotonic())
    try:
        yield
    finally:
        _State.endable = None


def _handle(number: int, frame: FrameType | None) -> None:
    if _State.raised or _State.pending is not None:
        _end_what_hangs(number)
        return
    if _State.depth:
        _State.pending = number
    else:
        _interrupt(number)


def _handle_again(number: int, frame: FrameType | None) -> None:
    _State.raised = False
    _handle(_State.number, frame)


def _interrupt(number: int) -> None:
    _State.pending, _State.raised, _State.number = None, True, number
    _State.message = f"interrupted by {signal.Signals(number).name}"
    raise Interrupted(_State.message)


def _end_what_hangs(number: int) -> None:
    if _State.endable is None:
        return
    depth, begun = _State.endable
    if depth == _State.depth and time.monotonic() - begun >= _HANGS_S:
        _State.endable = None
        raise CommandTimedOut(f"ended by {signal.Signals(number).name}")
