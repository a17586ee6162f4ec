"""These tests ask for switches by name alone: the engine is chosen, and used."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from host_state import COMMAND, records
from switchmark.errors import Unavailable
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.lab.usable import UsableHere
from switchmark.model.test import Test
from switchmark.path.choosing import AUTO, with_engines
from switchmark.runs.own_run import OwnRun
from switchmark.switches import TABLE as SWITCHES

SHORT = "--duration 0.15 --warmup 0.05 --repeat 1 --calibrate never".split()
REPOSITORY = Path(__file__).parents[2]


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(
    cli: Callable[..., tuple[int, str, str]],
    traffic_program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run the command as root."""
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.setenv("HOME", str(tmp_path))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, *cli("run", *arguments, *SHORT))

    return call


def run_as_nobody(
    cwd: Path, traffic_program: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, as a user."""
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program, "HOME": str(cwd)}
    command = [*COMMAND, "run", *arguments, *SHORT]
    command, environment = seen_by_nobody(cwd / "source", command, environment)
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=150
    )


def seen_by_nobody(
    source: Path, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return a command as nobody runs it, for whom the sources, which may be in a closed home, are
    in a folder that everybody may enter."""
    source.mkdir()

    def moved(text: str) -> str:
        return text.replace(f"{REPOSITORY}/", f"{source}/")

    mounted = f'mount --bind {REPOSITORY} {source} && exec "$@"'
    as_user = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env")
    variables = {name: moved(value) for name, value in environment.items()}
    return (
        ["unshare", "--mount", "sh", "-c", mounted, "sh", *as_user, *map(moved, command)],
        {**variables, "PYTHONPATH": f"{source}/src"},
    )


def stored_engines(folder: Path) -> Mapping[str, str]:
    """Return the engine of each switch, as the one run folder there keeps its campaign."""
    (file,) = (folder / "runs").glob("*/campaign.yaml")
    campaign = yaml.safe_load(file.read_text())
    tests = [{**campaign, **test} for test in campaign.get("tests", [{}])]
    return {test["switch"]: test["engine"] for test in tests}


def skip_without(*switches: str) -> None:
    for name in switches:
        try:
            SWITCHES[name].probe(LocalHost())
        except Unavailable as missing:
            pytest.skip(f"{name}: {missing.message}")


def test_a_bridge_ovs_and_testpmd_are_measured_by_one_engine(run: Run, tmp_path: Path) -> None:
    switches = ("linux-bridge", "ovs", "testpmd")
    skip_without(*switches)
    completed = run("--switch", ",".join(switches), "--json")
    assert completed.returncode == 0, completed.stderr
    assert "engine dpdk (--engine auto)" in completed.stderr
    results = records(completed)
    assert sorted(record["test"]["switch"] for record in results) == [*switches]
    for record in results:
        assert (record["status"], record["test"]["engine"]) == ("ok", "dpdk")
        assert record["rx"]["frames"] > 0
        assert record["verdict"]
    assert stored_engines(tmp_path) == dict.fromkeys(switches, "dpdk")


@pytest.mark.further  # test_choosing.py has the choice, and test_cli.py what is said
def test_a_switch_past_the_kernel_needs_no_word_of_an_engine(run: Run) -> None:
    skip_without("testpmd")
    completed = run("--switch", "testpmd", "--json", "--quiet")
    (record,) = records(completed)
    assert (record["status"], record["test"]["engine"]) == ("ok", "dpdk"), completed.stderr
    assert "engine" not in completed.stderr


@pytest.mark.parametrize(
    "switches",
    [
        ("linux-bridge", "ip-forward", "vxlan"),
        # tests/netns has the same engine through each of them.
        pytest.param(("macvlan", "tc-redirect", "xdp-redirect"), marks=pytest.mark.further),
    ],
    ids=",".join,
)
def test_what_is_chosen_for_switches_of_the_kernel_passes_their_frames(
    run: Run, switches: tuple[str, ...]
) -> None:
    """The engine of several switches is usable for each of them alone."""
    skip_without(*switches)
    arguments = ("--switch", ",".join(switches), "--rate", "5k", "--json")
    completed = run(*arguments)
    found = {
        record["test"]["switch"]: (record["status"], record["test"]["engine"], record["error"])
        for record in records(completed)
    }
    assert found == dict.fromkeys(switches, ("ok", "xdp", None)), completed.stderr


@pytest.mark.further  # test_choosing.py has the same choices
@pytest.mark.parametrize("axes", [("--vlan", "7", "--frame-size", "68"), ("--frame-size", "9000")])
def test_what_a_frame_is_like_stays_as_it_is_asked_for(run: Run, axes: tuple[str, ...]) -> None:
    completed = run("--rate", "5k", "--json", *axes)
    (record,) = records(completed)
    assert (record["status"], record["test"]["engine"]) == ("ok", "mmap"), record["error"]


def test_a_user_measures_what_needs_no_root_and_is_told_what_the_rest_needs(
    tmp_path: Path, traffic_program: str
) -> None:
    skip_without("ovs", "ovs-dpdk")
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if folder.owner() == "root" and folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    arguments = ("--switch", "linux-bridge,ovs,ovs-dpdk", "--rate", "5k")
    completed = run_as_nobody(tmp_path, traffic_program, *arguments)
    stored = [
        json.loads(line)["record"]
        for file in (tmp_path / "runs").glob("*/records.jsonl")
        for line in file.read_text().splitlines()
    ]
    found = {
        record["test"]["switch"]: (record["status"], record["test"]["engine"]) for record in stored
    }
    assert found == {
        "linux-bridge": ("ok", "mmap"),
        "ovs": ("ok", "mmap"),
        "ovs-dpdk": ("refused", "dpdk"),
    }, completed.stderr
    assert "engine dpdk needs real root, not root in a user namespace" in completed.stdout
    assert (
        "engines (--engine auto): mmap for linux-bridge, ovs; dpdk for ovs-dpdk" in completed.stderr
    )


def test_a_host_is_asked_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("ovs-dpdk")
    test = Test(switch="ovs-dpdk", engine="dpdk")
    pages = "switchmark.lab.usable.can_reserve"
    hosts = Hosts(OwnRun)
    usable = UsableHere(hosts, far=False)
    assert usable(test)
    assert not usable(Test(switch="linux-bridge@/nowhere", engine="raw-mmsg"))
    monkeypatch.setattr(pages, lambda host, node: False)
    usable = UsableHere(hosts, far=False)
    assert not usable(test), "it has no hugepages"
    assert usable(Test(engine="dpdk")), "frames lie elsewhere, then"
    tests = with_engines([Test(switch=s, engine=AUTO) for s in ("ovs", "ovs-dpdk")], usable)
    assert [test.engine for test in tests] == ["xdp", "dpdk"]
