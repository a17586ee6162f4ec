"""These tests compare the course of trials with stored texts: every command to the traffic
processes with its time limit, every pause, and what is read and counted between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from golden.test_outcomes import reports_of
from golden_cases import text_of_cases
from reported import SECOND
from switchmark import clock
from switchmark.clock import Clock
from switchmark.errors import SetupFailed, TrialFailed
from switchmark.functions.traffic import TrafficProcess
from switchmark.hosts.recording import RecordingProcess
from switchmark.lab import trial
from switchmark.lab.meter import Meter
from switchmark.lab.trial import Trials
from switchmark.lab.workers import Worker
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.cpus import Cpu
from switchmark.model.event import EventResult
from switchmark.model.place import PortEnd
from switchmark.model.record import TrialSpec
from switchmark.path.assembly import PlannedEvent
from switchmark.path.path import Path
from switchmark.path.placement import place
from unit.test_outcome import path_of
from unit.test_series import counts, sending

Golden = Callable[[str, str], None]

OUTAGE = {"dimension": "outage", "rate": "1k"}
SPEC = TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0.25)
FULL = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0.25)


class Pausing(Clock):
    """A clock that a look advances by a tenth of a millisecond, and a pause by its length."""

    def __init__(self, text: list[str]) -> None:
        self.now_ns, self.text = 7 * SECOND, text

    def monotonic_ns(self) -> int:
        self.now_ns += 100_000
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.text.append(f"pause of {seconds!r} s")
        self.now_ns += round(seconds * SECOND)


class Program(RecordingProcess):
    """A traffic program that tells what it is asked, and answers as if all went well."""

    name = ""
    text: list[str]
    report: Mapping[str, Any]
    intervals = 0
    refuses = ""

    def send(self, line: str) -> None:
        self.command = json.loads(line)
        self.text.append(f"{self.name} < {in_short(self.command)}")

    def hang_up(self) -> None:
        self.text.append(f"{self.name}: hang up")

    def receive(self, timeout_s: float) -> str | None:
        self.text.append(f"{self.name} > within {timeout_s:g} s")
        answer: Mapping[str, Any] = {}
        if self.command["cmd"] == self.refuses:
            return json.dumps({"ok": False, "error": f"{self.name} cannot"})
        if self.command["cmd"] == "clock":
            answer = {"ticks": 3 * clock.monotonic_ns() + 5, "ns": 9, "hz": 3 * SECOND, "more": 1}
        elif self.command["cmd"] == "report":
            answer = self.report
        elif self.command["cmd"] == "series":
            first, count = self.command["first"], self.command["count"]
            number = max(0, min(first + count, self.intervals) - first)
            answer = {"tasks": [sending(number), {"received": counts(number)}]}
        return json.dumps({"ok": True, **answer})


def in_short(command: Mapping[str, Any]) -> str:
    """Return a command with its tasks as their names and what changes from trial to trial."""
    shortened = dict(command)
    if "tasks" in shortened:
        changing = ("rate_pps", "frames", "touch", "burst", "expected", "cores")
        shortened["tasks"] = [
            {name: task[name] for name in changing if name in task} | {"members": sorted(task)}
            for task in shortened["tasks"]
        ]
    return json.dumps(shortened)


class Metering:
    """A meter that notes when it counts."""

    def __init__(self, text: list[str]) -> None:
        self.text = text
        self.used: dict[str, tuple[float, float]] = {}
        self.stolen = 0.0

    @contextmanager
    def armed(self, path: Path, hz: int | None) -> Iterator[Any]:
        self.text.append(f"meter with {hz} samples")
        yield self
        self.text.append("meter put away")

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.text.append(f"meter: {name}")

    def cost(self, tsc_hz: int | None) -> Any:
        self.text.append(f"meter: cost at {tsc_hz} Hz")
        return SimpleNamespace(load={})


class Course:
    """The course of trials on a path. The switch keeps `kept` frames whenever its counters are
    read, or as many as are left of the list."""

    def __init__(self, axes: Mapping[str, Any], kept: tuple[int, ...] = ()) -> None:
        self.text: list[str] = []
        path = path_of(**axes)
        self.path = path.placed(place(path.cpu_users, tuple(map(Cpu, range(4)))))
        self.kept, self.entered = list(kept), 0
        self.dies_at, self.failure = "", ""
        self.alive_s = 0
        workers = [
            Worker(TrafficProcess(player.name, self.program(number)), player)
            for number, player in enumerate(self.path.processes)
        ]
        meter = Metering(self.text)
        meter.used = {part.id: (0.5, 0.5) for part in self.path.parts if part.separate_kernel}
        self.trials = Trials(
            self.path,
            workers,
            counters=self.counters,
            alive=self.alive,
            take_place=self.take_place,
            meter=cast(Meter, meter),
            resident=lambda: 5000,
        )
        self.trials.keep = self.keep

    def program(self, number: int) -> Program:
        program = Program(number, ())
        program.name, program.text = self.path.processes[number].name, self.text
        program.report = reports_of(self.path)[number]
        program.patience = 10.0 if "f1" in program.name and self.path.test.ramp == 3 else 1.0
        program.intervals = 300 if self.path.test.interval == 0.01 else 5
        return program

    def counters(self) -> PathCounters:
        self.text.append("counters")
        if self.dies_at == "counters":
            raise SetupFailed("no answer")
        self.entered += 100
        left = self.entered - (self.kept.pop(0) if self.kept else 0)
        flow = self.path.flows[0]
        ends = {
            PortEnd(flow.source, at_switch=True): PortCounters(self.entered, 0, 0, 0),
            PortEnd(flow.sink, at_switch=True): PortCounters(0, left, 0, 0),
        }
        return PathCounters(links=ends)

    def keep(self, intervals: Mapping[str, Any]) -> None:
        self.text += [
            f"keep {name} {values if name == 'first' else (len(values), *values[:3])}"
            for name, values in intervals.items()
        ]

    def alive(self) -> None:
        self.text.append("alive?")
        self.alive_s += 1
        if self.dies_at == f"alive {self.alive_s}":
            raise TrialFailed("the switch died")

    def take_place(self, planned: PlannedEvent, start_ns: int) -> EventResult:
        self.text.append(f"event {planned.event.kind} at {planned.at_s:g} s of {start_ns}")
        times = {"due_ns": 1, "began_ns": 2, "disturbed_ns": 3}
        return EventResult(kind=planned.event.kind, proof=(), failure=self.failure or None, **times)

    def measure(self, spec: TrialSpec, **options: Any) -> None:
        try:
            found = self.trials.measure(spec, **options)
        except (SetupFailed, TrialFailed) as error:
            self.text.append(f"{type(error).__name__}: {error}")
            return
        self.text += [f"result of {found.spec}"]
        for end, counted in found.counters.links.items():
            self.text += [f"  {end}: {counted.rx} and {counted.tx}"]
        self.text += [f"  clock {name}: {found}" for name, found in found.evidence.clocks.items()]
        self.text += [f"  event {event}" for event in found.evidence.events]
        if found.series is not None:
            self.text += [f"  {len(found.series.offered)} of {found.series.interval_ns} ns"]
            lost_at, resident = found.series.lost_at, found.series.switch_rss_kib or ()
            self.text += [f"  lost at {lost_at}, resident {[*dict.fromkeys(resident)]}"]


CASES: Mapping[str, tuple[dict[str, Any], TrialSpec, dict[str, Any]]] = {
    "a trial": ({"duration": 1}, SPEC, {}),
    "a functional trial": ({"duration": 1, "residual": 2, "settle": 3}, SPEC, {"proving": True}),
    "without a warm-up": ({"touch": "none"}, SPEC.model_copy(update={"warmup_s": 0.0}), {}),
    "with all that may be waited for": (
        {"ramp": 3, "residual": 2, "settle": 5, "cpu_limit": "function:50", "profile": 99},
        SPEC,
        {},
    ),
    "full speed": ({"switch": "testpmd", "engine": "dpdk", "ramp": 2}, FULL, {}),
    "frames that a switch keeps": (
        {"switch": "testpmd", "engine": "dpdk"},
        FULL,
        {"kept": (2, 3, 3, 1, 1, 0, 0)},
    ),
    "round trips": ({"dimension": "latency", "rate": "1k", "touch": "full"}, SPEC, {}),
    "a chain": (
        {"scenario": "loopback", "chain": 2, "switch": "testpmd", "engine": "dpdk"},
        SPEC,
        {"kept": (4, 4, 4, 0)},
    ),
    "two ways of copies": ({"copies": 2, "flows": 2}, SPEC, {}),
    "processes together": ({"placement": "shared-process"}, SPEC, {}),
    "machines": ({"environment": "vm"}, SPEC, {}),
    "round trips of machines": (
        {"environment": "vm", "dimension": "latency", "rate": "1k"},
        SPEC,
        {},
    ),
    "two machines": ({"locality": "remote", "hosts": "left,right"}, SPEC, {}),
    "a series": ({"duration": 3, "interval": 1}, SPEC.model_copy(update={"duration_s": 3}), {}),
    "a series of many": (
        {"duration": 3, "interval": 0.01},
        SPEC.model_copy(update={"duration_s": 3}),
        {},
    ),
    "a long series": (
        {"duration": 40, "interval": 10},
        SPEC.model_copy(update={"duration_s": 40}),
        {},
    ),
    "an event": (
        {"duration": 2, **OUTAGE, "event": "kill", "switch": "testpmd", "engine": "dpdk"},
        SPEC.model_copy(update={"duration_s": 2}),
        {},
    ),
    "an event of a kernel": (
        {"duration": 2, **OUTAGE, "event": "port-down"},
        SPEC.model_copy(update={"duration_s": 2, "rate_pps": 500_000}),
        {},
    ),
    "an event at full speed": ({"duration": 1, **OUTAGE, "event": "port-down"}, FULL, {}),
    "a stepped load": (
        {"duration": 2, **OUTAGE, "rate": "1k", "event": "load:50%@0.5+load:100%@1"},
        SPEC.model_copy(update={"duration_s": 2}),
        {},
    ),
    "an event of a shorter trial": ({"duration": 2, **OUTAGE, "event": "kill"}, SPEC, {}),
}


def course(name: str, **changes: Any) -> list[str]:
    axes, spec, options = CASES[name]
    options = {**options, **changes}
    made = Course(axes, options.pop("kept", ()))
    for worker in made.trials._workers:
        program = cast(Program, worker.process._process)
        program.refuses = options.pop(f"{program.name} refuses", "")
    for member in ("dies_at", "failure"):
        setattr(made, member, options.pop(member, ""))
    made.trials.lag_s = options.pop("lag_s", 0.0)
    made.trials.quiet_ms = options.pop("quiet_ms", made.trials.quiet_ms)
    with clock.replaced_by(Pausing(made.text)):
        made.measure(spec, **options)
    return [*folded(made.text)]


def folded(lines: list[str]) -> Iterator[str]:
    """Yield lines, and those that come several times one after another once."""
    place = 0
    while place < len(lines):
        for length in range(1, 8):
            block, times = lines[place : place + length], 1
            while lines[place + times * length :][:length] == block:
                times += 1
            if times > 1:
                yield from (f"{times} times:", *(f"  {line}" for line in block))
                place += times * length
                break
        else:
            yield lines[place]
            place += 1


@pytest.fixture(autouse=True)
def _same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "secrets", SimpleNamespace(randbelow=lambda most: most - 7))


def test_the_course_of_trials(golden: Golden) -> None:
    golden("trials/courses.txt", text_of_cases({name: course(name) for name in CASES}))


OPENED: Mapping[str, dict[str, Any]] = {
    "sockets of each other": {"switch": "direct", "engine": "dpdk", "port": "vhost-user"},
    "a switch that connects": {
        "switch": "testpmd",
        "engine": "dpdk",
        "port": "vhost-user",
        "listen": "functions",
    },
    "two ways": {"direction": "bi"},
}


def test_ports_are_opened_and_opened_again(golden: Golden) -> None:
    told: dict[str, list[str]] = {}
    for name, axes in OPENED.items():
        made = Course(axes)
        made.trials.open(
            join=partial(made.text.append, "join"),
            settle=partial(made.text.append, "settle"),
        )
        for changes in ({"rate": "2k"}, {"frame_size": 1518}, {}):
            made.text.append(f"turn to {changes}")
            made.trials.turn_to(path_of(**axes, **changes))
        made.trials.end()
        told[name] = made.text
    golden("trials/opened.txt", text_of_cases(told))


def test_trials_that_fail_or_wait(golden: Golden) -> None:
    told: dict[str, list[str]] = {}
    for name, changes in (
        ("a trial", {"dies_at": "alive 1"}),
        ("a trial", {"dies_at": "alive 2"}),
        ("a trial", {"dies_at": "counters"}),
        ("a trial", {"f1 refuses": "arm"}),
        ("a trial", {"f0 refuses": "start", "f1 refuses": "start"}),
        ("a trial", {"f0 refuses": "wait"}),
        ("a trial", {"f1 refuses": "report"}),
        ("a trial", {"lag_s": 1.5, "quiet_ms": 80}),
        ("a chain", {"quiet_ms": 2000}),
        ("an event", {"failure": "it does not come back"}),
        ("an event", {"dies_at": "alive 2"}),
    ):
        told[f"{name}: {changes}"] = course(name, **changes)
    golden("trials/failing.txt", text_of_cases(told))
