"""The comparison `peaks` shows what one core and two can do: frames sent, and frames sent and
checked, on engine null, over memif and vhost, and by XDP through a bare veth. `perf` says which
functions take the time of a frame. It has no peer: the figures stand beside what 100G on 4 + 4
cores takes."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any

from bench.bed import RxCounter, Track, require_root
from bench.comparison import Comparison, Session
from bench.generators import generate
from bench.ours import FRAME_BYTES, sender, trial
from bench.pairs import interleaved
from bench.report import Row, absolute
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.metrics.throughput import steady_pps
from switchmark.model.plan import HOST
from switchmark.observe.cpus import read_cpus

LINE_MPPS = 148.81
"""Frames of 64 bytes on a link of 100G, in millions per second."""

CORES = 4
"""Cores that send, and as many that receive."""

BUDGET_NS = 1000 / (LINE_MPPS / CORES)
"""The time that a core has for a frame then."""

SENT, CHECKED = "sent, not checked", "sent and checked"

_BURST = 32
_HZ = 1999  # samples per second: no multiple of the kernel's tick
_LEAST_SHARE = 0.03
"""Functions that take less of a core count as `other`."""

_SAMPLE = re.compile(
    r"^\s*(?P<comm>.+?)\s+\[(?P<cpu>\d+)\]\s+[0-9a-f]+\s+"
    r"(?P<symbol>\S+?)(?:\+0x[0-9a-f]+)?\s+\((?P<file>.+)\)\s*$"
)
_OURS = "switchmark-traf"  # what the kernel keeps of the program's name

Measure = Callable[[], float]


@dataclass(slots=True)
class _Peak:
    """A peak is what so many cores reach at some work; `watched` names the CPUs whose time is split
    by function, None for any."""

    name: str
    what: str
    measure: Measure
    watched: dict[str, int | None]
    functions: dict[str, Counter[str]] = field(default_factory=dict)


def samples_of(script: str, cpu: int | None) -> Counter[str]:
    """Return how often each function of the traffic program, or of the kernel for it, was found on
    a CPU, or on any, from the output of `perf script -F comm,cpu,ip,sym,dso`. A library without
    symbols counts as one function."""
    found = (_SAMPLE.match(line) for line in script.splitlines())
    return Counter(
        PurePath(one["file"]).name if one["symbol"] == "[unknown]" else one["symbol"]
        for one in found
        if one and one["comm"] == _OURS and cpu in (None, int(one["cpu"]))
    )


def costs_of(functions: Counter[str], frame_ns: float) -> dict[str, float]:
    """Return what each function takes of a frame's time, in nanoseconds, the greatest first; small
    ones are one entry, `other`."""
    total = sum(functions.values())
    costs = {
        name: frame_ns * count / total
        for name, count in functions.most_common()
        if count >= _LEAST_SHARE * total
    }
    rest = total - sum(count for name, count in functions.items() if name in costs)
    return {**costs, "other": frame_ns * rest / total} if rest else costs


@contextmanager
def _sampled(session: Session, peak: _Peak) -> Iterator[None]:
    """Sample the functions on the watched CPUs during the block."""
    file = session.bed.logs / "peaks.perf"
    argv = ("perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(_HZ), "-o", str(file))
    recording = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        recording.terminate()
        recording.wait()
    script = subprocess.run(
        ("perf", "script", "-i", str(file), "-F", "comm,cpu,ip,sym,dso"),
        capture_output=True,
        check=False,
    ).stdout.decode(errors="replace")
    for core, cpu in peak.watched.items():
        peak.functions.setdefault(core, Counter()).update(samples_of(script, cpu))
    file.unlink(missing_ok=True)


def _null(session: Session, roles: tuple[str, ...], cpus: Sequence[int]) -> float:
    """Return the rate of a process on these CPUs, each of which sends, and perhaps receives."""
    receives = "receiver" in roles
    port: dict[str, Any] = {"engine": "null", "burst": 2 * _BURST, "options": {}}
    if receives:
        port["options"] = {"loop": 1}
    load = {"burst": _BURST, "frame_bytes": [FRAME_BYTES], "rate_pps": 0.0, "latency": False}
    load |= {"flows": len(cpus), "vary": ["src_port"]}
    with sender(session.bed, HOST) as ours:
        ours.open_all([port], [{"role": role, "ports": [0]} for role in roles], cpus)
        ours.start([load for _ in roles], session.seconds)
        report = ours.finish(session.seconds + 10.0)
    task = report["tasks"][-1]
    frames = task["received" if receives else "sent"]["frames"]
    return float(frames / session.seconds / 1e6)


def _cable(session: Session, track: Track, engine: str, touch: str) -> float:
    result = trial(
        session.bed,
        track,
        sender=engine,
        receiver=engine,
        burst=_BURST,
        seconds=session.seconds,
        axes={"touch": touch},
    )
    return steady_pps(result) / 1e6


def _peaks(session: Session) -> list[_Peak]:
    first, second = (cpu.id for cpu in read_cpus(LocalHost())[-2:])
    one: dict[str, int | None] = {"one core": second}
    two: dict[str, int | None] = {"first core": first, "second core": second}
    both = ("sender", "receiver")
    peaks = [
        _Peak("null", f"{SENT}, 1 core", partial(_null, session, both[:1], [second]), one),
        _Peak("null", f"{SENT}, 2 cores", partial(_null, session, both[:1], [first, second]), two),
        _Peak("null", f"{CHECKED}, 1 core", partial(_null, session, both, [second]), one),
        _Peak("null", f"{CHECKED}, 2 cores", partial(_null, session, both, [first, second]), two),
    ]
    for name, engine, axes in (
        ("memif", "dpdk", {"port": "memif", "driver": "memif-zero-copy", "memory": "no-huge"}),
        ("vhost", "dpdk", {"port": "vhost-user", "memory": "no-huge"}),
        ("xdp", "xdp", {"port": "veth"}),
    ):
        apart = session.bed.track("direct", engine, **axes)
        joined = session.bed.track("direct", engine, placement="shared-process", **axes)
        ends: dict[str, int | None] = {"sender": apart.cpu("f0"), "receiver": apart.cpu("f1")}
        send: Measure = partial(_cable, session, apart, engine, "none")
        if engine == "xdp":  # the kernel counts: no receiver takes anything
            holder = session.bed.start(f"holder-{name}", ("cat",), apart.node("f1"))
            counter = RxCounter(holder, apart.ifname("f1"))
            send = partial(_xdp_sent, session, apart, counter)
            alone: dict[str, int | None] = {"sender": 0}
        else:
            alone = {"sender": ends["sender"]}
        check = partial(_cable, session, apart, engine, "header")
        peaks += [
            _Peak(name, f"{SENT}, 1 core", send, alone),
            _Peak(
                name,
                f"{CHECKED}, 1 core",
                partial(_cable, session, joined, engine, "header"),
                {"one core": None},
            ),
            _Peak(name, f"{CHECKED}, 1 + 1 cores", check, ends),
        ]
    return peaks


def _xdp_sent(session: Session, track: Track, counter: RxCounter) -> float:
    return generate(session, track, counter, "xdp", _BURST) / 1e6


def _rows(session: Session) -> list[Row]:
    require_root()
    if len(read_cpus(LocalHost())) < 2:
        raise Unavailable("two ends need two CPUs")
    peaks = _peaks(session)
    samples = interleaved(
        session.pairs, {f"{p.name} {p.what}": p.measure for p in peaks}, session.say
    )
    rows = []
    for peak in peaks:
        session.say(f"functions of {peak.name} {peak.what}")
        with _sampled(session, peak):
            peak.measure()
        if not all(peak.functions.values()):
            raise RuntimeError(f"perf found no function of {peak.name} {peak.what}")
        values = samples[f"{peak.name} {peak.what}"]
        row = absolute(f"peaks, {peak.name}", peak.what, "Mpps", values, None)
        # On null, each core has a share of the frames.
        cores = len(peak.watched) if peak.name == "null" else 1
        frame_ns = 1000 * cores / row.figure.median
        parts = {core: costs_of(found, frame_ns) for core, found in peak.functions.items()}
        rows.append(absolute(row.name, row.a, row.unit, values, None, parts=parts))
    return rows


PEAKS = Comparison("peaks", "what one core and two do, and what a frame costs by function", _rows)
