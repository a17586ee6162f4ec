"""These tests compare versions of one switch for real: copies of a DPDK program elsewhere, each run
by its own path."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from host_state import records
from switchmark.lab import calibration

QUICK = ["--engine", "dpdk", "--duration", "0.1", "--warmup", "0", "--repeat", "2", "--json"]
PROGRAMS = {"testpmd": "dpdk-testpmd", "l2fwd": "dpdk-l2fwd"}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def program(repository: Path, switch: str) -> Path:
    """Return the path of the switch's program on this host."""
    name = PROGRAMS[switch]
    program = repository / ".venv/bin" / name
    found = str(program) if program.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} was left out: build/setup/samples.log says why")
    return Path(found)


def copied(program: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    return Path(shutil.copy(program, folder))


@pytest.mark.parametrize("switch", ["testpmd", pytest.param("l2fwd", marks=pytest.mark.further)])
def test_two_copies_of_a_program_are_two_switches_of_one_table(
    switchmark: Run,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    switch: str,
) -> None:
    for name in ("_TRIALS", "_TRIES"):
        monkeypatch.setattr(calibration, name, 1)  # on the cable, whose rate says nothing here
    usual = program(repository, switch)
    copies = [copied(usual, tmp_path / name) for name in ("first/bin", "second")]
    series = version_of(usual).rpartition(".")[0]
    host_file = tmp_path / "host.toml"
    host_file.write_text(f'[hosts.local.programs]\n"{switch}@{series}" = "{copies[0]}"\n')
    names = [f"{switch}@{series}", f"{switch}@{tmp_path}/second"]
    options = ("--host-file", str(host_file))
    completed = switchmark("run", *options, "--switch", ",".join(names), *QUICK)
    assert completed.returncode == 0, completed.stderr
    found = sorted(records(completed), key=lambda record: names.index(record["test"]["switch"]))
    assert [record["test"]["switch"] for record in found] == names
    for record in found:
        assert record["status"] == "ok"
        assert record["rx"]["frames"] > 0
        assert record["switch_version"] == version_of(usual)
        assert record["versions"][f"switch {record['test']['switch']}"] == version_of(usual)
    assert ["switch build" in record["versions"] for record in found] == [False, True]
    calibrations = [record["calibration"]["rate_pps"] for record in found]
    assert calibrations[0] == calibrations[1], "the cable was measured once for both"

    (folder,) = (tmp_path / "runs").iterdir()
    table = switchmark("report", str(folder), "--explain").stdout
    version = version_of(usual)
    assert all(f"\n{name} " in table for name in names)
    text = " ".join(table.split())  # a long path breaks the line
    assert f"versions: {names[0]} {version}, {names[1]} {version}" in text
    compared = switchmark("compare", str(folder)).stdout
    assert f"{names[1]} against {names[0]}" in compared

    plans = [switchmark("plan", *options, "--switch", name, *QUICK[:2]).stdout for name in names]
    for plan, copy in zip(plans, copies, strict=True):
        assert f"{copy} " in plan
        assert f"{usual} " not in plan


OVS = {
    "ovs-vswitchd": "sbin",
    "ovsdb-server": "sbin",
    **dict.fromkeys(("ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovsdb-tool"), "bin"),
}
"""The programs of an installation of Open vSwitch, and the folder of each."""


def test_an_installation_of_ovs_is_run_with_its_own_programs_and_schema(
    switchmark: Run, tmp_path: Path
) -> None:
    prefix = tmp_path / "ovs"
    for name, folder in OVS.items():
        usual = shutil.which(name)
        assert usual is not None
        (prefix / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(usual, prefix / folder)
    shutil.copytree("/usr/share/openvswitch", prefix / "share/openvswitch")
    options = ["--switch", f"ovs@{prefix}", "--rate", "5k"]
    completed = switchmark("run", *options, "--duration", "0.3", "--semantics", "static", "--json")
    assert completed.returncode == 0, completed.stderr
    (record,) = records(completed)
    assert record["rx"]["frames"] > 0
    assert record["unaccounted"] == 0
    plan = switchmark("plan", *options, "--semantics", "static").stdout
    programs = {str(prefix / folder / name) for name, folder in OVS.items()} - {
        str(prefix / "bin/ovs-appctl")  # which only waits
    }
    assert all(program in plan for program in programs)
    assert str(prefix / "share/openvswitch/vswitch.ovsschema") in plan


def version_of(program: Path) -> str:
    completed = subprocess.run([program, "-v", "-h"], capture_output=True, text=True)
    return (
        (completed.stdout + completed.stderr).partition("RTE Version: 'DPDK ")[2].partition("'")[0]
    )


def test_a_program_of_another_version_is_refused_with_both(
    switchmark: Run, repository: Path, tmp_path: Path
) -> None:
    usual = program(repository, "testpmd")
    host_file = tmp_path / "host.toml"
    host_file.write_text(f'[hosts.local.programs]\n"testpmd@1.2" = "{usual}"\n')
    options = ("--host-file", str(host_file), "--switch", "testpmd@1.2")
    completed = switchmark("run", *options, *QUICK)
    assert completed.returncode == 3, completed.stderr
    (record,) = records(completed)
    assert record["status"] == "refused"
    message = f"{usual} is testpmd {version_of(usual)}, not testpmd@1.2"
    assert message in record["error"]
    listed = switchmark("list", "switches", "--host-file", str(host_file)).stdout
    assert "✗ testpmd@1.2" in listed
    assert message in listed


def test_what_is_wrong_in_the_host_file_ends_a_command_before_it_begins(
    switchmark: Run, tmp_path: Path
) -> None:
    host_file = tmp_path / "host.toml"
    host_file.write_text('[hosts.local.programs]\ntestpdm = "/x"\n')
    for command in (["run"], ["plan"], ["list", "switches"], ["doctor"]):
        completed = switchmark(*command, "--host-file", str(host_file))
        assert completed.returncode == 2
        assert "did you mean 'testpmd'?" in completed.stderr
    assert not (tmp_path / "runs").exists()
