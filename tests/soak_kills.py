"""This program kills runs at random moments, cleans up after each, and compares the host with what
it was before: `make soak-kills COUNT=200 SEED=1`, as root.

Runs are of every switch, environment and noise that works here, and of switches in turn, of which
one is frozen, in a random order in which all come once before any comes twice. A seed repeats the
runs and the signals; the exact moments depend on the host.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host_snapshot import RUNS, Snapshot, differences, run_of, state_of_the_host
from host_state import COMMAND
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import SwitchmarkError
from switchmark.hosts.local import LocalHost
from switchmark.model.test import AXES, Test
from switchmark.noises import TABLE as NOISES
from switchmark.path.refusals import check
from switchmark.switches import TABLE as SWITCHES

ENGINES = ("raw-mmsg", "udp-mmsg", "dpdk")
KILLS = ("parent", "group", "every process", "SIGTERM, SIGKILL", "clean too")
LONGEST_S = 4.0
"""The latest moment of a kill, after the run's folder is there: some VMs are up by then."""

LONGEST_IN_TURN_S = 12.0
"""The same of a run that sets several paths up."""

BEGINS_S = 30.0
ENDS_S = 60.0
SETTLES_S = 5.0


@dataclass
class Tally:
    """This counts what became of the runs."""

    kinds: Counter[str]
    runs: set[str]
    ended: int = 0
    unclean: int = 0
    different: int = 0

    def line(self, seed: int) -> str:
        kinds = ", ".join(f"{kind} {self.kinds[kind]}" for kind in KILLS if self.kinds[kind])
        return (
            f"soak: {self.kinds.total()} kills ({kinds}), {self.ended} after the run's end; "
            f"{self.unclean} cleanings failed, {self.different} left the host different; "
            f"seed {seed}"
        )


def settings() -> list[dict[str, Any]]:
    """Return the axes of a test for each switch in each environment, of functions and where it can
    be of the switch, and for each noise, that works on this host."""
    host = LocalHost()

    def usable(table: Any) -> list[str]:
        names = []
        for name, driver in table.items():
            with suppress(SwitchmarkError, OSError):
                driver.probe(host)
                names.append(name)
        return [name for name in names if name != "null"]

    switches, environments, noises = map(usable, (SWITCHES, ENVIRONMENTS, NOISES))
    candidates: Iterator[dict[str, Any]] = itertools.chain(
        (
            {"switch": switch, "environment": environment, **place}
            for switch in switches
            for environment in environments
            for place in ({}, {"switch_environment": environment})
        ),
        ({"noise": noise} for noise in noises),
        ({"cpu_limit": limit} for limit in ("50", "function:50")),
    )
    return [axes for candidate in candidates if (axes := with_engine(candidate))] + in_turn(
        switches
    )


def in_turn(switches: Sequence[str]) -> list[dict[str, Any]]:
    """Return the axes of runs in which two switches that poll are compared in turn: once both are
    up, one of them is frozen."""
    polling = [
        name
        for name in switches
        if name != "direct" and not check(Test(switch=name, engine="dpdk"))
    ]
    return [
        {"switch": ",".join(pair), "engine": "dpdk", "repeat": 500, "duration": 0.1}
        for pair in itertools.pairwise(polling)
    ]


def with_engine(axes: dict[str, Any]) -> dict[str, Any] | None:
    """Return the axes with an engine and, in an environment, the scenario with one node; None where
    no engine does."""
    shapes = ({"scenario": "p2v"}, {}) if "environment" in axes else ({},)
    for shape, engine in itertools.product(shapes, ENGINES):
        with suppress(SwitchmarkError, ValueError):
            if not check(Test(**axes, **shape, engine=engine)):
                return {**axes, **shape, "engine": engine}
    return None


def words_of(axes: dict[str, Any], draw: random.Random) -> list[str]:
    options = ["--capture=50"] if draw.random() < 0.1 else []
    return [f"{AXES[axis].option}={value}" for axis, value in axes.items()] + options


def folder_of(run: subprocess.Popen[bytes]) -> Path | None:
    """Return the folder of a run, once it has a journal."""
    for journal in RUNS.glob("sm*/journal"):
        with suppress(OSError, ValueError, KeyError):
            if json.loads(journal.read_text().partition("\n")[0])["pid"] == run.pid:
                return journal.parent
    return None


def processes_of(name: str) -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if run_of(path) == name]


def kill(run: subprocess.Popen[bytes], kind: str, draw: random.Random) -> None:
    """Kill a run, by its parent, its group or all of its processes, of which the parent is the
    last."""
    folder = folder_of(run)
    if kind == "group":
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    if kind == "SIGTERM, SIGKILL":
        run.send_signal(signal.SIGTERM)
        time.sleep(draw.uniform(0, 1))
    if kind == "every process" and folder:
        for pid in processes_of(folder.name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    run.kill()
    run.wait(ENDS_S)


def clean_killed(draw: random.Random) -> None:
    """Begin to clean up twice, and be killed."""
    for _ in range(2):
        cleaning = subprocess.Popen(
            [*COMMAND, "clean"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with suppress(subprocess.TimeoutExpired):
            cleaning.wait(draw.uniform(0.2, 2))
        cleaning.kill()
        cleaning.wait()


def of_others(line: str, runs: set[str]) -> bool:
    """Say whether a line is of a run that was not begun here: other roots share the kernel."""
    names = set(re.findall(r"\bsm[0-9a-f]{4}\b", line))
    return bool(names) and not names & runs


def settled(before: Snapshot, runs: set[str]) -> tuple[Snapshot, dict[str, dict[str, list[str]]]]:
    """Return what the host is like and how that differs from before, once it does not, or after a
    moment: a namespace goes after its last process."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        state = state_of_the_host()
        after = {
            area: frozenset(line for line in lines if not of_others(line, runs))
            for area, lines in state.items()
        }
        changed = differences(before, after)
        if not changed or time.monotonic() > deadline:
            return after, changed
        time.sleep(0.1)


def one(arguments: list[str], kind: str, draw: random.Random, counts: Tally, folder: Path) -> str:
    """Kill one run and clean up after it; return a description."""
    options = ("--duration=60", "--rate=500", "--warmup=0", "--calibrate=never")
    run = subprocess.Popen(
        [*COMMAND, "run", *options, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    begun = time.monotonic()
    try:
        while (
            not (run_folder := folder_of(run))
            and run.poll() is None
            and time.monotonic() < begun + BEGINS_S
        ):
            time.sleep(0.005)
        counts.runs |= {run_folder.name} if run_folder else set()
        moment = draw.uniform(0, LONGEST_IN_TURN_S if "--repeat=500" in arguments else LONGEST_S)
        with suppress(subprocess.TimeoutExpired):
            run.wait(moment)
        had_ended = run.poll() is not None
    finally:
        kill(run, kind, draw)
    counts.kinds[kind] += 1
    counts.ended += had_ended
    if kind == "clean too":
        clean_killed(draw)
    cleaned = subprocess.run([*COMMAND, "clean"], capture_output=True, text=True)
    if cleaned.returncode:
        counts.unclean += 1
        return f"clean ended with {cleaned.returncode}: {cleaned.stdout}{cleaned.stderr}"
    return f"after {moment:.2f} s" + (", when it had ended" if had_ended else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="runs to kill")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default="", help="words that a run's options must have")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("soak: needs root", file=sys.stderr)
        return 3
    draw, counts = random.Random(options.seed), Tally(Counter(), set())
    choices = [
        setting for setting in settings() if options.only in " ".join(words_of(setting, draw))
    ]
    if not choices:
        print(f"soak: no run has the words '{options.only}' here", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    subprocess.run([*COMMAND, "clean"], capture_output=True, check=True)
    before, _ = settled({}, counts.runs)
    turn: list[dict[str, Any]] = []
    try:
        for number in range(1, options.count + 1):
            turn = turn or draw.sample(choices, len(choices))
            arguments = words_of(turn.pop(), draw)
            kind = KILLS[(number - 1) % len(KILLS)]
            outcome = one(arguments, kind, draw, counts, folder)
            print(
                f"[{number}/{options.count}] {kind}: {shlex.join(arguments)}: {outcome}", flush=True
            )
            before, changed = settled(before, counts.runs)
            counts.different += bool(changed)
            for area, lines in changed.items():
                for change, entries in lines.items():
                    for line in entries:
                        print(f"    {area}: {change} {line}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print(counts.line(options.seed), flush=True)
    return 1 if counts.unclean or counts.different else 0


if __name__ == "__main__":
    sys.exit(main())
