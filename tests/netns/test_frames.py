"""These tests send other frames than usual on real paths, with the gate on: many flows, other
arrivals."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for, assert_nearly_all_arrive

FURTHER = pytest.mark.further
VXLAN_6: dict[str, Any] = {"encapsulation": "vxlan6", "frame_size": 134}
CORES: dict[str, Any] = {"function_cores": 2, "rate": "5k"}


def words(value: object) -> str:
    """Name a parameter by its values."""
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value)


SEQUENTIAL = {"flow_order": "sequential"}
MANY_FLOWS: tuple[dict[str, Any], ...] = (
    {"flow_order": "random", "flows_by": "ip", "frame_size": "imix"},
    {"flow_order": "zipf", "engine": "mmap", "direction": "bi"},
    {"dimension": "latency", "rate": "2k"},
)


@pytest.mark.parametrize(
    ("switch", "axes"),
    [
        *(("linux-bridge", axes) for axes in MANY_FLOWS[:-1]),
        ("ovs", MANY_FLOWS[-1]),
        # Round trips have this order.
        pytest.param("linux-bridge", SEQUENTIAL, marks=FURTHER),
        pytest.param("linux-bridge", MANY_FLOWS[-1], marks=FURTHER),
        *(pytest.param("ovs", axes, marks=FURTHER) for axes in (SEQUENTIAL, *MANY_FLOWS[:-1])),
    ],
    ids=words,
)
def test_a_million_flows_arrive_with_their_headers(
    measure: Measure, switch: str, axes: dict[str, Any]
) -> None:
    record = measure(switch=switch, flows="1M", **axes)
    assert_nearly_all_arrive(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.headers > 0


TAGGED: dict[str, Any] = {"vlan": 7, "flows": "1M", "flows_by": "ip", "flow_order": "random"}
OF_IP_6: list[tuple[str, dict[str, Any]]] = [
    ("tc-redirect", {"engine": "xdp", "direction": "bi"}),
    ("ovs", {"engine": "mmap", **TAGGED}),
    ("linux-bridge", {"dimension": "latency", "rate": "2k", "flows": 8}),
]


@pytest.mark.parametrize(
    ("switch", "axes"),
    [
        *OF_IP_6,
        *(
            pytest.param(switch, axes, marks=FURTHER)
            for switch in ("linux-bridge", "ovs", "tc-redirect")
            for usual, axes in (*OF_IP_6, ("", {"engine": "raw"}))
            if switch != usual
        ),
    ],
    ids=words,
)
def test_frames_of_ipv6_arrive_with_their_headers(
    measure: Measure, switch: str, axes: dict[str, Any]
) -> None:
    record = measure(switch=switch, ip_version="6", frame_size=88, **axes)
    assert_nearly_all_arrive(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.headers > 0


@pytest.mark.parametrize(
    ("switch", "axes"),
    [
        ("ovs", {"engine": "mmap", "flows": "1M", "flows_by": "ip", "flow_order": "random"}),
        ("tc-redirect", {"engine": "raw", "flows": 300, "flows_by": "mac", "touch": "full"}),
        ("ip-forward", {"dimension": "latency", "rate": "2k", "flows": 8}),
        ("vxlan", {"flows": 8, "ip_version": "6", "frame_size": 134}),
        ("linux-bridge", {**VXLAN_6, "dimension": "latency", "rate": "2k", "flows": "1M"}),
        ("tc-redirect", {**VXLAN_6, "ip_version": "6", "frame_size": 154, "direction": "bi"}),
        (
            "linux-bridge",
            {"ip_version": "6", "frame_size": 134, "engine": "xdp", "flows": 8, **CORES},
        ),
        *(
            pytest.param(switch, axes, marks=FURTHER)
            for switch, axes in (
                ("linux-bridge", {"dimension": "latency", "rate": "2k", "flows": "1M"}),
                ("vxlan", {"flows": 8}),
                ("ip-forward", {"ip_version": "6", "frame_size": 134}),
                ("linux-bridge", {**VXLAN_6, "dimension": "latency", "rate": "2k", "flows": 8}),
                ("linux-bridge", {"direction": "bi", "flows": 8}),
                ("ovs", {"engine": "xdp", "flows": 8, **CORES}),
                ("ovs", {**VXLAN_6, "engine": "mmap", "flows": "1M", "flow_order": "random"}),
                ("ovs", {"ip_version": "6", "frame_size": 134, "engine": "xdp", "flows": "1M"}),
            )
        ),
    ],
    ids=words,
)
def test_frames_in_a_vxlan_tunnel_arrive_with_their_headers(
    measure: Measure, switch: str, axes: dict[str, Any]
) -> None:
    record = measure(**{"switch": switch, "encapsulation": "vxlan", "frame_size": 114, **axes})
    assert_every_frame_is_accounted_for(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.headers > 0


def test_as_many_frames_as_the_rate_says_however_they_come(measure: Measure) -> None:
    arrivals = ("burst", "even", "poisson", "on-off")
    usual = {"switch": "linux-bridge", "rate": "20k", "burst": 8, "duration": 0.1}
    for record in measure.in_sequence(*({**usual, "arrivals": name} for name in arrivals)):
        trial = assert_every_frame_is_accounted_for(record)
        name = record.test.arrivals
        assert trial.tx_frames + trial.tx_unsent == 2000, name
        (lag,) = trial.evidence.lag.values()
        assert lag.count == trial.tx_frames, name
        assert lag.max <= max(part.lag_max_ns for part in trial.parts) + 1, name
