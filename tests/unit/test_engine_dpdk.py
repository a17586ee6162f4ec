"""These tests hold the memory that engine dpdk asks for against what it was measured to need."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.model.plan import Reserve
from switchmark.model.test import Test
from switchmark.path.path import path_key
from switchmark.path.resolving import resolve

Memory = Literal["hugepages", "no-huge"]


def asked_mb(memory: Memory, **axes: object) -> int:
    test = Test.model_validate({"switch": "direct", "engine": "dpdk", "memory": memory, **axes})
    layout = resolve(test, prefix="sm0000", run_dir="/run")
    part = layout.parts[0]
    ends = part.endpoints
    engine, node = ENGINES["dpdk"], part.node
    megabytes = int(engine.port_options(layout.wiring, node, ends, 0, "auto")["megabytes"])
    reserved = [
        step.megabytes
        for step in engine.prepare(layout.wiring, node, ends)
        if isinstance(step, Reserve)
    ]
    assert reserved == ([megabytes] if memory == "hugepages" else [])
    return megabytes


@pytest.mark.parametrize(
    ("memory", "size", "queues", "needed_mb"),
    [
        ("hugepages", 64, 1, 17),
        ("hugepages", 64, 2, 23),
        ("hugepages", 9000, 1, 87),
        ("hugepages", 9000, 2, 153),
        ("no-huge", 64, 1, 24),
        ("no-huge", 64, 2, 40),
        ("no-huge", 9000, 1, 89),
        ("no-huge", 9000, 2, 167),
    ],
)
def test_asks_for_little_more_than_it_was_measured_to_need(
    memory: Memory, size: int, queues: int, needed_mb: int
) -> None:
    """Measured with DPDK 22.11: the least that a vhost-user cable came up with, without loss."""
    megabytes = asked_mb(memory, frame_size=size, queues=queues, flows=queues)
    assert needed_mb + 8 <= megabytes <= 1.25 * needed_mb + 36


def test_longer_queues_and_bursts_have_more_frames() -> None:
    least = asked_mb("hugepages")
    assert asked_mb("hugepages", burst=4096) > least
    assert asked_mb("hugepages", descriptors=4096) > least
    assert asked_mb("hugepages", descriptors=64) < least


@pytest.mark.parametrize(
    ("axes", "offload"),
    [
        ({}, "off"),
        ({"frame_size": 1518}, "off"),
        ({"touch": "full"}, "off"),
        ({"touch": "full", "frame_size": 256}, "off"),
        ({"touch": "full", "frame_size": 257}, "on"),
        ({"touch": "full", "frame_size": 9000}, "on"),
        ({"touch": "full", "frame_size": "imix"}, "off"),
        ({"touch": "none", "frame_size": 9000}, "off"),
        ({"offload": "on"}, "on"),
        ({"offload": "off", "touch": "full", "frame_size": 9000}, "off"),
    ],
)
def test_devices_compute_checksums_where_that_pays(axes: dict[str, Any], offload: str) -> None:
    assert _port_options(Test(switch="direct", engine="dpdk", **axes))["offload"] == offload


def test_devices_timestamp_frames_only_if_asked() -> None:
    assert _port_options(Test(switch="direct", engine="dpdk"))["stamps"] == "software"
    asked = Test(switch="direct", engine="dpdk", stamps="device", offload="off")
    options = _port_options(asked)
    assert (options["stamps"], options["offload"]) == ("device", "off")


def test_a_path_is_kept_while_its_devices_do_the_same() -> None:
    def key(engine: str, **axes: Any) -> Hashable:
        return path_key(Test(switch="direct", engine=engine, **axes))

    assert key("dpdk", frame_size=1518, touch="full") != key("dpdk", frame_size=1518)
    assert key("dpdk", frame_size=64, touch="full") == key("dpdk", frame_size=1518)
    assert key("raw-mmsg", frame_size=1518, touch="full") == key("raw-mmsg", frame_size=1518)


def _port_options(test: Test) -> Mapping[str, Any]:
    layout = resolve(test, prefix="sm0000", run_dir="/run")
    part = layout.parts[0]
    return ENGINES["dpdk"].port_options(layout.wiring, part.node, part.endpoints, 0, "auto")
