"""These tests hold the traffic program's protocol: one answer a line, whatever comes in; it ends
with its stdin.

They run the sanitizer build where there is one, so that a fault in C is a failure here;
`SWITCHMARK_TRAFFIC_BUILD` names another build folder (`make check-threads`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traffic_program import ADDRESS, Program

REPOSITORY = Path(__file__).parents[2]
BUILD = os.environ.get("SWITCHMARK_TRAFFIC_BUILD", "build/sanitize")
SANITIZED = REPOSITORY / BUILD / "traffic/switchmark-traffic"
SANITIZED_TOOL = SANITIZED.with_name("switchmark-tool")


BURST_NS = 10**10
"""A trial of a burst ends with its last frame; this is longer than any host takes for it."""


@pytest.fixture(scope="module")
def waiting() -> Iterator[list[Program]]:
    """Return the programs that wait for a test."""
    waiting: list[Program] = []
    yield waiting
    for program in waiting:
        program.end()


def built(traffic_program: str) -> str:
    """Return the path of the sanitizer build, or of the usual one where there is none."""
    return str(SANITIZED) if SANITIZED.exists() else traffic_program


@pytest.fixture
def program(traffic_program: str, waiting: list[Program]) -> Iterator[Program]:
    """Return a program without ports. One process serves all tests in turn, because its start and
    its end take longer than most of them. One that ended or complained fails its test, and the next
    test has another."""
    if not waiting:
        waiting.append(Program(built(traffic_program)))
    program = waiting.pop()
    program.quiet_ms = 1  # no frame is on its way for longer over a loop
    yield program
    with suppress(OSError, ValueError):
        if program.ask("close")["ok"] and not program.complains:
            waiting.append(program)
            return
    program.end()


def test_a_trial_on_a_loop_loses_nothing(program: Program) -> None:
    program.open_loop()
    assert program.arm(sender={"rate_pps": 50_000})["ok"]
    report = program.trial(2 * 10**7)
    sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
    assert sent["frames"] + sent["unsent"] == 1000
    assert received["frames"] == sent["frames"] == received["latency"]["count"]
    assert received["flows"] == [[sent["frames"], 0, 0, 0]]
    assert sum(received["intervals"]) == received["frames"]


def test_no_thread_used_more_of_its_cpu_than_the_trial_is_long(program: Program) -> None:
    program.open_loop()
    assert program.arm(longest_ns=2 * 10**6)["ok"]
    for _ in range(3):
        thread = program.trial(2 * 10**6)["threads"][0]
        # It notes what it used once no frame has come for 1 ms; it began to 50 us before the start.
        assert 0 < thread["cpu_ns"] <= 2.06 * 10**6


def test_a_burst_has_as_many_frames_as_asked(program: Program) -> None:
    program.open_loop()
    for frames in (1, 31, 32, 33, 5000):
        assert program.arm(sender={"rate_pps": 0, "frames": frames})["ok"]
        report = program.trial(BURST_NS)
        sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
        assert (sent["frames"], sent["unsent"], received["frames"]) == (frames, 0, frames)


def test_variation_is_counted_between_neighbours_of_a_flow(program: Program) -> None:
    program.open_loop()
    receiver = {"latency": True, "ipdv": True, "flows": 4}
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 0, "frames": 1000, "flows": 4}
    members = {"run": 7, "longest_ns": BURST_NS, "tasks": [load, receiver]}
    assert program.ask("arm", **members)["ok"]
    received = program.trial(BURST_NS)["tasks"][1]["received"]
    assert received["frames"] == 1000
    assert received["ipdv"]["count"] == 1000 - 4
    assert received["ipdv"]["max"] <= received["latency"]["max"] - received["latency"]["min"]
    assert sum(count for _, count in received["ipdv"]["counts"]) == received["ipdv"]["count"]


def test_intervals_are_read_while_a_phase_runs(program: Program) -> None:
    """Interval 0 has all of its frames when later ones have some; what is read later adds up."""
    program.open_loop()
    assert "arm first" in program.ask("series")["error"]
    assert program.arm(series_ns=2 * 10**7, longest_ns=10**10)["ok"]
    assert program.ask("start", duration_ns=10**10)["ok"]
    departed = arrived = [0]
    while not any(departed[1:]) or not any(arrived[1:]):
        time.sleep(0.01)
        early = program.ask("series")["tasks"]
        departed, arrived = early[0]["sent"]["sent"], early[1]["received"]["arrived"]
    assert program.ask("stop")["ok"]
    assert program.ask("drain", quiet_ms=1)["ok"]
    report = program.ask("report")
    sent, received = (
        task[part]
        for task, part in zip(program.ask("series")["tasks"], ("sent", "received"), strict=True)
    )
    frames = report["tasks"][0]["sent"]["frames"]
    assert departed[0] == sent["sent"][0]
    assert arrived[0] == received["arrived"][0] == sent["sent"][0]
    assert len(sent["sent"]) == 501
    assert sum(sent["sent"]) == sum(received["arrived"]) == sum(received["received"]) == frames
    assert sum(n for bins in received["latency"] for _, n in bins) == frames
    assert report["tasks"][1]["received"]["gaps"]["longest"] == []


def test_steps_change_the_rate_within_a_phase(program: Program) -> None:
    program.open_loop()
    assert program.arm(sender={"rate_pps": 10**5}, series_ns=10**7, longest_ns=10**8)["ok"]
    steps = [{"at_ns": 3 * 10**7, "share": 0.5}, {"at_ns": 6 * 10**7, "share": 0}]
    assert program.ask("start", duration_ns=10**8, steps=steps)["ok"]
    assert program.ask("wait", timeout_ms=5000)["ok"]
    assert program.ask("drain", quiet_ms=1)["ok"]
    sent = program.ask("report")["tasks"][0]["sent"]
    whole = program.ask("series")["tasks"][0]["sent"]["sent"]
    assert sent["frames"] + sent["unsent"] == 100_000 * 0.03 + 50_000 * 0.03
    assert sum(whole[6:]) == 0
    late, early = {"at_ns": 2, "share": 1}, {"at_ns": 1, "share": 1}
    for wrong in ([late, early], [{"at_ns": 10**10, "share": 1}]):
        assert "in order within" in program.ask("start", duration_ns=10**8, steps=wrong)["error"]


_MOST_S = 600


@pytest.mark.further
@pytest.mark.timeout(2 * _MOST_S)
def test_a_flow_of_more_than_32_bits_is_counted(traffic_program: str) -> None:
    """More than 2^32 frames of one flow, with every count: half a minute on a quiet host. The C
    tests `hour` and `merged` count beyond 2^32, too, on a clock of their own."""
    program = Program(traffic_program)
    try:
        program.open_loop()
        whole_ns = 10**9 * _MOST_S
        members = {"longest_ns": whole_ns, "interval_ns": 10**9, "series_ns": 10**9}
        assert program.arm(sender={"rate_pps": 0}, **members)["ok"]
        tried = program.trial(10**9)["tasks"][0]["sent"]["frames"]
        needed_s = 1.2 * 2**32 / tried + 5
        if needed_s > _MOST_S:
            pytest.skip(f"2^32 frames take {needed_s:.0f} s here")
        assert program.ask("start", duration_ns=round(needed_s * 1e9))["ok"]
        time.sleep(needed_s)
        assert program.ask("wait", timeout_ms=10_000)["ok"]
        assert program.ask("drain", quiet_ms=5)["ok"]
        report = program.ask("report")
        sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
        if sent["frames"] <= 2**32:
            pytest.skip("the host slowed down: fewer than 2^32 frames")
        series = program.ask("series")["tasks"]
        frames = sent["frames"]
        assert received["frames"] == received["latency"]["count"] == frames
        assert received["flows"] == [[frames, 0, 0, 0]]
        assert sum(received["intervals"]) == frames
        assert received["gaps"]["longest"] == []
        assert received["gaps"]["ends"][0][0] == frames
        assert sum(series[0]["sent"]["sent"]) == frames
        for kind in ("arrived", "received"):
            assert sum(series[1]["received"][kind]) == frames
        assert sum(n for bins in series[1]["received"]["latency"] for _, n in bins) == frames
    finally:
        program.end()


def test_a_slow_receiver_does_not_hide_the_waiting(program: Program) -> None:
    """Coordinated omission: 1000 frames in 0.1 s, 1 ms for each of them at the receiver. The
    sender goes on by its clock, and what waits is as late as it is."""
    program.open_loop()
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 10000}
    slow = {"latency": True, "delay_ns": 10**6}
    assert program.ask("arm", run=7, longest_ns=10**9, tasks=[load, slow])["ok"]
    report = program.trial()
    latency = report["tasks"][1]["received"]["latency"]
    assert latency["count"] > 10
    # One frame alone takes 1 ms; a closed loop would see no more than a burst of them.
    assert latency["max"] > 10**7
    assert latency["sum"] / latency["count"] > 5 * 10**6


def test_one_process_serves_many_trials(program: Program) -> None:
    program.open_loop(take=3)
    for sender in ({"rate_pps": 10_000}, {"rate_pps": 0, "frames": 200}, {"rate_pps": 10_000}):
        assert program.arm(sender=sender)["ok"]
        for phase_ns in (2 * 10**7, 3 * 10**7):
            report = program.trial(phase_ns)
            sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
            assert sent["frames"] == received["frames"]
            assert sent["frames"] + sent["unsent"] == sender.get("frames", phase_ns // 10**5)


def test_the_control_thread_sleeps_while_frames_move(program: Program) -> None:
    """It wakes ten times a second, and every millisecond at the end of a phase only."""
    program.open_loop()
    assert program.arm(sender={"rate_pps": 1000})["ok"]
    waits = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
    status = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/status")

    def woken(phase_ns: int) -> int:
        before = waits.search(status.read_text())
        program.trial(phase_ns)
        after = waits.search(status.read_text())
        assert before is not None
        assert after is not None
        return int(after[1]) - int(before[1])

    short, long = woken(10**7), woken(21 * 10**7)
    assert long - short < 50


def test_a_start_that_has_passed_is_told_and_not_made_up_for(program: Program) -> None:
    """0.05 s late at 1 Mpps: 50,000 frames would otherwise be sent in the first 10 ms."""
    program.open_loop()
    assert program.arm(sender={"rate_pps": 10**6}, interval_ns=10**7)["ok"]
    late = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 5 * 10**7
    assert program.ask("start", at_ns=late, duration_ns=10**8)["ok"]
    assert program.ask("wait")["ok"]
    assert program.ask("drain", quiet_ms=5)["ok"]
    report = program.ask("report")
    sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
    assert report["threads"][0]["started_late_ns"] > 4.9 * 10**7
    assert sent["frames"] + sent["unsent"] == 100_000
    assert sent["unsent"] > 49_000
    assert received["frames"] == sent["frames"]
    report = program.trial(2 * 10**7)
    assert report["threads"][0]["started_late_ns"] < 10**7


@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("sender", [{"frames": 1003, "rate_pps": 0}, {"rate_pps": 100_000}])
def test_what_several_cores_did_is_told_as_one(
    program: Program, cores: int, sender: dict[str, Any]
) -> None:
    program.open_loop(cores=cores)
    for _ in range(2):
        assert program.arm(sender={**sender, "flows": 7})["ok"]
        report = program.trial(2 * 10**7)
        assert [thread["cores"] for thread in report["threads"]] == [cores]
        assert len(report["ports"]) == 1
        sent, received = (report["tasks"][0]["sent"], report["tasks"][1]["received"])
        assert sent["frames"] + sent["unsent"] == sender.get("frames", 2000)
        assert sum(frames for _, frames in sent["cores"]) == sent["frames"]
        # Each core sends its flows in turn.
        counts = [
            frames // flows + (flow < frames % flows)
            for flows, frames in sent["cores"]
            for flow in range(flows)
        ]
        assert len(counts) == sent["flows"] == 7
        assert received["flows"] == [[frames, 0, 0, 0] for frames in counts]
        assert received["frames"] == received["latency"]["count"] == sent["frames"]
        assert sum(received["intervals"]) == received["frames"]
        assert received["mixed"] == received["duplicated"] == received["after_drain"] == 0


def test_cores_share_flows_and_have_cpus_of_their_own(program: Program) -> None:
    tasks = [{"role": "sender", "ports": [0]}, {"role": "receiver", "ports": [0]}]
    port = {"engine": "null", "options": {"loop": 1}}
    for thread, why in (
        ({"cores": 2, "cpus": [0]}, "cpus is not a list of 2"),
        ({"cores": 2, "cpus": [0, -1]}, "cpus holds what is no CPU"),
        ({"cores": 129}, "cores"),
    ):
        answer = program.ask("open", ports=[port], threads=[{"tasks": tasks, **thread}])
        assert why in answer["error"], answer
    cpus = sorted(os.sched_getaffinity(0))
    pair = [cpus[0], cpus[-1]]
    threads = [{"tasks": tasks, "cores": 2, "cpus": pair}]
    assert program.ask("open", ports=[port], threads=threads)["ok"]
    assert "fewer flows than cores" in program.arm()["error"]
    assert program.arm(sender={"flows": 2, "rate_pps": 0, "frames": 64})["ok"]
    report = program.trial(BURST_NS)
    assert report["tasks"][0]["sent"]["cores"] == [[1, 32], [1, 32]]
    assert report["threads"][0]["cpu"] == pair[0]


@pytest.mark.parametrize("engine", ["udp", "udp-mmsg"])
def test_a_client_with_several_sockets_gets_all_its_answers(program: Program, engine: str) -> None:
    address = f"127.83.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"  # nobody else's ports
    ends = {"local_ip": address, "remote_ip": address, "engine": engine}
    ports = [
        {**ends, "local_port": 20000, "remote_port": 20100, "flows": 4},
        {**ends, "local_port": 20100, "remote_port": 20000},
    ]
    roles = ["client", "server"]
    tasks = [{"role": role, "ports": [port]} for port, role in enumerate(roles)]
    opened = program.ask("open", ports=ports, threads=[{"tasks": tasks}])
    assert opened["ok"], opened
    load = {"frame_bytes": [64], "address": ADDRESS, "flows": 4, "vary": ["src_port"]}
    asks = {**load, "frames": 400, "burst": 8, "latency": True}
    assert program.ask("arm", run=7, longest_ns=BURST_NS, tasks=[asks, {"flows": 4}])["ok"]
    task = program.trial(BURST_NS)["tasks"][0]
    assert (task["sent"]["frames"], task["received"]["frames"]) == (400, 400)
    assert task["received"]["flows"] == [[100, 0, 0, 0]] * 4


@pytest.mark.parametrize("touch", ["none", "header", "full"])
def test_many_flows_and_sizes_are_told_apart(program: Program, touch: str) -> None:
    program.open_loop()
    load = {
        "rate_pps": 0,
        "frames": 1500,
        "flows": 300,
        "frame_bytes": [64, 594, 1518],
        "vary": ["src_mac", "src_ip", "src_port"],
    }
    assert program.arm(sender=load, touch=touch)["ok"]
    report = program.trial(BURST_NS)
    sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
    assert received["frames"] == sent["frames"] == 1500
    assert received["corrupted"] == received["foreign"] == received["stray"] == 0
    if touch != "none":
        assert received["flows"] == [[5, 0, 0, 0]] * 300


@pytest.mark.parametrize("cores", [1, 2])
def test_what_comes_when_the_phase_is_over_is_told(program: Program, cores: int) -> None:
    """A receiver that takes one frame while 32 are sent has a full ring before it at the end."""
    program.open_loop(cores=cores)
    load = {"frame_bytes": [64], "address": ADDRESS, "flows": cores}
    slow = {"burst": 1, "flows": cores}
    answer = program.arm(tasks=[load, slow], longest_ns=10**9, interval_ns=10**7)
    assert answer["ok"]
    sender, receiver = program.trial(10**8)["tasks"]
    received = receiver["received"]
    assert received["frames"] == sender["sent"]["frames"]
    assert 0 < received["after_end"] == sum(received["intervals"][10:])


@pytest.mark.parametrize("touch", ["none", "header", "full"])
def test_a_receiver_announces_its_mac_again_and_counts_no_announcement(
    program: Program, touch: str
) -> None:
    """The loop brings back what it announces; in a phase of ten periods it does so nine times."""
    program.open_loop()
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 10000}
    ways: dict[str, Any] = {"touch": touch, "announce_every_ns": 5 * 10**6}

    def announcing(again: Any) -> dict[str, Any]:
        hello = {"announce": ADDRESS, "announce_again": again}
        return program.arm(tasks=[load, hello], **ways)

    assert announcing(["02:00:00:00:00:09"])["ok"]
    frames = []
    for _ in range(2):  # each phase has its own
        sender, receiver = program.trial(5 * 10**7)["tasks"]
        assert 1 <= receiver["announced"] <= 9
        received = receiver["received"]
        assert received["frames"] == sender["sent"]["frames"]
        frames.append(received["frames"])
        assert received["other_phase"] == received["foreign"] == 0
        assert received["corrupted"] == received["stray"] == 0
    assert any(frames)
    assert announcing([None])["ok"]
    assert program.trial(2 * 10**7)["tasks"][1]["announced"] == 0
    for wrong in ([], ["02:00:00:00:00:09"] * 2, ADDRESS["dst_mac"]):
        refused = announcing(wrong)["error"]
        assert refused == "arm: announce_again is not a list as long as announce"
    assert "not a MAC" in announcing(["x"])["error"]


def test_flows_share_the_addresses_of_their_sender(program: Program) -> None:
    program.open_loop()
    several = [{**ADDRESS, "src_mac": f"02:00:00:00:01:{i:02x}"} for i in range(3)]
    load = {"rate_pps": 0, "frames": 1200, "flows": 12, "address": several, "vary": ["src_port"]}
    assert program.arm(sender=load)["ok"]
    assert program.trial(BURST_NS)["tasks"][1]["received"]["flows"] == [[100, 0, 0, 0]] * 12
    refused = program.arm(sender={**load, "flows": 10})
    assert "3 addresses do not share 10 flows evenly" in refused["error"]
    assert "not a list of 1 to 64" in program.arm(sender={**load, "address": []})["error"]


def test_headers_are_compared_with_those_expected(program: Program) -> None:
    program.open_loop()
    load = {"frame_bytes": [64, 594], "address": ADDRESS, "flows": 6, "vary": ["src_mac", "dst_ip"]}
    load |= {"rate_pps": 0, "frames": 600}
    members = {"run": 7, "longest_ns": BURST_NS}
    addressing = {"address": ADDRESS, "vary": ["src_mac", "dst_ip"]}
    for expect, broken in ((addressing, 0), ({**addressing, "vary": ["dst_ip"]}, 5)):
        tasks = [load, {"flows": 6, "expect": expect, "latency": True}]
        assert program.ask("arm", **members, tasks=tasks)["ok"]
        received = program.trial(BURST_NS)["tasks"][1]["received"]
        headers = received["headers"]
        assert headers["compared"] == received["frames"] == 600
        assert headers["broken"] == 100 * broken
        assert received["latency"]["count"] == 0
    # The second flow's source MAC is one more than the first's.
    found, expected = bytes.fromhex(headers["found"]), bytes.fromhex(headers["promised"])
    assert found[:12] == expected[:11] + bytes([expected[11] + 1])


NETWORK = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c")
WITHOUT_RAW = ("setpriv", "--inh-caps=-net_raw", "--bounding-set=-net_raw")


@pytest.mark.parametrize("engine", ["udp", "udp-mmsg"])
@pytest.mark.parametrize("without", [(), WITHOUT_RAW], ids=("privileged", "unprivileged"))
def test_the_headers_of_sockets_are_compared_by_a_second_one(
    traffic_program: str, engine: str, without: tuple[str, ...]
) -> None:
    path = built(traffic_program)
    program = Program(*NETWORK, 'ip link set lo up && exec "$@"', "-", *without, path)
    local = {"engine": engine, "ifname": "lo", "local_ip": "127.0.0.1", "remote_ip": "127.0.0.1"}
    ends = ((20000, 20010, 3), (20010, 20000, 1))
    ports = [{**local, "local_port": a, "remote_port": b, "flows": n, "frame_bytes": 9600}
             for a, b, n in ends]  # fmt: skip
    tasks = [{"role": "sender", "ports": [0]}, {"role": "receiver", "ports": [1]}]
    answer = program.ask("open", ports=ports, threads=[{"tasks": tasks}])
    assert answer["ok"], answer
    load = {"frames": 90, "flows": 3, "vary": ["src_port"], "frame_bytes": [64, 9600]}
    zero_mac = "00:00:00:00:00:00"
    sent = {"src_ip": "127.0.0.1", "dst_ip": "127.0.0.1", "src_port": 20000, "dst_port": 20010}
    expected = {**sent, "src_mac": zero_mac, "dst_mac": zero_mac}
    try:
        for wrong in ({}, {"ttl": 63}, {"src_mac": "02:00:00:00:00:01"}):
            expect = {"address": {**expected, **wrong}, "vary": ["src_port"]}
            receiver = {"flows": 3, "expect": expect}
            answer = program.arm(tasks=[{**load, "address": sent}, receiver])
            assert answer["ok"], answer
            received = program.trial(BURST_NS)["tasks"][1]["received"]
            headers = received["headers"]
            assert received["frames"] == 90
            if without:
                unseen = "AF_PACKET: Operation not permitted"
                assert headers == {"compared": 0, "broken": 0, "unseen": unseen}
                continue
            assert headers["compared"] == received["frames"]
            assert headers["broken"] == (received["frames"] if wrong else 0), headers
    finally:
        program.end()


def test_a_client_gets_its_answers(program: Program) -> None:
    program.open_loop(roles=("client",))
    answer = program.ask(
        "arm",
        run=7,
        longest_ns=BURST_NS,
        tasks=[{"frame_bytes": [64], "address": ADDRESS, "frames": 100, "latency": True}],
    )
    assert answer["ok"], answer
    task = program.trial(BURST_NS)["tasks"][0]
    assert task["sent"]["frames"] == task["received"]["frames"] == 100


def test_a_report_before_the_start_counts_nothing(program: Program) -> None:
    program.open_loop()
    assert program.arm()["ok"]
    for task in program.ask("report")["tasks"]:
        counted = task.get("sent") or task["received"]
        assert counted["frames"] == 0
        assert counted.get("latency", {"count": 0})["count"] == 0


def test_asking_for_the_time_leaves_a_trial_alone(program: Program) -> None:
    """The frames that are under way carry times of the clock that they were armed with."""
    program.open_loop()
    clock = {key: value for key, value in program.ask("clock").items() if key != "ok"}
    assert program.arm(clock={**clock, "ns": clock["ns"] + 10**12}, longest_ns=10**10)["ok"]
    assert program.ask("start", duration_ns=10**8)["ok"]
    assert abs(program.ask("clock")["ns"] - clock["ns"]) < 10**11
    assert program.ask("wait")["ok"]
    received = program.ask("report")["tasks"][1]["received"]
    assert received["latency"]["count"] == received["frames"] > 0
    assert received["latency"]["max"] < 10**11
    assert received["early"] == 0


def test_asking_for_the_time_leaves_what_is_armed_alone(program: Program) -> None:
    """Both ends start at a moment of the clock that they were armed with; the answer is for the
    next trial that is armed without one."""
    program.open_loop()
    clock = {key: value for key, value in program.ask("clock").items() if key != "ok"}
    ahead = {**clock, "ns": clock["ns"] + 10**15}
    assert program.arm(clock=ahead)["ok"]
    now_ns = program.ask("clock")["ns"]
    assert 0 < program.ask("start", duration_ns=10**7)["at_ns"] - ahead["ns"] < 10**14
    assert program.ask("stop")["ok"]
    assert program.arm()["ok"]
    assert 0 < program.ask("start", duration_ns=10**7)["at_ns"] - now_ns < 10**14


def test_frames_of_another_run_are_foreign(program: Program) -> None:
    program.open_loop()
    assert program.arm()["ok"]
    assert program.ask("start", duration_ns=10**8)["ok"]
    assert program.ask("stop")["ok"]
    assert program.arm(run=8)["ok"]
    report = program.trial(2 * 10**7)
    assert report["tasks"][1]["received"]["frames"] == report["tasks"][0]["sent"]["frames"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", None),
        (b"{", "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "not an object with a member cmd"),
        (b'{"cmd": 5}', "cmd has no such value"),
        (b'{"cmd": "fly"}', "cmd has no such value"),
        (b'{"cmd": "wait", "colour": 1}', "unknown member 'colour'"),
        (b'{"cmd": "wait", "timeout_ms": -1}', "timeout_ms is not a whole number"),
        (b'{"cmd": "wait", "timeout_ms": 1, "timeout_ms": 2}', "not JSON: duplicate"),
        (b'{"cmd": "start", "duration_ns": 1}', "arm first"),
        (b'{"cmd": "report"}', "arm first"),
        (b'{"cmd": "arm", "run": 1, "longest_ns": 5, "tasks": []}', "open first"),
        (b'{"cmd": "arm", "run": 1, "longest_ns": 5}', "tasks is missing"),
        (b'{"cmd": "open", "ports": [], "threads": []}', "ports is not a list"),
        (
            b'{"cmd": "open", "ports": [{"engine": "warp"}], "threads": [{"tasks": []}]}',
            "no engine 'warp'",
        ),
        (
            b'{"cmd": "open", "ports": [{"engine": "raw"}], "threads": [{"tasks": []}]}',
            "needs ifname",
        ),
        (
            b'{"cmd": "open", "ports": [{"engine": "null", "options": {"x": 1}}], "threads": '
            b'[{"tasks": []}]}',
            "no option 'x'",
        ),
        (
            b'{"cmd": "open", "ports": [{"engine": "null"}], "threads": '
            b'[{"tasks": [{"role": "king", "ports": [0]}]}]}',
            "role has no such value",
        ),
        (
            b'{"cmd": "open", "ports": [{"engine": "null"}], "threads": '
            b'[{"tasks": [{"role": "sender", "ports": [1]}]}]}',
            "names a port that there is not",
        ),
        (
            b'{"cmd": "open", "ports": [{"engine": "null"}], "threads": '
            b'[{"tasks": [{"role": "forwarder", "ports": [0]}]}]}',
            "two ports",
        ),
        (
            b'{"cmd": "open", "ports": [{"engine": "raw", "ifname": "no-such-if"}], "threads": '
            b'[{"tasks": [{"role": "sender", "ports": [0]}]}]}',
            "no-such-if",
        ),
        (b'{"cmd": "\xff\xfe"}', "not JSON"),
        (b"x" * 70000, "not JSON"),
    ],
)
def test_a_bad_command_is_answered_with_its_reason(
    program: Program, line: bytes, reason: str | None
) -> None:
    if reason is not None:
        answer = program.line(line)
        assert answer["ok"] is False
        assert reason in answer["error"]
    else:
        program.stdin.write(b"\n\n")
    assert program.ask("clock")["ok"], "it goes on"


@pytest.mark.parametrize("character", ["\u00e4", "\u20ac", "\U0001f600"])
@pytest.mark.parametrize("shift", range(4))
def test_a_name_in_any_script_is_answered_in_json(
    program: Program, character: str, shift: int
) -> None:
    """It is shown up to 40 bytes, and no character is cut."""
    name = "x" * shift + character * 60
    options = [{"engine": "null", "options": {name: 1}}]
    for answer in (
        program.line(json.dumps({"cmd": "wait", name: 1}, ensure_ascii=False).encode()),
        program.ask("open", ports=options, threads=[{"tasks": []}]),
    ):
        member = answer["error"].split("'")[1]
        assert name.startswith(member)
        assert 36 < len(member.encode()) <= 40


def test_a_process_has_as_many_threads_as_a_big_server_needs(program: Program) -> None:
    for cores, ok in ((65, False), (64, True)):
        answer = program.ask(
            "open",
            ports=[{"engine": "null", "options": {"loop": 1}}] * 2,
            threads=[
                {"tasks": [{"role": role, "ports": [port]}], "cores": cores, "yield": True}
                for port, role in enumerate(("sender", "receiver"))
            ],
        )
        assert answer["ok"] is ok, answer
    assert program.arm(sender={"flows": 64, "rate_pps": 64_000})["ok"]
    sent = program.trial(10**7)["tasks"][0]["sent"]
    assert sent["frames"] + sent["unsent"] == 640


def test_a_phase_may_last_a_week(program: Program) -> None:
    week_ns = 7 * 24 * 3600 * 10**9
    program.open_loop()
    assert program.arm(longest_ns=week_ns, interval_ns=week_ns // 60_000)["ok"]
    assert program.ask("start", duration_ns=week_ns)["ok"]
    answer = program.ask("wait", timeout_ms=50)
    assert "50 ms" in answer["error"]
    # It takes a limit that is later than the end of the phase.
    assert program.ask("stop", timeout_ms=week_ns // 10**6 + 10**9)["ok"]
    received = program.ask("report")["tasks"][1]["received"]
    assert received["frames"] == received["intervals"][0] > 0
    assert len(received["intervals"]) == 60_001
    # Memory for intervals stays bounded: those of 0.1 s are too many.
    assert "intervals" in program.arm(longest_ns=week_ns)["error"]


def test_bad_loads_are_refused_and_the_program_goes_on(program: Program) -> None:
    program.open_loop()
    bad: list[tuple[dict[str, Any], str]] = [
        ({"frame_bytes": []}, "frame_bytes"),
        ({"frame_bytes": [63]}, "no size"),
        ({"frame_bytes": [9601]}, "no size"),
        ({"frame_bytes": [9600]}, "above that of open"),
        ({"frame_bytes": [64], "address": {**ADDRESS, "vlan": 3}}, "68"),
        ({"rate_pps": -1}, "rate_pps"),
        ({"burst": 0}, "burst"),
        ({"burst": 65}, "burst is above that of open"),
        ({"stagger": 1.5}, "stagger"),
        ({"flows": 16385}, "flows"),
        ({"first_flow": 16383, "flows": 2}, "16383"),
        ({"address": {"src_mac": "zz"}}, "src_mac"),
        ({"address": {"src_ip": "300.1.1.1"}}, "src_ip"),
        ({"vary": ["colour"]}, "vary"),
        ({"expect": {"vary": ["src_mac"]}}, "address"),
        ({"expect": {"address": {"ttl": 256}}}, "ttl"),
    ]
    for sender, reason in bad:
        answer = program.arm(sender=sender)
        assert answer["ok"] is False, sender
        assert reason in answer["error"], (sender, answer)
    assert program.arm(sender={"rate_pps": 0, "frames": 1})["ok"]
    assert program.trial(BURST_NS)["tasks"][1]["received"]["frames"] == 1


def test_a_line_that_never_ends_is_refused(program: Program) -> None:
    program.stdin.write(b"[" * (1 << 20))
    program.stdin.flush()
    assert "longer than" in json.loads(program.stdout.readline())["error"]
    assert program.ask("clock")["ok"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=12), children, max_size=5)
    ),
    max_leaves=12,
)
_members = st.dictionaries(
    st.sampled_from(
        ["ports", "threads", "run", "touch", "longest_ns", "tasks", "duration_ns", "clock", "x"]
    ),
    _json,
    max_size=5,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cmd=st.sampled_from(["open", "arm", "start", "close", "stop", "ready"]), members=_members)
def test_no_command_makes_it_crash(program: Program, cmd: str, members: dict[str, Any]) -> None:
    """`make check` has fuzzers of the same in C."""
    answer = program.ask(cmd, **members)
    assert answer["ok"] is True or answer["error"]


def test_it_ends_within_a_second_of_its_stdin_in_the_middle_of_a_trial(
    traffic_program: str,
) -> None:
    program = Program(built(traffic_program))
    program.open_loop()
    assert program.arm(longest_ns=60 * 10**9)["ok"]
    assert program.ask("start", duration_ns=60 * 10**9)["ok"]
    program.stdin.write(b'{"cmd": "wait", "timeout_ms": 60000}\n')
    program.stdin.close()
    assert program.process.wait(30) == 0


def test_it_ends_when_a_socket_says_no_more_in_the_middle_of_a_trial(traffic_program: str) -> None:
    """ssh and others give a socket as stdin, and may close it one way only."""
    near, its = socket.socketpair()
    process = subprocess.Popen(
        [built(traffic_program)],
        stdin=its.fileno(),
        stdout=its.fileno(),
    )
    its.close()
    with near, near.makefile("rwb") as lines:
        for command in (
            {
                "cmd": "open",
                "ports": [{"engine": "null"}],
                "threads": [{"tasks": [{"role": "sender", "ports": [0]}]}],
            },
            {"cmd": "arm", "run": 7, "longest_ns": 10**11, "tasks": [{"frame_bytes": [64]}]},
            {"cmd": "start", "duration_ns": 60 * 10**9},
        ):
            lines.write(json.dumps(command).encode() + b"\n")
            lines.flush()
            assert json.loads(lines.readline())["ok"]
        lines.write(b'{"cmd": "wait"}\n')
        lines.flush()
        near.shutdown(socket.SHUT_WR)
        assert process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_on_a_signal(traffic_program: str, number: signal.Signals) -> None:
    program = Program(traffic_program)
    program.open_loop()
    os.kill(program.process.pid, number)
    assert program.process.wait(2) == 0


def open_over_udp(programs: Sequence[Program], cpus: tuple[int, ...] = ()) -> None:
    """Open a client and its server over sockets of this machine, in one program or in two, each
    with its own thread."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    ports = [
        {
            "engine": "udp-mmsg",
            "local_ip": local,
            "remote_ip": remote,
            "local_port": number,
            "remote_port": number,
        }
        for local, remote in [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")]
    ]
    threads: list[dict[str, Any]] = [
        {"yield": True, "tasks": [{"role": role, "ports": [port if len(programs) == 1 else 0]}]}
        for port, role in enumerate(("client", "server"))
    ]
    for thread, cpu in zip(threads, cpus, strict=False):
        thread["cpu"] = cpu
    for program, ends in zip(programs, shares_of(programs), strict=True):
        opened = program.ask("open", ports=ports[ends], threads=threads[ends])
        assert opened["ok"], opened


def shares_of(programs: Sequence[Program]) -> list[slice]:
    """Return the ends of each program: both ends of one, or one end of each of two."""
    return [slice(0, 2)] if len(programs) == 1 else [slice(0, 1), slice(1, 2)]


def test_two_threads_over_udp(program: Program) -> None:
    program.quiet_ms = 100  # on a busy host, the kernel needs time to deliver a frame
    open_over_udp([program])
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 5000, "latency": True}
    assert program.ask("arm", run=7, longest_ns=10**9, tasks=[load, {}])["ok"]
    client, server = program.trial()["tasks"]
    assert client["sent"]["frames"] == client["received"]["frames"] > 0
    assert server["forwarded"]["in"][0] == server["forwarded"]["out"][1] > 0
    assert server["forwarded"]["ignored"] == 0
    assert client["received"]["early"] == 0
    assert program.ask("close")["ok"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_trial_waits_for_a_server_without_cpu_time(
    program: Program, traffic_program: str, count: int
) -> None:
    """The server has a low priority on a CPU that another process uses. In one program with
    its client, the drain waits for it. In a separate program, `wait` does."""
    cpus = sorted(os.sched_getaffinity(0))
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 1000}
    sent = 0
    with ExitStack() as stack:
        programs = [program, *(Program(built(traffic_program)) for _ in range(count - 1))]
        for other in programs[1:]:
            stack.callback(other.end)
        threads = Path(f"/proc/{programs[-1].process.pid}/task")
        before = set(threads.iterdir())
        open_over_udp(programs, cpus=(cpus[0], cpus[-1]))
        server = max(set(threads.iterdir()) - before, key=lambda thread: int(thread.name))
        os.setpriority(os.PRIO_PROCESS, int(server.name), 10)
        hog = subprocess.Popen(["taskset", "-c", str(cpus[-1]), "sh", "-c", "while :; do :; done"])
        stack.callback(hog.wait)
        stack.callback(hog.kill)
        for _ in range(3):
            for end, tasks in zip(programs, shares_of(programs), strict=True):
                assert end.ask("arm", run=7, longest_ns=10**9, tasks=[load, {}][tasks])["ok"]
            for end in reversed(programs):
                assert end.ask("start", duration_ns=10**8)["ok"]
            for end in programs:
                assert end.ask("wait")["ok"]
            for end in programs:
                assert end.ask("drain", quiet_ms=5)["ok"]
            client = programs[0].ask("report")["tasks"][0]
            assert client["sent"]["frames"] == client["received"]["frames"]
            sent += client["sent"]["frames"]
    assert sent, "the client had no CPU time either"


def test_a_port_that_fails_in_a_trial_says_why(program: Program) -> None:
    """Its thread finds it out while the one that takes commands waits."""
    answer = program.ask(
        "open",
        ports=[
            {
                "engine": "udp",
                "local_ip": "127.0.0.1",
                "remote_ip": "255.255.255.255",  # which a socket must be allowed to
                "remote_port": 9,
            }
        ],
        threads=[{"yield": True, "tasks": [{"role": "sender", "ports": [0]}]}],
    )
    assert answer["ok"], answer
    assert program.arm(tasks=[{"frame_bytes": [64], "rate_pps": 100}])["ok"]
    assert program.ask("start", duration_ns=10**9)["ok"]
    assert "cannot send" in program.ask("wait")["error"]
    assert "cannot send" in program.ask("report")["failure"]


def test_what_it_executed_would_have_no_more_privileges(program: Program) -> None:
    program.open_loop()
    threads = [*Path(f"/proc/{program.process.pid}/task").iterdir()]
    assert len(threads) > 1
    assert all("NoNewPrivs:\t1\n" in (thread / "status").read_text() for thread in threads)


def test_the_jitter_probe_is_in_the_usage_and_ends(tool_program: str) -> None:
    usage = subprocess.run([tool_program, "help"], capture_output=True, text=True, check=True)
    assert "jitter --cpus" in usage.stdout
    cpu = min(os.sched_getaffinity(0))
    begin = time.monotonic()
    completed = subprocess.run(
        [tool_program, "jitter", "--cpus", str(cpu), "--ms", "30"],
        capture_output=True,
        check=True,
    )
    found = json.loads(completed.stdout)["cpus"][0]
    assert 29 * 10**6 < found["elapsed_ns"] < (time.monotonic() - begin) * 10**9


def test_the_counters_of_two_cpus_are_held_against_each_other(tool_program: str) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("there is one CPU")
    argv = [tool_program, "jitter", "--cpus", f"{first},{others[0]}", "--ms", "1"]
    deadline_s = time.monotonic() + 60
    other: dict[str, Any] = {}
    while "skew_ns" not in other:  # it has 1 ms, in which it must have both CPUs
        assert time.monotonic() < deadline_s, other
        completed = subprocess.run(argv, capture_output=True, check=True)
        first_counter, other = json.loads(completed.stdout)["cpus"]
        assert "skew_ns" not in first_counter
    # No time is wrong by more than the reported error: the clocks were synchronised better than
    # that.
    assert abs(other["skew_ns"]) <= other["skew_within_ns"] + 100_000


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("xdp", "sm-none", "lo"), 1, "there is no interface sm-none"),
        (("tc", "lo", "sm-none"), 1, "there is no interface sm-none"),
        (("ebpf", "lo", "lo"), 2, "there is no hook 'ebpf'"),
        (("xdp", "lo"), 2, "usage:"),
    ],
)
def test_a_redirection_says_what_is_missing(
    tool_program: str, arguments: tuple[str, ...], status: int, reason: str
) -> None:
    completed = subprocess.run(
        [tool_program, "redirect", *arguments], capture_output=True, text=True
    )
    assert completed.returncode == status
    assert reason in completed.stderr


def test_telemetry_is_asked_and_answers_are_lines(tool_program: str, tmp_path: Path) -> None:
    """Of a DPDK program of our own making: it says who it is, answers once, and is gone."""
    path = str(tmp_path / "dpdk_telemetry.v2")
    argv = [str(SANITIZED_TOOL) if SANITIZED_TOOL.exists() else tool_program, "telemetry", path]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        asking = subprocess.Popen([*argv, "/a,0", "/a,1"], stdout=-1, stderr=-1)
        peer, _ = listener.accept()
        with peer:
            peer.send(b'{"pid": 1}')
            assert peer.recv(100) == b"/a,0"
            peer.send(b'{"/a": "x"}')
            assert peer.recv(100) == b"/a,1"
        out, err = asking.communicate(timeout=10)
    assert (asking.returncode, out) == (1, b'{"/a": "x"}\n')
    assert b"/a,1: Connection reset by peer" in err
    none = subprocess.run([*argv[:2], str(tmp_path / "none"), "/a"], capture_output=True)
    assert (none.returncode, none.stdout) == (1, b"")
    assert b"cannot connect: No such file or directory" in none.stderr


def test_every_engine_of_the_table_is_known_to_the_program_and_back(traffic_program: str) -> None:
    from switchmark.engines import TABLE

    completed = subprocess.run([traffic_program, "engines"], capture_output=True, check=True)
    built = {engine["name"]: engine for engine in json.loads(completed.stdout)["engines"]}
    assert set(built) <= set(TABLE), "an engine that Python does not know"
    for name, engine in TABLE.items():
        if name in built:
            assert built[name]["payload"] == engine.needs_ip
            assert built[name]["receives"] == (engine.receiver is None)


@pytest.mark.parametrize("arrivals", ["burst", "even", "poisson", "on-off"])
def test_arrivals_of_any_kind_are_as_many_as_the_rate_says(program: Program, arrivals: str) -> None:
    """The sender reports its lag for every frame that it made."""
    program.open_loop()
    assert program.arm(sender={"rate_pps": 40000, "arrivals": arrivals, "seed": 5})["ok"]
    frames = []
    for _ in range(2):
        report = program.trial(5 * 10**7)
        sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
        assert sent["frames"] + sent["unsent"] == 2000
        lag = sent.get("lag", {"count": 0, "max": 0})
        assert sent["frames"] == lag["count"] == received["frames"]
        assert lag["max"] <= sent["lag_max_ns"] + 1
        frames.append(sent["frames"])
        assert received["reordered"] == received["corrupted"] == 0
    assert any(frames)


def test_single_frames_that_were_due_before_a_late_start_are_unsent(program: Program) -> None:
    program.open_loop()
    assert program.arm(sender={"rate_pps": 10**6, "arrivals": "poisson"}, interval_ns=10**7)["ok"]
    late = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 5 * 10**7
    assert program.ask("start", at_ns=late, duration_ns=10**8)["ok"]
    assert program.ask("wait")["ok"]
    assert program.ask("drain", quiet_ms=5)["ok"]
    report = program.ask("report")
    sent, received = report["tasks"][0]["sent"], report["tasks"][1]["received"]
    assert sent["frames"] + sent["unsent"] == 100_000
    assert sent["unsent"] > 49_000
    assert received["frames"] == sent["frames"]


IPV6 = {
    **{name: value for name, value in ADDRESS.items() if not name.endswith("_ip")},
    "src_ip6": "2001:2::ffff:ff00",
    "dst_ip6": "2001:2::2",
}


@pytest.mark.parametrize("vary", ["src_port", "src_ip", "dst_mac"])
@pytest.mark.parametrize("vlan", [0, 5])
def test_frames_of_ipv6_have_the_headers_that_were_promised(
    program: Program, vary: str, vlan: int
) -> None:
    program.open_loop()
    address = {**IPV6, "vlan": vlan, "ttl": 9}
    least = 88 if vlan else 84
    flows = {"flows": 300, "vary": [vary]}
    load = {"frame_bytes": [least, 594], "address": address, "rate_pps": 0, "frames": 3000, **flows}
    for touch in ("none", "header", "full"):
        expect = {"expect": {"address": address, "vary": [vary]}, "flows": 300}
        members = {"run": 7, "longest_ns": BURST_NS, "touch": touch}
        assert program.ask("arm", tasks=[load, expect], **members)["ok"]
        received = program.trial(BURST_NS)["tasks"][1]["received"]
        assert received["frames"] == received["headers"]["compared"] == 3000
        assert received["headers"]["broken"] == received["corrupted"] == 0
        # All fields are compared.
        for other in ({"ttl": 8}, {"dst_ip6": "2001:2::3"}, {"src_port": 7}, {"vlan": 9 - vlan}):
            wrong = {"expect": {"address": {**address, **other}, "vary": [vary]}, "flows": 300}
            assert program.ask("arm", tasks=[load, wrong], **members)["ok"]
            headers = program.trial(BURST_NS)["tasks"][1]["received"]["headers"]
            assert headers["broken"] == headers["compared"] == 3000
    answer = program.ask("arm", tasks=[{**load, "frame_bytes": [least - 1]}, {}], **members)
    assert f"no size from {least}" in answer["error"]


INSIDE = {
    "vni": 7,
    "src_mac": "02:57:00:00:00:01",
    "dst_mac": "02:58:00:00:00:01",
    "src_ip": "172.16.0.1",
    "dst_ip": "172.16.0.2",
}
INSIDE_6 = {
    **{name: value for name, value in INSIDE.items() if not name.endswith("ip")},
    "src_ip6": "2001:2::a",
    "dst_ip6": "2001:2::b",
}
VXLAN = {**ADDRESS, "vxlan": INSIDE}
TUNNELS: dict[str, dict[str, Any]] = {
    "vxlan": VXLAN,
    "ipv6-in-vxlan": {**ADDRESS, "vxlan": INSIDE_6},
    "vxlan-of-ipv6": {**IPV6, "vxlan": INSIDE},
    "ipv6-in-vxlan-of-ipv6": {**IPV6, "vxlan": INSIDE_6},
}
OTHER = {"dst_ip": "198.18.0.9", "dst_ip6": "2001:2::9"}
LEAST = dict(zip(TUNNELS, (114, 134, 134, 154), strict=True))


@pytest.mark.parametrize("vary", ["src_port", "src_ip", "dst_mac"])
@pytest.mark.parametrize("tunnel", TUNNELS)
def test_frames_in_a_tunnel_have_the_headers_that_were_promised(
    program: Program, vary: str, tunnel: str
) -> None:
    program.open_loop()
    address, least = TUNNELS[tunnel], LEAST[tunnel]
    load = {"frame_bytes": [least, 594], "address": address, "rate_pps": 0, "frames": 3000}
    load |= {"flows": 300, "vary": [vary]}
    end, inside = (
        "dst_ip6" if "dst_ip6" in headers else "dst_ip" for headers in (address, address["vxlan"])
    )

    def broken(expected: dict[str, Any], **members: Any) -> int:
        expect = {"expect": {"address": expected, "vary": [vary]}, "flows": 300}
        armed = program.ask("arm", run=7, longest_ns=BURST_NS, tasks=[load, expect], **members)
        assert armed["ok"], armed
        received = program.trial(BURST_NS)["tasks"][1]["received"]
        assert received["frames"] == received["headers"]["compared"] == 3000
        assert received["corrupted"] == received["foreign"] == 0
        return int(received["headers"]["broken"])

    for touch in ("none", "header", "full"):
        assert broken(address, touch=touch) == 0
        for other in ({"ttl": 8}, {end: OTHER[end]}, {"src_port": 7}):
            assert broken({**address, **other}, touch=touch) == 3000
        for name, value in (
            ("vni", 8),
            ("dst_mac", "02:58:00:00:00:02"),
            (inside, OTHER[inside]),
        ):
            expected = {**address, "vxlan": {**address["vxlan"], name: value}}
            assert broken(expected, touch=touch) == 3000
    answer = program.ask("arm", run=0x08000000, longest_ns=BURST_NS, tasks=[load, {}])
    assert "a VXLAN header begins so" in answer["error"]
    members = {"run": 7, "longest_ns": BURST_NS}
    answer = program.ask("arm", tasks=[{**load, "frame_bytes": [least - 1]}, {}], **members)
    assert f"no size from {least}" in answer["error"]
    answer = program.ask("arm", tasks=[{"address": {**address, "vlan": 5}}, {}], **members)
    assert "frames have no tag" in answer["error"]


@pytest.mark.parametrize("by", ["port", "ip", "mac"])
@pytest.mark.parametrize("order", ["sequential", "random", "zipf"])
@pytest.mark.parametrize(
    "address", [ADDRESS, IPV6, *TUNNELS.values()], ids=["ipv4", "ipv6", *TUNNELS]
)
def test_a_million_flows_have_the_headers_that_were_promised(
    program: Program, by: str, order: str, address: dict[str, Any]
) -> None:
    program.open_loop()
    subflows = {"count": 10**6, "by": by, "order": order, "seed": 3, "first": 5}
    load = {"frame_bytes": [154, 594], "address": address, "rate_pps": 0, "frames": 3000}
    expected = {"expect": {"address": address, "subflows": subflows}}
    for touch in ("none", "header", "full"):
        tasks = [{**load, "subflows": subflows}, expected]
        assert program.ask("arm", run=7, longest_ns=BURST_NS, touch=touch, tasks=tasks)["ok"]
        received = program.trial(BURST_NS)["tasks"][1]["received"]
        assert received["frames"] == received["headers"]["compared"] == 3000
        # Without a sequence number in it, a frame does not tell its flow.
        broken = received["headers"]["broken"]
        assert broken > 2900 if touch == "none" else broken == 0
        assert received["corrupted"] == 0
    tasks = [{**load, "subflows": {**subflows, "first": 6}}, expected]
    assert program.ask("arm", run=7, longest_ns=BURST_NS, tasks=tasks)["ok"]
    headers = program.trial(BURST_NS)["tasks"][1]["received"]["headers"]
    assert (headers["compared"], headers["broken"]) == (3000, 3000)


def test_flow_numbers_of_one_task_have_sub_flows_of_their_own(program: Program) -> None:
    program.open_loop()
    subflows = {"count": 1000, "step": 1000, "order": "random", "seed": 3}
    load = {"frame_bytes": [64], "address": ADDRESS, "rate_pps": 0, "frames": 4000, "flows": 4}
    expected = {"flows": 4, "expect": {"address": ADDRESS, "subflows": subflows}}
    tasks = [{**load, "subflows": subflows}, expected]
    assert program.ask("arm", run=7, longest_ns=BURST_NS, tasks=tasks)["ok"]
    received = program.trial(BURST_NS)["tasks"][1]["received"]
    assert received["flows"] == [[1000, 0, 0, 0]] * 4
    assert (received["headers"]["compared"], received["headers"]["broken"]) == (4000, 0)
