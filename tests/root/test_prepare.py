"""These tests prepare this host for runs, end them in every way, and find each value as it was.
Each run has all preparations that are verified and that this host can have."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pytest

from host_state import clean, start, wait_for
from ssh_hosts import SshdHost, write_host_file
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.local import LocalHost
from switchmark.lab.host_preparation import can_have
from switchmark.model.preparation import TABLE, found

Cli = Callable[..., tuple[int, str, str]]
Values = Mapping[str, Mapping[str, str]]

TRIAL = "run --switch linux-bridge --engine raw-mmsg --warmup 0.05 --rate 5k --calibrate never"
QUICK = [*TRIAL.split(), "--duration", "0.2", "--repeat", "1"]
LONG = [*TRIAL.split(), "--duration", "60"]
VERIFIED = [name for name, each in TABLE.items() if each.verified == "verified"]


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


@pytest.fixture(autouse=True)
def _program(traffic_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)


def state(names: Collection[str]) -> Values:
    """Return the value of each file of some preparations on this host."""
    host = LocalHost()
    files = {name: host.read_all(*(each.files for each in TABLE[name].settings)) for name in names}
    return {
        name: {entry.path: entry.value for entry in found(TABLE[name], files[name])}
        for name in names
    }


def as_asked(value: Mapping[str, str]) -> bool:
    """Return whether a value is the one that was asked for. The kernel omits zeros of masks."""
    return value["now"].lstrip("0,") == value["asked"].lstrip("0,")


def can_be_tried(*names: str) -> tuple[Sequence[str], list[str]]:
    """Return those of the preparations that this host can have, and the options that ask for them;
    skip the test if it can have none."""
    here = [name for name in names if name in can_have(LocalHost())]
    if not here:
        pytest.skip(f"this host lacks it: {TABLE[names[0]].lacking}")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("interrupts need a CPU that the test does not use")
    return here, ["--prepare", ",".join(here), "--placement", str(max(os.sched_getaffinity(0)))]


def are_set(names: Collection[str]) -> bool:
    """Return whether the values of this host are those of all of these preparations. Interrupts
    that the kernel does not move stay."""
    return all(map(is_set, names))


def is_set(name: str) -> bool:
    files = LocalHost().read_all(*(setting.files for setting in TABLE[name].settings))
    entries = found(TABLE[name], files)
    if not TABLE[name].of_test:
        return all(entry.is_set for entry in entries)
    last = str(max(os.sched_getaffinity(0)))
    moved = [entry for entry in entries if entry.setting.refusable and last not in entry.value]
    return len(moved) > len(entries) / 2


def test_a_run_prepares_this_host_and_restores_it(cli: Cli) -> None:
    names, options = can_be_tried(*VERIFIED)
    before = state(names)
    code, output, errors = cli(*QUICK, *options, "--json")
    assert code == 0, errors
    assert state(names) == before
    record = json.loads(output)
    assert record["test"]["prepare"] == ",".join(names)
    assert {value["preparation"] for value in record["prepared"]} == {*names}
    for name in names:
        values = [value for value in record["prepared"] if value["preparation"] == name]
        assert sum(value["count"] for value in values) == len(before[name])
        for value in values:
            assert value["now"] == value["was"] or as_asked(value)
            assert value["was"] in before[name].values()
        assert any(map(as_asked, values))


def test_an_interrupted_run_restores_this_host(environment: dict[str, str], tmp_path: Path) -> None:
    names, options = can_be_tried(*VERIFIED)
    before = state(names)
    run = start(environment, tmp_path, *LONG, *options)
    wait_for(lambda: are_set(names), "the host is prepared")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert state(names) == before


def test_clean_restores_this_host_after_a_kill(environment: dict[str, str], tmp_path: Path) -> None:
    names, options = can_be_tried(*VERIFIED)
    before = state(names)
    run = start(environment, tmp_path, *LONG, *options)
    wait_for(lambda: are_set(names), "the host is prepared")
    run.kill()
    run.communicate(timeout=60)
    assert are_set(names)
    clean()
    assert state(names) == before


def test_the_last_of_two_runs_restores_this_host(
    environment: dict[str, str], cli: Cli, tmp_path: Path
) -> None:
    """The other one has ended well before, and this one is terminated."""
    names, options = can_be_tried(*VERIFIED)
    before = state(names)
    long = start(environment, tmp_path, *LONG, *options)
    wait_for(lambda: are_set(names), "the host is prepared")
    code, _, errors = cli(*QUICK, *options, "--share-machine")
    assert code == 0, errors
    assert are_set(names)
    long.send_signal(signal.SIGTERM)
    _, err = long.communicate(timeout=60)
    assert long.returncode == 130, err
    assert state(names) == before


def test_what_this_host_lacks_is_refused_with_the_reason(cli: Cli) -> None:
    lacking = [name for name in TABLE if name not in can_have(LocalHost())]
    if not lacking:
        pytest.skip("this host has all of them")
    before = state(TABLE)
    placement = str(max(os.sched_getaffinity(0)))
    code, output, errors = cli(*QUICK, "--prepare", "all", "--placement", placement)
    assert code == 3, errors
    assert f"--prepare {lacking[0]} is not possible" in output
    assert state(TABLE) == before


def test_a_host_that_is_reached_by_ssh_is_prepared_and_restored(
    ssh_host: SshdHost,
    environment: dict[str, str],
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It shares the kernel of this host, so both show the same values."""
    names, options = can_be_tried("aslr", "thp")
    before = state(names)
    host_file = write_host_file(tmp_path / "host.toml", [ssh_host])
    hosts = ["--hosts", ssh_host.name, "--host-file", str(host_file)]
    run = start(environment, tmp_path, *LONG, *options, *hosts)
    wait_for(lambda: are_set(names) or run.poll() is not None, "the host is prepared")
    assert run.poll() is None, run.communicate()[1]
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert state(names) == before
    killed = start(environment, tmp_path, *LONG, *options, *hosts)
    wait_for(lambda: are_set(names), "the host is prepared")
    killed.kill()
    killed.communicate(timeout=60)
    # The host undoes it when the connection ends, and `clean` ends the run here.
    wait_for(lambda: state(names) == before, "the host is restored")
    monkeypatch.setenv(VARIABLE, str(host_file))
    code, _, errors = cli("clean")
    assert code == 0, errors
    assert state(names) == before
