"""These tests send real frames through chains past the kernel. Several programs poll on two CPUs
and do not yield: what is shown is that it works, not how fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from host_snapshot import hugepages
from real_frames import Measure, assert_nothing_is_lost, only

LOOPBACK: dict[str, Any] = {"scenario": "loopback", "engine": "dpdk", "rate": "1k"}


@pytest.fixture(autouse=True)
def hugepages_come_back() -> Iterator[None]:
    before = hugepages()
    yield
    assert hugepages() == before


@pytest.mark.parametrize(
    ("switch", "chain", "semantics", "function"),
    [
        ("ovs-dpdk", 1, "static", "l2fwd"),
        ("ovs-dpdk", 2, "static", "testpmd"),
        ("testpmd", 1, "patch", "l2fwd"),
        ("testpmd", 2, "patch", "forwarder"),
    ],
)
def test_functions_behind_a_switch(
    measure: Measure, switch: str, chain: int, semantics: str, function: str
) -> None:
    record = measure(switch=switch, function=function, chain=chain, **LOOPBACK)
    trial = assert_nothing_is_lost(record)
    assert (record.semantics, record.steering) == (semantics, "static by in-port")
    assert "cores-overcommitted" in record.doubts
    if function != "forwarder":
        assert trial.counters.functions["f1"]["f1.0"].rx == trial.tx_frames
        assert trial.counters.functions["f1"]["f1.1"].tx == trial.tx_frames


def test_forwarders_behind_a_switch_that_learns(measure: Measure) -> None:
    record = measure(switch="ovs-dpdk", semantics="learning", direction="bi", **LOOPBACK)
    assert_nothing_is_lost(record)
    assert record.steering == "learning by rewritten MACs"


@pytest.mark.parametrize(("switch", "semantics"), [("ovs-dpdk", "static"), ("testpmd", "patch")])
def test_functions_that_write_macs(measure: Measure, switch: str, semantics: str) -> None:
    axes = {**LOOPBACK, "function": "testpmd", "function_semantics": "mac", "chain": 2}
    record = measure(switch=switch, semantics=semantics, direction="bi", **axes)
    trial = assert_nothing_is_lost(record)
    # The receivers hold each frame to the MACs that the last function is to write.
    for part in ("f1", "f2"):
        assert sum(p.tx or 0 for p in trial.counters.functions[part].values()) == trial.tx_frames


def test_chains_are_told_apart_by_their_source_macs(measure: Measure) -> None:
    record = measure(switch="ovs-dpdk", chains=2, direction="bi", **LOOPBACK)
    trial = assert_nothing_is_lost(record)
    assert len(trial.per_flow) == 4


@pytest.mark.parametrize("port", ["vhost-user", "memif"])
def test_forwarders_on_cables(measure: Measure, port: str) -> None:
    record = measure(switch="direct", port=port, chain=2, direction="bi", **LOOPBACK)
    assert_nothing_is_lost(record)


@pytest.mark.parametrize(
    ("switch", "function"),
    [("testpmd", "forwarder"), ("ovs-dpdk", "l2fwd"), ("testpmd", "testpmd")],
)
def test_a_chain_that_ends_in_a_function(measure: Measure, switch: str, function: str) -> None:
    axes = {**LOOPBACK, "scenario": "p2v", "chain": 2, "direction": "bi"}
    assert_nothing_is_lost(measure(switch=switch, function=function, **axes))


def test_a_switch_as_its_own_function_by_memif(measure: Measure) -> None:
    record = measure(switch="basicfwd", function="basicfwd", port="memif", **LOOPBACK)
    assert_nothing_is_lost(record)


def test_what_functions_lose_has_its_place(measure: Measure) -> None:
    trial = only(measure(**{**LOOPBACK, "rate": "max"}, switch="testpmd", function="testpmd"))
    assert trial.rx_frames > 0
    assert abs(trial.unaccounted) <= 0.001 * trial.tx_frames
