"""These tests read what the kernel counts of processes while nothing crosses a path."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from switchmark.environments import inside
from switchmark.hosts.local import LocalHost
from switchmark.lab.meter import KernelCounts, Meter, roles_of, roles_within
from switchmark.lab.prepare import place_parts
from switchmark.model.cpus import Cpu
from switchmark.model.test import Test
from switchmark.observe.perf import CountableEvents
from switchmark.observe.softirq import SoftirqTimes
from switchmark.path.resolving import resolve
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace


class Asked(LocalHost):
    """This host counts how often its files are read."""

    times = 0

    def read_all(self, *patterns: str) -> dict[str, bytes]:
        self.times += 1
        return dict(super().read_all(*patterns))


def test_what_kernels_count_is_read_once_before_and_once_behind(tmp_path: Path) -> None:
    host = Asked()
    test = Test()
    layout = resolve(test, prefix="smtest", run_dir=str(tmp_path))
    layout = layout.placed(place_parts(layout, (Cpu(0), Cpu(1))))
    pids = {"f0": (os.getpid(),), "f1": (os.getpid(),), "switch": (2**22 + 1,)}
    with Workspace(tmp_path / "runs") as workspace:
        logs = tmp_path / "logs"
        executor = Executor({"local": host}, workspace, inside=inside, logs_dir=logs)
        meter = Meter(
            *(host, executor, str(tmp_path), (0,)),
            playing=lambda: {name: pids[name] for name in ("f0", "f1")},
            hosted=lambda: {"switch": pids["switch"]},
            counting=CountableEvents(missing="nothing is counted here"),
            hosts=dict.fromkeys(pids, host),
        )
        for _ in range(2):  # what never changes is asked for once
            with meter.armed(layout, None) as window:
                host.times = 0
                window.ready()
                window.begin()
                assert host.times <= 2
                finished = threading.Event()
                finished.wait(0.05)  # which takes this thread off its CPU
                window.stop()
                cost = window.cost(None)
        assert host.times == 2
    assert cost.elapsed_ns > 0
    assert cost.scheduler["f0"].context_switches > 0
    assert cost.scheduler["f0"].roles == ("sender",)
    assert cost.scheduler["switch"].context_switches == 0
    assert set(cost.softirq.cpus) == {"0"}


@pytest.mark.parametrize(("elapsed_s", "waited"), [(0.001, 0.0), (0.1, 0.3)])
def test_waiting_time_counts_where_ticks_resolve_it(elapsed_s: float, waited: float) -> None:
    def counts(at_s: float) -> KernelCounts:
        times = SoftirqTimes(at_s, {}, {}, {}, {})
        ns = round(1e9 * at_s)
        return KernelCounts(times, {}, {"switch": (ns // 2, 3 * ns // 10)})

    used = counts(elapsed_s).used_since(counts(0.0))
    assert used["switch"] == pytest.approx((0.5, waited))


@pytest.mark.parametrize(
    ("axes", "roles"),
    [
        ({}, {"switch": ["switch"], "f0": ["sender"], "f1": ["receiver"]}),
        (
            {"placement": "shared-process"},
            {"switch": ["switch"], "f0+f1": ["sender", "receiver"]},
        ),
        (
            {"scenario": "loopback", "function": "pcap-bridge", "switch": "ovs"},
            {"switch": ["switch"], "a0": ["sender"], "f1": ["function"], "b0": ["receiver"]},
        ),
        (
            {"locality": "remote", "hosts": "left,right"},
            {
                "switch": ["switch"],
                "switch@right": ["switch"],
                "f0": ["sender"],
                "f1": ["receiver"],
            },
        ),
    ],
)
def test_each_place_of_a_path_has_roles(axes: dict[str, Any], roles: dict[str, list[str]]) -> None:
    path = resolve(Test.model_validate(axes), prefix="smtest", run_dir="/run/x")
    assert roles_of(path) == roles


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ("f0+f1", ["sender", "receiver"]),
        ("f0+f1+switch", ["sender", "receiver", "switch"]),
        ("f2", ["forwarder"]),
        ("cpus", []),
    ],
)
def test_a_process_that_plays_several_parts_keeps_its_roles(
    places: str, expected: list[str]
) -> None:
    roles = {"f0+f1": ["sender", "receiver"], "f2": ["forwarder"], "switch": ["switch"]}
    assert roles_within(roles, places) == expected
