"""These tests connect pods by real CNI plugins, and check that they leave the host as it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from combinations import measured
from host_state import clean, wait_for_trials
from real_frames import Measure, assert_every_frame_is_accounted_for
from switchmark.lab.measure import Lab
from switchmark.model.test import Test

DATA = Path(__file__).parents[1] / "unit" / "data" / "cni"
STATE = (Path("/var/lib/cni"), Path("/run/cni"), Path("/run/leases"))


def state() -> dict[str, bool]:
    """Return what plugins would leave on the host."""
    files = (file for folder in STATE for file in (folder, *folder.glob("**/*")))
    return {str(file): file.exists() for file in files}


def interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def rules() -> str:
    return subprocess.run(("iptables-save",), capture_output=True, text=True, check=True).stdout


def described(folder: Path, config: Mapping[str, Any]) -> str:
    file = folder / "10-x.conflist"
    file.write_text(json.dumps(config))
    return f"cni:{file}"


@pytest.mark.parametrize(
    ("network", "engine"),
    measured(
        [
            (network, engine)
            for network in ("bridge", "macvlan", "ptp")
            for engine in ("raw-mmsg", "udp-mmsg", "xdp")
        ],
        lambda combination: combination,
    ),
)
def test_frames_cross_the_network_of_a_list(measure: Measure, network: str, engine: str) -> None:
    """The gate has compared every header with the addresses that the plugins chose."""
    before = state(), rules(), Path("/proc/sys/net/ipv4/ip_forward").read_text()
    record = measure(
        switch=f"cni:{DATA}/{network}.conflist", scenario="v2v", engine=engine, rate="5k"
    )
    assert_every_frame_is_accounted_for(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.refused is None
    assert (state(), rules(), Path("/proc/sys/net/ipv4/ip_forward").read_text()) == before


@pytest.mark.parametrize(
    "axes",
    [
        {"direction": "bi", "pairs": 2},
        *(pytest.param(axes, marks=pytest.mark.further) for axes in ({}, {"engine": "udp-mmsg"})),
    ],
    ids=str,
)
def test_frames_cross_the_network_without_a_list(measure: Measure, axes: dict[str, Any]) -> None:
    usual = {"switch": "cni", "scenario": "v2v", "rate": "5k", **axes}
    assert_every_frame_is_accounted_for(measure(**usual))


@pytest.mark.parametrize("network", ["ptp", pytest.param("bridge", marks=pytest.mark.further)])
def test_frames_are_answered(measure: Measure, network: str) -> None:
    name = f"cni:{DATA}/{network}.conflist"
    axes = {"engine": "udp", "dimension": "latency", "rate": "1000"}
    assert_every_frame_is_accounted_for(measure(switch=name, scenario="v2v", **axes))


def test_a_failing_add_is_quoted_and_undone(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/30"}]]}  # one address
    plugin = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": ipam}
    name = described(tmp_path, {"cniVersion": "1.0.0", "name": "small", "plugins": [plugin]})
    before = state(), interfaces()
    with Lab(tmp_path / "run") as lab:
        record = lab.run(Test(switch=name, scenario="v2v", engine="raw-mmsg", rate="5k"))
    assert record.status == "failed"
    assert record.error is not None
    assert "bridge of network small joins pod f1: the command ended with status 1" in record.error
    assert '"msg": "failed to allocate' in record.error
    assert lab.left == ()
    assert (state(), interfaces()) == before


def test_a_failing_del_is_a_doubt_and_the_pod_goes(
    tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    stubborn = tmp_path / "stubborn"
    stubborn.write_text(
        '#!/bin/sh\ncase $CNI_COMMAND in (ADD) cat | sed "s/.*prevResult.:\\(.*\\)}$/\\1/";;'
        ' (*) echo \'{"code": 99, "msg": "I stay"}\'; exit 1;; esac\n'
    )
    stubborn.chmod(0o755)
    for plugin in ("bridge", "host-local"):
        (tmp_path / plugin).symlink_to(f"/usr/lib/cni/{plugin}")
    monkeypatch.setenv("CNI_PATH", str(tmp_path))
    config = json.loads((DATA / "bridge.conflist").read_text())
    config["plugins"] = [config["plugins"][0], {"type": "stubborn"}]
    name = described(tmp_path, config)
    usual = {"duration": 0.15, "warmup": 0.05, "rate": "5k"}
    with Lab(tmp_path / "run") as lab:
        record = lab.run(Test(switch=name, scenario="v2v", engine="raw-mmsg", **usual))
    assert record.status == "ok", record.error
    assert "undo-refused" in record.doubts
    assert record.refused is not None
    assert len(record.refused) == 2
    assert all("I stay" in refused for refused in record.refused)
    assert lab.left == ()
    assert not [*Path("/run/netns").glob("sm*")]


def test_a_killed_run_is_cleaned_up(tmp_path: Path) -> None:
    before = state(), rules(), interfaces()
    program = (sys.executable, "-m", "switchmark", "run", "--scenario", "v2v", "--repeat", "100")
    switch = ("--switch", f"cni:{DATA}/bridge.conflist", "--rate", "1k", "--out", f"{tmp_path}/r")
    brief = ("--duration", "0.2", "--warmup", "0")
    run = subprocess.Popen(
        (*program, *switch, *brief), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_for_trials(tmp_path)
    finally:
        run.send_signal(signal.SIGKILL)
        output = run.communicate()[0].decode()
    cleaned = [each for each in clean() if each.state == "cleaned"]
    assert cleaned, output
    actions = "\n".join(cleaned[0].actions)
    assert actions.count(" DEL ") == 6, (actions, output)
    assert (state(), rules(), interfaces()) == before
