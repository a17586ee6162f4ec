"""Axes of load, limits and neighbours, and paths that stay up for them, with real frames.

After each test the host is as it was before.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from host_state import COMMAND, left_as_it_was, marked, records, start, wait_for

QUICK = ["--duration", "0.3", "--warmup", "0.1"]
LONG_ENOUGH_TO_KILL = ["--duration", "1", "--warmup", "0.1"]

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def host_is_left_as_it_was() -> Iterator[None]:
    with left_as_it_was():
        yield


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


@pytest.fixture
def switchmark(environment: dict[str, str], tmp_path: Path) -> Run:
    """Runs tests with these words, in the written order; their objects."""

    def run(words: str, status: int = 0) -> list[dict[str, Any]]:
        done = subprocess.run(
            [*COMMAND, "run", *words.split(), "--json"],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=100,
        )
        assert done.returncode == status, done.stderr
        return records(done)

    return run


def steps(folder: Path) -> str:
    """All that the run in this folder did, as a script."""
    (log,) = folder.glob("runs/*/logs/steps.sh")
    return log.read_text()


def adds_up(record: dict[str, Any]) -> bool:
    copies = record["test"]["copies"]
    sent = record["tx"]["frames"] * copies
    return bool(
        sent > 0
        and sent == record["rx"]["frames"] - record["duplicated"] + record["lost"]
        and record["unaccounted"] == 0
    )


# --- a path stays up for the tests that share it ----------------------------------------------


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("--switch linux-bridge --engine mmap", "ip link add sm"),
        ("--switch ovs-dpdk --engine dpdk", "ovsdb-tool create"),
    ],
)
def test_loads_sizes_and_bursts_share_one_path(
    switchmark: Run, tmp_path: Path, path: str, made: str
) -> None:
    found = switchmark(
        f"{path} --rate 1k,2k,5k --frame-size 64,1518 --burst 1,32 --duration 0.1 --warmup 0"
    )
    assert len(found) == 12
    assert all(adds_up(record) and record["lost"] == 0 for record in found)
    assert [record["reused"] for record in found] == [False] + [True] * 11
    assert found[0]["setup_s"] > 0.01
    assert found[-1]["teardown_s"] > 0.01
    assert {record["setup_s"] for record in found[1:]} == {0}
    assert {record["teardown_s"] for record in found[:-1]} == {0}
    assert steps(tmp_path).count(made) == (3 if "bridge" in path else 1)
    for record in found:
        wanted = round(record["test"]["rate_pps"] * 0.1)
        assert record["rx"]["frames"] + record["tx"]["unsent"] == wanted


def test_what_needs_another_path_gets_another(switchmark: Run, tmp_path: Path) -> None:
    found = switchmark(
        "--rate 1k --frame-size 64,9000 --flows 1,2 --duration 0.1 --warmup 0 --engine raw-mmsg"
    )
    assert [record["reused"] for record in found] == [False] * 4
    assert all(adds_up(record) and record["lost"] == 0 for record in found)
    assert steps(tmp_path).count("type bridge") == 4


def test_a_switch_that_was_killed_is_built_anew(
    environment: dict[str, str], tmp_path: Path
) -> None:
    run = start(
        environment,
        tmp_path,
        *"run --switch ovs --rate 1k,2k,3k,4k --json".split(),
        *LONG_ENOUGH_TO_KILL,
    )
    assert run.stdout is not None
    lines = [run.stdout.readline()]
    (daemon,) = wait_for(lambda: marked("ovs-vswitchd", run), "the switch")
    os.kill(daemon, signal.SIGKILL)
    rest, errors = run.communicate(timeout=60)
    found = records(subprocess.CompletedProcess([], 0, lines[0] + rest, errors))
    failed = [record for record in found if record["status"] == "failed"]
    assert len(found) == 4
    # It died during a trial, which is lost, or between two, and then nothing is.
    assert len(failed) <= 1
    for record in failed:
        assert "ovs died" in record["error"]
    assert [record["reused"] for record in found].count(False) >= 2
    assert found[-1]["reused"]
    assert adds_up(found[-1])
    assert steps(tmp_path).count("ovsdb-tool create") == 2


def test_each_test_on_a_path_has_its_own_capture(switchmark: Run, tmp_path: Path) -> None:
    switchmark("--rate 1k,2k --duration 0.1 --warmup 0 --capture 5")
    names = sorted(file.name for file in tmp_path.glob("runs/*/captures/*"))
    assert names == ["0001-f0.pcap", "0001-f1.pcap", "0002-f0.pcap", "0002-f1.pcap"]
    assert steps(tmp_path).count("type bridge") == 1


# --- rates in percent of R+ -------------------------------------------------------------------


def test_shares_of_r_plus_are_rates_of_one_search(switchmark: Run, tmp_path: Path) -> None:
    found = switchmark(f"--rate 10%,20% --pairs 2 {' '.join(QUICK)}")
    (r_plus,) = {record["r_plus_pps"] for record in found}
    assert r_plus > 1000
    for record, share in zip(found, (0.1, 0.2), strict=True):
        rate_pps = record["test"]["rate_pps"]
        assert rate_pps == pytest.approx(share * r_plus / 2)
        assert record["tx"]["frames"] + record["tx"]["unsent"] == pytest.approx(
            2 * rate_pps * 0.3, abs=2
        )
    assert [record["reused"] for record in found] == [False, True]
    (trials,) = tmp_path.glob("runs/*/trials.jsonl")
    assert trials.read_text().count('"rate_pps":null') == 1
    assert steps(tmp_path).count("type bridge") == 1
