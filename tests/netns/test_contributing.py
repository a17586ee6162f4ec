"""These tests paste the worked example of CONTRIBUTING.md: real frames pass it, and their
answers."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from contributing import example
from real_frames import Measure, assert_nothing_is_lost, skip_refused
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.plugins import Table
from switchmark.switches import TABLE as SWITCHES


@pytest.fixture
def pasted() -> Iterator[ModuleType]:
    module = example()
    try:
        version = module.SWITCH.probe(LocalHost())
    except Unavailable as missing:
        pytest.skip(missing.message)
    assert version.verified == "not verified"
    with SWITCHES.replaced_by(Table({**SWITCHES, module.SWITCH.name: module.SWITCH}, {})):
        yield module


@pytest.mark.parametrize(
    "axes",
    [
        {"rate": "5k", "direction": "bi", "pairs": 2},
        {"rate": "1k", "dimension": "latency"},
    ],
    ids=lambda axes: "-".join(map(str, axes.values())),
)
def test_the_example_forwards(measure: Measure, pasted: ModuleType, axes: dict[str, Any]) -> None:
    record = measure(switch=pasted.SWITCH.name, **axes)
    trial = assert_nothing_is_lost(record)
    assert trial.latency is not None
    assert trial.latency.kind == ("rtt" if "dimension" in axes else "one-way")


def test_what_a_kernel_lacks_is_found_by_trying_it(pasted: ModuleType) -> None:
    """A classifier that no kernel has, in the place of the example's."""
    redirection = pasted.redirection
    pasted.__dict__["redirection"] = lambda near, far: tuple(
        "nosuchclassifier" if word == "u32" else word for word in redirection(near, far)
    )
    with pytest.raises(Unavailable, match="lacks something that this switch needs"):
        pasted.SWITCH.probe(LocalHost())


def test_a_switch_that_refuses_four_ports_is_skipped_with_its_reason(pasted: ModuleType) -> None:
    name = pasted.SWITCH.name
    type(pasted.SWITCH).accepts = lambda self, w: "two ports" if len(w.ports) > 2 else None
    skip_refused(switch=name, dimension="latency", rate="500")
    with pytest.raises(pytest.skip.Exception, match="two ports"):
        skip_refused(switch=name, pairs=2, direction="bi")
