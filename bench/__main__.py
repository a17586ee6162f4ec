"""`python -m bench` runs the comparisons by name, one after another, and prints a table of what
they show."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.ancestor import BEST, RAW_GSO, RAW_MMSG, UDP_GSO
from bench.bed import Bed
from bench.bypass import BYPASS
from bench.comparison import Comparison, Session
from bench.generators import GENERATORS
from bench.guide import write
from bench.labs import LABS
from bench.order import ORDER, contradicted
from bench.own import BUILDS, NULL, PACING, SETUP, SETUP_SWITCHES
from bench.page import PAGE
from bench.peaks import PEAKS
from bench.peers import MissingPeer
from bench.placed import PLACED
from bench.records import RECORDS
from bench.report import Machine, Row, table, write_json
from bench.rtt import RTT
from bench.threads import THREADS
from switchmark.errors import Interrupted, SwitchmarkError, Unavailable
from switchmark.hosts.signals import interruptible
from switchmark.runs.workspace import Workspace

INTERRUPTED = 130
COMPARISONS = (
    RAW_MMSG,
    RAW_GSO,
    UDP_GSO,
    BEST,
    *GENERATORS,
    ORDER,
    RTT,
    *BYPASS,
    *PLACED,
    NULL,
    BUILDS,
    THREADS,
    PEAKS,
    PACING,
    SETUP,
    SETUP_SWITCHES,
    RECORDS,
    PAGE,
    LABS,
)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparisons. Return 0 unless the bench itself breaks, or a host contradicts the order
    of the engines: any other limit that is missed is a result."""
    options = _parser().parse_args(arguments)
    if options.list:
        for one in COMPARISONS:
            print(f"{one.name:18} {one.summary}")
        return 0
    chosen = _chosen(options.names)
    pairs, seconds = (3, 0.5) if options.quick else (15, 2.0)
    pairs, seconds = options.pairs or pairs, options.seconds or seconds
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    broken: dict[str, str] = {}
    machine = Machine()
    try:
        with interruptible():
            for one in chosen:
                _compare(one, pairs, seconds, rows, skipped, broken)
    except Interrupted as interrupted:
        broken["interrupted"] = str(interrupted)
    facts = machine.facts()
    print(table(rows, skipped, facts))
    if wrong := contradicted([row for row in rows if row.name.startswith(ORDER.name)]):
        broken[ORDER.name] = wrong
    for name, why in broken.items():
        print(f"{name}: FAILED: {why}")
    if options.json:
        write_json(options.json, rows, skipped, facts)
    if options.guide:
        print(f"written into the guide: {', '.join(write(rows, skipped, facts, seconds))}")
    return INTERRUPTED if "interrupted" in broken else 1 if broken else 0


def _compare(
    one: Comparison,
    pairs: int,
    seconds: float,
    rows: list[Row],
    skipped: dict[str, str],
    broken: dict[str, str],
) -> None:
    """Run one comparison in a separate run; its logs stay only if it fails."""
    logs = Path(tempfile.mkdtemp(prefix="switchmark-bench-"))

    def say(text: str) -> None:
        print(f"{one.name}: {text}", file=sys.stderr, flush=True)

    try:
        with Workspace() as workspace:
            bed = Bed(workspace, logs)
            with bed.block():
                rows += one.run(Session(bed, pairs, seconds, say))
    except (MissingPeer, Unavailable) as missing:
        skipped[one.name] = str(missing)
    except Interrupted:
        raise
    except (SwitchmarkError, RuntimeError, ValueError) as error:
        broken[one.name] = f"{error} (logs: {logs})"
    finally:
        if one.name not in broken:
            shutil.rmtree(logs, ignore_errors=True)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("at least one")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 600:
        raise ValueError("from 0.1 to 600")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="comparisons or families; all if none is named")
    parser.add_argument("--list", action="store_true", help="list the comparisons")
    parser.add_argument("--pairs", type=_count, help="pairs, or runs, of each (15)")
    parser.add_argument("--seconds", type=_seconds, help="length of one measurement (2)")
    parser.add_argument("--quick", action="store_true", help="3 pairs of half a second")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    parser.add_argument(
        "--guide", action="store_true", help="write the tables of what ran into the guide"
    )
    return parser


def _chosen(names: list[str]) -> list[Comparison]:
    """Return the comparisons that are named, or all of a family: `trafgen` stands for every
    `trafgen-...`."""
    if not names:
        return list(COMPARISONS)
    chosen: list[Comparison] = []
    for name in names:
        exact = [one for one in COMPARISONS if one.name == name]
        family = [one for one in COMPARISONS if one.name.startswith(f"{name}-")]
        if not exact and not family:
            every_name = ", ".join(one.name for one in COMPARISONS)
            raise SystemExit(f"there is no comparison '{name}'; there are: {every_name}")
        chosen += exact or family
    return [one for one in COMPARISONS if one in chosen]


if __name__ == "__main__":
    sys.exit(main())
