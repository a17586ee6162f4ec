"""What is particular to the kernel's own switches, on real paths: who takes what XDP sends."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for


@pytest.mark.parametrize(
    "axes",
    [
        {"engine": "xdp", "direction": "bi"},
        {"engine": "xdp-live", "burst": 256},
        {"engine": "udp", "dimension": "latency", "rate": "1000"},
        {"frame_size": 9000},
        {"scenario": "loopback", "chain": 2, "direction": "bi"},
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_xdp_redirects_what_sockets_and_xdp_send(measure: Measure, axes: dict[str, Any]) -> None:
    """In the driver of a veth pair, whose other end then must poll; nothing is lost in between."""
    record = measure(switch="xdp-redirect", **axes)
    assert_every_frame_is_accounted_for(record)
    assert record.switch_mode == "native"
