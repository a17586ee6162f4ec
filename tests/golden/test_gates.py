"""These tests compare what the functional trial says with stored texts: about every byte of a
header that differs, about every count that is not as it should be, and about the tries of hosts
that are slow or busy. The proof of a stepped load is with them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from golden_cases import shortened
from recorded import fresh
from switchmark.errors import SwitchmarkError
from switchmark.lab import gate
from switchmark.lab.gate import differences
from switchmark.lab.happening import require_steps
from switchmark.model.record import TrialResult
from switchmark.model.series import TimeSeries
from unit.test_gate import IDLE, Path, laid_out, tried

Golden = Callable[[str, str], None]

TRIAL = fresh().trials[0]


def summed_up(header: bytes) -> bytes:
    """Return an IPv4 header with its checksum."""
    total: int = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + (0xFFFF - total).to_bytes(2) + header[12:]


MACS = bytes.fromhex("020000000001020000000002")
IPV4 = summed_up(bytes.fromhex("4500002e12344000401100000a0000010a000002"))
IPV6 = bytes.fromhex("6000000000121140") + bytes(range(0xA0, 0xC0))
UDP = bytes.fromhex("c000000900120000")
VXLAN = bytes.fromhex("c00012b500500000" + "0800000000002a00")

FRAMES: Mapping[str, bytes] = {
    "ip4": MACS + b"\x08\x00" + IPV4 + UDP,
    "vlan": MACS + b"\x81\x00\x00\x05\x08\x00" + IPV4 + UDP,
    "ip6": MACS + b"\x86\xdd" + IPV6 + UDP,
    "vxlan": MACS + b"\x08\x00" + IPV4 + VXLAN + MACS + b"\x08\x00" + IPV4 + UDP,
    "vxlan6": MACS + b"\x86\xdd" + IPV6 + VXLAN + MACS + b"\x81\x00\x00\x07\x86\xdd" + IPV6 + UDP,
}


def test_every_byte_of_a_header_that_differs(golden: Golden) -> None:
    lines = []
    for name, frame in FRAMES.items():
        lines.append(f"## {name}: {differences(frame, frame)}")
        for place in range(len(frame)):
            other = frame[:place] + bytes([frame[place] ^ 0x15]) + frame[place + 1 :]
            lines.append(f"{place}: {'; '.join(differences(other, frame))}")
        for kind, expected in FRAMES.items():
            lines.append(f"{kind} was expected: {'; '.join(differences(frame, expected))}")
    golden("gates/headers.txt", shortened("\n".join([*lines, ""])))


HEADERS: dict[str, Any] = {"compared": 100, "unkept": 0, "broken": 0}

WRONG: Mapping[str, dict[str, Any]] = {
    "as it should be": {},
    "nothing was sent": {"tx_frames": 0, "rx_frames": 0},
    "lost": {"lost": 7, "rx_frames": 93, "lost_at": {"late": 4, "ring:b0": 3}},
    "lost without a trace": {"lost": 1, "rx_frames": 99},
    "lost copies": {"lost": 3, "copies": 2, "rx_frames": 197},
    "duplicated": {"duplicated": 1, "rx_frames": 101},
    "reordered": {"reordered": 2},
    "corrupted": {"corrupted": 3},
    "stray": {"stray": 4},
    "foreign": {"foreign": 5},
    "everything": {"duplicated": 1, "reordered": 2, "corrupted": 3, "stray": 4, "foreign": 5},
}


def test_every_count_that_is_wrong(golden: Golden) -> None:
    lines = []
    path = laid_out()
    flow = path.flows[0].id
    port_counts: Mapping[str, Mapping[str, Mapping[str, int | None]]] = {
        "as many": {"a0": {"rx": 100}, "b0": {"tx": 100}},
        "fewer left": {"a0": {"rx": 100}, "b0": {"tx": 99}},
        "the other way": {"a0": {"rx": 50, "tx": 50}, "b0": {"rx": 50, "tx": 50}},
        "unknown": {"a0": {"rx": None}, "b0": {"tx": 99}},
        "unknown later": {"a0": {"rx": 100}, "b0": {"tx": None}},
        "one port": {"a0": {"rx": 100}},
    }
    for name, changes in WRONG.items():
        trial = made(**changes, counters=counters(port_counts["as many"]))
        lines += [f"# {name}", *gate._wrong(path, trial)]
    for name, counts in port_counts.items():
        for more in ({}, {"copies": 2, "rx_frames": 200}, {"lost": 1, "rx_frames": 99}):
            trial = made(**more, counters=counters(counts))
            lines += [f"# ports {name}, {more}", *gate._wrong(path, trial)]
    for seen in (
        {"compared": 100},
        {"compared": 99},
        {"compared": 90, "unkept": 10},
        {"compared": 90, "unkept": 9},
        {"compared": 90, "unseen": "no reason"},
        {"broken": 2, "found": FRAMES["ip4"].hex(), "promised": FRAMES["ip6"].hex()},
    ):
        evidence = {"headers": {flow: {**HEADERS, **seen}}}
        trial = made(evidence=evidence, counters=counters(port_counts["as many"]))
        lines += [f"# headers {[*seen.items()][:2]}", *gate._wrong(path, trial)]
    past = {"past": {"a0@switch": {"arrived": 100, "counted": 3}}}
    trial = made(evidence=past, counters=counters(port_counts["as many"]))
    lines += ["# past the switch", *gate._wrong(path, trial)]
    both = laid_out(scenario="p2p", direction="bi", pairs=2)
    for left in ({}, {"a1": {"tx": 3}}):
        ends = {port.id: {"rx": 10, "tx": 10} for port in both.wiring.ports} | left
        trial = made(counters=counters(ends))
        lines += [f"# two pairs, {left}", *gate._wrong(both, trial)]
    golden("gates/counts.txt", "\n".join([*lines, ""]))


def counters(ends: Mapping[str, Mapping[str, int | None]]) -> dict[str, Any]:
    return {f"{port}@switch": {**IDLE, **counts} for port, counts in ends.items()}


def made(**changes: Any) -> TrialResult:
    """Return a trial of 100 frames that all arrived, with changes."""
    content = TRIAL.model_dump(mode="json") | {"tx_frames": 100, "rx_frames": 100, "lost": 0}
    content |= {"tx_unsent": 0, "duplicated": 0, "lost_at": {}}
    return TrialResult.model_validate({**content, **changes})


TRIES: Mapping[str, tuple[tuple[int, ...], dict[str, Any], dict[str, Any]]] = {
    "a good switch": ((100,), {}, {}),
    "a switch of functions": ((100,), {}, {"scenario": "loopback"}),
    "a latency": ((100,), {}, {"dimension": "latency", "rate": "1k"}),
    "half was sent": ((50,), {}, {}),
    "less than half was sent": ((49,), {}, {}),
    "less than half was sent at first": ((0, 20, 49, 100), {}, {}),
    "less was sent to a switch that blocks": ((49,), {"blocked": 3}, {}),
    "nothing was sent to a switch that blocks": ((0,), {"blocked": 3}, {}),
    "late frames": ((100,), {"quick_ms": 79}, {}),
    "frames that are always late": ((100,), {"quick_ms": 5000}, {}),
    "kept frames": ((100,), {"held": (5, 5, 6)}, {}),
    "foreign frames": ((100,), {"foreign": 1}, {}),
    "ports that count late": ((100,), {"lag_s": 1.0}, {}),
    "ports that never count": ((100,), {"lag_s": None}, {}),
    "NICs that count late": ((100,), {"lag_s": 1.0}, {"nic": "a0=x:y,b0=z:w"}),
    "NICs that never count": ((100,), {"lag_s": None}, {"nic": "a0=x:y,b0=z:w"}),
}


def test_the_tries_of_a_gate(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr("switchmark.lab.gate.clock.sleep", lambda s: lines.append(f"  waits {s} s"))
    for name, (sent, options, axes) in TRIES.items():
        for kind in ("refuse", "doubt"):
            path = Path(*sent, **options)
            lines.append(f"## {name}, {kind}")
            try:
                lines.append(f"  {tried(path, kind, **axes)}")
            except SwitchmarkError as error:
                lines.append(f"  {type(error).__name__}: {error.message}; {error.hint}")
            lines += [
                f"  asked for {spec.rate_pps:g} frames/s in {spec.duration_s:g} s after "
                f"{spec.warmup_s:g} s"
                for spec in path.asked
            ]
            lines.append(f"  quiet for {path.quiet_ms} ms, lag {path.lag_s} s")
    golden("gates/tries.txt", shortened("\n".join([*lines, ""])))


def test_the_proof_of_a_stepped_load(golden: Golden) -> None:
    lines = []
    steps = ((0.5, 0.5), (0.8, 2.0))
    for name, offered, unsent in (
        ("as asked", (100,) * 5 + (50,) * 3 + (200,) * 2, 0),
        ("within a tenth", (100,) * 5 + (55,) * 3 + (200,) * 2, 0),
        ("beyond a tenth", (100,) * 5 + (56,) * 3 + (200,) * 2, 0),
        ("beyond a tenth below", (100,) * 5 + (45,) * 3 + (200,) * 2, 0),
        ("no steps", (100,) * 10, 0),
        ("no steps, and frames that were not sent", (100,) * 10, 1),
        ("too short", (100,) * 6, 0),
    ):
        for asked in (steps, ()):
            length = len(offered)
            none = (0,) * length
            series = TimeSeries(
                interval_ns=100_000_000,
                offered=offered,
                lost=none,
                received=offered,
                duplicated=none,
                reordered=none,
                p50_ns=none,
                p99_ns=none,
                p999_ns=none,
                max_ns=none,
            )
            spec = TRIAL.spec.model_copy(update={"steps": asked, "duration_s": 1.0})
            trial = TRIAL.model_copy(update={"spec": spec, "series": series, "tx_unsent": unsent})
            try:
                require_steps(trial)
                lines.append(f"{name}, {len(asked)} steps: proved")
            except SwitchmarkError as error:
                lines.append(f"{name}, {len(asked)} steps: {error.message}")
    golden("gates/steps.txt", "\n".join([*lines, ""]))
