"""This test compares the tests of `verify` with stored texts: the name of each test of a kind of
port, and the axes that are not the usual ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from switchmark.lab.verifying import EMULATED, matrix
from switchmark.model.test import AXES
from switchmark.model.topology import PortKind
from switchmark.switches import TABLE


@pytest.mark.parametrize(
    ("switch", "kind", "options"),
    [
        ("ip-forward", PortKind.VETH, {}),
        ("linux-bridge", PortKind.NIC_KERNEL, {"runtimes": ("lxc",)}),
        (
            "linux-bridge",
            PortKind.VETH,
            {"runtimes": (), "there": {"hosts": "far", **EMULATED}},
        ),
        ("testpmd", PortKind.VHOST_USER, {"runtimes": ("podman",)}),
    ],
)
def test_the_tests_of_a_switch(
    switch: str, kind: PortKind, options: dict[str, Any], golden: Callable[[str, str], None]
) -> None:
    text = []
    for name, test in matrix(TABLE[switch], kind, **options):
        axes = {axis: getattr(test, axis) for axis in AXES}
        chosen = [f"{axis}={axes[axis]}" for axis in AXES if axes[axis] != AXES[axis].default]
        text.append(f"{name}\n  {' '.join(chosen)}\n")
    there = "-emulated" * ("there" in options)
    golden(f"matrix/{switch}-{kind}{there}.txt", "".join(text))
