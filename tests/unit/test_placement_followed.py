"""These tests check what becomes of the placement `auto` on a host, in layouts, cables and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.store import key
from switchmark.errors import Unavailable
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost
from switchmark.lab import prepare as preparing
from switchmark.lab.cable import Basis
from switchmark.lab.calibration import Calibrations
from switchmark.lab.measure import Lab
from switchmark.lab.prepare import followed, prepare
from switchmark.lab.probes import Probes
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Plan, Reserve
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import NOT_PROBED, Between, Findings
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


def test_the_parts_of_two_machines_get_the_cpus_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = RecordingHost(name="left"), RecordingHost(name="right")
    cpus = {left: tuple(map(Cpu, range(4))), right: tuple(map(Cpu, (8, 9)))}
    monkeypatch.setattr(preparing, "read_cpus", lambda host: cpus[host])
    between = Between(foreign=frozenset({"right"}), doubts=("hosts-share-machine",))
    test = Test(locality="remote", hosts="left,right", placement="pinned")
    path = prepare(
        left,
        test,
        Findings(between=between),
        prefix="sm0000",
        run_dir="/run/x",
        can=lambda plan: True,
        far=right,
    )
    pins = {part.id: path.placement.pin(part.id).cpus for part in path.parts}
    assert pins == {"f0": (1,), "f1": (8,)}
    assert path.placement.doubts == ("hosts-share-machine",)
    assert followed(left, test, None, right) == "pinned"


def test_memory_is_in_hugepages_where_all_can_be_had(cores: Any) -> None:
    cores(4)
    asked: list[Plan] = []

    def kind(can: bool, **axes: Any) -> str:
        def tried(plan: Plan) -> bool:
            asked.append(plan)
            return can

        options: dict[str, Any] = {"prefix": "sm0000", "run_dir": "/run/x", "can": tried}
        test = Test(**{**POLLING, **axes})
        return prepare(RecordingHost(), test, NOT_PROBED, **options).wiring.memory.kind

    assert kind(True) == "hugepages"
    assert kind(False) == "no-huge"
    assert {type(step) for plan in asked for step in plan} == {Reserve}
    assert len(asked) == 2
    assert kind(False, memory="hugepages") == "hugepages"
    assert kind(True, memory="no-huge") == "no-huge"
    assert len(asked) == 2, "where the memory is not ours to choose, nobody is asked"


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
