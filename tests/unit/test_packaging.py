"""These tests check that the installed files are those of the source tree, and that the lock names
no package index."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import switchmark

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed() -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution("switchmark")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("switchmark is not installed: run make setup")


def test_the_version_is_written_once(installed: importlib.metadata.Distribution) -> None:
    assert installed.version == switchmark.__version__


def test_the_wheel_holds_every_file_of_the_package(
    installed: importlib.metadata.Distribution,
) -> None:
    source = REPOSITORY / "src"
    expected = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in (source / "switchmark").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {
        str(file): Path(str(installed.locate_file(file))).read_bytes()
        for file in installed.files or ()
        if file.parts[0] == "switchmark" and "__pycache__" not in file.parts
    }
    packed.pop("switchmark/commit.txt", None)  # the build writes it: test_commit.py
    assert sorted(packed) == sorted(expected)
    assert [name for name in expected if packed[name] != expected[name]] == []


def test_the_wheel_holds_the_commands(installed: importlib.metadata.Distribution) -> None:
    commands = {file.name for file in installed.files or () if file.parts[-2:-1] == ("bin",)}
    # The bridge needs libpcap, without which it is left out.
    assert commands - {"switchmark-pcap-bridge"} == {
        "switchmark",
        "switchmark-agent",
        "switchmark-tool",
        "switchmark-traffic",
    }


def test_all_commands_tell_the_same_version(installed: importlib.metadata.Distribution) -> None:
    for file in installed.files or ():
        if file.parts[-2:-1] == ("bin",):
            command = str(installed.locate_file(file))
            completed = subprocess.run([command, "version"], capture_output=True, text=True)
            assert completed.returncode == 0, completed.stderr
            assert switchmark.__version__ in completed.stdout


def test_the_lock_pins_by_hash_and_names_no_index() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert not re.findall(r"\w+://|^\s*(?:-|--)[a-z-]+[ =]", _without_hashes(lock), re.MULTILINE)
    requirements = re.findall(r"^[A-Za-z0-9].*$", lock, re.MULTILINE)
    assert requirements
    for requirement in requirements:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==\S+(?: ; .+)? \\", requirement), requirement
    assert lock.count(" \\\n    --hash=sha256:") >= len(requirements)


def _without_hashes(lock: str) -> str:
    return re.sub(r"--hash=sha256:[0-9a-f]{64}", "", lock)


def test_the_lock_holds_every_dependency() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in requirements}
    lock = (REPOSITORY / "requirements.lock").read_text().lower()
    assert {name for name in names if f"\n{name}==" not in f"\n{lock}"} == set()


def test_the_copyright_licence_is_whole() -> None:
    text = (REPOSITORY / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
