"""These tests measure functions on several cores over the kernel's sockets: what all cores counted
together is exact, whatever part they play."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_nothing_is_lost
from switchmark.model.record import Record, TrialResult

CORES: dict[str, Any] = {"function_cores": 2, "flows": 16, "rate": "5k"}
ENGINES = ["raw", "raw-mmsg", "mmap", "xdp", "udp", "udp-mmsg"]
FORWARDING = ["raw-mmsg", "mmap", "xdp"]


def assert_each_flow_arrives(record: Record) -> TrialResult:
    trial = assert_nothing_is_lost(record)
    assert len(trial.per_flow) % 16 == 0
    assert trial.latency is None or trial.latency.count == trial.rx_frames
    return trial


@pytest.mark.parametrize(
    ("dimension", "engine"),
    [
        # An end of round trips sends and receives on both cores.
        *(("latency", engine) for engine in ENGINES),
        *(pytest.param("throughput", engine, marks=pytest.mark.further) for engine in ENGINES),
    ],
)
def test_ends_on_two_cores(measure: Measure, dimension: str, engine: str) -> None:
    assert_each_flow_arrives(measure(engine=engine, dimension=dimension, **CORES))


@pytest.mark.parametrize("engine", FORWARDING)
def test_forwarders_and_both_directions_on_two_cores(measure: Measure, engine: str) -> None:
    trial = assert_each_flow_arrives(
        measure(engine=engine, scenario="loopback", direction="bi", warmup=0.05, **CORES)
    )
    forwarder = next(part for part in trial.parts if part.roles == ("forwarder",))
    passed = trial.counters.at_parts
    assert sum(passed[f"{forwarder.part}.{port}"].tx or 0 for port in (0, 1)) == trial.tx_frames


@pytest.mark.parametrize(
    "axes",
    [
        {"flows": "1M", "flow_order": "zipf", "flows_by": "ip", "engine": "mmap"},
        {"flows": 100, "arrivals": "poisson", "frame_size": "imix", "engine": "udp"},
        {"ip_version": "6", "frame_size": 84, "engine": "raw", "function_cores": 4},
        {"placement": "shared-process", "pairs": 2},
        pytest.param(
            {"ip_version": "6", "frame_size": 84, "switch": "ovs", "function_cores": 4},
            marks=pytest.mark.further,
        ),
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_other_frames_from_several_cores(measure: Measure, axes: dict[str, Any]) -> None:
    assert_nothing_is_lost(measure(**{**CORES, **axes}))
