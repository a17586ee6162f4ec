"""These tests check interruptions: they are raised once, and held back by shields."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from switchmark.errors import Interrupted, SetupFailed
from switchmark.hosts import signals
from switchmark.hosts.signals import interruptible, shielded


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_once_and_then_no_more(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # under nohup SIGHUP is ignored
    try:
        with interruptible():
            with pytest.raises(Interrupted, match=number.name):
                interrupt(number)
            interrupt(number)
            interrupt(signal.SIGINT)
    finally:
        signal.signal(number, before)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interruptible():
        pass
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


class Finalized:
    """Gets a signal in its finalizer, whose exceptions Python discards."""

    def __del__(self) -> None:
        interrupt()


def test_an_interruption_that_python_discards_is_raised_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    handlers = [signal.getsignal(signal.SIGALRM), sys.unraisablehook]
    with interruptible():
        with pytest.raises(Interrupted, match="SIGINT"):
            Finalized()
            time.sleep(5)
        interrupt()  # the same interruption
    assert handlers == [signal.getsignal(signal.SIGALRM), sys.unraisablehook]
    assert capfd.readouterr() == ("", "")


def test_an_interruption_that_python_discards_waits_for_a_shield(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "_AGAIN_S", 0.2)
    steps = []
    with interruptible(), pytest.raises(Interrupted):
        Finalized()
        with shielded():
            time.sleep(0.4)
            steps.append("whole")
        steps.append("never")
    assert steps == ["whole"]


def test_other_errors_that_python_discards_are_still_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Faulty:
        def __del__(self) -> None:
            raise ValueError("of a finalizer")

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(args.exc_type))
    with interruptible():
        Faulty()
    assert reported == [ValueError]


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            interrupt(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_shield_is_left_whole() -> None:
    steps = []
    with interruptible(), pytest.raises(Interrupted):
        with shielded():
            with shielded():
                interrupt()
                steps.append("inner")
            steps.append("outer")
        steps.append("never")
    assert steps == ["inner", "outer"]


def test_an_error_behind_a_shield_goes_first() -> None:
    with interruptible():
        with pytest.raises(SetupFailed), shielded():
            interrupt()
            raise SetupFailed("first")
        with pytest.raises(Interrupted), shielded():
            pass


def test_a_waiting_command_is_interrupted_and_ended() -> None:
    from switchmark.hosts.local import LocalHost

    timer = threading.Timer(0.1, interrupt)
    with interruptible(), pytest.raises(Interrupted):
        timer.start()
        LocalHost().run(("sleep", "60"), timeout_s=30)
    timer.join()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
