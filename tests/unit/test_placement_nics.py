"""These tests check that placement knows the NUMA nodes of real NICs, on a recorded host of two."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.hosts.recording import RecordingHost
from switchmark.lab import prepare as preparing
from switchmark.lab.prepare import prepare
from switchmark.model.plan import Reserve
from switchmark.model.test import Test
from switchmark.model.topology import NOT_PROBED, Port
from switchmark.observe.cpus import read_cpus
from switchmark.runs.nics import numa_nodes
from switchmark.switches import TABLE as SWITCHES

PCI: dict[str, Any] = {"switch": "testpmd", "engine": "dpdk"}
HOST = RecordingHost(
    name="twin",
    files={
        "/sys/devices/system/cpu/online": b"0-7\n",
        "/sys/devices/system/node/node0/cpulist": b"0-3\n",
        "/sys/devices/system/node/node1/cpulist": b"4-7\n",
        **{f"/sys/class/net/eth{n}/device/numa_node": b"0\n" for n in range(4)},
        "/sys/class/net/eno1/device/numa_node": b"-1\n",
        **{f"/sys/bus/pci/devices/0000:{bus}:00.0/numa_node": b"0\n" for bus in ("03", "04")},
        **{f"/sys/bus/pci/devices/0000:{bus}:00.0/numa_node": b"1\n" for bus in ("83", "84")},
    },
)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the path of a test on the host of two nodes."""
    monkeypatch.setattr(preparing, "read_cpus", lambda host: read_cpus(host, allowed=range(8)))

    def prepared(**axes: Any) -> Any:
        return prepare(
            HOST,
            Test(**axes),
            NOT_PROBED,
            prefix="sm0000",
            run_dir="/run/x",
            can=lambda plan: True,
        )

    return prepared


def test_the_nodes_of_nics_are_read_where_the_kernel_knows_them() -> None:
    named = [("eth0", "eno1"), ("0000:83:00.0", "0000:04:00.0"), ("eth9", None), (None, None)]
    ports = [Port(f"p{n}", n, f"p{n}", True, *pair) for n, pair in enumerate(named)]
    assert numa_nodes(HOST, ports) == {"eth0": 0, "0000:83:00.0": 1, "0000:04:00.0": 0}


@pytest.mark.parametrize(
    ("nic", "cpus", "node"),
    [(None, (4, 5, 6), 1), ("03:00.0:04:00.0", (1, 2, 3), 0), ("83:00.0:84:00.0", (4, 5, 6), 1)],
)
def test_a_polling_switch_and_its_memory_are_on_the_node_of_its_nics(
    prepared: Any, nic: str | None, cpus: tuple[int, ...], node: int
) -> None:
    layout = prepared(**PCI, scenario="p2v", nic=nic and f"a0={nic}")
    placement = layout.placement
    assert tuple(pin.cpus[0] for pin in placement.pins.values()) == cpus
    assert layout.wiring.memory.node == node
    steps = SWITCHES["testpmd"].start(layout.wiring)
    assert {step.node for step in steps if isinstance(step, Reserve)} == {node}
    assert placement.doubts == ()


@pytest.mark.parametrize(
    ("placement", "nic", "far"),
    [
        ("0-3", "03:00.0:04:00.0", False),
        ("4-7", "03:00.0:04:00.0", True),
        ("auto", "83:00.0:04:00.0", False),  # each end of the cable is served on its own node
        ("0-3", "83:00.0:04:00.0", True),
    ],
)
def test_a_placement_by_hand_is_obeyed_and_doubted(
    prepared: Any, placement: str, nic: str, far: bool
) -> None:
    placed = prepared(**PCI, scenario="p2v", nic=f"a0={nic}", placement=placement).placement
    assert ("nic-on-other-node" in placed.doubts) == far
    if placement == "4-7":
        assert tuple(pin.cpus[0] for pin in placed.pins.values()) == (4, 5, 6)


def test_the_ends_of_cables_of_the_kernel_are_on_the_node_of_their_nics(prepared: Any) -> None:
    layout = prepared(nic="a0=eth0:eth1,b0=eth2:eth3", scenario="p2p")
    assert [pin.cpus for pin in layout.placement.pins.values()] == [(), (1,), (2,)]
    assert layout.wiring.memory.node == 0
    without = prepared(scenario="p2p")
    assert [pin.cpus for pin in without.placement.pins.values()] == [(), (4,), (5,)]
