"""These tests check what `doctor` says of switches that no package has, with trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli import doctor
from switchmark.hosts.local import LocalHost
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.builds import Build, Seen, builds_on

OF_USERS = [name for name, switch in SWITCHES.items() if switch.build]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def program(path: Path, text: str = "exit 1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def of(switch: str, home: Path) -> list[str]:
    """Return the lines about what is below the home folder or says what a build needs."""
    lines = doctor._of_builds(LocalHost(), switch)
    return [line.replace(str(home), "~") for line in lines if line[0] != "/" or str(home) in line]


@pytest.mark.parametrize("name", OF_USERS)
def test_a_switch_that_no_package_has_says_what_a_build_needs(name: str, home: Path) -> None:
    build = SWITCHES[name].build
    assert isinstance(build, Build)
    needs, *rest = of(name, home)
    assert needs == f"a build needs {build.needs}"
    image = f"or use an image that has it: --switch {name}@image:IMAGE"
    assert rest == [build.packages] * bool(build.packages) + [image] * (name != "bess")


def test_packages_of_a_project_are_named(home: Path) -> None:
    packages = of("vpp", home)[1]
    assert all(word in packages for word in ("vpp-plugin-core", "vpp-plugin-dpdk", "fdio/2610"))


def test_other_switches_say_nothing_of_builds() -> None:
    for name in ("linux-bridge", "testpmd", "a plug-in"):
        assert list(doctor._of_builds(LocalHost(), name)) == []


def test_a_build_in_a_source_tree_is_probed_and_named(home: Path) -> None:
    place = "src/vpp/build-root/install-vpp_debug-native/vpp/bin/vpp"
    path = program(home / place, "echo vpp v26.10-rc1 built by me")
    program(path.with_name("vppctl"))
    assert of("vpp", home)[3:] == [f"~/{place} is 26.10-rc1: --switch vpp@~/{place}"]


def test_a_build_that_lacks_an_element_says_which_it_has(home: Path) -> None:
    click = program(
        home / "fastclick/userlevel/click", "printf 'version:\\n2.1\\nclasses:\\nEtherSwitch\\n'"
    )
    (line,) = of("fastclick", home)[2:]
    path = f"~/{click.relative_to(home)}"
    assert line == f"{path} is 2.1 with EtherSwitch: --switch fastclick@{path}"


def test_a_folder_is_named_where_the_switch_is_a_folder(home: Path) -> None:
    program(home / "bess/core/bessd", "echo version 1")
    (line,) = of("bess", home)[1:]
    assert line.startswith("~/bess/core/bessd cannot be used: its pybess/")


def test_a_tree_without_the_program_is_not_built(home: Path) -> None:
    (home / "snabb/src").mkdir(parents=True)
    (home / "snabb/src/snabb").touch()  # no program
    assert of("snabb", home)[2:] == ["~/snabb is not built: it has no src/snabb or bin/snabb"]


def test_a_program_that_does_not_work_is_said_to_be_so(home: Path) -> None:
    program(home / "git/snabb/src/snabb")
    (line,) = of("snabb", home)[2:]
    path = "~/git/snabb/src/snabb"
    assert line == f"{path} cannot be used: {path} --version does not tell its version"


def test_a_tree_is_seen_once_with_its_first_program(home: Path, tmp_path: Path) -> None:
    build = Build("x", ("it*",), ("a/it", "b/it"))
    for tree in ("it", "it 2"):
        program(tmp_path / tree / "b/it")
        program(tmp_path / tree / "a/it")
    here = [seen for seen in builds_on(LocalHost(), build) if str(tmp_path) in seen.tree]
    trees = [str(tmp_path / tree) for tree in ("it", "it 2")]
    assert here == [Seen(tree, f"{tree}/a/it") for tree in trees]
