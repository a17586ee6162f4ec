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
SHORT = ["--duration", "0.3", "--warmup", "0", "--repeat", "4"]

SLOW = """#!/bin/sh
# What testpmd itself offers to be slow by: it reads at random for each frame.
case "$*" in
*" -- "*) set -- "$@" --forward-mode=noisy --noisy-lkup-memory=1 --noisy-lkup-num-reads=20000 ;;
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


def test_a_switch_that_became_slower_fails_the_gate(switchmark: Switchmark, tmp_path: Path) -> None:
    usual = shutil.which("dpdk-testpmd")
    assert usual is not None
    slow = tmp_path / "dpdk-testpmd"
    slow.write_text(SLOW.format(program=usual))
    slow.chmod(0o755)
    for name, program in (("old", usual), ("new", str(slow))):
        done = switchmark("run", *RUN, *SHORT, "--name", name, SWITCHMARK_TESTPMD=program)
        assert done.returncode == 0, done.stderr

    gate = ("--fail-on", "slower:3%")
    done = switchmark("compare", "runs/old", "runs/new", *gate)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "slower" in done.stdout
    for runs in (("runs/new", "runs/old"), ("runs/old", "runs/old")):
        done = switchmark("compare", *runs, *gate)
        assert done.returncode == 0, done.stdout + done.stderr
