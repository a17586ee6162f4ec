"""This program compares copies of one switch under several names, again and again, and counts the
runs that claim a difference: `make soak-copies`, as root, on a quiet machine.

    --runs 40        runs of five copies of testpmd with three repeats: at most one in twenty claims
                     a difference by chance, so that more than five of 40 show a wrong rule
    --slower 10      runs with one copy that does known work for each burst, which makes it so many
                     percent slower: it is to be found with as many repeats as the noise of this
                     host asks, which each run finds out (`--until-decided`)
    --found 10       as many runs with that copy
    --repeats 300    at most so many repeats in each of them
    --order 10       as many runs, with the usual repeats, of testpmd and of a copy that is
                     slower by 60 percent or more, as snabb is: it is to be found in nine of ten

All runs are reported, whatever they claim.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from host_state import COMMAND

PROGRAM = "dpdk-testpmd"
WORKING = """#!/bin/sh
# The options of DPDK stand before the two dashes; those of the program may be given twice.
case " $* " in
*" -- "*) set -- "$@" --forward-mode=noisy --noisy-lkup-memory=1 --noisy-lkup-num-reads={reads} ;;
esac
exec {program} "$@"
"""
OPTIONS = (
    *("--engine", "dpdk", "--rate", "max", "--search", "max"),
    *("--calibrate", "never", "--quiet"),
)

READS = (1, 2, 3, 4, 6, 8, 48)
SHORT = ("--duration", "0.1", "--warmup", "0.02")


def copies(folder: Path, count: int) -> Iterator[str]:
    program = shutil.which(PROGRAM)
    assert program is not None, f"{PROGRAM} is not installed"
    for number in range(1, count + 1):
        path = folder / f"copy{number}" / PROGRAM
        path.parent.mkdir()
        shutil.copy2(program, path)
        yield f"testpmd@{path}"


def working(folder: Path, reads: int) -> str:
    """Return a testpmd that reads memory so many times for each burst."""
    path = folder / f"reads{reads}" / PROGRAM
    path.parent.mkdir(exist_ok=True)
    path.write_text(WORKING.format(reads=reads, program=shutil.which(PROGRAM)))
    path.chmod(0o755)
    return f"testpmd@{path}"


def measured(
    folder: Path, name: str, switches: Sequence[str], *arguments: str
) -> list[dict[str, Any]]:
    """Run switches together, and return the outcome for every pair."""
    command = [*COMMAND, "run", "--switch", ",".join(switches), *OPTIONS, *arguments]
    subprocess.run(
        [*command, "--out", str(folder), "--name", name], check=True, stdout=subprocess.DEVNULL
    )
    compare = [*COMMAND, "compare", str(folder / name), "--base", switches[0], "--json"]
    if len(switches) > 2:
        compare[-3:-1] = []
    completed = subprocess.run(compare, check=True, capture_output=True)
    return [json.loads(line) for line in completed.stdout.splitlines()]


def claims(pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [pair for pair in pairs if pair["difference"] in ("faster", "slower")]


def description(pair: dict[str, Any]) -> str:
    names = (Path(pair[side]["test"]["switch"]).parent.name for side in ("before", "after"))
    text = f"{pair['difference']} {pair['ratio']:.3f} {pair['ratio95']}"
    return f"{' and '.join(names)}: {text} of {pair['after']['repeats']} repeats"


def equal(folder: Path, runs: int) -> int:
    """Return in how many runs a difference between equal copies was claimed."""
    switches, wrong = list(copies(folder, 5)), 0
    for number in range(1, runs + 1):
        arguments = ("--repeat", "3", "--duration", "0.3", "--warmup", "0.1")
        found = claims(measured(folder, f"equal{number}", switches, *arguments))
        wrong += bool(found)
        print(f"equal {number}: {'; '.join(map(description, found)) or 'no claim'}", flush=True)
    return wrong


def slowed(folder: Path, percent: float) -> int:
    """Return the reads a burst that make testpmd so much slower, as nearly as a run finds it that
    tries several numbers of them in turn."""
    switches = [working(folder, reads) for reads in (0, *READS)]
    by_reads = {0: 0.0}
    for pair in measured(folder, f"tried{percent:g}", switches, "--repeat", "100", *SHORT):
        before, after = (pair[side]["test"]["switch"] for side in ("before", "after"))
        if before == switches[0]:
            reads = (0, *READS)[switches.index(after)]
            by_reads[reads] = 100 * (1 - pair["ratio"])
            print(f"{reads} reads: {by_reads[reads]:.1f} % slower", flush=True)
    return min(by_reads, key=lambda reads: abs(by_reads[reads] - percent)) or READS[0]


def found(folder: Path, percent: float, runs: int, repeats: int) -> int:
    """Return in how many runs a slower copy is found. Trials are short, so that those of a round
    see the host in one state."""
    switches = [working(folder, 0), working(folder, slowed(folder, percent))]
    right = 0
    for number in range(1, runs + 1):
        arguments = ("--repeat", "20", "--until-decided", str(repeats), *SHORT)
        (pair,) = measured(folder, f"slower{number}", switches, *arguments)
        right += pair["difference"] == "slower"
        print(f"slower {number}: {description(pair)}", flush=True)
    return right


def ordered(folder: Path, runs: int) -> int:
    """Return in how many runs a copy that is much slower is found, with the usual repeats."""
    switches = [working(folder, 0), working(folder, slowed(folder, 62))]
    right = 0
    for number in range(1, runs + 1):
        (pair,) = measured(folder, f"order{number}", switches)
        right += pair["difference"] == "slower"
        print(f"much slower {number}: {description(pair)}", flush=True)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--found", type=int, default=10)
    parser.add_argument("--slower", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--order", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="switchmark-copies-") as name:
        folder = Path(name)
        in_order = ordered(folder, options.order) if options.order else 0
        wrong = equal(folder, options.runs)
        right = (
            found(folder, options.slower, options.found, options.repeats) if options.found else 0
        )
    print(f"equal copies: a difference was claimed in {wrong} of {options.runs} runs")
    print(f"one {options.slower:g} % slower: it was found in {right} of {options.found} runs")
    print(f"one much slower: it was found in {in_order} of {options.order} runs")
    enough = right >= 0.9 * options.found and in_order >= 0.9 * options.order
    sys.exit(wrong > options.runs / 8 or not enough)


if __name__ == "__main__":
    main()
