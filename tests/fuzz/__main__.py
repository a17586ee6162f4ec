"""This program hunts for faults: `python -m fuzz [TARGET]... [--seconds N] [--seed N]`, from `make
fuzz`. A fault ends it with 1; its input is kept, and its seed makes it again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.harness import hunt, seeds_of
from fuzz.targets import TARGETS

_KEPT = Path(__file__).parents[2] / "build" / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60, help="for each target [60]")
    parser.add_argument("--seed", type=int, default=1, help="the first seed [1]")
    parser.add_argument("--count", type=int, help="as many seeds, whatever time they take")
    parser.add_argument("--most", type=int, default=5, help="faults that are shown in full [5]")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    found = 0
    for name in options.targets or TARGETS:
        seeds = seeds_of(options.seed, options.count, options.seconds)
        results = hunt(name, TARGETS[name], seeds, _KEPT)
        statuses = ", ".join(
            f"{many} x {status}" for status, many in sorted(results.statuses.items())
        )
        print(f"{name}: {results.seeds} seeds, {results.commands} commands ({statuses or 'none'})")
        for fault in results.found[: options.most]:
            command = " ".join(map(repr, fault.ended.argv))[:300]
            print(
                f"  seed {fault.seed}: {fault.ended.fault}: {command}\n"
                f"    kept in {fault.kept}\n"
                f"    again: make fuzz TARGET={name} SEED={fault.seed} COUNT=1"
            )
        if len(results.found) > options.most:
            print(f"  and {len(results.found) - options.most} more faults")
        found += len(results.found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
