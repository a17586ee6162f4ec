"""The properties of the kernel's switches on real paths: the receivers of XDP frames, the headers
of a tunnel, the CPUs that do the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for
from switchmark.lab import running
from switchmark.model.counters import PathCounters
from switchmark.model.cpus import Pin
from switchmark.model.record import Record
from switchmark.path.path import Path as ResolvedPath
from switchmark.runs.executor import Executor
from switchmark.switches.links import link_counters


@pytest.mark.parametrize(
    "axes",
    [
        {"engine": "xdp", "direction": "bi"},
        {"engine": "xdp-live", "burst": 256},
        {"engine": "udp", "dimension": "latency", "rate": "1000", "frame_size": 9000},
        pytest.param(
            {"scenario": "loopback", "chain": 2, "direction": "bi"}, marks=pytest.mark.further
        ),
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_xdp_redirects_what_sockets_and_xdp_send(measure: Measure, axes: dict[str, Any]) -> None:
    """In the driver of a veth pair, whose other end then must poll; nothing is lost in between."""
    record = measure(switch="xdp-redirect", **axes)
    assert_every_frame_is_accounted_for(record)
    assert record.switch_mode == "native"


def test_every_frame_crosses_the_tunnel(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on the cable that it goes over, where its headers make each frame longer."""
    sent: list[dict[str, int]] = []
    counters = running._counters

    def with_cable(executor: Executor, path: ResolvedPath) -> PathCounters:
        (links,) = link_counters(path.wiring)
        (printed,) = executor.run(links)
        counts = {link["ifname"]: link["stats64"]["tx"] for link in json.loads(printed)}
        sent.append(counts[path.wiring.name("u0")])
        return counters(executor, path)

    monkeypatch.setattr(running, "_counters", with_cable)
    trial = assert_every_frame_is_accounted_for(measure(switch="vxlan", frame_size=1000))
    before, after = sent[-2:]
    frames = after["packets"] - before["packets"]
    assert trial.tx_frames <= frames <= trial.tx_frames + 20  # announcements cross it too
    assert after["bytes"] - before["bytes"] == pytest.approx(frames * (996 + 50), rel=0.02)


def cpus_by_part(record: Record) -> dict[str, tuple[int, ...]]:
    """Return the CPUs of the switch and of each part."""
    assert record.placement is not None
    seats = record.placement.seats.items()
    return {part: seat.cpus for part, seat in seats if isinstance(seat, Pin)}


def softnet() -> dict[int, tuple[int, int]]:
    """Return by CPU how many frames it took from a device, and how often another CPU gave it
    some (RPS), both of all that this host does."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()
    numbers = ([int(word, 16) for word in line.split()] for line in lines)
    return {number[12]: (number[0], number[9]) for number in numbers}


@pytest.mark.parametrize(
    "switch",
    [
        *("ip-forward", "vxlan"),
        *(
            pytest.param(name, marks=pytest.mark.further)
            for name in ("linux-bridge", "tc-redirect")
        ),
    ],
)
def test_the_kernels_work_is_spread_over_the_cpus_that_are_asked_for(
    measure: Measure, switch: str
) -> None:
    """Each flow is worked on by one of them, so that its frames stay in order."""
    before = softnet()
    record = measure(switch=switch, switch_cores=2, flows=16, rate="50k")
    trial, after = assert_every_frame_is_accounted_for(record), softnet()
    seats = cpus_by_part(record)
    assert len(seats["switch"]) == 2
    for cpu in seats["switch"]:
        assert after[cpu][0] - before[cpu][0] > 0.1 * trial.tx_frames
        if cpu not in seats["f0"]:
            assert after[cpu][1] > before[cpu][1]


def test_the_kernels_work_is_moved_off_the_senders_cpu(measure: Measure) -> None:
    before = softnet()
    record = measure(switch="linux-bridge", switch_cores=1)
    trial, after = assert_every_frame_is_accounted_for(record), softnet()
    seats = cpus_by_part(record)
    (cpu,) = seats["switch"]
    assert cpu not in seats["f0"]
    assert after[cpu][0] - before[cpu][0] > 0.9 * trial.tx_frames
    assert after[cpu][1] > before[cpu][1]


@pytest.mark.parametrize(
    ("switch", "engine"),
    [
        ("nft-flowtable", "raw-mmsg"),
        ("nft-flowtable", "udp"),
        ("ipvlan", "udp"),
        ("ipvlan", "udp-mmsg"),
        ("netkit", "raw-mmsg"),
        ("netkit", "udp"),
    ],
)
@pytest.mark.parametrize("scenario", ["v2v", "p2v"])
def test_what_not_every_kernel_has_forwards_where_it_is(
    measure: Measure, switch: str, engine: str, scenario: str
) -> None:
    record = measure(switch=switch, engine=engine, scenario=scenario)
    assert_every_frame_is_accounted_for(record)
