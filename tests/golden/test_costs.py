"""These tests compare the costs that a window measures with stored texts: what is counted, by
thread or by CPU, for which places, and what a failure of a counter leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from golden.test_outcomes import flat
from golden_cases import text_of_cases
from switchmark import clock
from switchmark.clock import Clock
from switchmark.errors import SetupFailed
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.lab import meter
from switchmark.lab.meter import KernelCounts, Meter, Pids
from switchmark.lab.prepare import place_parts
from switchmark.model.cost import InterruptCost
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Plan, Spawn
from switchmark.model.test import Test
from switchmark.observe.perf import CountableEvents
from switchmark.path.path import Path
from switchmark.path.resolving import resolve
from switchmark.runs.executor import Executor

Golden = Callable[[str, str], None]

EVENTS = ("cycles", "instructions")
BOTH, NO_CPUS = CountableEvents(EVENTS, by_cpu=True), CountableEvents(EVENTS, user_only=True)


class Milliseconds(Clock):
    """A clock that a look advances by a millisecond."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns


class Perf:
    """An executor whose perf processes answer, or fail at a command."""

    def __init__(self, text: list[str], fails: str) -> None:
        self.text, self.fails = text, fails
        self.processes: dict[str, RecordingProcess] = {}

    def mark(self) -> int:
        return 7

    def execute(self, plan: Plan) -> None:
        for step in plan:
            assert isinstance(step, Spawn)
            self.text.append(f"  {step.name}: {' '.join(step.argv)}; {step.why}, {step.stop}")
            if self.fails == step.name:
                raise SetupFailed("perf is not there\nat all")
            self.processes[step.name] = RecordingProcess(1, step.argv, ["ack"] * 9)

    def process(self, name: str) -> RecordingProcess:
        return self.processes[name]

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        for name, process in self.processes.items():
            self.text.append(f"  {name} got {process.sent}")
        self.processes.clear()
        return ()


class Softirq:
    """The kernel's counts of interrupts, which grow with each reading."""

    def __init__(self, number: int) -> None:
        self.number, self.at_s = number, float(number)

    def since(self, before: Softirq, *, within: bool) -> InterruptCost:
        share = float(self.number - before.number)
        return InterruptCost(cpus={"0": {"irq": share, "softirq": share}}, within_threads=within)

    def stolen_since(self, before: Softirq) -> float:
        return 0.25 * (self.number - before.number)

    def loads_since(self, before: Softirq) -> dict[str, float]:
        return {"0": 0.5 * (self.number - before.number)}


CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a switch of the kernel": ({}, {}),
    "a switch that polls": ({"switch": "testpmd", "engine": "dpdk"}, {"hosted": ("switch",)}),
    "on two CPUs": ({"switch": "testpmd", "engine": "dpdk"}, {"hosted": ("switch",), "cpus": 2}),
    "one process": ({"placement": "shared-process"}, {"playing": ("f0+f1",)}),
    "no counters of CPUs": ({}, {"events": NO_CPUS}),
    "no counters": ({}, {"events": CountableEvents(missing="no counters here")}),
    "a chain": (
        {"scenario": "loopback", "function": "pcap-bridge", "switch": "ovs"},
        {"playing": ("a0", "b0"), "hosted": ("f1", "switch")},
    ),
    "a machine": (
        {"environment": "vm", "scenario": "p2v"},
        {"hosted": ("f0",), "playing": ("a0",)},
    ),
    "a switch that an event replaces": (
        {"switch": "testpmd", "engine": "dpdk", "event": "kill", "dimension": "outage"},
        {"hosted": ("switch",)},
    ),
    "a switch that an event pauses": (
        {"switch": "testpmd", "engine": "dpdk", "event": "pause", "dimension": "outage"},
        {"hosted": ("switch",)},
    ),
    "perf that does not start": ({}, {"fails": "perf-cpus"}),
    "perf that does not answer": ({}, {"silent": True}),
    "perf that writes nothing": ({}, {"files": {}}),
    "perf that writes no text": (
        {},
        {"files": {"/run/x/perf-threads": b"\xff\nt-11;7;;cycles;\n"}},
    ),
}
PLACES = ("f0", "f1", "a0", "b0", "switch", "f0+f1")
FILES = {
    "/run/x/perf-threads": "".join(
        f"t-{10 * place + thread};{1000 * place + thread};;{event};1;100.00;;\n"
        for place in range(1, len(PLACES) + 1)
        for thread in (1, 2)
        for event in EVENTS
    ).encode(),
    "/run/x/perf-cpus": "".join(
        f"CPU{cpu};{40 * cpu + 1};;{event};1;100.00;;\n" for cpu in range(4) for event in EVENTS
    ).encode(),
}


def pids(*places: str) -> Pids:
    return {place: (10 * (PLACES.index(place) + 1),) for place in places}


def test_the_costs_of_windows(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}
    for name, case in CASES.items():
        with monkeypatch.context() as patch:
            told[name] = window_lines(*case, patch)
    golden("costs.txt", text_of_cases(told))


def window_lines(
    axes: Mapping[str, Any], options: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return what a meter reads in a window, and its cost."""
    text: list[str] = []
    readings = iter(range(1, 9))

    def read(
        host: Any, cpus: Any, hosts: Mapping[str, Any], every: Pids, timed: Mapping[str, Any]
    ) -> KernelCounts:
        number = next(readings)
        text.append(f"  read CPUs {[*cpus]}, {dict(every)}, timed {[*timed]}")
        assert [*hosts] == [*PLACES]
        switches = {
            place: {pid + thread: (9 * number, number) for pid in some for thread in (1, 2)}
            for place, some in every.items()
        }
        ran = dict.fromkeys(timed, (10**9 * number, 10**8 * number))
        return KernelCounts(cast(Any, Softirq(number)), cast(Any, switches), ran)

    monkeypatch.setattr(KernelCounts, "read", read)
    monkeypatch.setattr(meter, "switched_since", lambda before, now: (len(now), len(before) + 1))
    monkeypatch.setattr(meter, "within_threads", lambda host: True)
    monkeypatch.setattr(meter, "threads", lambda host, some: [p + n for p in some for n in (1, 2)])
    monkeypatch.setattr(meter, "tool_program", lambda: "tool")
    if options.get("silent"):
        monkeypatch.setattr(RecordingProcess, "receive", lambda process, timeout_s: None)
    host = RecordingHost(files=options.get("files", FILES))
    cpus = tuple(range(options.get("cpus", 4)))
    path = placed(axes, cpus)
    made = Meter(
        *(host, cast(Executor, Perf(text, options.get("fails", ""))), "/run/x", cpus),
        playing=lambda: pids(*options.get("playing", ("f0", "f1"))),
        hosted=lambda: pids(*options.get("hosted", ())),
        counting=options.get("events", BOTH),
        hosts=dict.fromkeys(PLACES, host),
    )
    with clock.replaced_by(Milliseconds()), made.armed(path, None) as window:
        window.ready()
        window.begin()
        window.stop()
        cost = window.cost(10**9)
        text += [f"used {window.used}, stolen {window.stolen}"]
    content = cost.model_dump(mode="json", exclude={"softirq"}, exclude_none=True)
    text += [f"{way}: {value}" for way, value in flat(content).items()]
    text.append(f"{cost.softirq}")
    return text


def placed(axes: Mapping[str, Any], cpus: tuple[int, ...]) -> Path:
    path = resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")
    return path.placed(place_parts(path, tuple(map(Cpu, cpus))))


def test_what_a_window_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler gets the host, its folder and the CPUs, and then the threads by place."""
    asked: list[Any] = []

    class Profiling:
        def __init__(self, *arguments: Any) -> None:
            asked.append(arguments)

        def __getattr__(self, name: str) -> Any:
            def asks(*arguments: Any) -> dict[str, Any]:
                asked.append((name, *arguments))
                return {}

            return asks

    monkeypatch.setattr(meter, "Profiler", Profiling)
    monkeypatch.setattr(meter, "tool_program", lambda: "tool")
    host, executor = RecordingHost(), cast(Executor, Perf([], ""))
    made = Meter(
        *(host, executor, "/run/x", (0, 1)),
        playing=lambda: pids("f0", "f1"),
        hosted=dict,
        counting=CountableEvents(missing="none"),
        hosts=dict.fromkeys(PLACES, host),
    )
    counts = KernelCounts(cast(Any, Softirq(1)), {"f0": {11: (1, 1)}, "f1": {21: (1, 1)}}, {})
    monkeypatch.setattr(KernelCounts, "read", lambda *arguments: counts)
    monkeypatch.setattr(meter, "within_threads", lambda host: False)
    monkeypatch.setattr(meter, "switched_since", lambda before, now: (0, 0))
    monkeypatch.setattr(meter, "TrialCost", SimpleNamespace)
    with made.armed(placed({}, (0, 1)), 99) as window:
        window.ready()
        window.begin()
        window.stop()
        window.cost(None)
    roles = {"switch": ["switch"], "f0": ["sender"], "f1": ["receiver"]}
    assert asked == [
        (host, executor, "/run/x", (0, 1), 99, "tool"),
        ("ready",),
        ("begin",),
        ("end",),
        ("result", {11: "f0", 21: "f1"}, roles),
    ]
