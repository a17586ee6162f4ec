"""These tests let lanes take turns: tests run at the same time, except a test that runs alone."""

from __future__ import annotations

import threading
from pathlib import Path

from host_state import wait_for
from lanes import Turns


def waiting(turns: Turns, *, alone: bool) -> threading.Event:
    """Let a test of another lane ask for its turn; the event is set when it has its turn."""
    has_it = threading.Event()

    def ask() -> None:
        turns.enter(alone=alone)
        has_it.set()

    threading.Thread(target=ask, daemon=True).start()
    return has_it


def test_tests_run_beside_each_other_and_one_alone(tmp_path: Path) -> None:
    first, second, third = (Turns(tmp_path) for _ in range(3))
    first.enter(alone=False)
    assert waiting(second, alone=False).wait(20), "beside the first"
    alone = waiting(third, alone=True)
    assert not alone.wait(0.1), "two others run"
    first.leave()
    assert not alone.wait(0.1), "one other runs"
    second.leave()
    assert alone.wait(20)
    beside = waiting(first, alone=False)
    assert not beside.wait(0.1), "the other runs alone"
    third.leave()
    assert beside.wait(20)


def test_who_waits_to_run_alone_is_not_overtaken(tmp_path: Path) -> None:
    first, second, third = (Turns(tmp_path) for _ in range(3))
    first.enter(alone=False)
    alone = waiting(second, alone=True)
    assert not alone.wait(0.1)
    later = waiting(third, alone=False)
    assert not later.wait(0.1), "it came later"
    first.leave()
    assert alone.wait(20)
    second.leave()
    assert later.wait(20)


def test_a_test_can_wait_for_the_others_in_its_middle(tmp_path: Path) -> None:
    first, second = (Turns(tmp_path) for _ in range(2))
    first.enter(alone=False)
    second.enter(alone=False)
    rest = threading.Event()

    def look() -> None:
        with first.alone():
            rest.set()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    assert not rest.wait(0.1)
    second.leave()
    assert rest.wait(20)
    looking.join(20)
    again = waiting(second, alone=True)
    assert not again.wait(0.1), "the first goes on"
    first.leave()
    wait_for(again.is_set, "its turn")


def test_a_lane_keeps_its_turn_to_run_alone_for_its_next_such_test(tmp_path: Path) -> None:
    first, second = (Turns(tmp_path) for _ in range(2))
    first.enter(alone=True)
    beside = waiting(second, alone=False)
    first.enter(alone=True)
    with first.alone():
        assert not beside.wait(0.1), "the first still runs alone"
    assert not beside.wait(0.1), "it did before it looked, too"
    first.enter(alone=False)
    assert beside.wait(20)
