"""The comparison page shows how long the page of 1,000 stored tests takes to be written, and how
large it is; it has no peer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.comparison import Comparison, Session
from bench.pairs import Limit
from bench.records import lines
from bench.report import Row, absolute

_TESTS = 1000
_SWITCHES = ("linux-bridge", "ovs", "vpp", "ovs-dpdk")
_MOST_MB = 6.0


def tests(count: int) -> Iterator[str]:
    """Yield so many lines of records of tests that all differ: in switch, frame size or pairs."""
    for number, line in enumerate(lines(count)):
        entry = json.loads(line)
        axes = {"switch": _SWITCHES[number % 4], "frame_size": 64 + 8 * (number // 4 % 25)}
        entry["record"]["test"] |= {**axes, "pairs": 1 + number // 100}
        entry["record"]["key"] = f"{number:064x}"[::-1]
        yield json.dumps(entry, separators=(",", ":"))


def _measure(session: Session) -> list[Row]:
    folder = session.bed.logs / "page"
    folder.mkdir(parents=True)
    (folder / "campaign.yaml").write_text("name: page\nswitch: linux-bridge\n")
    (folder / "records.jsonl").write_text("".join(f"{line}\n" for line in tests(_TESTS)))
    output = folder / "page.html"
    argv = [sys.executable, "-m", "switchmark", "report", str(folder), "-o", str(output)]
    seconds = []
    for number in range(session.pairs):
        session.say(f"{number + 1}/{session.pairs}")
        begun = time.monotonic()
        subprocess.run(argv, check=True)
        seconds.append(time.monotonic() - begun)
    megabytes = [output.stat().st_size / 1e6] * session.pairs
    note = f"{_TESTS} tests of three trials; the whole command"
    return [
        absolute("page", "written", "s", seconds, Limit("at most", 10.0), (note,)),
        absolute("page", "size", "MB", megabytes, Limit("at most", _MOST_MB), ()),
    ]


PAGE = Comparison("page", "the page of 1,000 tests: time and size", _measure)
