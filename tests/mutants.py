"""This program breaks important lines of switchmark one at a time, of the Python package and of the
C program, and runs the fast tests that are to notice: `make mutants`. It lists the mutants that no
test noticed, and exits with their number.

    python tests/mutants.py [NAME...]    all of them, or those whose name contains a word
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line that is broken."""

    name: str
    """What is wrong then."""
    path: str
    """The file, from `src/switchmark`; of the C program from the repository."""
    old: str
    """Text that occurs once in the file."""
    new: str
    """Text in place of it."""
    tests: tuple[str, ...]
    """The files of tests that are to notice, from `tests`; of the C program the names of tests."""
    more: tuple[tuple[str, str, str], ...] = ()
    """Further files that are broken in the same way, with the old and the new text."""

    @property
    def is_c(self) -> bool:
        return self.path.startswith("traffic/")

    @contextmanager
    def applied(self, tree: Path) -> Iterator[None]:
        """Break the lines in a copy of the files, and restore them."""
        before: dict[Path, str] = {}
        for path, old, new in ((self.path, self.old, self.new), *self.more):
            file = tree / path
            text = before.setdefault(file, file.read_text())
            assert text.count(old) == 1, f"{path} has no single {old!r}"
            file.write_text(text.replace(old, new))
        try:
            yield
        finally:
            for file, text in before.items():
                file.write_text(text)


EXPORTS = ("contract/test_exports.py", "unit/test_export.py")
OUTCOME, GATE = ("unit/test_outcome.py",), ("unit/test_gate.py",)
C = ("core", "control", "loop", "merged", "order")
"""The tests of the C program that make no namespaces."""

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
        "    if meets(trials[1], allowed):\n        trials.append(trial())",
        "    if meets(trials[1], allowed):\n        pass",
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
        "self._workers.drain(max(quiet_ms, round(residual_s * 1000)))",
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
        'meaning, of("ipdv", name))',
        'meaning, lambda row: (of("ipdv", name)(row) or 0) // 1000)',
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
    Mutant(
        "a percentile is of the rank below",
        "metrics/latency.py",
        "(-(-count * PERCENTILES[name] // _ALL), name)",
        "(count * PERCENTILES[name] // _ALL, name)",
        ("unit/test_metrics.py",),
    ),
    Mutant(
        "a percentile is the lower end of its bin",
        "metrics/latency.py",
        "min(value_at(index + 1) - 1, highest)",
        "min(value_at(index), highest)",
        ("unit/test_metrics.py",),
    ),
    Mutant(
        "a switch is slow where intervals overlap",
        "metrics/verdict.py",
        "return bool(middle < share * there and high < low)",
        "return bool(middle < share * there)",
        ("unit/test_judging.py",),
    ),
    Mutant(
        "stolen time is never the limit",
        "metrics/verdict.py",
        "if (evidence.stolen or 0.0) > _STOLEN:",
        "if False:",
        ("unit/test_judging.py",),
    ),
    Mutant(
        "no result is faster or slower",
        "metrics/difference.py",
        "if self.reason or not self.is_shown:",
        "if True:",
        ("unit/test_compare.py", "unit/test_difference.py"),
    ),
    Mutant(
        "a folder that was made is not removed",
        "runs/executor.py",
        'removing = ("rmdir", "--ignore-fail-on-non-empty", *missing)',
        'removing = ("true",)',
        ("unit/test_runs_executor.py",),
    ),
    Mutant(
        "the oldest undo is carried out first",
        "runs/executor.py",
        "            ][::-1]\n",
        "            ]\n",
        ("unit/test_runs_executor.py",),
    ),
    Mutant(
        "the calibration is the fastest trial",
        "lab/calibration.py",
        "by_rate[median_low([dated.result.rate_pps[1] for dated in trials])]",
        "by_rate[max(dated.result.rate_pps[1] for dated in trials)]",
        ("unit/test_calibration.py",),
    ),
    Mutant(
        "the rate of a core is in frames per second",
        "metrics/cpu.py",
        "pps / 1e6 / cores",
        "pps / cores",
        ("unit/test_cost.py", "unit/test_metrics.py"),
    ),
    Mutant(
        "R+ holds the transient",
        "metrics/throughput.py",
        "    steady = steady[mser_start(steady) :]\n",
        "",
        ("unit/test_metrics.py",),
    ),
    Mutant(
        "no trial is measured",
        "lab/trial.py",
        "        run = 2**28 + secrets",
        "        raise ValueError\n        run = 2**28 + secrets",
        ("unit/test_trial.py", "contract/test_wings.py"),
    ),
    Mutant(
        "the checksum over IPv6 has no addresses",
        "traffic/src/judge.c",
        "sum += checksum_add(udp - 32, 32);",
        "sum += 0;",
        C,
    ),
    Mutant(
        "no checksum has the protocol",
        "traffic/src/judge.c",
        "sum = net16(17) + (uint64_t)load16(udp + 4);",
        "sum = (uint64_t)load16(udp + 4);",
        C,
        (
            (
                "traffic/src/template.c",
                "checksum_add(udp - (t->v6 ? 32 : 8), t->v6 ? 32 : 8) + net16(17)",
                "checksum_add(udp - (t->v6 ? 32 : 8), t->v6 ? 32 : 8)",
            ),
            ("traffic/src/predict.c", "load32(p - 12) + net16(17) +", "load32(p - 12) +"),
        ),
    ),
    Mutant("no frame is reordered", "traffic/src/sequence.c", "s->reordered++;", "(void)0;", C),
    Mutant(
        "a frame is stamped with the time at which it leaves",
        "traffic/src/send.c",
        "s->lag_max = now - *due;",
        "s->lag_max = now - *due;\n\t*due = now;",
        C,
    ),
    Mutant(
        "any TTL is right",
        "traffic/src/judge.c",
        "!memcmp(ip + 4, want + 4, 6) &&",
        "!memcmp(ip + 4, want + 4, 4) && ip[9] == want[9] &&",
        C,
    ),
    Mutant(
        "any hop limit is right",
        "traffic/src/judge.c",
        "!memcmp(ip + 6, want + 6, IP6_BYTES - 6 + 4);",
        "ip[6] == want[6] && !memcmp(ip + 8, want + 8, IP6_BYTES - 8 + 4);",
        C,
    ),
    Mutant(
        "a latency is in the next bin",
        "traffic/src/histogram.h",
        "h->counts[histogram_index(ns)] += times;",
        "h->counts[histogram_index(ns) + 1] += times;",
        C,
    ),
    Mutant(
        "a frame older than the window is nothing",
        "traffic/src/sequence.c",
        "s->beyond++;",
        "(void)0;",
        C,
    ),
    Mutant(
        "a sender is a hundredth too slow",
        "traffic/src/send.c",
        "s->period = (unsigned __int128)(period * unit);",
        "s->period = (unsigned __int128)(period * 1.01L * unit);",
        C,
    ),
    Mutant(
        "no frame is stray",
        "traffic/src/receive.c",
        "if (unlikely(flow >= flows)) {\n\t\t\tr->stray++;",
        "if (unlikely(flow >= flows)) {",
        C,
    ),
)


def is_noticed(mutant: Mutant, tree: Path) -> bool:
    """Say whether a test of the Python package fails where a line is broken in a copy."""
    tests = [str(REPOSITORY / "tests" / test) for test in mutant.tests]
    options = ["-q", "-x", "-o", f"pythonpath={tree.parent} tests ."]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with mutant.applied(tree):
        completed = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
        )
    if completed.returncode not in (0, 1):
        sys.exit(
            f"{mutant.name}: pytest ended with {completed.returncode}\n{completed.stdout[-2000:]}"
        )
    return completed.returncode == 1


def meson(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run meson."""
    command = [sys.executable, "-m", "mesonbuild.mesonmain", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def is_noticed_in_c(mutant: Mutant, tree: Path) -> bool:
    """Say whether a test of the C program fails where a line is broken in a copy."""
    build = str(tree / "build")
    with mutant.applied(tree):
        built = meson("compile", "-C", build)
        if built.returncode:
            sys.exit(f"{mutant.name}: it does not compile\n{built.stdout[-2000:]}")
        return meson("test", "-C", build, "--no-rebuild", *mutant.tests).returncode != 0


def copy_of_c(tree: Path) -> None:
    """Make a copy of the C program whose tests pass."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--", ":!tests", ":!docs"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, tracked.stdout.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tree / name)
    build = str(tree / "build")
    for arguments in (
        ("setup", build, str(tree), "-Ddpdk=disabled", "-Dxdp=disabled"),
        ("compile", "-C", build),
        ("test", "-C", build, "--no-rebuild", *C),
    ):
        completed = meson(*arguments)
        if completed.returncode:
            sys.exit(f"meson {' '.join(arguments)}:\n{completed.stdout[-2000:]}{completed.stderr}")


def main() -> None:
    arguments = sys.argv[1:]
    chosen = [
        mutant
        for mutant in MUTANTS
        if not arguments or any(word in mutant.name for word in arguments)
    ]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="switchmark-mutants-") as name:
        python, c = Path(name, "src/switchmark"), Path(name, "c")
        shutil.copytree(
            REPOSITORY / "src/switchmark", python, ignore=shutil.ignore_patterns("__pycache__")
        )
        if any(mutant.is_c for mutant in chosen):
            copy_of_c(c)
        for mutant in chosen:
            noticed = is_noticed_in_c(mutant, c) if mutant.is_c else is_noticed(mutant, python)
            survivors += not noticed
            print(f"{'noticed ' if noticed else 'SURVIVED'}  {mutant.name}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants were noticed")
    sys.exit(survivors)


if __name__ == "__main__":
    main()
