"""The C unit tests, one test per program, with the sanitizers on. `make test` builds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "build" / "sanitize"
MESON = [sys.executable, "-m", "mesonbuild.mesonmain"]


def c_tests() -> list[str]:
    """Return the names of Meson's tests; one empty name where the folder has not been built."""
    try:
        tests = json.loads((BUILD / "meson-info" / "intro-tests.json").read_text())
    except FileNotFoundError:
        return [""]
    return sorted(test["name"] for test in tests)


SLOW = ("engines", "hour")
"""Tests that take longer than all the others."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=(pytest.mark.slow,) * (name in SLOW)) for name in c_tests()],
)
def test_c(name: str) -> None:
    if not name:
        pytest.skip("build/sanitize is not there: run make test")
    run = subprocess.run(
        [*MESON, "test", "-C", str(BUILD), "--no-rebuild", "--print-errorlogs", name],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
