"""These tests check where a program is found, and how it is asked for its version."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from switchmark.errors import Unavailable
from switchmark.machine.host import Completed
from switchmark.machine.programs import (
    find_program,
    probe_version,
    program_path,
    program_variable,
)
from switchmark.machine.recording import RecordingHost


def executable(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_is_the_one_named_then_that_of_the_set_up_then_that_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("some-tool") is None
    assert program_path("some-tool") == "some-tool"
    for found in (executable(tmp_path / each, "some-tool") for each in ("path", "venv")):
        assert program_path("some-tool") == found
    monkeypatch.setenv("SWITCHMARK_SOME_TOOL", "/elsewhere/tool-2")
    assert program_path("some-tool") == "/elsewhere/tool-2"
    monkeypatch.setenv("SWITCHMARK_TOOL", "/elsewhere/tool-3")
    assert program_path("some-tool", "SWITCHMARK_TOOL") == "/elsewhere/tool-3"


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("switchmark-traffic", "SWITCHMARK_TRAFFIC"),
        ("switchmark-pcap-bridge", "SWITCHMARK_PCAP_BRIDGE"),
        ("dpdk-l2fwd", "SWITCHMARK_DPDK_L2FWD"),
    ],
)
def test_a_program_has_a_variable(name: str, variable: str) -> None:
    assert program_variable(name) == variable


TOOL = ("tool", "--version")


@pytest.mark.parametrize(
    "done",
    [Completed(0, b"tool 1.2 (linked 3)\n", b""), Completed(0, b"", b"tool 1.2 (linked 3)")],
    ids=("stdout", "stderr"),
)
def test_a_version_is_what_the_pattern_finds(done: Completed) -> None:
    found = probe_version(RecordingHost({TOOL: done}), TOOL, r"tool (\S+) \(linked (\d)", hint="x")
    assert found == ("1.2", "3")


@pytest.mark.parametrize(
    "done", [Completed(0, b"hello", b""), Completed(1, b"tool 1.2", b"")], ids=("garbled", "failed")
)
def test_a_program_that_tells_no_version_cannot_be_used(done: Completed) -> None:
    with pytest.raises(Unavailable, match="tool --version does not tell its version") as refused:
        probe_version(RecordingHost({TOOL: done}), TOOL, r"tool (\S+)", hint="apt-get install tool")
    assert refused.value.hint == "apt-get install tool"


def test_a_program_that_is_missing_has_a_hint() -> None:
    class Empty(RecordingHost):
        def answer(self, argv: tuple[str, ...]) -> Completed:
            raise Unavailable("no such file")

    for missing, words in ((None, "tool is not installed"), ("it was not built", "not built")):
        with pytest.raises(Unavailable, match=words) as refused:
            probe_version(Empty(), TOOL, "x", hint="make setup", missing=missing)
        assert refused.value.hint == "make setup"
