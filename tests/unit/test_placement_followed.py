"""These tests check what becomes of the placement `auto` on a host, in layouts, cables and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.store import key
from switchmark.errors import Unavailable
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.lab import prepare as preparing
from switchmark.lab.cable import Basis
from switchmark.lab.calibration import Calibrations
from switchmark.lab.measure import Lab
from switchmark.lab.prepare import prepare
from switchmark.lab.probes import Probes
from switchmark.model.cpus import Cpu
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import NOT_PROBED
from switchmark.model.version import Version
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace

POLLING: dict[str, Any] = {"switch": "testpmd", "engine": "dpdk"}


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the host so many cores from now on, by `cores(n)`."""
    monkeypatch.setattr(Probes, "probe", lambda *those: Version("1"))

    def has(count: int) -> None:
        monkeypatch.setattr(preparing, "read_cpus", lambda host: tuple(map(Cpu, range(count))))

    return has


def drawn(test: Test) -> Any:
    return prepare(
        LocalHost(), test, NOT_PROBED, prefix="sm0000", run_dir="/run/x", can=lambda plan: True
    )


@pytest.mark.parametrize(
    ("axes", "count", "policy"),
    [(POLLING, 2, "shared-process"), (POLLING, 3, "pinned"), ({}, 2, "pinned")],
)
def test_the_layout_is_of_the_placement_that_is_followed(
    cores: Any, axes: dict[str, Any], count: int, policy: str
) -> None:
    cores(count)
    layout = drawn(Test(**axes))
    assert layout.placement.policy == policy
    assert len(layout.processes) == (1 if policy == "shared-process" else 2)


def test_results_of_hosts_that_place_otherwise_have_other_keys(cores: Any, tmp_path: Path) -> None:
    def keys() -> list[str]:
        lab = Lab(tmp_path)
        tests = (Test(**POLLING), Test(), Test(**POLLING, placement="pinned"))
        return [key(test, lab.versions(test)) for test in tests]

    cores(2)
    few = keys()
    cores(8)
    many = keys()
    assert few[0] != many[0]
    assert few[1:] == many[1:]


def test_a_cable_is_placed_as_its_test(cores: Any, tmp_path: Path) -> None:
    """By itself it would be pinned here: it has two busy parts."""
    cores(2)
    names: list[str] = []

    def measure(test: Test, placement: Any, spec: TrialSpec, enough: Any) -> list[TrialResult]:
        names.append(test.placement)
        raise Unavailable("no cable")

    test = Test(**POLLING)
    calibrations = Calibrations("auto", measure, tmp_path / "cache.json")
    calibrations.of(Basis(drawn(test), {}, "", ""))
    assert names == ["shared-process"]


@pytest.mark.parametrize("fails", ["unwind", "close"])
def test_connections_end_whatever_else_cannot_be_ended(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(Workspace):
        def close(self) -> None:
            super().close()
            if fails == "close":
                raise OSError("something is still mounted")

    def unwind(executor: Executor, to: int | None = None) -> tuple[str, ...]:
        raise OSError("something is still mounted")

    closed: list[Hosts] = []
    monkeypatch.setattr("switchmark.lab.measure.Workspace", lambda: Stuck(tmp_path))
    monkeypatch.setattr(Hosts, "close", lambda hosts: closed.append(hosts))
    if fails == "unwind":
        monkeypatch.setattr(Executor, "unwind", unwind)
    with pytest.raises(OSError, match="still mounted"), Lab(tmp_path):
        pass
    assert len(closed) == 1
