"""These tests follow the calls of one run, from the command line to the first frame: they go down
through the wings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import switchmark
from switchmark.cli.app import app
from switchmark.lab.trial import Trials

PACKAGE = str(Path(switchmark.__file__).parent) + "/"
WINGS = {"campaign": 0, "lab": 1, "path": 2}
"""From the highest to the lowest. Drivers and the machine are below; who watches a run, as the
command line does, is told of it by the campaign."""

RUN = (
    *("run", "--switch", "null", "--engine", "null", "--duration", "0.01", "--warmup", "0"),
    *("--environment", "host", "--switch-environment", "host", "--calibrate", "never", "--quiet"),
)


class _FirstFrame(BaseException):
    """This exception ends a run where its first frame would be sent."""


def wing_of(frame: FrameType) -> str | None:
    """Return the wing whose code a frame runs, or None."""
    file = frame.f_code.co_filename
    folder = file.removeprefix(PACKAGE).partition("/")[0] if file.startswith(PACKAGE) else ""
    return folder if folder in WINGS else None


def callers(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames that a frame was called from, the nearest first."""
    back = frame.f_back
    while back is not None:
        yield back
        back = back.f_back


def calls_between_wings(arguments: tuple[str, ...]) -> set[tuple[str, str, str]]:
    """Return who calls whom, wing by wing, and which function. Code in between, such as a search or
    the executor, passes a call through."""
    found: set[tuple[str, str, str]] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (to := wing_of(frame)) is None:
            return
        above = next(filter(None, map(wing_of, callers(frame))), "the command line")
        if above != to:
            found.add((above, to, f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"))

    sys.setprofile(watch)
    try:
        app(list(arguments), standalone_mode=False)
    except _FirstFrame:
        return found
    finally:
        sys.setprofile(None)
    raise AssertionError("the run ended before it sent a frame")


def test_no_call_of_a_run_goes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traffic_program: str
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.setenv("SWITCHMARK_ANCHORED", "prepared")  # nothing here needs privileges
    monkeypatch.setattr("switchmark.runs.workspace.default_base", lambda: tmp_path / "base")

    def first_frame(*_: Any, **__: Any) -> None:
        raise _FirstFrame

    monkeypatch.setattr(Trials, "_phase", first_frame)
    found = calls_between_wings((*RUN, "--out", str(tmp_path / "runs")))
    ways = {(above, to) for above, to, _ in found}
    assert ways >= {("campaign", "lab"), ("lab", "path")}
    up = [call for call in sorted(found) if call[0] in WINGS and WINGS[call[0]] > WINGS[call[1]]]
    assert up == []
