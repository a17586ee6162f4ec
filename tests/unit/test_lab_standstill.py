"""These tests hold when the counters of a path are read: when they stand still, and no queue of the
switch holds frames until the next one comes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switchmark.lab import standstill
from switchmark.lab.standstill import Standstill
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.place import PortEnd

APART_S = 0.001


def counted(rx: int, tx: int | None, dropped: int = 0, busy: int = 0) -> PathCounters:
    """Return the counters of a path on which so many frames came in at one port of the switch, and
    so many left at the other."""
    links = {
        PortEnd("f0", at_switch=True): PortCounters(rx, 0),
        PortEnd("f1", at_switch=True): PortCounters(0, tx, tx_dropped=dropped),
    }
    return PathCounters(links, busy, busy)


class Path:
    """A path tells these counters one after the other, then always the last, and counts what
    happens to it."""

    def __init__(self, *counters: PathCounters) -> None:
        self.readings = self.pushes = 0
        self._told = self._each(counters)

    def _each(self, counters: tuple[PathCounters, ...]) -> Iterator[PathCounters]:
        yield from counters
        while True:
            yield counters[-1]

    def read(self) -> PathCounters:
        self.readings += 1
        return next(self._told)

    def push(self) -> None:
        self.pushes += 1


def test_frames_inside_are_those_of_which_nothing_more_is_told() -> None:
    assert counted(10, 6, dropped=3).inside == 1
    assert counted(10, None).inside == 0
    assert PathCounters().inside == 0


def test_counters_are_read_once_where_nothing_is_to_be_waited_for() -> None:
    path = Path(counted(10, 4))
    assert Standstill(path.read).counters(0) == counted(10, 4)
    assert path.readings == 1


def test_counters_are_read_until_they_stand_still_whatever_polls_are_counted() -> None:
    path = Path(counted(10, 4, busy=1), counted(10, 7, busy=2), counted(10, 10, busy=3))
    still = Standstill(path.read).counters(APART_S)
    assert (still.inside, path.readings) == (0, 4)


def test_counters_that_never_stand_still_are_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standstill, "_LIMIT_S", 0.02)
    path = Path(*(counted(2 * n, n) for n in range(1000)))
    assert Standstill(path.read).counters(APART_S).inside == path.readings - 1
    assert 1 < path.readings < 1000


def test_frames_that_wait_for_the_next_one_are_pushed_out() -> None:
    path = Path(counted(10, 7), counted(12, 11), counted(14, 14))
    assert Standstill(path.read).counters(0, path.push) == counted(14, 14)
    assert path.pushes == 2


def test_frames_that_no_push_brings_out_are_gone() -> None:
    path = Path(counted(10, 7))
    path_of_trials = Standstill(path.read)
    path_of_trials.counters(0, path.push)
    assert (path.pushes, path_of_trials.gone) == (3, 3)
    path_of_trials.counters(0, path.push)
    assert path.pushes == 3
