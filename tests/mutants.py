"""This program breaks important lines of switchmark one at a time and runs the fast tests that are
to notice: `make mutants`. It lists the mutants that no test noticed, and exits with their number.

    python tests/mutants.py [NAME...]    all of them, or those whose name contains a word
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line that is broken."""

    name: str
    """What is wrong then."""
    path: str
    """The file, from `src/switchmark`."""
    old: str
    """Text that occurs once in the file."""
    new: str
    """Text in place of it."""
    tests: tuple[str, ...]
    """The files of tests that are to notice, from `tests`."""


EXPORTS = ("contract/test_exports.py", "unit/test_export.py")
OUTCOME, GATE = ("unit/test_outcome.py",), ("unit/test_gate.py",)

MUTANTS = (
    Mutant(
        "the sum of a trial fails",
        "lab/outcome.py",
        "        sums: dict[str, int] = {}\n",
        "        raise ValueError\n",
        OUTCOME,
    ),
    Mutant(
        "duplicates are taken off the lost frames",
        "lab/outcome.py",
        "lost = tx * self.path.test.copies - distinct",
        'lost = tx * self.path.test.copies - distinct - sums["duplicated"]',
        OUTCOME,
    ),
    Mutant(
        "the loss of copies is counted once",
        "lab/outcome.py",
        "lost = tx * self.path.test.copies - distinct",
        "lost = tx - distinct // self.path.test.copies",
        OUTCOME,
    ),
    Mutant("the loss of each flow is 0", "lab/outcome.py", "lost=tx - rx,", "lost=0,", OUTCOME),
    Mutant(
        "what a ring drops has no place",
        "lab/outcome.py",
        'places[Place.ring(port.id)] += counts["rx_ring_drops"]',
        "pass",
        OUTCOME,
    ),
    Mutant(
        "no trial has stolen time",
        "lab/outcome.py",
        '"cpu-stolen": stolen > _STEAL,',
        '"cpu-stolen": False,',
        OUTCOME,
    ),
    Mutant(
        "no host is busy",
        "lab/outcome.py",
        '"host-busy": any(share > BUSY for share in taken.values()),',
        '"host-busy": False,',
        OUTCOME,
    ),
    Mutant(
        "no frame is foreign",
        "lab/outcome.py",
        '"foreign-frames": foreign,',
        '"foreign-frames": False,',
        OUTCOME,
    ),
    Mutant(
        "the gate lets reordered frames pass",
        "lab/gate.py",
        '        (trial.reordered, "arrived after a later one"),\n',
        "",
        GATE,
    ),
    Mutant(
        "the gate lets wrong headers pass", "lab/gate.py", "if headers.broken:", "if False:", GATE
    ),
    Mutant(
        "the gate lets frames leave at any port",
        "lab/gate.py",
        "if port not in used and end.tx:",
        "if False:",
        GATE,
    ),
    Mutant(
        "the gate lets frames be added or kept",
        "lab/gate.py",
        "if entered != left:",
        "if False:",
        GATE,
    ),
    Mutant(
        "one trial of two makes a rate pass",
        "searches/ndr.py",
        "        trials.append(trial())\n    return trials",
        "        pass\n    return trials",
        ("unit/test_searches.py",),
    ),
    Mutant(
        "counters are not relative to those before",
        "lab/trial.py",
        "after.since(before)",
        "after",
        ("unit/test_trial.py",),
    ),
    Mutant(
        "a path is not left to fall quiet",
        "lab/trial.py",
        "self._workers.drain(quiet_ms)",
        "self._workers.drain(0)",
        ("unit/test_trial.py",),
    ),
    Mutant(
        "the rate is not shared among senders",
        "path/orders.py",
        "* job.flows / (len(flows) * test.flow_numbers)",
        "* 1",
        ("unit/test_orders.py",),
    ),
    Mutant(
        "a router need not count down the TTL",
        "path/orders.py",
        '"ttl": _TTL - a.routed',
        '"ttl": _TTL',
        ("unit/test_orders.py",),
    ),
    Mutant(
        "the exported loss is in percent",
        "report/rows.py",
        "lambda result: lost_share(result.record)",
        "lambda result: 100 * (lost_share(result.record) or 0)",
        EXPORTS,
    ),
    Mutant(
        "the exported variation of latency is in microseconds",
        "report/rows.py",
        'words, of("ipdv", name))',
        'words, lambda row: (of("ipdv", name)(row) or 0) // 1000)',
        EXPORTS,
    ),
    Mutant(
        "the exported p99 of the cable is its p50",
        "report/rows.py",
        '_of_record(f"floor.{name}")',
        '_of_record("floor.p50")',
        EXPORTS,
    ),
    Mutant(
        "a comparison never fails",
        "cli/comparing.py",
        "return Exit.FAILED",
        "return Exit.FINE",
        ("unit/test_cli.py", "contract"),
    ),
)


def is_noticed(mutant: Mutant) -> bool:
    """Say whether a test fails where a line is broken."""
    with tempfile.TemporaryDirectory(prefix="switchmark-mutant-") as name:
        tree = Path(name) / "src"
        shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__"))
        broken = tree / "switchmark" / mutant.path
        text = broken.read_text()
        assert text.count(mutant.old) == 1, f"{mutant.path} has no single {mutant.old!r}"
        broken.write_text(text.replace(mutant.old, mutant.new))
        tests = [str(REPOSITORY / "tests" / each) for each in mutant.tests]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-o",
            f"pythonpath={tree} tests .",
            *tests,
        ]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True
        )
    if done.returncode not in (0, 1):
        sys.exit(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}")
    return done.returncode == 1


def main() -> None:
    words = sys.argv[1:]
    chosen = [each for each in MUTANTS if not words or any(word in each.name for word in words)]
    survivors = 0
    for mutant in chosen:
        noticed = is_noticed(mutant)
        survivors += not noticed
        print(f"{'noticed ' if noticed else 'SURVIVED'}  {mutant.name}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants were noticed")
    sys.exit(survivors)


if __name__ == "__main__":
    main()
