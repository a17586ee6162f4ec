"""These tests check that the host is as it was before: around every environment, switch and noise,
whether a run ended, failed, or was killed and cleaned up after. `conftest` compares it around each
test."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from host_state import of_run, start, wait_for
from real_frames import SINGLE_HOST
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import marked
from switchmark.lab.measure import Lab
from switchmark.model.test import AXES, Test
from switchmark.noises import TABLE as NOISES
from switchmark.path.refusals import check
from switchmark.runs.clean import clean
from switchmark.switches import TABLE as SWITCHES

pytestmark = pytest.mark.whole_host

SETTINGS = [
    *(("environment", name) for name in ENVIRONMENTS),
    *(("switch", name) for name in SINGLE_HOST),
    *(("noise", name) for name in NOISES),
]
ENDING = ("memory", "cache", "io")
"""The noises that test_axes.py does not start. Environments and switches end well in tests of their
own, and around each file the whole host is looked at."""

FAILING = ("host", "netns", "lxc", "linux-bridge", "vxlan", "ovs", "testpmd", "web")
"""Of each kind one: what a plan has done is undone alike, whatever driver it is of."""

KILLED = ("vxlan", *(name for name in ENVIRONMENTS if name != "netns"))
"""Every environment, whose dead runs another process cleans up after; vxlan is in netns. The runs
of other tests that are killed have ovs and its noise (here, and test_axes.py) and ovs-dpdk
(test_bypass_failures.py)."""


def settings(*names: str, further: tuple[str, ...] = ()) -> list[ParameterSet]:
    """Return these settings, and further ones for `make test-all`."""
    return [
        pytest.param(
            setting,
            id="-".join(setting),
            marks=() if setting[1] in names else (pytest.mark.further,),
        )
        for setting in SETTINGS
        if setting[1] in (*names, *further)
    ]


TABLES: dict[str, Any] = {"environment": ENVIRONMENTS, "switch": SWITCHES, "noise": NOISES}


@pytest.fixture(params=SETTINGS, ids=lambda setting: "-".join(setting))
def axes(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the axes of a test with one environment, for its functions and, where it can be, for
    its switch, or with one switch or noise. Skips what is not usable here."""
    axis, name = request.param
    try:
        TABLES[axis][name].probe(LocalHost())
    except Unavailable as missing:
        pytest.skip(missing.message)
    kernel = set(getattr(TABLES[axis][name], "port_kinds", ())) & ENGINES["raw-mmsg"].port_kinds
    found = {axis: name, "engine": "raw-mmsg" if kernel or axis == "noise" else "dpdk"}
    if kernel and axis == "switch" and check(Test(**found)):
        found["engine"] = "udp-mmsg"  # its ends are found by their addresses of IP
    if axis == "environment":
        found["scenario"] = "p2v"  # a node is enough
    if axis == "environment" and not check(Test(**found, switch_environment=name)):
        found["switch_environment"] = name
    found |= {"duration": "0.2", "warmup": "0", "rate": "500"}
    assert check(Test(**found)) == []
    return found


@pytest.fixture
def lab(tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    with Lab(tmp_path) as lab:
        yield lab


@pytest.mark.parametrize("axes", settings(*ENDING, further=(*ENVIRONMENTS, *NOISES)), indirect=True)
def test_a_run_that_ends_leaves_the_host_as_it_was(lab: Lab, axes: dict[str, Any]) -> None:
    record = lab.run(Test(**axes))
    assert record.status == "ok", record.error
    assert record.trials[0].rx_frames > 0


@pytest.mark.parametrize("axes", settings(*FAILING, further=(*ENVIRONMENTS, "cpu")), indirect=True)
def test_a_run_that_fails_leaves_the_host_as_it_was(lab: Lab, axes: dict[str, Any]) -> None:
    """Its traffic programs are killed as they come."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.01):
            for pid, _ in marked(lab._workspace.run):
                with suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text().startswith("switchmark-traf"):
                        os.kill(pid, signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        record = lab.run(Test(**{**axes, "duration": 20}))
    finally:
        over.set()
        killing.join()
    assert record.status == "failed", record.error
    assert "could not undo" not in (record.error or "")


def serving(run: subprocess.Popen[str]) -> list[int]:
    """Return the traffic programs of a run's parts, not those that look at its CPUs beforehand."""
    found = []
    for pid in of_run("switchmark-traf", run):
        with suppress(OSError):
            if b"\0serve\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.mark.parametrize(
    "axes", settings(*KILLED, further=(*SINGLE_HOST, *NOISES, "netns")), indirect=True
)
def test_a_run_that_is_killed_leaves_the_host_as_it_was(
    axes: dict[str, Any], tmp_path: Path, traffic_program: str
) -> None:
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    options = [f"{AXES[axis].option}={value}" for axis, value in axes.items()]
    run = start(environment, tmp_path, "run", *options, "--duration=60", "--calibrate=never")
    try:
        wait_for(lambda: serving(run), "a traffic program", 30)
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=60)
    assert [result.failures for result in clean() if result.state == "incomplete"] == []


@pytest.mark.parametrize(("event", "command"), [("kill", "kill -KILL"), ("pause", "kill -STOP")])
def test_a_run_that_is_killed_during_an_event_leaves_the_host_as_it_was(
    event: str, command: str, tmp_path: Path, traffic_program: str
) -> None:
    """Its switch is dead, starts again, or stands still."""
    environment = {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}
    load = ("--rate=500", "--duration=60", "--warmup=0", "--calibrate=never")
    axes = ("--switch=ovs", "--engine=raw-mmsg", "--dimension=outage", f"--event={event}@0.2")
    run = start(environment, tmp_path, "run", *axes, *load)
    try:
        wait_for(lambda: command in steps_below(tmp_path), f"event {event}", 60)
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=60)
    assert [result.failures for result in clean() if result.state == "incomplete"] == []


def steps_below(folder: Path) -> str:
    """Return the commands that runs in a folder have logged."""
    return "".join(file.read_text() for file in folder.rglob("steps.sh"))
