"""These tests check what `make mutate` counts: which mutants a file has, where they belong, and how
sure a share from a sample is."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from tools.mutate import __main__ as mutate
from tools.mutate import covered, generate, slots

import mutants as important

SOURCE = '''"""A file."""

from functools import cached_property

LIMIT = 5

TABLE = {"a": lambda value: value + 1}


class Box:
    size: int = 2

    @cached_property
    def doubled(self) -> int:
        if self.size > LIMIT:
            return 0
        return self.size * 2


def add(one: int, other: int = 3) -> int:
    match one:
        case 0:
            return other
        case _:
            return one + other
'''


@pytest.fixture
def mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[generate.Mutant]:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/file.py").write_text(SOURCE)
    monkeypatch.setattr(generate, "PACKAGE", tmp_path)
    monkeypatch.setattr(generate, "BUILD", tmp_path / "build")
    generate.source_of.cache_clear()
    found = generate.mutants_of("room/file.py")
    assert generate.mutants_of("room/file.py") == found  # those that were kept
    return found


def mutant_of(mutants: list[generate.Mutant], old: str, new: str) -> generate.Mutant:
    (found,) = [mutant for mutant in mutants if mutant.change == (old, new)]
    return found


def test_every_mutant_is_another_valid_file(mutants: list[generate.Mutant]) -> None:
    texts = [mutant.apply(SOURCE.encode()) for mutant in mutants]
    trees = {ast.dump(ast.parse(text)) for text in texts}
    assert len(trees) == len(texts) == len({mutant.key for mutant in mutants})
    assert ast.dump(ast.parse(SOURCE)) not in trees


@pytest.mark.parametrize(
    ("old", "new", "function", "at_import", "lines"),
    [
        ("LIMIT = 5", "LIMIT = 6", "", True, (5, 5)),
        ("size: int = 2", "size: int = 3", "", True, (11, 11)),
        (
            'TABLE = {"a": lambda value: value + 1}',
            'TABLE = {"a": lambda value: value - 1}',
            "",
            False,
            (7, 7),
        ),
        ("if self.size > LIMIT:", "if self.size >= LIMIT:", "Box.doubled", False, (15, 15)),
        ("return self.size * 2", "return self.size / 2", "Box.doubled", False, (17, 17)),
        (
            "def add(one: int, other: int = 3) -> int:",
            "def add(one: int, other: int = 4) -> int:",
            "",
            True,
            (20, 20),
        ),
        ("return one + other", "return one - other", "add", False, (25, 25)),
        ("case 0: return other", "", "add", False, (21, 22)),
    ],
)
def test_a_mutant_belongs_to_its_function_or_to_the_import(
    mutants: list[generate.Mutant],
    old: str,
    new: str,
    function: str,
    at_import: bool,
    lines: tuple[int, int],
) -> None:
    mutant = mutant_of(mutants, old, new)
    assert (mutant.function, mutant.at_import, mutant.lines) == (function, at_import, lines)


LIMITS = """LIMIT = 5
HALF = LIMIT / 2
OTHER = 1
"""
USERS = """from room.limits import HALF, OTHER

def uses():
    return HALF

def does_not():
    return OTHER
"""


def test_a_mutant_at_import_is_seen_by_the_functions_that_name_what_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_package = (
        *(covered._functions, covered._scopes, generate.source_of),
        *(covered._names_in_functions, covered._names_at_import),
    )
    for name, text in (("room/limits.py", LIMITS), ("other/users.py", USERS)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(generate, "BUILD", tmp_path / "build")
    try:
        for module in (generate, covered):
            monkeypatch.setattr(module, "PACKAGE", tmp_path)
        for cached in of_package:
            cached.cache_clear()
        limit = mutant_of(generate.mutants_of("room/limits.py"), "LIMIT = 5", "LIMIT = 6")
        assert covered.functions_behind(limit) == {("other/users.py", "uses")}
    finally:
        for cached in of_package:
            cached.cache_clear()


def test_the_interval_of_a_share_ends_with_the_whole() -> None:
    low, high = mutate.interval(45, 50, 10**9)
    assert (round(low, 3), round(high, 3)) == (0.786, 0.957)  # Wilson's of 45 of 50
    narrow = mutate.interval(45, 50, 60)
    assert low < narrow[0] < 0.9 < narrow[1] < high
    assert mutate.interval(45, 50, 50) == (0.9, 0.9)
    assert mutate.interval(0, 0, 50) == (0, 1)


def test_each_listed_equivalent_mutant_is_of_lines_that_exist_and_says_why() -> None:
    for (path, function, old, new), why in mutate.equivalents().items():
        source = (generate.PACKAGE / path).read_bytes()
        first, last = generate.Scopes(source).functions[function] if function else (1, None)
        lines = source.decode().splitlines()[first - 1 : last]
        text = " ".join(line.strip() for line in lines)
        assert old in text, f"{path} {function}: {old!r} is no longer there"
        assert new != old
        assert len(why.split()) > 3


@pytest.mark.parametrize("mutant", important.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_important_mutant_is_of_lines_and_tests_that_exist(mutant: important.Mutant) -> None:
    repository = Path(important.REPOSITORY)
    tree = repository if mutant.is_c else repository / "src/switchmark"
    for path, old, new in ((mutant.path, mutant.old, mutant.new), *mutant.more):
        assert (tree / path).read_text().count(old) == 1, f"{path}: {old}"
        assert old != new
    for name in () if mutant.is_c else mutant.tests:
        assert (repository / "tests" / name).exists()


@pytest.mark.parametrize(
    ("now_s", "waited_s", "ended_s"),
    [
        # It had run for four seconds before all of it was stopped, for 900 s.
        ((100.0, 102.0, 104.0, 1004.0, 1006.0, 1009.0, 1010.5), 0.0, 1010.5),
        # Others had the CPU for six seconds of it.
        ((100.0, 104.0, 108.0, 112.0, 115.5, 116.5), 6.0, 116.5),
    ],
)
def test_time_without_a_cpu_counts_for_no_limit(
    now_s: tuple[float, ...], waited_s: float, ended_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    places = slots.Slots(1)
    process = slots._Process(slots.Job("it", dict, 1.0, wall_s=10.0), 0, reading, 0, started=100.0)
    places._running[reading] = process
    ended: list[float] = []
    time_s: list[float] = []

    def end(process: slots._Process) -> tuple[slots.Job, slots.Answer, float]:
        ended.append(time_s[-1])
        return process.job, {}, 0.0

    monkeypatch.setattr(places, "_end", end)
    monkeypatch.setattr("tools.mutate.slots.select.select", lambda *_: ([], [], []))
    monkeypatch.setattr("tools.mutate.slots.time.monotonic", lambda: time_s[-1])
    monkeypatch.setattr(slots, "_waited_s", lambda pid: waited_s)
    try:
        for now in now_s:
            time_s.append(now)
            list(places._ended())
    finally:
        places.close()
        os.close(reading)
        os.close(writing)
    assert ended == [ended_s]


def test_no_two_commands_have_a_user() -> None:
    one = slots.Slots(2)
    other = slots.Slots(2)
    assert len({*one.users, *other.users}) == 4
    one.close()
    third = slots.Slots(2)
    assert third.users == one.users
    for each in (other, third):
        each.close()
