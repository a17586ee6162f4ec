"""These tests put modules of engines next to the traffic program: shared objects that it loads at
run time (traffic/src/modules.h). The toy is the engine null under another name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from switchmark import __version__
from switchmark.hosts.carried import Carried
from switchmark.hosts.local import LocalHost
from traffic_program import Program

TOY = Path(__file__).parents[2] / "build/wheel/traffic/switchmark-engine-toy.so"


@pytest.fixture
def program(traffic_program: str, tmp_path: Path) -> Path:
    """Return a copy of the program, with no module next to it yet."""
    if not TOY.exists():
        pytest.skip("the toy engine is not built: run make setup")
    place = tmp_path / "bin"
    place.mkdir()
    shutil.copy(traffic_program, place)
    return place / "switchmark-traffic"


def put(program: Path, name: str, content: bytes | None = None) -> None:
    """Put a module next to the program: the toy, or other content."""
    (program.parent / name).write_bytes(TOY.read_bytes() if content is None else content)


def listed(program: Path) -> tuple[set[str], dict[str, str]]:
    """Return the engines, and the reason of each file that was not loaded."""
    completed = subprocess.run([program, "engines"], capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(completed.stdout)
    return (
        {engine["name"] for engine in answer["engines"]},
        {module["file"]: module["why"] for module in answer["unloaded"]},
    )


def opened(*program: str | Path, engine: str) -> dict[str, Any]:
    running = Program(*map(str, program))
    answer = running.ask(
        "open",
        ports=[{"engine": engine, "options": {"loop": 1}}],
        threads=[{"tasks": [{"role": "sender", "ports": [0]}]}],
    )
    running.end()
    return answer


def test_a_module_next_to_the_program_is_an_engine_of_it(program: Path) -> None:
    assert "toy" not in listed(program)[0]
    assert "no engine 'toy'" in opened(program, engine="toy")["error"]
    put(program, "switchmark-engine-toy.so")
    names, unloaded = listed(program)
    assert "toy" in names
    assert unloaded == {}
    assert opened(program, engine="toy")["ok"]


def test_a_module_is_loaded_where_the_program_lies_and_not_where_it_is_started(
    program: Path, tmp_path: Path
) -> None:
    put(program, "switchmark-engine-toy.so")
    link = tmp_path / "switchmark-traffic"
    link.symlink_to(program)
    assert "toy" in listed(link)[0]


def test_a_module_without_its_libraries_is_named_with_the_reason(program: Path) -> None:
    put(program, "switchmark-engine-toy.so", b"nothing that can be loaded")
    names, unloaded = listed(program)
    assert "toy" not in names
    assert "switchmark-engine-toy.so" in unloaded
    assert "ELF header" in unloaded["switchmark-engine-toy.so"] or "too short" in str(unloaded)
    error = opened(program, engine="toy")["error"]
    assert "engine toy cannot be loaded: " in error


def test_a_program_without_proc_says_why_it_has_no_modules(program: Path) -> None:
    """The link /proc/self/exe says where the program lies."""
    put(program, "switchmark-engine-toy.so")
    hidden = ("sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"', str(program))
    without = ("unshare", "--user", "--map-root-user", "--mount", *hidden)
    completed = subprocess.run([*without, "engines"], capture_output=True, check=True)
    answer = json.loads(completed.stdout)
    assert "toy" not in {engine["name"] for engine in answer["engines"]}
    assert "/proc/self/exe: No such file" in answer["unsearched"]
    assert "/proc/self/exe: No such file" in opened(*without, engine="toy")["error"]


def test_a_folder_that_cannot_be_read_is_named_with_the_reason(program: Path) -> None:
    as_nobody = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(program, folder)
        Path(folder).chmod(0o311)
        completed = subprocess.run([*as_nobody, copy, "engines"], capture_output=True, check=True)
        Path(folder).chmod(0o700)
    assert json.loads(completed.stdout)["unsearched"] == f"{folder}/: Permission denied"


def test_the_highest_abi_that_loads_is_used(program: Path) -> None:
    put(program, "switchmark-engine-toy.9.so")
    put(program, "switchmark-engine-toy.10.so", b"nothing that can be loaded")
    names, unloaded = listed(program)
    assert "toy" in names
    assert list(unloaded) == ["switchmark-engine-toy.10.so"], "10 is tried before 9"
    assert opened(program, engine="toy")["ok"]
    put(program, "switchmark-engine-toy.10.so")
    put(program, "switchmark-engine-toy.9.so", b"nothing that can be loaded")
    assert listed(program) == (names, {}), "a lower ABI is not tried"


def test_a_module_of_another_version_is_refused(program: Path) -> None:
    version = __version__.encode() + b"\0"
    assert TOY.read_bytes().count(version) == 1
    other = TOY.read_bytes().replace(version, b"9" * (len(version) - 1) + b"\0")
    put(program, "switchmark-engine-toy.so", other)
    names, unloaded = listed(program)
    assert "toy" not in names
    assert f"the program of {__version__}" in unloaded["switchmark-engine-toy.so"]


def test_a_module_with_another_engine_than_its_name_is_refused(program: Path) -> None:
    put(program, "switchmark-engine-dice.so")
    names, unloaded = listed(program)
    assert not {"toy", "dice"} & names
    assert "another engine" in unloaded["switchmark-engine-dice.so"]


def test_an_engine_of_the_program_itself_comes_before_a_module(program: Path) -> None:
    put(program, "switchmark-engine-null.so", b"nothing that can be loaded")
    assert opened(program, engine="null")["ok"]


def test_modules_are_carried_to_other_hosts_with_the_program(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other host is this one with another home."""
    put(program, "switchmark-engine-toy.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))

    class There(LocalHost):
        name = "there"

        def write(self, path: str, content: bytes) -> None:
            Path(path).write_bytes(content)

    there = Carried(str(program)).to(There())
    copy = Path(there[str(program)])
    assert list(there) == [str(program)]
    assert copy.parent != program.parent
    assert "toy" in listed(copy)[0]
    assert os.access(copy, os.X_OK)
