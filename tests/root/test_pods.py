"""These tests measure between pods of a stand-in of a cluster, and check that all pods go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host_state import COMMAND, clean, records, wait_for_trials

Cli = Callable[..., tuple[int, str, str]]

STAND_IN = Path(__file__).parents[1] / "kubectl_stand_in.py"


@pytest.fixture
def cluster(tmp_path: Path, traffic_program: str) -> Iterator[dict[str, str]]:
    """Return the environment of a command that finds the stand-in as kubectl."""
    state, programs = tmp_path / "state", tmp_path / "bin"
    state.mkdir()
    programs.mkdir()
    kubectl = programs / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    kubectl.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    yield {
        **os.environ,
        "PATH": path,
        "KUBECTL_STATE": str(state),
        "SWITCHMARK_TRAFFIC": traffic_program,
    }
    for pod in (*state.glob("*.json"),):
        subprocess.run(("ip", "netns", "del", pod.stem), check=False)
    subprocess.run(("ip", "netns", "del", "kc-router"), check=False, capture_output=True)


def pods_left(cluster: dict[str, str]) -> list[str]:
    files = Path(cluster["KUBECTL_STATE"]).glob("*.json")
    return [file.stem for file in files] + [*map(str, Path("/run/netns").glob("switchmark-*"))]


def test_the_network_between_pods_is_measured_and_the_pods_go(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    axes = ("--rate", "2k", "--duration", "0.2", "--warmup", "0.05", "--frame-size", "128")
    completed = subprocess.run(
        [*COMMAND, "pods", "--kubeconfig", "my.conf", *axes, "--json", "--share-machine"],
        env=cluster,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr
    found = records(completed)
    assert [record["test"]["hosts"] for record in found] == [
        "sender,same-node",
        "sender,other-node",
    ]
    for record in found:
        assert record["tx"]["frames"] + record["tx"]["unsent"] == 400
        assert record["rx"]["frames"] > 0
        assert record["unaccounted"] == 0
        assert record["gate"]["passed"]
        assert record["gate"]["unseen"] == "the port names no interface"
    calls = Path(cluster["KUBECTL_STATE"], "calls").read_text().splitlines()
    assert all(json.loads(call)[:2] == ["--kubeconfig", f"{tmp_path}/my.conf"] for call in calls)
    assert pods_left(cluster) == []


def test_pods_of_a_killed_run_are_deleted_by_clean(cluster: dict[str, str], tmp_path: Path) -> None:
    axes = (
        *("--rate", "1k", "--duration", "0.2", "--warmup", "0", "--repeat", "100"),
        *("--receiver", "other-node", "--share-machine"),
    )
    run = subprocess.Popen(
        [*COMMAND, "pods", *axes],
        env=cluster,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_for_trials(tmp_path)
        assert run.poll() is None
        assert len(pods_left(cluster)) == 4
    finally:
        run.send_signal(signal.SIGKILL)
        output = run.communicate()[0].decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", cluster["PATH"])
        patch.setenv("KUBECTL_STATE", cluster["KUBECTL_STATE"])
        results = [each for each in clean() if each.state != "live"]
    assert [each.state for each in results] == ["cleaned"] * len(results), (results, output)
    assert pods_left(cluster) == []


def test_a_pod_that_cannot_be_made_is_told_and_all_go(
    cluster: dict[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_all(monkeypatch, cluster)
    code, _, err = cli("pods", "--node", "node-9", "--share-machine")
    assert code == 4
    assert 'error: node "node-9" not found' in err
    assert pods_left(cluster) == []


def test_a_cluster_that_forbids_pods_leaves_nothing_to_clean(
    cluster: dict[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_all(monkeypatch, {**cluster, "KUBECTL_FORBIDS": "1"})
    code, _, err = cli("pods", "--share-machine")
    assert code == 4
    assert "the cluster lets this user make pods: the command ended with status 1" in err
    assert [each for each in clean(dry_run=True) if "kubectl" in str(each.actions)] == []


def set_all(patch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        patch.setenv(name, value)
