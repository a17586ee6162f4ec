"""These tests measure functions on several cores over DPDK's ports."""

from __future__ import annotations

from typing import Any

import pytest

from real_frames import Measure, assert_nothing_is_lost, skip_unpackaged

CORES: dict[str, Any] = {"function_cores": 2, "flows": 8, "rate": "5k", "duration": 0.4}


@pytest.mark.further  # test_bypass.py has functions on two cores with other facts on the same path
@pytest.mark.parametrize(
    ("switch", "port"),
    [("direct", "vhost-user"), ("direct", "memif"), ("testpmd", "vhost-user")],
)
def test_two_cores_have_two_queues_of_dpdk(switch: str, port: str, measure: Measure) -> None:
    skip_unpackaged(switch)
    record = measure(switch=switch, port=port, engine="dpdk", warmup=0.05, **CORES)
    assert len(assert_nothing_is_lost(record).per_flow) == 8
