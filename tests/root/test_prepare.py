"""These tests prepare this host for runs, end them in every way, and find each value as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from host_state import COMMAND, clean, start, wait_for
from ssh_hosts import SshdHost, write_host_file
from switchmark.hosts.local import LocalHost
from switchmark.lab.host_preparation import can_have
from switchmark.model.preparation import TABLE, found

TRIAL = "run --switch linux-bridge --engine raw-mmsg --warmup 0.05 --rate 5k --calibrate never"
QUICK = [*TRIAL.split(), "--duration", "0.2"]
LONG = [*TRIAL.split(), "--duration", "60"]
VERIFIED = [name for name, each in TABLE.items() if each.verified == "verified"]


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


def state(name: str) -> Mapping[str, str]:
    """Return the value of each file of a preparation on this host."""
    files = LocalHost().read_all(*(setting.files for setting in TABLE[name].settings))
    return {entry.path: entry.value for entry in found(TABLE[name], files)}


def as_asked(value: Mapping[str, str]) -> bool:
    """Return whether a value is the one that was asked for. The kernel omits zeros of masks."""
    return value["now"].lstrip("0,") == value["asked"].lstrip("0,")


def can_be_tried(name: str) -> list[str]:
    """Return the options that ask for a preparation; skip the test if this host cannot have it."""
    if name not in can_have(LocalHost()):
        pytest.skip(f"this host lacks it: {TABLE[name].lacking}")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("interrupts need a CPU that the test does not use")
    return ["--prepare", name, "--placement", str(max(os.sched_getaffinity(0)))]


def is_set(name: str) -> bool:
    """Return whether the values of this host are those of a preparation. Interrupts that the kernel
    does not move stay."""
    files = LocalHost().read_all(*(setting.files for setting in TABLE[name].settings))
    entries = found(TABLE[name], files)
    if not TABLE[name].of_test:
        return all(entry.is_set for entry in entries)
    last = str(max(os.sched_getaffinity(0)))
    moved = [entry for entry in entries if entry.setting.refusable and last not in entry.value]
    return len(moved) > len(entries) / 2


@pytest.mark.parametrize("name", VERIFIED)
def test_a_run_prepares_this_host_and_restores_it(
    name: str, environment: dict[str, str], tmp_path: Path
) -> None:
    options, before = can_be_tried(name), state(name)
    done = subprocess.run(
        [*COMMAND, *QUICK, *options, "--json"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert state(name) == before
    record = json.loads(done.stdout)
    assert record["test"]["prepare"] == name
    assert sum(value["count"] for value in record["prepared"]) == len(before)
    for value in record["prepared"]:
        assert value["preparation"] == name
        assert value["now"] == value["was"] or as_asked(value)
        assert value["was"] in before.values()
    assert any(map(as_asked, record["prepared"]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", VERIFIED)
def test_an_interrupted_run_restores_this_host(
    name: str, number: signal.Signals, environment: dict[str, str], tmp_path: Path
) -> None:
    options, before = can_be_tried(name), state(name)
    run = start(environment, tmp_path, *LONG, *options)
    wait_for(lambda: is_set(name), "the host is prepared")
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert state(name) == before


@pytest.mark.parametrize("name", VERIFIED)
def test_clean_restores_this_host_after_a_kill(
    name: str, environment: dict[str, str], tmp_path: Path
) -> None:
    options, before = can_be_tried(name), state(name)
    run = start(environment, tmp_path, *LONG, *options)
    wait_for(lambda: is_set(name), "the host is prepared")
    run.kill()
    run.communicate(timeout=60)
    assert is_set(name)
    clean()
    assert state(name) == before


def test_the_last_of_two_runs_restores_this_host(
    environment: dict[str, str], tmp_path: Path
) -> None:
    options, before = can_be_tried("aslr"), state("aslr")
    long = start(environment, tmp_path, *LONG, *options)
    wait_for(lambda: is_set("aslr"), "the host is prepared")
    quick = [*COMMAND, *QUICK, *options, "--share-machine"]
    subprocess.run(quick, check=True, capture_output=True, env=environment, cwd=tmp_path)
    assert is_set("aslr")
    long.send_signal(signal.SIGTERM)
    long.communicate(timeout=60)
    assert state("aslr") == before


def test_what_this_host_lacks_is_refused_with_the_reason(
    environment: dict[str, str], tmp_path: Path
) -> None:
    lacking = [name for name in TABLE if name not in can_have(LocalHost())]
    if not lacking:
        pytest.skip("this host has all of them")
    before = {name: state(name) for name in TABLE}
    placement = str(max(os.sched_getaffinity(0)))
    done = subprocess.run(
        [*COMMAND, *QUICK, "--prepare", "all", "--placement", placement],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=100,
    )
    assert done.returncode == 3, done.stderr
    assert f"--prepare {lacking[0]} is not possible" in done.stdout
    assert {name: state(name) for name in TABLE} == before


@pytest.mark.parametrize("name", ["aslr", "thp"])
def test_a_host_that_is_reached_by_ssh_is_prepared_and_restored(
    name: str, ssh_host: SshdHost, environment: dict[str, str], tmp_path: Path
) -> None:
    """It shares the kernel of this host, so both show the same values."""
    options, before = can_be_tried(name), state(name)
    host_file = write_host_file(tmp_path / "host.toml", [ssh_host])
    hosts = ["--hosts", ssh_host.name, "--host-file", str(host_file)]
    run = start(environment, tmp_path, *LONG, *options, *hosts)
    wait_for(lambda: is_set(name) or run.poll() is not None, "the host is prepared")
    assert run.poll() is None, run.communicate()[1]
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert state(name) == before
    killed = start(environment, tmp_path, *LONG, *options, *hosts)
    wait_for(lambda: is_set(name), "the host is prepared")
    killed.kill()
    killed.communicate(timeout=60)
    # The host undoes it when the connection ends, and `clean` ends the run here.
    wait_for(lambda: state(name) == before, "the host is restored")
    cleaning = [*COMMAND, "clean", "--host-file", str(host_file)]
    subprocess.run(cleaning, check=True, capture_output=True, env=environment, timeout=60)
    assert state(name) == before
