"""These tests run each fuzzer for a few seeds, the same each time; `make fuzz` goes on from there.
One that finds a fault shows that it is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fuzz import harness
from fuzz.harness import Ended, command, hunt, seeds_of
from fuzz.targets import TARGETS

SEEDS = {"run-folders": 4, "surroundings": 4, "interruptions": 4}
"""Fewer where a command is a process, or reads much."""


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_is_made_by_these_seeds_is_a_fault(name: str, tmp_path: Path) -> None:
    tally = hunt(name, TARGETS[name], seeds_of(1, SEEDS.get(name, 15), 0), tmp_path)
    assert [(each.seed, each.ended.fault, each.ended.argv) for each in tally.found] == []
    assert tally.commands >= tally.seeds > 0


def test_a_seed_makes_the_same_input_each_time(tmp_path: Path) -> None:
    made = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = list(TARGETS["campaigns"](random.Random("campaigns 3"), folder))
        made.append((ended[0].argv, (folder / "c.yaml").read_bytes()))
    assert made[0] == made[1]


def fails() -> None:
    raise KeyError("a bug")


def confesses() -> None:
    raise SystemExit(70)


def dies() -> None:
    os_kill(9)


def os_kill(number: int) -> None:
    import os

    os.kill(os.getpid(), number)


def eats() -> None:
    held = []
    while True:
        held.append(b"x" * (1 << 24))


def hangs() -> None:
    import time

    time.sleep(1000)


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        (fails, "status 70"),
        (confesses, "status 70"),
        (dies, "status -9"),
        (eats, "more than 512 MiB of memory"),
        (hangs, "no end within 2 s"),
    ],
)
def test_a_fault_is_found_and_its_input_kept(
    run: Callable[[], None], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "HANG_S", 2.0)
    monkeypatch.setattr(harness, "MOST_BYTES", 512 << 20)

    def target(draw: random.Random, folder: Path) -> Iterator[Ended]:
        (folder / "input").write_text(str(draw.random()))
        yield command("x", folder=folder, run=run)

    tally = hunt("faulty", target, seeds_of(7, 1, 0), tmp_path)
    (found,) = tally.found
    assert (found.seed, found.ended.fault) == (7, fault)
    assert (found.kept / "input").exists()
    assert fault in (found.kept / "fault.txt").read_text()


def test_what_ends_well_is_no_fault(tmp_path: Path) -> None:
    ended = command("x", folder=tmp_path, run=partial(print, "fine"))
    assert (ended.status, ended.fault) == (0, "")
