"""This module starts runs as a user does, and finds the processes that they have."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from host_snapshot import RUNS, run_of
from switchmark.runs.clean import Cleaned
from switchmark.runs.clean import clean as clean_all
from switchmark.runs.workspace import RUN

COMMAND = [sys.executable, "-m", "switchmark"]


def records(completed: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in completed.stdout.splitlines()]


def start(environment: dict[str, str], cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=cwd,
    )


def clean(base: Path = RUNS, *, dry_run: bool = False) -> list[Cleaned]:
    """Clean up after the runs below `base`, and return the results. A clean-up of all runs would
    give back what a dead run of another lane holds of the host's values, while its programs use
    it."""
    names = sorted(folder.name for folder in base.glob("sm*") if RUN.fullmatch(folder.name))
    return clean_all(base, runs=names, dry_run=dry_run) if names else []


def wait_for(condition: Callable[[], Any], description: str, limit_s: float = 60) -> Any:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{description}: not in {limit_s} s")


def wait_for_trials(folder: Path, number: int = 1) -> None:
    """Wait until runs below a folder have stored trials, so that their paths are up and frames
    flow."""

    def stored() -> bool:
        files = folder.rglob("trials.jsonl")
        return sum(file.read_bytes().count(b"\n") for file in files) >= number

    wait_for(stored, f"{number} trials", 100)


def marked(name: str, run: subprocess.Popen[str] | None = None) -> list[int]:
    """Return the processes of any run, or those that this one started, whose name is this: the
    oldest first, unless the numbers have begun anew."""
    return sorted(
        int(comm.parent.name)
        for comm in Path("/proc").glob("[0-9]*/comm")
        if run_of(comm.parent)
        and _name(comm) == name
        and (run is None or _parent(comm.parent) == run.pid)
    )


def of_run(name: str, run: subprocess.Popen[str]) -> list[int]:
    """Return the processes of this name that this run started, in whatever node."""
    comms = list(Path("/proc").glob("[0-9]*/comm"))
    ids = {run_of(comm.parent) for comm in comms if _parent(comm.parent) == run.pid} - {""}
    return [int(c.parent.name) for c in comms if _name(c) == name and run_of(c.parent) in ids]


def _name(comm: Path) -> str:
    try:
        return comm.read_text().strip()
    except OSError:
        return ""


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def traffic_processes(run: subprocess.Popen[str] | None = None) -> list[int]:
    return marked("switchmark-traf", run)
