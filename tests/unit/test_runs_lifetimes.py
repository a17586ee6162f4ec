"""These tests hold which time is a process's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switchmark.clock import Clock, replaced_by
from switchmark.runs.lifetimes import Lifetimes


class ShownClock(Clock):
    """A clock whose time the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic_ns(self) -> int:
        return round(self.now * 1e9)


@pytest.fixture
def clock() -> Iterator[ShownClock]:
    clock = ShownClock()
    with replaced_by(clock):
        yield clock


def test_a_start_is_what_is_waited_for(clock: ShownClock) -> None:
    """From the exec to the first word, whatever is done meanwhile; and each further wait."""
    times = Lifetimes()
    with times.starting("sw"):
        clock.now += 1
    clock.now += 2
    with times.waiting("sw"):
        clock.now += 4
    clock.now += 8
    with times.waiting(None):
        clock.now += 16
    with times.waiting("sw"):
        clock.now += 32
    assert times.start_s(["sw"]) == 1 + 2 + 4 + 32
    assert times.stop_s(["sw"]) is None
    with times.stopping("sw"):
        clock.now += 64
    assert times.stop_s(["sw"]) == 64


def test_several_processes_are_summed_and_others_are_not(clock: ShownClock) -> None:
    times = Lifetimes()
    for number, name in enumerate(("db", "sw", "traffic"), 1):
        with times.starting(name):
            clock.now += number
        with times.waiting(name):
            pass
    assert times.start_s(["db", "sw"]) == 3
    assert times.start_s([]) is None
    assert times.start_s(["other"]) is None


def test_one_that_nothing_waits_for_has_started_at_once(clock: ShownClock) -> None:
    times = Lifetimes()
    with times.starting("sw"):
        clock.now += 1
    clock.now += 5
    assert times.start_s(["sw"]) == 0


def test_a_wait_that_fails_and_a_second_start_of_one_name_count(clock: ShownClock) -> None:
    times = Lifetimes()
    with times.starting("sw"):
        pass
    with pytest.raises(ValueError, match="dead"), times.waiting("sw"):
        clock.now += 3
        raise ValueError("dead")
    assert times.start_s(["sw"]) == 3
    with times.stopping("sw"):
        clock.now += 1
    with times.starting("sw"):
        clock.now += 7
    with times.waiting("sw"):
        pass
    assert (times.start_s(["sw"]), times.stop_s(["sw"])) == (7, None)


def test_a_wait_for_a_process_that_nobody_here_started_counts(clock: ShownClock) -> None:
    times = Lifetimes()
    with times.waiting("sw"):
        clock.now += 3
    assert times.start_s(("sw", "other")) == 3
    assert times.start_s(("other",)) is None
