"""This module runs switchmark's traffic program on a track: through both ends as a trial does it,
or as a sender alone, so that others can count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bench.bed import Bed, Track
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.errors import Unavailable
from switchmark.functions.traffic import TrafficProcess
from switchmark.hosts.local import LocalHost
from switchmark.lab.meter import Meter
from switchmark.lab.trial import Trials
from switchmark.lab.workers import Worker
from switchmark.model.counters import PathCounters
from switchmark.model.event import EventResult
from switchmark.model.objects import Message
from switchmark.model.plan import HOST, Node, Plan
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.observe.perf import CountableEvents
from switchmark.path.assembly import PlannedEvent, join, settled
from switchmark.path.path import Job, Part

FRAME_BYTES = 64
"""With the FCS; 60 in memory."""

_WARMUP_S = 0.3
_LEAD_MS = 5
_OPEN_S = 20.0


def _no_event(event: PlannedEvent, start_ns: int) -> EventResult:
    raise RuntimeError(f"no comparison has an event, such as {event.event} at {start_ns}")


class _Loaded(Trials):
    """Trials with options of tasks that a test does not have."""

    def __init__(self, more: Mapping[str, Any], *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, take_place=_no_event, **named)
        self._more = more

    def _load(self, part: Part, job: Job, spec: TrialSpec) -> Message:
        return {**super()._load(part, job, spec), **self._more}


def trial(
    bed: Bed,
    track: Track,
    *,
    sender: str,
    receiver: str,
    burst: int,
    seconds: float,
    rate_pps: float | None = None,
    axes: Mapping[str, Any] = MappingProxyType({}),
    load: Mapping[str, Any] = MappingProxyType({}),
) -> TrialResult:
    """Run one trial as switchmark does, with programs that were started for it alone. `axes` of the
    test may differ from the track's as long as its path does not; `load` is more of what each task
    is told."""
    if "cores-shared" in track.layout.placement.doubts:
        raise Unavailable("a sender and a receiver that poll need a CPU each")
    base = track.layout
    parts = {
        part: replace(part, engine=ENGINES[sender if part.sent else receiver])
        for part in base.parts
    }
    layout = replace(
        base,
        test=base.test.model_copy(update={"burst": burst, "engine": sender, **axes}),
        drivers=replace(base.drivers, engine=ENGINES[sender], receiver=ENGINES[receiver]),
        parts=tuple(parts.values()),
        processes=tuple(
            replace(process, parts=tuple(parts[part] for part in process.parts))
            for process in base.processes
        ),
    )
    with bed.block():
        workers = []
        for player in layout.processes:
            part, node = player.parts[0].id, player.node
            name = f"ours-{part}"
            prepared = layout.engine.prepare(layout.wiring, node, player.endpoints)
            bed.executor.execute(prepared)
            bed.start(name, (traffic_program(), "serve"), node)
            process = TrafficProcess(part, bed.executor.process(name))
            workers.append(Worker(process, player))
        trials = _Loaded(
            load,
            layout,
            workers,
            counters=lambda: PathCounters({}),
            alive=lambda: None,
            meter=Meter(
                LocalHost(),
                bed.executor,
                str(bed.folder),
                cpus=(),
                playing=dict,
                hosted=dict,
                counting=CountableEvents(missing="not asked for"),
                hosts={},
            ),
        )

        def execute(plan: Plan) -> None:
            if track.opened_by_programs:
                bed.executor.execute(plan)

        trials.open(join=lambda: execute(join(layout)), settle=lambda: execute(settled(layout)))
        return trials.measure(TrialSpec(rate_pps=rate_pps, duration_s=seconds, warmup_s=_WARMUP_S))


class Sender:
    """A sender is a traffic process with a task that sends, and perhaps one that receives it all
    again."""

    def __init__(self, process: TrafficProcess) -> None:
        self._process = process

    def clock(self) -> dict[str, int]:
        """Return a time in ticks and in nanoseconds, and the ticks per second."""
        return self._process.ask("clock")

    def open(self, port: dict[str, Any], roles: tuple[str, ...], cpu: int) -> None:
        self.open_all([port], [{"role": role, "ports": [0]} for role in roles], (cpu,))

    def open_all(
        self, ports: Sequence[Message], tasks: Sequence[Message], cpus: Sequence[int]
    ) -> None:
        """Open ports, and a thread of as many cores as CPUs for the tasks at them."""
        cores = {"cores": len(cpus), "cpus": list(cpus)} if len(cpus) > 1 else {"cpu": cpus[0]}
        thread = {**cores, "yield": False, "tasks": list(tasks)}
        self._process.ask("open", timeout_s=_OPEN_S, ports=list(ports), threads=[thread])
        self._process.ask("ready", timeout_ms=5000)

    def start(
        self,
        tasks: list[dict[str, Any]],
        seconds: float,
        interval_s: float = 0.1,
        series_s: float | None = None,
    ) -> None:
        """Begin to send, every frame with its sequence number and its time; with `series_s`, count
        by interval."""
        self._process.ask(
            "arm",
            run=1,
            touch="header",
            longest_ns=round(seconds * 1e9),
            interval_ns=round(interval_s * 1e9),
            tasks=tasks,
            **({} if series_s is None else {"series_ns": round(series_s * 1e9)}),
        )
        self._process.ask("start", duration_ns=round(seconds * 1e9))

    def finish(self, seconds: float) -> dict[str, Any]:
        """Wait for the end of the phase, up to a limit, and return the counts."""
        self._process.ask("wait", timeout_s=seconds + 5.0, timeout_ms=round(seconds * 1000))
        self._process.ask("drain", quiet_ms=_LEAD_MS, timeout_ms=1000)
        return self._process.ask("report")


@contextmanager
def sender(bed: Bed, node: Node, program: str = "") -> Iterator[Sender]:
    """Keep a traffic process running during the block, of another program if it is named."""
    with bed.block():
        process = bed.start("ours", (program or traffic_program(), "serve"), node)
        yield Sender(TrafficProcess("the sender", process))


def run_alone(
    bed: Bed,
    *,
    options: dict[str, Any],
    roles: tuple[str, ...],
    burst: int,
    rate_pps: float,
    seconds: float,
    cpu: int,
    interval_s: float = 0.1,
    load: Mapping[str, Any] = MappingProxyType({}),
    series_s: float | None = None,
    program: str = "",
) -> tuple[dict[str, Any], float]:
    """Run engine null, without a network, and return the report, and the true frequency of the
    counter over what the program took it for, by CLOCK_MONOTONIC before and after. `load` has what
    is else said of each task's."""
    whole = {"burst": burst, "frame_bytes": [FRAME_BYTES], "rate_pps": rate_pps, **load}
    with sender(bed, HOST, program) as ours:
        first = ours.clock()
        port = {"engine": "null", "burst": max(burst, 64), "options": options}
        ours.open(port, roles, cpu)
        ours.start([{"latency": False, **whole} for _ in roles], seconds, interval_s, series_s)
        report = ours.finish(seconds + 10.0)
        last = ours.clock()
    elapsed_s = (last["ns"] - first["ns"]) / 1e9
    return report, (last["ticks"] - first["ticks"]) / elapsed_s / first["hz"]


def address(track: Track) -> dict[str, Any]:
    """Return the addresses of the track's frames, as the traffic program takes them."""
    return {
        "src_mac": track.mac("f0"),
        "dst_mac": track.mac("f1"),
        "src_ip": track.ip("f0"),
        "dst_ip": track.ip("f1"),
        "src_port": 20000,
        "dst_port": 20000,
    }
