"""These tests measure with axes of load, limits and neighbours, and on paths that stay up for them,
with real frames.

After each test the host is as it was before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from host_state import COMMAND, marked, of_run, records, start, wait_for
from real_frames import DISTURBED

QUICK = "--duration 0.15 --warmup 0.05 --calibrate never"
LONG_ENOUGH_TO_KILL = ["--duration", "0.5", "--warmup", "0.1", "--calibrate", "never"]

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


@pytest.fixture
def switchmark(switchmark: Callable[..., subprocess.CompletedProcess[str]]) -> Run:
    """Run tests with these words, in the written order, and return their objects."""

    def run(command: str, status: int = 0) -> list[dict[str, Any]]:
        completed = switchmark("run", *command.split(), "--json")
        assert completed.returncode == status, completed.stderr
        return [json.loads(line) for line in completed.stdout.splitlines()]

    return run


def steps(folder: Path) -> str:
    """Return all that the run in this folder did, as a script."""
    (log,) = folder.glob("runs/*/logs/steps.sh")
    return log.read_text()


def is_on_cpu_0(program: str, run: subprocess.Popen[str]) -> bool:
    return {0} in [os.sched_getaffinity(pid) for pid in of_run(program, run)]


def assert_it_adds_up(record: dict[str, Any]) -> None:
    assert record["status"] == "ok", record["error"]
    expected = record["tx"]["frames"] * record["test"]["copies"]
    assert expected > 0
    assert record["unaccounted"] == 0, record["lost_at"]


def least_share(record: dict[str, Any], quiet: float) -> float:
    """Return the share of frames that arrive at least, which is `quiet` on a quiet host. Receivers
    without CPU time may miss nearly all of a short trial."""
    return 0 if DISTURBED & {*record["doubts"]} else quiet


# --- a path stays up for the tests that share it ----------------------------------------------


@pytest.mark.parametrize(
    ("path", "interfaces"),
    [
        ("--switch linux-bridge --engine mmap", " link add sm"),
        # The loads of test_busy.py share a path of this switch, too.
        pytest.param(
            *("--switch ovs-dpdk --engine dpdk", "ovsdb-tool create"), marks=pytest.mark.further
        ),
    ],
)
def test_loads_and_sizes_share_one_path(
    switchmark: Run, tmp_path: Path, path: str, interfaces: str
) -> None:
    found = switchmark(f"{path} --rate 1k,2k --frame-size 64,1518 --duration 0.1 --warmup 0")
    assert [record["reused"] for record in found] == [False] + [True] * 3
    assert found[0]["setup_s"] > 0.01
    assert found[-1]["teardown_s"] > 0.01
    assert {record["setup_s"] for record in found[1:]} == {0}
    assert {record["teardown_s"] for record in found[:-1]} == {0}
    assert steps(tmp_path).count(interfaces) == (3 if "bridge" in path else 1)
    for record in found:
        assert_it_adds_up(record)
        expected = round(record["test"]["rate_pps"] * 0.1)
        assert record["tx"]["frames"] + record["tx"]["unsent"] == expected


def test_what_needs_another_path_gets_another(switchmark: Run, tmp_path: Path) -> None:
    """tests/unit/test_campaign_expand.py has all that does."""
    found = switchmark("--rate 1k --frame-size 64,9000 --duration 0.1 --warmup 0")
    assert [record["reused"] for record in found] == [False] * 2
    for record in found:
        assert_it_adds_up(record)
    assert steps(tmp_path).count("type bridge") == 2


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
    assert_it_adds_up(found[-1])
    assert steps(tmp_path).count("ovsdb-tool create") == 2


def test_each_visit_of_a_test_has_its_own_capture(switchmark: Run, tmp_path: Path) -> None:
    """The log of an earlier one would say that tcpdump listens. Those of a round share a path."""
    switchmark("--rate 1k,2k --duration 0.1 --warmup 0 --capture 5 --repeat 2")
    names = sorted(file.name for file in tmp_path.glob("runs/*/captures/*"))
    visits = ("0001", "0001.2", "0002", "0002.2")
    assert names == sorted(f"{visit}-{part}.pcap" for visit in visits for part in ("f0", "f1"))
    for log in tmp_path.glob("runs/*/logs/capture-*"):
        assert log.read_text().count("listening on") == 1
    assert steps(tmp_path).count("type bridge") == 2


# --- rates in percent of R+ -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "shares"),
    [
        ("--pairs 2", (0.1, 2.0)),
        pytest.param("--switch ovs", (0.2, 2.0), marks=pytest.mark.further),
    ],
)
def test_shares_of_r_plus_are_rates_of_one_search(
    switchmark: Run, tmp_path: Path, path: str, shares: tuple[float, float]
) -> None:
    """Rates above R+ are offered, too."""
    rates = ",".join(f"{share:.0%}" for share in shares)
    found = switchmark(f"{path} --rate {rates} {QUICK}")
    (r_plus,) = {record["r_plus_pps"] for record in found}
    assert r_plus > 0
    for record, share in zip(found, shares, strict=True):
        pairs = record["test"]["pairs"]
        rate_pps = record["test"]["rate_pps"]
        assert rate_pps == pytest.approx(share * r_plus / pairs)
        offered = record["tx"]["frames"] + record["tx"]["unsent"]
        assert offered == pytest.approx(pairs * rate_pps * 0.15, abs=2)
    # A host that was busy during the search may be able to carry more than R+ later.
    too_much = found[1]["lost"] + found[1]["tx"]["unsent"]
    assert too_much > 0.2 * offered or DISTURBED & {*found[1]["doubts"]}
    assert [record["reused"] for record in found] == [False, True]
    (trials,) = tmp_path.glob("runs/*/trials.jsonl")
    assert trials.read_text().count('"rate_pps":null') == 1
    made = "ovsdb-tool create" if "ovs" in path else "type bridge"
    assert steps(tmp_path).count(made) == 1


def test_shares_of_r_plus_on_a_link(switchmark: Run) -> None:
    # On a busy host a part may have no CPU for 0.15 s.
    half, twice = switchmark(f"--rate 50%,200% --line-rate 10kpps {QUICK} --duration 0.6")
    assert 0 < half["r_plus_pps"] <= 10_500
    assert half["test"]["rate_pps"] == pytest.approx(half["r_plus_pps"] / 2)
    assert twice["test"]["rate_pps"] == 10_000
    assert twice["test"]["line_rate"] == "10kpps"


# --- CPU limits, placements, neighbours ---------------------------------------------------------


@pytest.mark.alone
def test_a_switch_and_functions_are_held_to_their_share_of_a_core(switchmark: Run) -> None:
    """Each of them polls: without a limit it would use all of its core that it can get. The
    trial is 4 periods long, and may have the share of 5."""
    arguments = "--switch testpmd --engine dpdk --rate 20k --duration 0.4 --warmup 0.1"
    switch, functions = switchmark(f"{arguments} --cpu-limit switch:30,function:30")
    assert switch["test"]["cpu_limit"] == "switch:30"
    assert 0 < switch["cpu"]["switch"] <= 0.4
    assert 0 < functions["cpu"]["sender"] <= 0.4
    assert 0 < functions["cpu"]["receiver"] <= 0.4
    assert functions["cpu"]["switch"] > 0.5 or DISTURBED & {*functions["doubts"]}


def test_placements(switchmark: Run) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    two = f"{cpus[0]}+{cpus[-1]}"
    found = switchmark(f"--rate 5k --placement unpinned,{cpus[-1]},{two} {QUICK}")
    seats = [record["placement"]["seats"] for record in found]
    for record in found:
        assert_it_adds_up(record)
    assert [seats[0][part]["cpus"] for part in ("f0", "f1")] == [[], []]
    assert [seats[1][part]["cpus"] for part in ("f0", "f1")] == [[cpus[-1]]] * 2
    assert seats[1]["f0"]["yield"]
    used = {cpu for part in ("f0", "f1") for cpu in seats[2][part]["cpus"]}
    assert used == {cpus[0], cpus[-1]}


@pytest.mark.further  # test_path_placement.py seats the same parts
def test_some_are_pinned_and_some_are_not(switchmark: Run) -> None:
    arguments = f"--switch testpmd --engine dpdk --scenario p2v --rate 5k {QUICK}"
    found = switchmark(f"{arguments} --placement unpinned:switch,unpinned:function")
    pinned = []
    for record in found:
        assert_it_adds_up(record)
        seats = record["placement"]["seats"]
        pinned.append({part for part, seat in seats.items() if seat["cpus"]})
    assert pinned == [{"a0", "f0"}, {"a0", "switch"}]


@pytest.mark.parametrize(
    "kind",
    # The next test, and test_host_as_it_was.py, start the others.
    ["web", *(pytest.param(kind, marks=pytest.mark.further) for kind in ("cpu", "memory"))],
)
def test_noise_is_there_during_the_trials_and_gone_afterwards(
    environment: dict[str, str], tmp_path: Path, kind: str
) -> None:
    command = f"run --rate 2k --noise {kind}:0 --json {' '.join(LONG_ENOUGH_TO_KILL)}"
    run = start(environment, tmp_path, *command.split())
    programs = ("nginx", "ab") if kind == "web" else ("stress-ng",)
    for program in programs:
        # The first ab only asks whether the server is up: it is nobody's noise.
        wait_for(
            partial(is_on_cpu_0, program, run),
            f"{program} on CPU 0",
        )
    there = [pid for program in programs for pid in of_run(program, run)]
    out, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    (record,) = records(subprocess.CompletedProcess([], 0, out, errors))
    assert_it_adds_up(record)
    assert record["test"]["noise"] == f"{kind}:0"
    assert not {*there} & {pid for program in programs for pid in marked(program)}


def test_noise_that_ends_fails_its_test_and_not_the_next(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = f"run --rate 2k --noise cpu,none --json {' '.join(LONG_ENOUGH_TO_KILL)}"
    run = start(environment, tmp_path, *command.split())
    os.kill(wait_for(lambda: marked("stress-ng", run), "noise")[0], signal.SIGKILL)
    out, errors = run.communicate(timeout=60)
    noisy, quiet = records(subprocess.CompletedProcess([], 0, out, errors))
    assert noisy["status"] == "failed"
    assert "it ended during the trial" in noisy["error"]
    assert quiet["status"] == "ok"


def test_a_killed_run_leaves_no_cgroup_and_no_noise(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = "run --switch ovs --cpu-limit 50 --noise web --rate 1k --duration 30"
    run = start(environment, tmp_path, *arguments.split())
    wait_for(lambda: of_run("ab", run), "the noise")
    run.kill()
    run.communicate()
    completed = subprocess.run([*COMMAND, "clean"], capture_output=True, text=True, check=True)
    assert "rmdir /sys/fs/cgroup" in completed.stdout


# --- many flows, and copies of one --------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "by"),
    [
        ("linux-bridge", "ip"),
        *(
            # test_busy.py sends 16384 flows by MAC through these switches.
            pytest.param(*combination, marks=pytest.mark.further)
            for combination in (
                ("linux-bridge", "mac"),
                ("ovs", "port"),
                ("ovs-dpdk --engine dpdk", "mac"),
            )
        ),
    ],
)
def test_each_of_thousands_of_flows_is_counted(switchmark: Run, path: str, by: str) -> None:
    (record,) = switchmark(
        f"--switch {path} --flows 4096 --flows-by {by} --rate 10k --duration 0.5 --warmup 0.1"
    )
    assert_it_adds_up(record)
    flows = record["per_flow"]
    assert len(flows) == 4096
    assert sum(flow["tx"] for flow in flows) == record["tx"]["frames"]
    assert sum(flow["rx"] for flow in flows) == record["rx"]["frames"]
    assert {flow["tx"] for flow in flows} <= {1, 2, *([0] if record["tx"]["unsent"] else [])}
    assert sum(flow["lost"] for flow in flows) == record["lost"]
    assert record["rx"]["frames"] > record["tx"]["frames"] * least_share(record, 0.5)


@pytest.mark.parametrize(
    ("path", "flows"),
    [
        ("vxlan", "f0-f1 f0-f2 f0-f3"),
        ("ovs --scenario p2v", "a0-f0 a0-f1 a0-f2"),
        ("ovs --scenario v2p --semantics static", "f0-b0 f0-b1 f0-b2"),
        *(
            # ovs-dpdk has the flow rules of ovs.
            pytest.param(*combination, marks=pytest.mark.further)
            for combination in (
                ("ovs-dpdk --engine dpdk --scenario p2p", "a0-b0 a0-b1 a0-b2"),
                ("linux-bridge", "f0-f1 f0-f2 f0-f3"),
                ("linux-bridge --scenario p2p", "a0-b0 a0-b1 a0-b2"),
                ("ovs --scenario p2p --semantics static", "a0-b0 a0-b1 a0-b2"),
                ("ovs --scenario v2p", "f0-b0 f0-b1 f0-b2"),
                ("ovs-dpdk --engine dpdk --semantics static", "f0-f1 f0-f2 f0-f3"),
            )
        ),
    ],
)
def test_every_copy_of_every_frame_arrives(switchmark: Run, path: str, flows: str) -> None:
    (record,) = switchmark(f"--switch {path} --copies 3 --rate 5k {QUICK}")
    assert_it_adds_up(record)
    assert [flow["flow"] for flow in record["per_flow"]] == flows.split()
    for flow in record["per_flow"]:
        assert flow["tx"] == record["tx"]["frames"]
        assert flow["rx"] > least_share(record, 0.9) * flow["tx"]
    assert record["stray"] == 0


# --- what CPUs do ----------------------------------------------------------------------------


def test_what_cpus_do_is_sampled_where_that_is_asked_for(switchmark: Run) -> None:
    """As often as perf lets it, which disturbs on any host."""
    sampled = "--engine raw --profile 10000 --duration 0.4 --warmup 0.05 --calibrate never"
    (record,) = switchmark(sampled)
    profile = record["cost"]["profile"]
    assert profile.get("missing") is None
    # A kernel that finds its samples too dear takes fewer.
    if "profiled" in record["doubts"]:
        assert record["evidence"][0]["doubts"]["profiled"]["share"] > 0.01
    whole = profile["whole"]
    assert whole["samples"] > 200
    assert sum(whole["groups"].values()) == pytest.approx(1, abs=0.001)
    # Packet sockets on a bridge: each call copies a frame, whose memory is allocated and freed.
    assert {"user", "network", "user_copy", "buffers"} <= set(whole["groups"])
    assert whole["groups"]["user_copy"] > 0.005
    assert {"sender", "receiver"} <= set(profile["parts"])
    assert profile["parts"]["sender"]["groups"]["network"] > 0.02
