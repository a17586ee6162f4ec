"""These tests run campaigns on labs of two Dask workers of this host, with real frames: killed,
restarted, interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host_state import COMMAND, start, wait_for

pytest.importorskip("distributed", reason="the extra switchmark[lab] is not installed")
from switchmark.cluster.start import worker_command

CAMPAIGN = """
name: lab
switch: linux-bridge
frame-size: [64, 128, 256, 512]
rate: 1k
duration: 0.2s
warmup: 0s
repeat: 2
"""
OPTIONS = "--calibrate never --gate off --share-machine --quiet --json".split()


class Lab:
    """This lab has a scheduler on this host, and workers."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._scheduler = self.start_scheduler(0)

    def start_scheduler(self, port: int) -> subprocess.Popen[bytes]:
        told = self._folder / "scheduler.log"
        told.unlink(missing_ok=True)
        words = f"-m distributed.cli.dask_scheduler --host 127.0.0.1 --port {port} --no-dashboard"
        scheduler = self._start(*words.split(), told=told)
        found = wait_for(
            lambda: re.search(r"Scheduler at: +(tcp://\S+)", told.read_text()), "a scheduler"
        )
        self.address = found[1]
        return scheduler

    def add(self, name: str) -> None:
        _, *words = worker_command("python", self.address, name, None, "127.0.0.1")
        log = self._folder / f"{name}.log"
        self.workers[name] = self._start(*words, "--no-nanny", told=log)

    def kill(self, name: str) -> None:
        self.workers[name].kill()

    def restart_scheduler(self) -> None:
        self._scheduler.kill()
        self._scheduler.wait()
        for name in self.workers:  # who loses its scheduler ends
            self.workers[name].wait(timeout=60)
        self._scheduler = self.start_scheduler(int(self.address.rpartition(":")[2]))

    def close(self) -> None:
        for process in (*self.workers.values(), self._scheduler):
            process.kill()
        for process in (*self.workers.values(), self._scheduler):
            process.wait(timeout=60)

    def _start(self, *words: str, told: Path) -> subprocess.Popen[bytes]:
        with told.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *words],
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
            )


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


@pytest.fixture
def lab(environment: dict[str, str], tmp_path: Path) -> Iterator[Lab]:
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    found = Lab(environment, tmp_path)
    try:
        for name in ("a", "b"):
            found.add(name)
        yield found
    finally:
        found.close()


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    path = run / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ended(run: subprocess.Popen[str]) -> str:
    output, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    return output


def keys(run: Path) -> Counter[str]:
    return Counter(line["record"]["key"] for line in lines(run, "records.jsonl"))


def test_a_killed_workers_test_runs_elsewhere_and_each_lands_once(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", "campaign.yaml", *OPTIONS]
    run = start(environment, tmp_path, *words, "--cluster", lab.address, "--name", "killed")
    folder = tmp_path / "runs/killed"
    wait_for(lambda: len(lines(folder, "trials.jsonl")) >= 3, "some trials", 60)
    lab.kill("b")
    objects = [json.loads(line) for line in ended(run).splitlines()]
    assert [each["status"] for each in objects] == ["ok"] * 4
    assert "shared-machine" in objects[0]["doubts"]

    alone = start(environment, tmp_path, *words, "--name", "local")
    ended(alone)
    assert keys(folder) == keys(tmp_path / "runs/local")  # the same, and each once
    assert set(keys(folder).values()) == {1}
    assert json.loads((folder / "testbeds.json").read_text())["testbeds"].keys() == {"a", "b"}
    for line in lines(folder, "records.jsonl"):
        trials = line["record"]["trials"]
        assert len(trials) == 2
        assert len({trial["evidence"]["testbed"] for trial in trials}) == 1  # not of two hosts
        assert [trial["tx_frames"] for trial in trials] == [trial["rx_frames"] for trial in trials]


def test_repeats_are_spread_where_that_is_asked_for(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", "campaign.yaml", "--frame-size", "64,128", *OPTIONS, "--spread"]
    ended(start(environment, tmp_path, *words, "--cluster", lab.address, "--name", "spread"))
    for line in lines(tmp_path / "runs/spread", "records.jsonl"):
        trials = line["record"]["trials"]
        assert {trial["evidence"]["testbed"] for trial in trials} == {"a", "b"}


def test_a_restarted_scheduler_is_found_again(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", "campaign.yaml", *OPTIONS, "--cluster", lab.address, "--name", "again"]
    run = start(environment, tmp_path, *words)
    folder = tmp_path / "runs/again"
    wait_for(lambda: len(lines(folder, "trials.jsonl")) >= 2, "some trials", 60)
    lab.restart_scheduler()
    lab.add("a")
    assert ended(run).count('"status": "ok"') == 4
    assert set(keys(folder).values()) == {1}
    assert len(keys(folder)) == 4


def test_an_interrupted_run_leaves_nothing_on_the_workers_and_goes_on(
    lab: Lab, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", "campaign.yaml", *OPTIONS, "--cluster", lab.address, "--name", "stopped"]
    run = start(environment, tmp_path, *words, "--duration", "60", "--repeat", "1")
    folder = tmp_path / "runs/stopped"
    wait_for(lambda: (folder / "testbeds.json").exists() and of_a_lab(), "both measure", 60)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "0 of 4 tests are done and kept" in errors
    assert f"switchmark resume runs/stopped --cluster {lab.address}" in errors
    assert not of_a_lab()
    refused = subprocess.run(
        [*COMMAND, "resume", "runs/stopped"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert refused.returncode == 2
    assert "--cluster" in refused.stderr


def of_a_lab() -> list[str]:
    """Return the namespaces of all runs, where two paths are up."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    names = re.findall(r"^sm[0-9a-f]{4}-\S+", listed, re.MULTILINE)
    return names if len({name.partition("-")[0] for name in names}) == 2 else []
