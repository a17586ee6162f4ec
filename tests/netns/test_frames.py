"""These tests send other frames than usual on real paths, with the gate on: many flows, other
arrivals."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for, assert_nearly_all_arrive

VXLAN_6: dict[str, Any] = {"encapsulation": "vxlan6", "frame_size": 134}


@pytest.mark.parametrize("switch", ["linux-bridge", "ovs"])
@pytest.mark.parametrize(
    "axes",
    [
        {"flow_order": "sequential"},
        {"flow_order": "random", "flows_by": "ip", "frame_size": "imix"},
        {"flow_order": "zipf", "engine": "mmap", "direction": "bi"},
        {"dimension": "latency", "rate": "2k"},
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_a_million_flows_arrive_with_their_headers(
    measure: Measure, switch: str, axes: dict[str, Any]
) -> None:
    record = measure(switch=switch, flows="1M", **axes)
    assert_nearly_all_arrive(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.headers > 0


@pytest.mark.parametrize("switch", ["linux-bridge", "ovs", "tc-redirect"])
@pytest.mark.parametrize(
    "axes",
    [
        {"engine": "raw"},
        {"engine": "mmap", "vlan": 7, "flows": "1M", "flows_by": "ip", "flow_order": "random"},
        {"engine": "xdp", "direction": "bi"},
        {"dimension": "latency", "rate": "2k", "flows": 8},
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
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
        ("linux-bridge", {"direction": "bi", "flows": 8}),
        ("linux-bridge", {"dimension": "latency", "rate": "2k", "flows": "1M"}),
        ("ovs", {"engine": "mmap", "flows": "1M", "flows_by": "ip", "flow_order": "random"}),
        ("ovs", {"engine": "xdp", "function_cores": 2, "flows": 8, "rate": "5k"}),
        ("tc-redirect", {"engine": "raw", "flows": 300, "flows_by": "mac", "touch": "full"}),
        ("ip-forward", {"dimension": "latency", "rate": "2k", "flows": 8}),
        ("vxlan", {"flows": 8}),
        ("ip-forward", {"ip_version": "6", "frame_size": 134}),
        ("linux-bridge", {**VXLAN_6, "dimension": "latency", "rate": "2k", "flows": 8}),
        ("linux-bridge", {**VXLAN_6, "ip_version": "6", "frame_size": 154, "direction": "bi"}),
        ("ovs", {**VXLAN_6, "engine": "mmap", "flows": "1M", "flow_order": "random"}),
        ("ovs", {"ip_version": "6", "frame_size": 134, "engine": "xdp", "flows": "1M"}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_frames_in_a_vxlan_tunnel_arrive_with_their_headers(
    measure: Measure, switch: str, axes: dict[str, Any]
) -> None:
    record = measure(**{"switch": switch, "encapsulation": "vxlan", "frame_size": 114, **axes})
    assert_every_frame_is_accounted_for(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.headers > 0


@pytest.mark.parametrize("arrivals", ["burst", "even", "poisson", "on-off"])
def test_as_many_frames_as_the_rate_says_however_they_come(measure: Measure, arrivals: str) -> None:
    record = measure(switch="linux-bridge", arrivals=arrivals, rate="20k", burst=8)
    trial = assert_every_frame_is_accounted_for(record)
    assert trial.tx_frames + trial.tx_unsent == 3000
    (lag,) = trial.evidence.lag.values()
    assert lag.count == trial.tx_frames
    assert lag.max <= max(part.lag_max_ns for part in trial.parts) + 1
