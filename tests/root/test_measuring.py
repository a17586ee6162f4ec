"""These tests have two runs meet on one machine, with real frames."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from host_state import marked, start, wait_for
from switchmark.runs.measuring import VARIABLE

RUN = "run --engine raw-mmsg --warmup 0 --rate 1k --calibrate never --gate off".split()
LONG = [*RUN, *"--duration 60 --quiet --name first".split()]
SHORT = [*RUN, *"--duration 0.1 --json".split()]


@pytest.fixture
def environment(traffic_program: str, tmp_path: Path) -> dict[str, str]:
    lock = str(tmp_path / "lock")
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program, VARIABLE: lock}


def test_a_run_beside_another_one_is_doubted(
    environment: dict[str, str],
    cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless it waits until the other one has ended."""
    for name in (VARIABLE, "SWITCHMARK_TRAFFIC"):
        monkeypatch.setenv(name, environment[name])
    first = start(environment, tmp_path, *LONG)
    wait_for(lambda: marked("switchmark-traf", first), "traffic")
    waiting = start(environment, tmp_path, *SHORT, "--name", "waiting")
    code, output, errors = cli(*SHORT, "--share-machine", "--name", "beside")
    assert code == 0, errors
    assert '"shared-machine"' in output

    assert first.poll() is None
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    assert said.startswith("waiting: another run measures on this machine (pid")
    assert not (tmp_path / "runs/waiting/records.jsonl").read_text()
    first.terminate()
    first.communicate(timeout=60)
    output, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, errors
    assert '"shared-machine"' not in output
