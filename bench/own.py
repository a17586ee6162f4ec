"""The comparisons null, pacing and setup show what switchmark itself costs and how well it keeps a
pace; they have no peers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Any

from bench.bed import require_root
from bench.comparison import Comparison, Session
from bench.ours import run_alone
from bench.pairs import Limit, interleaved
from bench.report import Row, absolute, compared
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.model.units import sizes_of
from switchmark.observe.cpus import read_cpus
from switchmark.path.refusals import check
from switchmark.switches import TABLE as SWITCHES

_BURST = 32
_PACES = {1_000: 1, 100_000: _BURST, 1_000_000: _BURST}
"""Frames per second, and the frames of a burst: 32 does not divide 1000."""

_MILLION = {"count": 1_000_000, "by": "port"}
_BOTH = ("sender", "receiver")
_OVER_TIME = "the same by intervals of 10 ms"
_WORK: dict[str, tuple[tuple[str, ...], dict[str, Any], float | None]] = {
    "send, 1 flow": (("sender",), {}, 3.0),
    "send, a million flows": (("sender",), {"subflows": {**_MILLION, "order": "sequential"}}, 6.0),
    "the same at random": (("sender",), {"subflows": {**_MILLION, "order": "random"}}, 9.0),
    "the same by Zipf's law": (("sender",), {"subflows": {**_MILLION, "order": "zipf"}}, 9.0),
    "send, 16384 flows, each counted": (("sender",), {"flows": 16384, "vary": ["src_port"]}, None),
    "send, IMIX": (("sender",), {"frame_bytes": list(sizes_of("imix"))}, 8.0),
    "send and receive": (_BOTH, {}, 7.0),
    "send and receive, latency": (_BOTH, {"latency": True}, 8.0),
    _OVER_TIME: (_BOTH, {"latency": True}, 8.3),
    "the same, 16384 flows": (_BOTH, {"latency": True, "flows": 16384, "vary": ["src_port"]}, None),
}
"""The work: roles, loads and the limit of the CPU time per frame, in nanoseconds."""

_SCALE = "SWITCHMARK_BENCH_SCALE"
"""How much slower than that of the limits a machine is: there the first took 5.7 ns when they were
set, at commit dbc92fc."""

_OTHER = "SWITCHMARK_BENCH_OTHER"
"""The path of another build of the traffic program."""

_PACING_SECONDS = 5  # so many times the length of another measurement
_WARMUP_S, _DURATION_S = 0.1, 0.2
_BEYOND_S = 1.5
_TRIAL: dict[str, Any] = {"warmup": _WARMUP_S, "duration": _DURATION_S}
_DRAINS_S = 2 * 0.020  # a trial's two phases each end when nothing has come for so long


def _cpu() -> int:
    """Return the last CPU: the first serves interrupts."""
    return read_cpus(LocalHost())[-1].id


def _scale() -> float:
    """Return by how much this machine is slower than the one that the limits are for."""
    return float(os.environ.get(_SCALE, "1"))


def _cost(session: Session, name: str, program: str = "") -> float:
    """Return the CPU time per frame of one kind of work, in nanoseconds."""
    roles, load, _ = _WORK[name]
    report, _ = run_alone(
        session.bed,
        options={"loop": 1} if "receiver" in roles else {},
        roles=roles,
        burst=_BURST,
        rate_pps=0.0,
        seconds=session.seconds,
        cpu=_cpu(),
        load=load,
        series_s=0.01 if name == _OVER_TIME else None,
        program=program,
    )
    frames = report["tasks"][0]["sent"]["frames"]
    if not frames:
        raise RuntimeError(f"engine null sent nothing within {session.seconds:g} s")
    if "receiver" in roles and report["tasks"][1]["received"]["frames"] != frames:
        raise RuntimeError("engine null lost frames")
    return float(report["threads"][0]["cpu_ns"] / frames)


def _null(session: Session) -> list[Row]:
    """Measure the CPU time per frame of each kind of work, in turn."""
    slots = {name: partial(_cost, session, name) for name in _WORK}
    samples = interleaved(session.pairs, slots, session.say)
    scale = _scale()
    note = f"CPU time, sequence, time and checksum in each frame, bursts of {_BURST}"
    if scale != 1:
        note += f"; {_SCALE}={scale:g}"
    return [
        absolute(
            f"null, {name}",
            "engine null",
            "ns a frame",
            samples[name],
            None if limit is None else Limit("at most", round(limit * scale, 2)),
            (note,) if number == 0 else (),
        )
        for number, (name, (_, _, limit)) in enumerate(_WORK.items())
    ]


def _builds(session: Session) -> list[Row]:
    """Measure each kind of work with another build of the traffic program and with this one."""
    other = os.environ.get(_OTHER)
    if not other:
        raise Unavailable(f"{_OTHER} names no program", hint=f"{_OTHER}=/path/switchmark-traffic")
    slots = {
        f"{name} {slot}": partial(_cost, session, name, program)
        for name in _WORK
        for slot, program in (("A", other), ("B", ""), ("A again", other))
    }
    samples = interleaved(session.pairs, slots, session.say)
    return [
        compared(
            f"builds, {name}",
            "the other build",
            "this build",
            "ns a frame",
            {slot: samples[f"{name} {slot}"] for slot in ("A", "B", "A again")},
            Limit("at most", 1.02),
        )
        for name in _WORK
    ]


def worst_interval(counts: list[int], rate_pps: int, interval_s: float) -> float:
    """Return the greatest relative error of an interval's count."""
    expected = rate_pps * interval_s
    return max(abs(count - expected) / expected for count in counts)


def _pacing(session: Session) -> list[Row]:
    rows = []
    seconds = _PACING_SECONDS * session.seconds
    interval_s = min(1.0, seconds / 5)
    runs = max(1, session.pairs // 5)
    for pace, burst in _PACES.items():
        errors, worst = [], 0.0
        for number in range(runs):
            session.say(f"{number + 1}/{runs} {pace} pps")
            report, clock = run_alone(
                session.bed,
                options={"loop": 1},
                roles=("sender", "receiver"),
                burst=burst,
                rate_pps=float(pace),
                seconds=seconds,
                cpu=_cpu(),
                interval_s=interval_s,
            )
            received = report["tasks"][1]["received"]
            whole = received["intervals"][: round(seconds / interval_s)]
            mean = received["frames"] / (report["duration_ns"] / 1e9)
            # `clock` above 1: its second is shorter than a second.
            errors.append(100 * abs(mean * clock - pace * 1.0) / pace)
            worst = max(worst, worst_interval(whole, pace, interval_s))
        rows.append(
            absolute(
                f"pacing {pace:,} pps",
                "engine null",
                "% off",
                errors,
                Limit("at most", 0.1),
                (
                    f"mean rate by CLOCK_MONOTONIC over {seconds:g} s; the worst {interval_s:g} s"
                    f" of all is {100 * worst:.4f} % off; bursts of {burst}",
                ),
            )
        )
    return rows


def set_up(session: Session, name: str, axes: Mapping[str, Any], limit: Limit) -> list[Row]:
    """Measure what a short v2v test with these axes costs, set-up and tear-down, and the whole run.
    Unavailable if it is refused."""
    require_root()
    test = Test.model_validate(
        {"scenario": "v2v", "duration": _DURATION_S, "warmup": _WARMUP_S, **axes}
    )
    noted, beyond = [], []
    for number in range(session.pairs):
        session.say(f"{number + 1}/{session.pairs}")
        folder = session.bed.logs / f"{name}-{number}"
        with Lab(folder) as lab:
            before = time.monotonic()
            record = lab.run(test)
            wall_s = time.monotonic() - before
        if record.status == "refused":
            raise Unavailable(f"the test is refused: {record.error}")
        if record.status != "ok" or record.setup_s is None or record.teardown_s is None:
            raise RuntimeError(f"the test {record.status}: {record.error}")
        noted.append(record.setup_s + record.teardown_s)
        beyond.append(wall_s - _WARMUP_S - _DURATION_S - _DRAINS_S)
    label = f"v2v {test.switch}"
    return [
        absolute(name, label, "s", noted, limit, ("setup_s + teardown_s",)),
        absolute(
            f"{name}, whole run",
            label,
            "s",
            beyond,
            limit,
            ("all of Lab.run, probes too, but for warm-up, measurement and drains",),
        ),
    ]


def _setup(session: Session) -> list[Row]:
    axes = {"switch": "linux-bridge", "engine": "raw-mmsg"}
    return set_up(session, "setup", axes, Limit("at most", 0.5))


def _setup_switches(session: Session) -> list[Row]:
    """Measure the set-up and tear-down of every available switch without its own start and stop."""
    require_root()
    rows = []
    for name, switch in SWITCHES.items():
        try:
            switch.probe(LocalHost())
        except Unavailable as missing:
            session.say(f"{name} is left out: {missing.message}")
            continue
        past_kernel = PortKind.VHOST_USER in switch.port_kinds
        test = Test(switch=name, engine="dpdk" if past_kernel else "raw-mmsg", **_TRIAL)
        if not check(test):
            rows.append(_beyond_its_own(session, test))
    return rows


def _beyond_its_own(session: Session, test: Test) -> Row:
    beyond, stretches = [], []
    for number in range(session.pairs):
        session.say(f"{number + 1}/{session.pairs} {test.switch}")
        with Lab(session.bed.logs / f"{test.switch}-{number}") as lab:
            record = lab.run(test)
        if record.status != "ok" or record.setup_s is None or record.teardown_s is None:
            raise RuntimeError(f"the test of {test.switch} {record.status}: {record.error}")
        stretches.append((record.start_s or 0.0) + (record.stop_s or 0.0))
        beyond.append(record.setup_s + record.teardown_s - stretches[-1])
    return absolute(
        "setup-switches",
        f"v2v {test.switch}",
        "s",
        beyond,
        Limit("at most", _BEYOND_S),
        (
            "setup_s + teardown_s, but for its own start and stop "
            f"(start_s + stop_s: {median(stretches):.2f} s)",
        ),
    )


NULL = Comparison("null", "what a frame of each kind of work costs, on engine null", _null)
BUILDS = Comparison("builds", "what a frame costs in another build of the traffic program", _builds)
PACING = Comparison("pacing", "how well a rate is kept, on engine null", _pacing)
SETUP_SWITCHES = Comparison(
    "setup-switches",
    "what a test of each switch costs beyond the switch's own start and stop",
    _setup_switches,
)
SETUP = Comparison("setup", "what a test costs beyond its traffic", _setup)
