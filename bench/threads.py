"""The comparison `threads` is of a function on two cores with itself on one, on engine null and
over memif to itself. Two processes that know nothing of each other, a core each, show what the
machine itself gives: two hyperthreads of one core are no two cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.bed import Track, require_root
from bench.comparison import Comparison, Session
from bench.ours import FRAME_BYTES, Sender, address
from bench.pairs import Limit, interleaved
from bench.report import Row, compared
from switchmark.engines.base import traffic_program
from switchmark.errors import Unavailable
from switchmark.functions.traffic import TrafficProcess
from switchmark.hosts.local import LocalHost
from switchmark.model.plan import HOST
from switchmark.observe.cpus import read_cpus
from switchmark.path.orders import opening_of

_BURST = 32
_LEAST = 1.9
_LONGEST_S = 10.0

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Process:
    """A process has ports, and a thread of one or two cores that sends and receives at them."""

    ports: Sequence[dict[str, Any]]
    tasks: Sequence[dict[str, Any]]
    cpus: tuple[int, ...]
    load: dict[str, Any]


def _received(session: Session, processes: Sequence[_Process]) -> float:
    """Return the rate that concurrent processes received, in million frames per second."""
    bed = session.bed
    with bed.block():
        running = []
        for number, process in enumerate(processes):
            program = bed.start(f"threads-{number}", (traffic_program(), "serve"), HOST)
            sender = Sender(TrafficProcess(f"process {number}", program))
            sender.open_all(process.ports, process.tasks, process.cpus)
            running.append(sender)
        for sender, process in zip(running, processes, strict=True):
            sender.start([process.load for _ in process.tasks], session.seconds)
        total = 0.0
        for sender in running:
            report = sender.finish(session.seconds + _LONGEST_S)
            frames = sum(
                task["received"]["frames"] for task in report["tasks"] if "received" in task
            )
            total += frames / session.seconds / 1e6
        return total


def _load(cores: int, **more: Any) -> dict[str, Any]:
    """Return the options of each task: one flow per core, as each core sends one."""
    return {
        "burst": _BURST,
        "frame_bytes": [FRAME_BYTES],
        "rate_pps": 0.0,
        "flows": cores,
        "vary": ["src_port"],
        **more,
    }


def _rows(
    session: Session, name: str, what: str, process: Callable[[int, tuple[int, ...]], _Process]
) -> list[Row]:
    """Compare; `process` makes that of a number with these CPUs."""
    first, second = _cpus()
    measure = partial(_received, session)
    slots: dict[str, Measure] = {
        "two": partial(measure, [process(0, (first, second))]),
        "one": partial(measure, [process(0, (second,))]),
        "two processes": partial(measure, [process(0, (first,)), process(1, (second,))]),
    }
    samples = interleaved(session.pairs, slots, session.say)
    return [
        compared(
            name,
            f"{what}, 2 cores",
            "1 core",
            "Mpps",
            {"A": samples["two"], "B": samples["one"]},
            Limit("at least", _LEAST),
            ("64 B, sent and received by each core, checked; a flow a core",),
        ),
        compared(
            f"{name}, the machine's own",
            f"{what}, 2 processes",
            "1 process",
            "Mpps",
            {"A": samples["two processes"], "B": samples["one"]},
            None,
            ("two processes of one core each, which share nothing: no program can have more",),
        ),
        compared(
            f"{name}, of that",
            f"{what}, 2 cores",
            "2 processes",
            "Mpps",
            {"A": samples["two"], "B": samples["two processes"]},
            None,
        ),
    ]


def _cpus() -> tuple[int, int]:
    cpus = read_cpus(LocalHost())
    if len(cpus) < 2:
        raise Unavailable("two threads need two CPUs")
    return cpus[-2].id, cpus[-1].id


def _null(number: int, cpus: tuple[int, ...]) -> _Process:
    port = {"engine": "null", "burst": 2 * _BURST, "options": {"loop": 1}}
    tasks = [{"role": role, "ports": [0]} for role in ("sender", "receiver")]
    return _Process([port], tasks, cpus, _load(len(cpus)))


def _memif(tracks: dict[int, list[Track]], number: int, cpus: tuple[int, ...]) -> _Process:
    track = tracks[len(cpus)][number]
    opening = opening_of(track.layout, track.layout.processes[0])
    (thread,) = opening["threads"]
    return _Process(
        opening["ports"], thread["tasks"], cpus, _load(len(cpus), address=address(track))
    )


def _threads(session: Session) -> list[Row]:
    require_root()

    def track(cores: int) -> Track:
        return session.bed.track(
            "direct",
            "dpdk",
            port="memif",
            driver="memif-zero-copy",
            memory="no-huge",
            placement="shared-process",
            function_cores=cores,
        )

    tracks = {1: [track(1), track(1)], 2: [track(2)]}
    return [
        *_rows(session, "threads null", "null", _null),
        *_rows(session, "threads memif", "memif to oneself", partial(_memif, tracks)),
    ]


THREADS = Comparison("threads", "a function on two cores against one", _threads)
