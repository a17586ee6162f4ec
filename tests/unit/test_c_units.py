"""The C unit tests, one test per program, with the sanitizers on. `make test` builds them, and
`make test-fast` leaves them out: what an earlier `make test` built may be of other sources. Meson
knows them; its own start would take longer than most of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "build" / "sanitize"
HALT = dict.fromkeys(
    ("ASAN_OPTIONS", "UBSAN_OPTIONS"),
    "halt_on_error=1:abort_on_error=1:print_summary=1:print_stacktrace=1",
)
"""A finding ends a test, as under Meson."""

SKIPPED = 77
"""The exit status of a test that cannot run here, as Meson has it."""


def c_tests() -> dict[str, list[str]]:
    """Return the commands of Meson's tests; one empty name where the folder has not been built."""
    try:
        tests = json.loads((BUILD / "meson-info" / "intro-tests.json").read_text())
    except FileNotFoundError:
        return {"": []}
    return {test["name"]: test["cmd"] for test in sorted(tests, key=lambda test: test["name"])}


TESTS = c_tests()


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_c(name: str) -> None:
    if not name:
        pytest.skip("build/sanitize is not there: run make test")
    run = subprocess.run(
        TESTS[name], cwd=BUILD, env={**os.environ, **HALT}, capture_output=True, text=True
    )
    assert run.returncode in (0, SKIPPED), run.stdout[-20_000:] + run.stderr[-20_000:]
