"""These tests hold two runs against each other as CI does: of a switch that did become slower."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from switchmark.campaign.store import read_records

pytestmark = pytest.mark.usefixtures("undrawn")

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
SHORT = ["--duration", "0.1", "--warmup", "0"]

SLOW = """#!/bin/sh
# What testpmd itself offers to be slow by: it reads at random for each frame.
case "$*" in
*" -- "*) set -- "$@" --forward-mode=noisy --noisy-lkup-memory=1 --noisy-lkup-num-reads=1000 ;;
esac
exec {program} "$@"
"""

Switchmark = Callable[..., "subprocess.CompletedProcess[str]"]


BUSY = "cannot tell: doubts about one side may explain the difference"
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
            arguments = (*RUN, *SHORT, "--repeat", str(repeat), "--name", name)
            completed = switchmark("run", *arguments, SWITCHMARK_TESTPMD=program)
            assert completed.returncode == 0, completed.stderr

    return measure


def test_a_switch_that_became_slower_fails_the_gate(
    switchmark: Switchmark, slowed: Callable[[int], None]
) -> None:
    slowed(4)
    for runs, status, word in (("old new", 1, "slower by"), ("new old", 0, "faster by")):
        completed = switchmark("compare", *(f"runs/{run}" for run in runs.split()), *GATE[3:])
        if BUSY in completed.stdout:  # nobody can tell then, which is neither of them
            assert completed.returncode == 6, completed.stdout + completed.stderr
            continue
        assert completed.returncode == status, completed.stdout + completed.stderr
        assert word in completed.stdout


@pytest.mark.further  # test_cli.py has the same of records
def test_a_slowdown_that_too_few_repeats_cannot_show_is_not_green(
    switchmark: Switchmark, slowed: Callable[[int], None], tmp_path: Path
) -> None:
    slowed(2)
    for arguments, status in (((), 6), (("--undecided", "fail"), 1), (("--undecided", "pass"), 0)):
        completed = switchmark(*GATE, *arguments, "--junit", f"{status}.xml")
        assert completed.returncode == status, completed.stdout + completed.stderr
    for status, found in ((6, "<skipped"), (1, "<failure"), (0, "<skipped")):
        text = (tmp_path / f"{status}.xml").read_text()
        assert (found in text, "needs at least 3 rounds" in text) == (True, True)


NEAR = (
    *("run", "--switch", "linux-bridge,tc-redirect", "--engine", "raw-mmsg", "--search", "max"),
    *("--repeat", "3", "--duration", "0.1", "--warmup", "0.02", "--calibrate", "never"),
    *("--gate", "off", "--quiet", "--name", "near"),
)
MORE = ("compare", "runs/near", "--until-decided", "4", "--same-within", "0.1%", "--json")


def rounds(folder: Path) -> list[list[int]]:
    """Return the numbers of the rounds that each test has trials of."""
    return [[trial.round or 0 for trial in record.trials] for record in read_records(folder)]


def test_a_stored_run_goes_on_until_it_is_decided(switchmark: Switchmark, tmp_path: Path) -> None:
    assert switchmark(*NEAR).returncode == 0
    folder = tmp_path / "runs/near"
    assert rounds(folder) == [[1, 2, 3]] * 2
    facts = json.loads((folder / "host.json").read_text())
    facts["versions"]["commit"] = "another"
    (folder / "host.json").write_text(json.dumps(facts))

    completed = switchmark(*MORE)
    (pair,) = [json.loads(line) for line in completed.stdout.splitlines()]
    undecided = pair["difference"].startswith("undecided")
    assert completed.returncode == (6 if undecided else 0), completed.stderr
    if undecided and pair["reason"] == "chance":  # more rounds cure no doubts
        assert rounds(folder) == [[1, 2, 3, 4]] * 2
    for record in read_records(folder):
        doubted = ["other-commit" in trial.doubts for trial in record.trials]
        assert doubted == [False] * 3 + [True] * (len(record.trials) - 3)

    (folder / "host.json").write_text(json.dumps({**facts, "kernel": "2.4"}))
    refused = switchmark(*MORE)
    assert refused.returncode == 2
    assert "kernel: 2.4, now " in refused.stderr


def test_what_has_no_rounds_does_not_go_on(switchmark: Switchmark) -> None:
    once = ("--switch", "null", "--engine", "null", "--environment", "host", "--name", "once")
    assert (
        switchmark("run", *once, "--switch-environment", "host", *SHORT, "--quiet").returncode == 0
    )
    refused = switchmark("compare", "runs/once", "--until-decided", "8")
    assert refused.returncode == 2
    assert "runs/once has no rounds that could go on: no two of its tests" in refused.stderr
    several = switchmark("compare", "runs/once", "runs/once", "--until-decided", "8")
    assert several.returncode == 2
    assert "of one run" in several.stderr
