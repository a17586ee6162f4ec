"""These tests are of the ports and the memory of engine memif."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.model.plan import Reserve
from switchmark.model.test import Test
from switchmark.path.path import Path
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve

ENGINE = ENGINES["memif"]


def path_of(**axes: Any) -> Path:
    test = Test.model_validate({"switch": "direct", "engine": "memif", **axes})
    return resolve(test, prefix="sm0000", run_dir="/run")


def options(path: Path) -> list[dict[str, Any]]:
    return [
        dict(ENGINE.port_options(path.wiring, part.node, part.endpoints, index, "auto"))
        for part in path.parts
        for index in range(len(part.endpoints))
    ]


def reserved_mb(path: Path) -> list[int]:
    return [
        step.megabytes
        for part in path.parts
        for step in ENGINE.prepare(path.wiring, part.node, part.endpoints)
        if isinstance(step, Reserve)
    ]


def test_one_end_of_a_cable_listens() -> None:
    near, far = options(path_of(queues=2, flows=2, descriptors=512, memory="no-huge"))
    assert near == {
        "socket": "/run/ports/p0.sock",
        "role": "server",
        "queues": 2,
        "ring": 512,
        "memory": "no-huge",
    }
    assert far == {**near, "role": "client"}


@pytest.mark.parametrize(
    ("axes", "megabytes"),
    [
        ({}, 6),  # 2 x 1024 buffers of 2 KiB, and the rings
        ({"queues": 2, "flows": 2}, 10),
        ({"frame_size": 9000}, 18),
        ({"descriptors": 64}, 2),
    ],
)
def test_the_end_that_connects_owns_the_memory(axes: dict[str, Any], megabytes: int) -> None:
    assert reserved_mb(path_of(memory="hugepages", **axes)) == [megabytes]
    assert reserved_mb(path_of(memory="no-huge", **axes)) == []
    assert reserved_mb(path_of(switch="testpmd", memory="hugepages", **axes)) == [megabytes] * 2


def test_it_connects_again_to_the_next_switch_and_a_function_that_does_not_is_refused() -> None:
    axes = {"switch": "testpmd", "engine": "memif", "event": "kill", "rate": "1000"}
    assert check(Test.model_validate(axes)) == []
    chained = Test.model_validate({**axes, "scenario": "loopback", "function": "testpmd"})
    assert "does not connect again" in " ".join(refusal.why for refusal in check(chained))


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"switch": "linux-bridge"}, "memif"),
        ({"switch": "testpmd", "port": "vhost-user"}, "memif"),
        ({"switch": "testpmd", "driver": "memif-zero-copy"}, "driver"),
        ({"switch": "testpmd", "offload": "off"}, "does not follow --offload"),
    ],
)
def test_what_it_cannot_do_is_refused(axes: dict[str, Any], why: str) -> None:
    test = Test.model_validate({"engine": "memif", **axes})
    assert why in " ".join(refusal.why for refusal in check(test))
