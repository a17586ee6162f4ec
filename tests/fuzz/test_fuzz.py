"""These tests run each fuzzer for a few seeds, the same each time; `make fuzz` goes on from there.
One that finds a fault shows that it is found."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from fuzz import harness
from fuzz.harness import Ended, command, hunt, seeds_of
from fuzz.odd import spoilt_json
from fuzz.stored import measure_nothing, put_sound_run, spoil
from fuzz.targets import TARGETS

FEWER = frozenset({"run-folders", "surroundings", "interruptions"})
"""The targets that get few seeds, because a command is a process, or reads much."""

Seeds = tuple[tuple[frozenset[str], range], ...]
"""Targets with their seeds."""

FIRST: Seeds = ((frozenset(TARGETS), range(1, 3)),)
MORE: Seeds = ((FEWER, range(3, 5)), (frozenset(TARGETS) - FEWER, range(3, 10)))


@cache
def hunted(names: frozenset[str], seeds: range) -> tuple[str, str]:
    """Return what a hunt for faults by some targets printed, on stdout and stderr.

    It is a separate process, because earlier tests may have started threads, which a child does not
    inherit.
    """
    tests = Path(__file__).parents[1]
    path = os.pathsep.join((str(tests.parent / "src"), str(tests)))
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "fuzz", *sorted(names)),
            *("--seed", str(seeds.start), "--count", str(len(seeds))),
        ],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    return completed.stdout, completed.stderr


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    "seeds", [FIRST, pytest.param(MORE, marks=pytest.mark.slow)], ids=["first", "more"]
)
def test_nothing_that_is_made_by_these_seeds_is_a_fault(seeds: Seeds, name: str) -> None:
    names, numbers = next(each for each in seeds if name in each[0])
    printed, errors = hunted(names, numbers)
    assert errors == ""
    (said,) = (
        each
        for each in re.split(r"^(?=\S)", printed, flags=re.MULTILINE)
        if each.startswith(f"{name}: ")
    )
    assert said.startswith(f"{name}: {len(numbers)} seeds, ")
    assert said.count("\n") == 1, said  # faults are shown in further lines


def test_a_seed_makes_the_same_input_each_time(tmp_path: Path) -> None:
    inputs = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = list(TARGETS["campaigns"](random.Random("campaigns 1"), folder))
        written = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert written
        inputs.append((ended[0].argv, written))
    assert inputs[0] == inputs[1]


@pytest.mark.parametrize("content", [None, True, 7, "text", [], {}, [[1], {"a": None}]])
def test_any_json_is_spoilt(content: object) -> None:
    spoilt = [spoilt_json(random.Random(seed), content, 3) for seed in range(50)]
    assert any(json.dumps(changed) != json.dumps(content) for changed in spoilt)


def fails() -> None:
    raise KeyError("a bug")


def confesses() -> None:
    raise SystemExit(70)


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eats() -> None:
    held = []
    while True:
        held.append(b"x" * (1 << 24))


def hangs() -> None:
    time.sleep(1000)


@pytest.mark.parametrize(
    ("run", "fault", "limit_s"),
    [
        (fails, "status 70", 60.0),
        (confesses, "status 70", 60.0),
        (dies, "status -9", 60.0),
        (eats, "more than 512 MiB of memory", 60.0),
        (hangs, "no end within 1 s", 1.0),
    ],
)
def test_a_fault_is_found_and_its_input_kept(
    run: Callable[[], None],
    fault: str,
    limit_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harness, "HANG_S", limit_s)
    monkeypatch.setattr(harness, "MOST_BYTES", 512 << 20)

    def target(draw: random.Random, folder: Path) -> Iterator[Ended]:
        (folder / "input").write_text(str(draw.random()))
        yield command("x", folder=folder, run=run)

    results = hunt("faulty", target, seeds_of(7, 1, 0), tmp_path)
    (found,) = results.found
    assert (found.seed, found.ended.fault) == (7, fault)
    assert (found.kept / "input").exists()
    assert fault in (found.kept / "fault.txt").read_text()


def test_memory_that_was_there_before_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has it, after all the tests before: its child has the same pages."""
    monkeypatch.setattr(harness, "MOST_BYTES", 16 << 20)
    held = b"x" * (64 << 20)
    ended = command("x", folder=tmp_path, run=partial(time.sleep, 0.5))
    assert (ended.status, ended.fault) == (0, "")
    assert len(held) == 64 << 20


def test_a_traceback_is_a_fault_unless_it_was_asked_for() -> None:
    traceback = "Traceback (most recent call last):\n"
    assert Ended(("run",), 2, traceback).fault == "a traceback"
    assert Ended(("--debug", "run"), 2, traceback).fault == ""
    assert Ended(("--debug", "run"), 70, traceback).fault == "status 70"


def test_a_resumed_run_measures_nothing(tmp_path: Path) -> None:
    """A spoilt campaign could take hours, on any host that it names."""
    put_sound_run(tmp_path)
    ended = command("resume", "run", folder=tmp_path, before=measure_nothing)
    assert (ended.status, ended.fault) == (4, ""), ended.stderr
    assert "error: nothing is measured here\n" in ended.stderr


@pytest.mark.timeout(5)
def test_a_pipe_is_spoilt_without_waiting_for_its_other_end(tmp_path: Path) -> None:
    for seed in range(20):
        path = tmp_path / str(seed)
        os.mkfifo(path)
        spoil(random.Random(seed), path)
        assert path.is_symlink() or path.exists()


def test_what_ends_well_is_no_fault(tmp_path: Path) -> None:
    ended = command("x", folder=tmp_path, run=partial(print, "fine"))
    assert (ended.status, ended.fault) == (0, "")
