"""Runs ci/compare.sh on two commits of a toy switch, of which the later is slower: testpmd, and
testpmd that reads memory for each burst."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from host_state import COMMAND
from real_frames import DISTURBED
from soak_copies import PROGRAM, WORKING
from truths import preferred

SCRIPT = Path(__file__).parents[2] / "ci/compare.sh"
RUN = "--engine dpdk --search max --calibrate never --repeat 6 --duration 0.1 --warmup 0.02"


@pytest.mark.alone
def test_the_slower_of_two_commits_fails(tmp_path: Path, traffic_program: str) -> None:
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip(f"{PROGRAM} is not installed")
    toy = tmp_path / "toy"
    toy.mkdir()
    author = ("-c", "user.name=toy", "-c", "user.email=toy@example.org")

    def git(*arguments: str) -> None:
        subprocess.run(("git", *author, *arguments), cwd=toy, check=True)

    git("init", "--quiet")
    for tag, reads in (("fast", 0), ("slow", 200)):
        (toy / PROGRAM).write_text(WORKING.format(reads=reads, program=program))
        (toy / PROGRAM).chmod(0o755)
        git("add", "--all")
        git("commit", "--quiet", "--message", tag)
        git("tag", tag)
    options = ("--build", f'cp {PROGRAM} "$OUT/"', "--base", "fast", "--run", RUN)
    variables = {"SWITCHMARK": " ".join(COMMAND), "SWITCHMARK_TRAFFIC": traffic_program}
    with preferred():
        done = subprocess.run(
            (str(SCRIPT), "--switch", "testpmd", *options, "--fail-on", "slower:10%"),
            cwd=toy,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=110,
        )
    comment = (toy / "switchmark-ci/comment.md").read_text()
    if done.returncode == 6:  # other programs took CPU time, and it says so
        assert any(doubt in done.stdout for doubt in DISTURBED), done.stdout + done.stderr
        assert comment.startswith("### switchmark: cannot tell\n")
        return
    assert done.returncode == 1, done.stdout + done.stderr
    assert comment.startswith("### switchmark: failed\n")
    assert "slower" in comment
    assert (toy / "switchmark-ci/report.html").stat().st_size > 10_000
