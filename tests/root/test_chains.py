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


FURTHER = pytest.mark.further


@pytest.mark.parametrize(
    ("switch", "chain", "semantics", "function"),
    [
        pytest.param("ovs-dpdk", 1, "static", "l2fwd", marks=FURTHER),  # below, with two chains
        pytest.param("ovs-dpdk", 2, "static", "testpmd", marks=FURTHER),
        pytest.param("testpmd", 1, "patch", "l2fwd", marks=FURTHER),
        pytest.param("testpmd", 2, "patch", "forwarder", marks=FURTHER),
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


@FURTHER  # tests/netns/test_chains.py has it of switches of the kernel: the same plan
def test_forwarders_behind_a_switch_that_learns(measure: Measure) -> None:
    record = measure(switch="ovs-dpdk", semantics="learning", direction="bi", **LOOPBACK)
    assert_nothing_is_lost(record)
    assert record.steering == "learning by rewritten MACs"


@pytest.mark.parametrize(
    "function", ["l2fwd", pytest.param("forwarder", marks=pytest.mark.further)]
)
def test_chains_are_told_apart_by_their_source_macs(measure: Measure, function: str) -> None:
    axes = {"chains": 2, "direction": "bi", "function": function}
    record = measure(switch="ovs-dpdk", **axes, **LOOPBACK)
    trial = assert_nothing_is_lost(record)
    assert record.steering == "static by in-port and source MAC"
    assert "cores-overcommitted" in record.doubts
    assert len(trial.per_flow) == 4
    if function != "forwarder":  # each frame enters one function and leaves it
        assert len(trial.counters.functions) == 2
        for ports in trial.counters.functions.values():
            assert 0 < sum(port.rx or 0 for port in ports.values()) < trial.tx_frames
        of_all = [port for ports in trial.counters.functions.values() for port in ports.values()]
        assert sum(port.rx or 0 for port in of_all) == trial.tx_frames
        assert sum(port.tx or 0 for port in of_all) == trial.tx_frames


@pytest.mark.parametrize(
    ("switch", "semantics"),
    [("testpmd", "patch"), pytest.param("ovs-dpdk", "static", marks=FURTHER)],
)
def test_functions_that_write_macs(measure: Measure, switch: str, semantics: str) -> None:
    axes = {**LOOPBACK, "function": "testpmd", "function_semantics": "mac", "chain": 2}
    axes |= {"switch": switch, "semantics": semantics, "direction": "bi"}
    record, flood = measure.in_sequence(axes, {**axes, "rate": "max", "duration": 0.2})
    trial = assert_nothing_is_lost(record)
    # The receivers hold each frame to the MACs that the last function is to write.
    for part in ("f1", "f2"):
        assert sum(p.tx or 0 for p in trial.counters.functions[part].values()) == trial.tx_frames
    # What functions lose has its place.
    trial = only(flood)
    assert trial.rx_frames > 0
    assert abs(trial.unaccounted) <= 0.001 * trial.tx_frames


@pytest.mark.parametrize("port", ["vhost-user", pytest.param("memif", marks=FURTHER)])
def test_forwarders_on_cables(measure: Measure, port: str) -> None:
    record = measure(switch="direct", port=port, chain=2, direction="bi", **LOOPBACK)
    assert_nothing_is_lost(record)


@pytest.mark.parametrize(
    ("switch", "function"),
    [
        # tests/netns/test_chains.py has such chains, and the other tests here these functions.
        pytest.param("testpmd", "forwarder", marks=FURTHER),
        pytest.param("ovs-dpdk", "l2fwd", marks=FURTHER),
        pytest.param("testpmd", "testpmd", marks=FURTHER),
    ],
)
def test_a_chain_that_ends_in_a_function(measure: Measure, switch: str, function: str) -> None:
    axes = {**LOOPBACK, "scenario": "p2v", "chain": 2, "direction": "bi"}
    assert_nothing_is_lost(measure(switch=switch, function=function, **axes))


def test_a_switch_as_its_own_function_by_memif(measure: Measure) -> None:
    record = measure(switch="basicfwd", function="basicfwd", port="memif", **LOOPBACK)
    assert_nothing_is_lost(record)


@pytest.mark.further
def test_what_functions_lose_has_its_place(measure: Measure) -> None:
    trial = only(measure(**{**LOOPBACK, "rate": "max"}, switch="testpmd", function="testpmd"))
    assert trial.rx_frames > 0
    assert abs(trial.unaccounted) <= 0.001 * trial.tx_frames
