"""These tests hold two runs against each other as CI does: of a switch that did become slower."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from host_state import COMMAND

RUN = [
    "--switch",
    "testpmd",
    "--engine",
    "dpdk",
    "--calibrate",
    "never",
    "--gate",
    "off",
    "--quiet",
]
SHORT = ["--duration", "0.3", "--warmup", "0"]

SLOW = """#!/bin/sh
# What testpmd itself offers to be slow by: it reads at random for each frame.
case "$*" in
*" -- "*) set -- "$@" --forward-mode=noisy --noisy-lkup-memory=1 --noisy-lkup-num-reads=1000 ;;
esac
exec {program} "$@"
"""

Switchmark = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def switchmark(traffic_program: str, tmp_path: Path) -> Switchmark:
    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program, **variables}
        argv = [*COMMAND, *words]
        return subprocess.run(
            argv, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=100
        )

    return run


BUSY = "cannot tell: doubts about one side may be all that sets the figures apart"
GATE = ("compare", "runs/old", "runs/new", "--fail-on", "slower:3%")


@pytest.fixture
def slowed(switchmark: Switchmark, tmp_path: Path) -> Callable[[int], None]:
    """Measure testpmd so many times, and one that does more for each frame, in two runs."""

    def measure(repeat: int) -> None:
        usual = shutil.which("dpdk-testpmd")
        assert usual is not None
        slow = tmp_path / "dpdk-testpmd"
        slow.write_text(SLOW.format(program=usual))
        slow.chmod(0o755)
        for name, program in (("old", usual), ("new", str(slow))):
            words = (*RUN, *SHORT, "--repeat", str(repeat), "--name", name)
            done = switchmark("run", *words, SWITCHMARK_TESTPMD=program)
            assert done.returncode == 0, done.stderr

    return measure


def test_a_switch_that_became_slower_fails_the_gate(
    switchmark: Switchmark, slowed: Callable[[int], None]
) -> None:
    slowed(4)
    for runs, status, word in (("old new", 1, "slower by"), ("new old", 0, "faster by")):
        done = switchmark("compare", *(f"runs/{run}" for run in runs.split()), *GATE[3:])
        if BUSY in done.stdout:  # nobody can tell then, which is neither of them
            assert done.returncode == 6, done.stdout + done.stderr
            continue
        assert done.returncode == status, done.stdout + done.stderr
        assert word in done.stdout


def test_a_slowdown_that_too_few_repeats_cannot_show_is_not_green(
    switchmark: Switchmark, slowed: Callable[[int], None], tmp_path: Path
) -> None:
    slowed(2)
    for words, status in (((), 6), (("--undecided", "fail"), 1), (("--undecided", "pass"), 0)):
        done = switchmark(*GATE, *words, "--junit", f"{status}.xml")
        assert done.returncode == status, done.stdout + done.stderr
    for status, found in ((6, "<skipped"), (1, "<failure"), (0, "<skipped")):
        written = (tmp_path / f"{status}.xml").read_text()
        assert (found in written, "needs at least 3 rounds" in written) == (True, True)
