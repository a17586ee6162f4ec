"""These tests send other frames than usual over DPDK's ports, with the gate on."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_nothing_is_lost, skip_unpackaged

VXLAN = {"encapsulation": "vxlan", "frame_size": 114}
VXLAN_OF_IPV6 = {"encapsulation": "vxlan6", "ip_version": "6", "frame_size": 154}


@pytest.mark.parametrize(
    "axes",
    [
        {**VXLAN, "flows": "1M", "flows_by": "ip", "flow_order": "zipf"},
        *(
            pytest.param(axes, marks=pytest.mark.further)
            for axes in (
                {**VXLAN, "flows": "1M", "flows_by": "ip"},
                {"ip_version": "6", "frame_size": 84, "flows": "1M", "flow_order": "zipf"},
                {**VXLAN_OF_IPV6, "flows": "1M"},  # test_bypass.py has round trips of such frames
                {**VXLAN, "dimension": "latency", "rate": "2k"},
            )
        ),
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_other_frames_pass_ovs_dpdk_with_their_headers(
    measure: Measure, axes: dict[str, Any]
) -> None:
    skip_unpackaged("ovs-dpdk")
    record = measure(switch="ovs-dpdk", engine="dpdk", **{"rate": "5k", **axes})
    assert_nothing_is_lost(record)
    assert record.gate is not None
    assert record.gate.passed
    assert record.gate.headers > 0
