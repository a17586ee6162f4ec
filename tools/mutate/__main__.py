"""Break the rooms of the package at one place at a time, and count the mutants that the fast tests
notice.

    make mutate [ROOM="metrics lab/gate.py"] [SAMPLE=300] [SEED=1] [JOBS=2] [FRESH=1]
                [TESTS_OF="unit/test_gate.py golden"]

With TESTS_OF, only these files or folders of tests are tried. The share is then a lower bound:
other tests may notice more.

The mutants are those of mutmut's operators, everywhere in a file. Each is tried in a process of its
own, with the tests that execute its lines. Results stay in build/mutate. A mutant is tried again
only if its function or its tests changed. tests/equivalent-mutants.txt lists survivors that no test
can notice, with the reason. The others are written to build/mutate/open.txt.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import pytest
from tools.mutate import cold
from tools.mutate.covered import TESTS, Covered, digest_of, functions_behind
from tools.mutate.generate import BUILD, PACKAGE, REPOSITORY, Mutant, mutants_of
from tools.mutate.slots import Answer, Job, Slots
from tools.mutate.warm import OPTIONS, Steady, Warm, folders

ROOMS = {
    "metrics": ("metrics/*.py",),
    "lab": ("lab/*.py",),
    "searches": ("searches/*.py",),
    "path": ("path/*.py",),
    "campaign": ("campaign/*.py",),
    "report": ("report/rows.py", "report/figures.py"),
    "runs": ("runs/*.py",),
}
EQUIVALENT = REPOSITORY / "tests/equivalent-mutants.txt"
RESULTS = BUILD / "results.jsonl"
NOTICED = ("killed", "time", "error")

_COLD_FILES = 5
_COLD_TESTS_S = 60.0
"""Seconds of tests that a mutant at import is tried by at most; the quickest first."""


@dataclass
class Tests:
    """The fast tests, and what they execute."""

    by_file: dict[str, Covered]
    killers: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often a test noticed mutants of a function of a file."""

    def __post_init__(self) -> None:
        self.seconds = {
            name: seconds
            for covered in self.by_file.values()
            for name, seconds in covered.tests.items()
        }

    def of(self, mutant: Mutant) -> set[str]:
        """Return the tests that execute the lines of a mutant."""
        if not mutant.function:
            return set()
        found: set[str] = set()
        for covered in self.by_file.values():
            found |= covered.of_lines(mutant.path, mutant.function, *mutant.lines)
        return found

    def behind(self, mutant: Mutant) -> set[str]:
        """Return the tests that execute what a mutant at import can change."""
        found = self.of(mutant)
        for path, function in functions_behind(mutant):
            for covered in self.by_file.values():
                for tests in covered.lines.get(path, {}).get(function, {}).values():
                    found.update(tests)
        return found

    def in_order(self, tests: Iterable[str], mutant: Mutant) -> list[str]:
        """Return tests in the order to try: those that noticed other mutants of the function first,
        then by file, the quickest first."""
        killers = {
            name
            for path, function, name in self.killers
            if (path, function) == (mutant.path, mutant.function)
        }
        files: dict[str, list[str]] = {}
        for name in tests:
            files.setdefault(name.split("::")[0], []).append(name)
        first = sorted(
            killers & set(tests),
            key=lambda name: -self.killers[mutant.path, mutant.function, name],
        )[:5]
        ordered = list(first)
        for names in sorted(files.values(), key=self.sum_s):
            ordered.extend(sorted(set(names) - set(first), key=lambda name: self.seconds[name]))
        return ordered

    def sum_s(self, tests: Iterable[str]) -> float:
        """Return the seconds of tests."""
        return sum(self.seconds[name] for name in tests)

    def digest(self, tests: Iterable[str]) -> str:
        """Return what changes when a file of these tests does."""
        files = sorted({name.split("::")[0] for name in tests})
        return "-".join(digest_of(file)[:6] for file in files)


class Results:
    """What is known of mutants, kept in the build folder."""

    def __init__(self, fresh: bool) -> None:
        self.by_key: dict[str, Answer] = {}
        BUILD.mkdir(parents=True, exist_ok=True)
        if RESULTS.exists() and not fresh:
            for line in RESULTS.read_text().splitlines():
                answer = json.loads(line)
                self.by_key[answer["key"]] = answer

    def add(self, mutant: Mutant, answer: Answer) -> None:
        """Keep what became of a mutant."""
        answer |= {"key": mutant.key, "path": mutant.path, "function": mutant.function}
        self.by_key[mutant.key] = answer
        with RESULTS.open("a") as file:
            file.write(json.dumps(answer) + "\n")

    def holds(self, mutant: Mutant, tests: Tests) -> bool:
        """Say whether what is known is of today's tests."""
        answer = self.by_key.get(mutant.key)
        if answer is None or answer["result"] == "unknown":
            return False
        if answer["result"] in NOTICED:
            file = answer.get("by", "").split("::")[0]
            if not file:
                return True
            digest: str = answer["digest"]
            return (REPOSITORY / file).is_file() and digest_of(file) == digest
        behind = tests.behind(mutant) if answer.get("cold") else tests.of(mutant)
        same: bool = tests.digest(behind) == answer["digest"]
        return same


def chosen_mutants(rooms: Sequence[str]) -> dict[str, list[Mutant]]:
    """Return the mutants by room; a room may be a file."""
    found: dict[str, list[Mutant]] = {}
    for name in rooms or ROOMS:
        for pattern in ROOMS.get(name, (name,)):
            for file in sorted(PACKAGE.glob(pattern)):
                found.setdefault(name, []).extend(mutants_of(str(file.relative_to(PACKAGE))))
        if name not in found:
            sys.exit(f"no room and no file is named {name}; rooms: {', '.join(ROOMS)}")
    return found


def note(text: str) -> None:
    """Print a line of progress."""
    os.write(2, (text + "\n").encode())


# --- the two ways to try ---------------------------------------------------------------------


def measure(warm: Warm, slots: Slots, fresh: bool) -> Tests:
    """Return what the tests execute, and measure what is not known of today's files."""
    coverage = {file: None if fresh else Covered.load(file) for file in warm.by_file}
    unknown = [file for file, covered in coverage.items() if covered is None]
    started = time.monotonic()
    for number, (file, covered) in enumerate(warm.cover(unknown, slots), 1):
        coverage[file] = covered
        if covered is None:
            note(f"{file}: its tests did not end, and are left out")
        elif number % 10 == 0:
            note(f"coverage: {number} of {len(unknown)} files, {time.monotonic() - started:.0f} s")
    return Tests({file: covered for file, covered in coverage.items() if covered is not None})


def limits(seconds: float) -> tuple[float, float]:
    """Return the limits of CPU time and of time for tests that take so long without a mutant."""
    return 5 + 3 * seconds, 15 + 6 * seconds


def in_warm(mutants: list[Mutant], jobs: int, fresh: bool, tests: Sequence[str]) -> None:
    """Try mutants of functions."""

    def work(warm: Warm) -> None:
        slots = Slots(jobs)
        try:
            _in_warm(warm, slots, mutants, fresh)
        finally:
            slots.close()

    os.chdir(REPOSITORY)
    os.environ.pop("CI", None)
    sys.path[:0] = [str(REPOSITORY / "src")]
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    pytest.main([*OPTIONS, *tests], [Steady(), Warm(work)])


def _in_warm(warm: Warm, slots: Slots, mutants: list[Mutant], fresh: bool) -> None:
    tests = measure(warm, slots, fresh)
    others = [
        name
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and (not file.startswith(str(REPOSITORY)) or "/.venv/" in file)
        and not name.startswith(("switchmark", "tests", "tools", "__"))
    ]
    (BUILD / "others.json").write_text(json.dumps(others))
    results = Results(fresh)
    for answer in results.by_key.values():
        if "by" in answer:
            tests.killers[answer["path"], answer["function"], answer["by"]] += 1
    assert warm.functions
    todo = [mutant for mutant in mutants if not results.holds(mutant, tests)]
    note(f"{len(mutants)} mutants, {len(mutants) - len(todo)} known, {len(todo)} to try")
    started = time.monotonic()

    def jobs() -> Iterator[Job]:
        for mutant in todo:
            behind = tests.of(mutant) & warm.items.keys()
            executed = any(
                line in warm.at_import.get(mutant.path, ())
                for line in range(mutant.lines[0], mutant.lines[1] + 1)
            )
            if mutant.at_import:
                results.add(mutant, {"result": "unknown", "cold": True})
            elif not behind:
                verdict = {"result": "survived", "tests": 0, "digest": ""}
                results.add(mutant, {"result": "unknown", "cold": True} if executed else verdict)
            else:
                ordered = tests.in_order(behind, mutant)
                work = partial(warm.try_mutant, mutant, ordered)
                yield Job((mutant, behind, executed), work, *limits(tests.sum_s(behind)))

    for number, (job, answer, seconds) in enumerate(slots.run(jobs()), 1):
        mutant, behind, executed = job.about
        answer |= {"tests": len(behind), "seconds": round(seconds, 2)}
        if answer["result"] == "killed":
            tests.killers[mutant.path, mutant.function, answer["by"]] += 1
            answer["digest"] = digest_of(answer["by"].split("::")[0])
        elif answer["result"] == "survived":
            answer["digest"] = tests.digest(behind)
            if executed:
                answer |= {"result": "unknown", "cold": True}
        results.add(mutant, answer)
        if number % 50 == 0:
            note(f"{number} of at most {len(todo)} tried, {time.monotonic() - started:.0f} s")


def in_cold(mutants: list[Mutant], jobs: int, tried_by: Sequence[str]) -> None:
    """Try mutants of what is executed at import."""
    results = Results(False)
    todo = [
        m
        for m in mutants
        if results.by_key.get(m.key, {"result": "unknown"})["result"] == "unknown"
    ]
    if not todo:
        return
    os.chdir(REPOSITORY)
    by_file = {}
    for file in (REPOSITORY / "tests").rglob("test_*.py"):
        name = str(file.relative_to(REPOSITORY))
        chosen = any(file.is_relative_to(path) for path in tried_by)
        if chosen and (covered := Covered.load(name)):
            by_file[name] = covered
    tests = Tests(by_file)
    known_tests = {
        name for covered in by_file.values() for name in (*covered.tests, *covered.left_out)
    }
    cold.import_others(json.loads((BUILD / "others.json").read_text()))
    note(f"{len(todo)} mutants of what is executed at import")
    slots = Slots(jobs)
    started = time.monotonic()
    survivors: list[Mutant] = []

    def all_jobs(mutants: Iterable[Mutant], most_files: float) -> Iterator[Job]:
        for mutant in mutants:
            behind = tests.behind(mutant)
            if not behind:
                results.add(mutant, {"result": "survived", "tests": 0, "digest": "", "cold": True})
                continue
            ordered: list[str] = []
            files: dict[str, None] = {}
            sum_s = 0.0
            for name in tests.in_order(behind, mutant):
                files[name.split("::")[0]] = None
                sum_s += tests.seconds[name]
                if ordered and (sum_s > _COLD_TESTS_S or len(files) > most_files):
                    break
                ordered.append(name)
            cpu_s, wall_s = limits(min(sum_s, _COLD_TESTS_S))
            work = partial(cold.try_mutant, mutant, ordered, known_tests)
            whole = set(ordered) == behind
            yield Job((mutant, behind, whole), work, 60 + cpu_s, 180 + wall_s)

    try:
        # An import of a few files of tests takes a second, of all some ten.
        few = slots.run(all_jobs(todo, _COLD_FILES))
        many = slots.run(all_jobs(survivors, math.inf))
        for number, (job, answer, seconds) in enumerate(chain(few, many), 1):
            mutant, behind, whole = job.about
            answer |= {"tests": len(behind), "seconds": round(seconds, 2), "cold": True}
            if answer["result"] == "survived" and not whole and mutant not in survivors:
                survivors.append(mutant)
                continue
            if answer["result"] == "killed" and "::" in answer["by"]:
                tests.killers[mutant.path, mutant.function, answer["by"]] += 1
                answer["digest"] = digest_of(answer["by"].split("::")[0])
            elif answer["result"] == "killed":
                answer["import"] = answer.pop("by")
            else:
                answer["digest"] = tests.digest(behind)
            results.add(mutant, answer)
            if number % 20 == 0:
                note(f"{number} tried, {time.monotonic() - started:.0f} s")
    finally:
        slots.close()


# --- what became of them -----------------------------------------------------------------------


def equivalents() -> dict[tuple[str, str, str, str], str]:
    """Return the reasons of the listed mutants, by file, function and both lines."""
    found = {}
    if EQUIVALENT.exists():
        for entry in EQUIVALENT.read_text().split("\n\n"):
            lines = [line for line in entry.splitlines() if line and line[0] != "#"]
            if lines:
                head, old, new, why = lines
                path, _, function = head.partition(" ")
                found[path, function, old[2:], new[2:]] = why
    return found


def interval(part: int, tried: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, from a sample without repeats: Wilson's, with the
    correction for a finite number."""
    if tried == 0:
        return 0.0, 1.0
    if tried == total:
        return part / total, part / total
    z2 = 1.96**2 * (total - tried) / (total - 1)
    share = part / tried
    middle = (share + z2 / (2 * tried)) / (1 + z2 / tried)
    half = (z2 * (share * (1 - share) / tried + z2 / (4 * tried**2))) ** 0.5 / (1 + z2 / tried)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def summary(generated: dict[str, list[Mutant]], tried: dict[str, list[Mutant]]) -> None:
    """Print the table, and write the list of survivors."""
    results = Results(False)
    reasons = equivalents()
    used: set[tuple[str, str, str, str]] = set()
    open_ = []
    print(
        f"{'room':12}{'mutants':>9}{'tried':>7}{'noticed':>9}{'by time':>9}{'equivalent':>12}"
        f"{'open':>6}{'no test':>9}{'noticed %':>11}  95 % interval"
    )
    rows = {**tried, "all": [answer for some in tried.values() for answer in some]}
    sizes = {name: len(mutants) for name, mutants in generated.items()}
    sizes["all"] = sum(sizes.values())
    for room, mutants in rows.items():
        if room == "all" and len(tried) == 1:
            continue
        count: Counter[str] = Counter()
        for mutant in mutants:
            answer = results.by_key.get(mutant.key, {"result": "unknown"})
            result = answer["result"]
            count["time"] += result == "time"
            if result in NOTICED:
                count["noticed"] += 1
                continue
            identity = (mutant.path, mutant.function, *mutant.change)
            if identity in reasons:
                used.add(identity)
                count["equivalent"] += 1
                continue
            count["open"] += 1
            count["no test"] += answer.get("tests") == 0
            if room != "all":
                open_.append((mutant, answer))
        low, high = interval(count["noticed"], len(mutants), sizes[room])
        print(
            f"{room:12}{sizes[room]:9}{len(mutants):7}{count['noticed']:9}{count['time']:9}"
            f"{count['equivalent']:12}{count['open']:6}{count['no test']:9}"
            f"{100 * count['noticed'] / max(len(mutants), 1):10.1f}"
            f"   {100 * low:.1f} to {100 * high:.1f}"
        )
    text = "\n".join(
        f"{mutant.path} {mutant.function}\n- {mutant.change[0]}\n+ {mutant.change[1]}\n"
        f"# line {mutant.lines[0]}, {answer.get('tests', '?')} tests, {answer['result']}\n"
        for mutant, answer in sorted(open_, key=lambda pair: (pair[0].path, pair[0].start))
    )
    (BUILD / "open.txt").write_text(text)
    print(f"survivors that are not listed as equivalent: {BUILD.relative_to(REPOSITORY)}/open.txt")


def main() -> None:
    """Try the mutants that are asked for."""
    parser = argparse.ArgumentParser(prog="make mutate")
    parser.add_argument("rooms", nargs="*")
    parser.add_argument("--sample", type=int, help="so many of each room, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="forget all results")
    parser.add_argument("--show", action="store_true", help="only print what is known")
    parser.add_argument("--tests", nargs="*", help="files or folders below tests, instead of all")
    options = parser.parse_args()
    tests = [str(TESTS / name) for name in options.tests] if options.tests else folders()
    if os.geteuid() != 0:
        sys.exit("make mutate needs root: it tries each mutant as a user who owns nothing")
    generated = chosen_mutants(options.rooms)
    tried = generated
    if options.sample:
        tried = {
            room: random.Random(f"{options.seed} {room}").sample(
                mutants, min(options.sample, len(mutants))
            )
            for room, mutants in generated.items()
        }
    mutants = [answer for some in tried.values() for answer in some]
    if not options.show:
        pid = os.fork()
        if pid == 0:
            in_warm(mutants, options.jobs, options.fresh, tests)
            os._exit(0)
        os.waitpid(pid, 0)
        in_cold(mutants, options.jobs, tests)
    summary(generated, tried)


if __name__ == "__main__":
    main()
