"""These tests read what the kernel counts of processes while nothing crosses a path, and what perf
counts of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from switchmark.environments import inside
from switchmark.hosts.local import LocalHost
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.lab import meter
from switchmark.lab.meter import KernelCounts, Meter, Window, roles_of, roles_within
from switchmark.lab.prepare import place_parts
from switchmark.model.cost import PerfCost
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Plan, Spawn
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
        made = Meter(
            *(host, executor, str(tmp_path), (0,)),
            playing=lambda: {name: pids[name] for name in ("f0", "f1")},
            hosted=lambda: {"switch": pids["switch"]},
            counting=CountableEvents(missing="nothing is counted here"),
            hosts=dict.fromkeys(pids, host),
        )
        for _ in range(2):  # what never changes is asked for once
            with made.armed(layout, None) as window:
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


def test_the_counts_of_places_are_read_on_their_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = RecordingHost(name="near"), RecordingHost(name="far")
    asked: list[dict[str, list[str]]] = []

    def taken(files: dict[Any, list[str]]) -> dict[Any, dict[str, bytes]]:
        asked.append({host.name: list(paths) for host, paths in files.items()})
        return {host: {"host": host.name.encode()} for host in files}

    monkeypatch.setattr(meter, "taken_at_once", taken)
    monkeypatch.setattr(meter, "softirq_files", lambda host, cpus: [f"softirq of {[*cpus]}"])
    monkeypatch.setattr(meter, "switch_files", lambda pids: [f"switches of {[*pids]}"])
    monkeypatch.setattr(meter, "cpu_time_files", lambda pids: [f"time of {[*pids]}"])
    monkeypatch.setattr(meter, "thread_switches", lambda files, pids: {files["host"]: pids})
    monkeypatch.setattr(meter, "cpu_ns", lambda files, pids: (files["host"], pids))
    monkeypatch.setattr(SoftirqTimes, "read", lambda host, cpus, files: (host.name, files["host"]))
    pids = {"f0": (1,), "switch": (2,), "switch@far": (3,), "f1": (4,)}
    hosts = {"f0": near, "switch": near, "switch@far": far, "f1": far}
    found = KernelCounts.read(near, (0, 1), hosts, pids, ("switch", "switch@far"))
    assert asked == [
        {
            "near": ["softirq of [0, 1]", "switches of [1]", "switches of [2]", "time of [2]"],
            "far": ["switches of [3]", "time of [3]", "switches of [4]"],
        }
    ]
    whole: Any = (found.softirq, found.switches, found.ran)
    assert whole == (
        ("near", b"near"),
        {
            "f0": {b"near": (1,)},
            "switch": {b"near": (2,)},
            "switch@far": {b"far": (3,)},
            "f1": {b"far": (4,)},
        },
        {"switch": (b"near", (2,)), "switch@far": (b"far", (3,))},
    )


@pytest.mark.parametrize(
    ("elapsed_s", "waited"), [(0.001, 0.0), (0.0499, 0.0), (0.05, 0.3), (0.1, 0.3)]
)
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


# --- the processor's counters -----------------------------------------------------------------


class Perf:
    """An executor whose perf processes answer `ack`, and do not once they are `dead`."""

    def __init__(self, *dead: str) -> None:
        self.dead = dead
        self.steps: dict[str, Spawn] = {}
        self.processes: dict[str, RecordingProcess] = {}
        self.unwound: list[int | None] = []

    def mark(self) -> int:
        return 7

    def execute(self, plan: Plan) -> None:
        for step in plan:
            assert isinstance(step, Spawn)
            self.steps[step.name] = step
            answers = [] if step.name in self.dead else ["ack"] * 9
            self.processes[step.name] = RecordingProcess(1, step.argv, answers)

    def process(self, name: str) -> RecordingProcess:
        return self.processes[name]

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        self.unwound.append(to)
        return ()


WRITTEN = {
    "/run/x/perf-threads": b"t-11;1000;;cycles;1;100.00;;\nt-12;500;;cycles;1;100.00;;\n"
    b"t-21;70;;cycles;1;100.00;;\n",
    "/run/x/perf-cpus": b"CPU0;40;;cycles;1;100.00;;\nCPU1;2;;cycles;1;100.00;;\n",
}
CYCLES = CountableEvents(("cycles",), by_cpu=True)
PIDS = {"f0": (10,), "f1": (20,)}
THREADS = {(10,): (11, 12), (20,): (21,), (30,): (31,)}


def counted(
    perf: Perf,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cpus: int = 3,
    events: CountableEvents = CYCLES,
    hosted: dict[str, tuple[int, ...]] | None = None,
    **axes: Any,
) -> PerfCost:
    """Return what perf counts while a window is open."""
    moments = iter(range(1, 9))

    def counts(window: Window) -> KernelCounts:
        times = SoftirqTimes(float(next(moments)), {}, {}, {}, {}, (0,) * 10)
        return KernelCounts(times, {place: {} for place in window._pids}, {})

    monkeypatch.setattr(Window, "_kernels_counts", counts)
    monkeypatch.setattr(meter, "threads", lambda host, pids: THREADS[tuple(pids)])
    monkeypatch.setattr(meter, "within_threads", lambda host: False)
    host = RecordingHost(files=WRITTEN)
    path = resolve(Test(**axes), prefix="smtest", run_dir="/run/x")
    path = path.placed(place_parts(path, tuple(map(Cpu, range(cpus)))))
    made = Meter(
        *(host, cast(Executor, perf), "/run/x", tuple(range(cpus))),
        playing=lambda: PIDS,
        hosted=lambda: hosted or {},
        counting=events,
        hosts=dict.fromkeys((*PIDS, *(hosted or {})), host),
    )
    with made.armed(path, None) as window:
        window.ready()
        window.begin()
        window.stop()
        cost = window.cost(10**9).perf
    assert perf.unwound == [7, 7], "perf ends with the window"
    return cost


def test_parts_with_cpus_of_their_own_are_counted_by_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    perf = Perf()
    cost = counted(perf, monkeypatch)
    assert (cost.missing, cost.user_only) == (None, False)
    assert {
        name: (part.by, part.roles, part.cpus, part.cycles) for name, part in cost.parts.items()
    } == {
        "f0": ("thread", ("sender",), (), 1500),
        "f1": ("thread", ("receiver",), (), 70),
        "cpus": ("cpu", (), (0, 1, 2), 42),
    }
    assert list(perf.steps) == ["perf-threads", "perf-cpus"]
    assert " ".join(perf.steps["perf-threads"].argv).endswith(
        "-o /run/x/perf-threads -e cycles --per-thread -p 10,20"
    )
    assert " ".join(perf.steps["perf-cpus"].argv).endswith(
        "-o /run/x/perf-cpus -e cycles -A -C 0-2"
    )
    for process in perf.processes.values():
        assert process.sent == ["ping", "enable", "disable"]


def test_parts_that_share_cpus_are_counted_by_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    perf = Perf()
    polling: dict[str, Any] = {"switch": "testpmd", "engine": "dpdk", "placement": "pinned"}
    cost = counted(perf, monkeypatch, cpus=2, hosted={"switch": (30,)}, **polling)
    assert {name: (part.by, part.roles, part.cpus) for name, part in cost.parts.items()} == {
        "switch": ("thread", ("switch",), ()),
        "f0+f1": ("cpu", ("sender", "receiver"), (0,)),
    }
    assert perf.steps["perf-threads"].argv[-1] == "30"
    assert perf.steps["perf-cpus"].argv[-1] == "0"


def test_where_no_cpu_is_counted_parts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    perf = Perf()
    events = CountableEvents(("cycles",), user_only=True)
    cost = counted(perf, monkeypatch, events=events)
    assert (cost.user_only, list(cost.parts)) == (True, ["f0", "f1"])
    assert list(perf.steps) == ["perf-threads"]


def test_where_nothing_is_counted_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    perf = Perf()
    cost = counted(perf, monkeypatch, events=CountableEvents(missing="no counters"))
    assert (cost.missing, cost.parts, perf.steps) == ("no counters", {}, {})


def test_a_counter_that_fails_is_told_and_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    perf = Perf("perf-threads")
    cost = counted(perf, monkeypatch)
    assert (cost.missing, cost.parts) == ("perf failed: perf did not answer to 'ping': ", {})
    assert perf.processes["perf-threads"].sent == ["ping"]
    assert perf.processes["perf-cpus"].sent == []


@pytest.mark.parametrize(("event", "seen"), [("restart", False), ("pause", True)])
def test_processes_that_an_event_replaces_are_not_counted(
    event: str, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = Perf()
    polling: dict[str, Any] = {"switch": "testpmd", "engine": "dpdk", "rate": "1k", "event": event}
    cost = counted(perf, monkeypatch, cpus=4, hosted={"switch": (30,)}, **polling)
    assert ("switch" in cost.parts) is seen


def test_guests_are_counted_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = counted(Perf(), monkeypatch, environment="vm")
    assert list(cost.parts) == ["cpus"]
