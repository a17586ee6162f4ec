"""These tests check the search for a program and the query of its version."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.programs import (
    chosen_program,
    find_program,
    how_to_name,
    installation_of,
    probe_version,
    program_in,
    program_on,
    program_path,
    program_variable,
    programs_beside,
)
from switchmark.hosts.recording import RecordingHost


def executable(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def named(path: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Write a host file that names these programs."""
    lines = [f'"{name}" = "{path}"' for name, path in programs.items()]
    path.write_text("\n".join(["[hosts.local.programs]", *lines]))
    monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(path))


def test_a_program_is_that_of_a_variable_the_host_file_the_set_up_and_path_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("some-tool") is None
    assert program_path("some-tool") == "some-tool"
    found = executable(tmp_path / "path", "some-tool")
    assert program_path("some-tool") == found
    assert chosen_program("some-tool") is None
    found = executable(tmp_path / "venv", "some-tool")
    assert program_path("some-tool") == chosen_program("some-tool") == found
    named(tmp_path / "host.toml", monkeypatch, **{"some-tool": "/opt/tool", "tool": "/opt/other"})
    assert program_path("some-tool") == "/opt/tool"
    assert program_path("some-tool", "tool") == "/opt/other"
    monkeypatch.setenv("SWITCHMARK_SOME_TOOL", "/elsewhere/tool-2")
    assert program_path("some-tool") == "/elsewhere/tool-2"
    assert program_path("some-tool", "tool") == "/opt/other"
    monkeypatch.setenv("SWITCHMARK_TOOL", "/elsewhere/tool-3")
    assert program_path("some-tool", "tool") == "/elsewhere/tool-3"


def test_a_folder_that_is_named_stands_for_the_program_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opt").mkdir()
    for inside in ("sbin", "bin", "."):
        found = executable(tmp_path / "opt" / inside, "tool")
        monkeypatch.setenv("SWITCHMARK_TOOL", str(tmp_path / "opt"))
        assert chosen_program("/usr/lib/tool", "tool") == str(Path(found))
        assert program_on(LocalHost(), str(tmp_path / "opt"), "/usr/lib/tool") == str(Path(found))
    for find in (program_in, lambda *arguments: program_on(LocalHost(), *arguments)):
        assert find(str(tmp_path / "none"), "tool") == str(tmp_path / "none")
        assert find(found, "tool") == found
        executable(tmp_path / "tree", "unused")
        built = executable(tmp_path / "tree/src", "tool")
        assert find(str(tmp_path / "tree"), "tool") == str(tmp_path / "tree")
        assert find(str(tmp_path / "tree"), "tool", ("", "src")) == built


def test_programs_of_one_installation_are_found_by_each_other(tmp_path: Path) -> None:
    daemon = executable(tmp_path / "sbin", "daemon")
    client = executable(tmp_path / "bin", "client")
    names, host = ("client", "daemon", "other"), LocalHost()
    assert programs_beside(host, daemon, names, ("bin",)) == {"client": client, "daemon": daemon}
    assert programs_beside(host, daemon, ("client",), ("lib",)) == {}
    assert programs_beside(host, "daemon", names, ("bin",)) == {}
    assert installation_of(daemon) == str(tmp_path)
    assert installation_of("/build/tree/daemon") == "/build/tree"
    assert installation_of("daemon") is None


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("switchmark-traffic", "SWITCHMARK_TRAFFIC"),
        ("switchmark-agent", "SWITCHMARK_AGENT"),
        ("switchmark-tool", "SWITCHMARK_TOOL"),
        ("pcap-bridge", "SWITCHMARK_PCAP_BRIDGE"),
        ("ovs-dpdk", "SWITCHMARK_OVS_DPDK"),
    ],
)
def test_a_program_has_a_variable(name: str, variable: str) -> None:
    assert program_variable(name) == variable


TOOL = ("tool", "--version")


@pytest.mark.parametrize(
    "completed",
    [Completed(0, b"tool 1.2 (linked 3)\n", b""), Completed(0, b"", b"tool 1.2 (linked 3)")],
    ids=("stdout", "stderr"),
)
def test_a_version_is_what_the_pattern_finds(completed: Completed) -> None:
    found = probe_version(
        RecordingHost({TOOL: completed}), TOOL, r"tool (\S+) \(linked (\d)", hint="x"
    )
    assert found == ("1.2", "3")


@pytest.mark.parametrize(
    "completed",
    [Completed(0, b"hello", b""), Completed(1, b"tool 1.2", b"")],
    ids=("garbled", "failed"),
)
def test_a_program_that_tells_no_version_cannot_be_used(completed: Completed) -> None:
    with pytest.raises(Unavailable, match="tool --version does not tell its version") as refused:
        probe_version(
            RecordingHost({TOOL: completed}), TOOL, r"tool (\S+)", hint="apt-get install tool"
        )
    assert refused.value.hint == "apt-get install tool"


def test_a_program_that_is_missing_has_a_hint() -> None:
    class Empty(RecordingHost):
        def answer(self, argv: tuple[str, ...]) -> Completed:
            raise Unavailable("no such file")

    for missing, message in ((None, "tool is not installed"), ("it was not built", "not built")):
        with pytest.raises(Unavailable, match=message) as refused:
            probe_version(Empty(), TOOL, "x", hint="make setup", missing=missing)
        assert refused.value.hint == "make setup"


def test_a_program_that_another_host_lacks_is_told_with_the_host() -> None:
    class Empty(RecordingHost):
        def answer(self, argv: tuple[str, ...]) -> Completed:
            raise Unavailable("no such file")

    with pytest.raises(Unavailable, match="tool is not installed on b\n") as refused:
        probe_version(Empty(name="b"), TOOL, "x", hint=how_to_name("tool"))
    assert "[hosts.b.programs]" in str(refused.value.hint)
