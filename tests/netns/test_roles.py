"""These tests use roles that no scenario uses yet, and the frames that a receiver distinguishes:
forwarded and late frames."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from combinations import measured
from traffic_program import ADDRESS, Program

NAMESPACE = "smtest-roles"
ENGINES = ["raw", "raw-mmsg", "mmap", "xdp"]
UNTIL_QUIET = {"quiet_ms": 200, "timeout_ms": 20_000}
"""A program that has no CPU for a while on a busy host is not quiet yet."""


@pytest.fixture(scope="module")
def cables() -> Iterator[None]:
    """Make the cables a0 - a1 and b0 - b1 in one namespace: a forwarder between a1 and b0 joins
    them."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make a namespace")
    ip = ["ip", "-n", NAMESPACE]
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        for a, b in (("a0", "a1"), ("b0", "b1")):
            subprocess.run([*ip, "link", "add", a, "type", "veth", "peer", "name", b], check=True)
            for end in (a, b):
                off = ["tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off"]
                inside = ["ip", "netns", "exec", NAMESPACE]
                subprocess.run([*inside, "ethtool", "-K", end, *off], check=True)
                subprocess.run(
                    [*inside, "sysctl", "-e", "-q", "-w", f"net.ipv6.conf.{end}.disable_ipv6=1"],
                    check=True,
                )
                subprocess.run([*ip, "link", "set", end, "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def opened(
    stack: ExitStack,
    path: str,
    role: str,
    engines: list[str],
    *ifnames: str,
    options: dict[str, int] | None = None,
) -> Program:
    program = Program("ip", "netns", "exec", NAMESPACE, path)
    cpus = sorted(os.sched_getaffinity(0))
    cpu = cpus[-1] if role == "sender" else cpus[0]
    stack.callback(program.end)
    answer = program.ask(
        "open",
        ports=[
            {"engine": engine, "ifname": ifname, "options": options or {}}
            for engine, ifname in zip(engines, ifnames, strict=True)
        ],
        threads=[
            {
                "cpu": cpu,
                "yield": True,
                "tasks": [{"role": role, "ports": list(range(len(ifnames)))}],
            }
        ],
    )
    assert answer["ok"], answer
    assert program.ask("ready")["ok"]
    return program


def armed(program: Program, clock: dict[str, Any], **load: Any) -> None:
    answer = program.ask("arm", run=99, longest_ns=10**9, clock=clock, tasks=[load])
    assert answer["ok"], answer


def clock_of(program: Program) -> dict[str, Any]:
    found = program.ask("clock")
    return {name: found[name] for name in ("ticks", "ns", "hz")}


FORWARDERS = [*((engine, engine) for engine in ENGINES), ("raw", "mmap"), ("xdp", "raw")]


@pytest.mark.parametrize(
    ("ends", "near", "far"),
    measured(
        [(ends, *ports) for ports in FORWARDERS for ends in ENGINES],
        # XDP at one end of a cable changes how the other end takes frames.
        lambda case: {
            case[0],
            case[1:],
            ("xdp" in case[:1], case[1]),
            ("xdp" in case[:1], case[2]),
        },
    ),
)
def test_a_forwarder_joins_its_ports_and_rewrites_macs(
    cables: None, traffic_program: str, ends: str, near: str, far: str
) -> None:
    new = {"src_mac": "02:00:00:00:00:0a", "dst_mac": "02:00:00:00:00:0b"}
    with ExitStack() as stack:
        receiver = opened(stack, traffic_program, "receiver", [ends], "b1")
        forwarder = opened(stack, traffic_program, "forwarder", [near, far], "a1", "b0")
        sender = opened(stack, traffic_program, "sender", [ends], "a0")
        clock = clock_of(sender)
        armed(receiver, clock, latency=True)
        armed(forwarder, clock, rewrite=[None, new])
        armed(sender, clock, rate_pps=5000, frame_bytes=[64, 1500], burst=8, address=ADDRESS)
        for program in (receiver, forwarder, sender):
            assert program.ask("start", duration_ns=10**8)["ok"]
        assert sender.ask("wait")["ok"]
        for program in (forwarder, receiver):
            assert program.ask("drain", **UNTIL_QUIET)["ok"]
        sent = sender.ask("report")["tasks"][0]["sent"]
        passed = forwarder.ask("report")["tasks"][0]["forwarded"]
        received = receiver.ask("report")["tasks"][0]["received"]
    assert sent["frames"] > 0
    assert passed["in"] == [sent["frames"], 0]
    assert passed["out"] == [0, sent["frames"] - passed["dropped"][1]]
    assert received["frames"] == passed["out"][1]
    assert received["corrupted"] == received["duplicated"] == received["reordered"] == 0


def test_frames_that_come_after_the_senders_stop_are_late_not_lost(
    cables: None, traffic_program: str
) -> None:
    """A receiver that takes 1 ms a frame has 300 of a thousand before the end of the phase."""
    with ExitStack() as stack:
        receiver = opened(stack, traffic_program, "receiver", ["raw-mmsg"], "a1")
        sender = opened(stack, traffic_program, "sender", ["raw-mmsg"], "a0")
        clock = clock_of(sender)
        armed(receiver, clock, latency=True, delay_ns=1_000_000)
        armed(sender, clock, rate_pps=0, frames=1000, frame_bytes=[64], burst=64, address=ADDRESS)
        for program in (receiver, sender):
            assert program.ask("start", duration_ns=3 * 10**8)["ok"]
        assert sender.ask("wait")["ok"]
        assert receiver.ask("drain", **UNTIL_QUIET)["quiet"]
        sent = sender.ask("report")["tasks"][0]["sent"]
        report = receiver.ask("report")
    received = report["tasks"][0]["received"]
    assert received["late"] > sent["frames"] / 2 > 250
    assert received["after_drain"] == 0
    assert received["frames"] + report["ports"][0]["rx_ring_drops"] == sent["frames"]


def test_frames_that_come_after_the_drain_are_counted_apart(
    cables: None, traffic_program: str
) -> None:
    with ExitStack() as stack:
        receiver = opened(stack, traffic_program, "receiver", ["raw-mmsg"], "a1")
        sender = opened(stack, traffic_program, "sender", ["raw-mmsg"], "a0")
        clock = clock_of(sender)
        armed(receiver, clock, delay_ns=1_000_000)
        armed(sender, clock, rate_pps=0, frames=1000, frame_bytes=[64], burst=64, address=ADDRESS)
        for program in (receiver, sender):
            assert program.ask("start", duration_ns=3 * 10**8)["ok"]
        assert sender.ask("wait")["ok"]
        assert receiver.ask("drain", quiet_ms=200, timeout_ms=1)["quiet"] is False
        subprocess.run(["sleep", "0.5"], check=True)
        received = receiver.ask("report")["tasks"][0]["received"]
    assert received["after_drain"] > 0
    assert received["frames"] == received["flows"][0][0] == sum(received["intervals"])


def test_what_a_full_socket_drops_is_counted_to_the_frame(
    cables: None, traffic_program: str
) -> None:
    """Room for some ten frames, and a receiver that takes a millisecond for each."""
    with ExitStack() as stack:
        small = {"buffer": 4096}
        receiver = opened(stack, traffic_program, "receiver", ["raw"], "a1", options=small)
        sender = opened(stack, traffic_program, "sender", ["raw-mmsg"], "a0")
        clock = clock_of(sender)
        armed(receiver, clock, delay_ns=1_000_000)
        armed(sender, clock, rate_pps=10000, frame_bytes=[64], burst=8, address=ADDRESS)
        for program in (receiver, sender):
            assert program.ask("start", duration_ns=10**8)["ok"]
        assert sender.ask("wait")["ok"]
        assert receiver.ask("drain", quiet_ms=100, timeout_ms=5000)["quiet"]
        sent = sender.ask("report")["tasks"][0]["sent"]["frames"]
        report = receiver.ask("report")
    dropped = report["ports"][0]["rx_ring_drops"]
    assert dropped > 0
    assert report["tasks"][0]["received"]["frames"] + dropped == sent
