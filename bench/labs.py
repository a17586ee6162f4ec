"""This module measures what a second testbed saves: 50 tests at a low rate, by one worker of this
host and by two."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

from bench.bed import require_root
from bench.comparison import Comparison, Session
from bench.pairs import Limit
from bench.report import Row, compared
from switchmark.errors import Unavailable

_TESTS = 50
_CAMPAIGN = f"""
name: labs
switch: linux-bridge
rate: 1k
duration: 1s
warmup: 100ms
frame-size: [{", ".join(str(64 + 4 * number) for number in range(_TESTS))}]
"""


def _measure(session: Session) -> list[Row]:
    require_root()
    if importlib.util.find_spec("distributed") is None:
        raise Unavailable("the extra switchmark[lab] is not installed")
    folder = session.bed.logs / "labs"
    folder.mkdir(parents=True)
    (folder / "campaign.yaml").write_text(_CAMPAIGN)
    samples: dict[str, list[float]] = {"A": [], "B": []}
    pairs = max(1, session.pairs // 5)  # each takes minutes
    for number in range(pairs):
        for side, testbeds in (("A", 2), ("B", 1)):
            session.say(f"{number + 1}/{pairs}: {_TESTS} tests, {testbeds} testbeds")
            samples[side].append(_seconds(folder, testbeds, f"{side}{number}"))
    note = "the whole command, with the start of workers and the comparison of two"
    limit = Limit("at most", 0.6)
    return [compared("labs", "two testbeds", "one", "s", samples, limit, (note,))]


def _seconds(folder: Path, testbeds: int, name: str) -> float:
    """Return how long the campaign takes with as many testbeds."""
    lab = folder / f"{testbeds}.toml"
    lab.write_text(f"[local]\ntestbeds = {testbeds}\n")
    argv = ["run", "campaign.yaml", "--cluster", str(lab), "--share-machine", "--name", name]
    begun = time.monotonic()
    completed = subprocess.run(
        [sys.executable, "-m", "switchmark", *argv, "--quiet", "--json"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    seconds = time.monotonic() - begun
    if completed.returncode or completed.stdout.count('"status": "ok"') != _TESTS:
        raise RuntimeError(f"a run on {testbeds} testbeds failed: {completed.stderr[-2000:]}")
    return seconds


LABS = Comparison("labs", "50 tests by one testbed of this host, and by two", _measure)
