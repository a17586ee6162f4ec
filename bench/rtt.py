"""The comparison `rtt` is of the median round trip of UDP over a veth with sockperf ping-pong. Both
keep the same pace, far below what they could, both poll, on the same CPUs. Switchmark counts from
when a frame should have left, sockperf from when it calls send: they are compared by the latter,
and the former stands beside it."""

from __future__ import annotations

import re
from functools import partial

from bench.bed import Track
from bench.comparison import Comparison, Session
from bench.ours import FRAME_BYTES, trial
from bench.pairs import Limit, interleaved
from bench.peers import SOCKPERF, find
from bench.report import Row, compared
from switchmark.model.plan import Check, Run, Wait

_PORT = 11111
_PACE = 10_000


def parse_median_us(output: str) -> float:
    """Return the 50th percentile that sockperf prints. ValueError if it printed none, or half of
    it."""
    match = re.search(r"percentile 50\.000 *= *([0-9.]+)", output)
    if match is None or "round trip" not in output.lower():
        raise ValueError(f"sockperf told no round trip: {output[-300:]}")
    return float(match[1])


def _ours(session: Session, track: Track, stamp: str) -> float:
    result = trial(
        session.bed,
        track,
        sender="udp",
        receiver="udp",
        burst=1,
        seconds=max(1.0, session.seconds),
        rate_pps=_PACE,
        load={"stamp": stamp},
    )
    if result.latency is None or result.latency.p50 is None:
        raise RuntimeError("a trial has no median latency")
    return result.latency.p50 / 1000


def _sockperf(session: Session, track: Track, program: str) -> float:
    bed, node = session.bed, track.node("f1")
    with bed.block():
        bed.start(
            "sockperf-server",
            (program, "server", "-i", track.ip("f1"), "-p", str(_PORT), "--nonblocked"),
            node,
            cpu=track.cpu("f1"),
        )
        bed.executor.execute(
            (
                Wait(
                    "sockperf listens",
                    Check(("ss", "-lun"), at=node, pattern=f":{_PORT}"),
                    unless_dead="sockperf-server",
                ),
            )
        )
        seconds = max(1, round(session.seconds))
        options = {
            "-i": track.ip("f1"),
            "-p": str(_PORT),
            "-t": str(seconds),
            "-m": str(FRAME_BYTES - 46),
            "--mps": str(_PACE),
        }
        (output,) = bed.executor.run(
            Run(
                "sockperf plays ping-pong",
                (
                    *("taskset", "-c", str(track.cpu("f0")), program, "ping-pong"),
                    *("--full-rtt", "--nonblocked"),
                    *(word for option in options.items() for word in option),
                ),
                at=track.node("f0"),
                timeout_s=seconds + 20.0,
            )
        )
    return parse_median_us(output.decode(errors="replace"))


def _rtt(session: Session) -> list[Row]:
    program = find(SOCKPERF)
    track = session.bed.track("direct", "udp", dimension="latency")
    ours = partial(_ours, session, track, "sent")
    samples = interleaved(
        session.pairs,
        {
            "A": ours,
            "B": partial(_sockperf, session, track, program),
            "A again": ours,
            "due": partial(_ours, session, track, "due"),
        },
        session.say,
    )
    title = f"median round trip, {FRAME_BYTES} B over a veth, {_PACE} a second in both"
    return [
        compared(
            "rtt",
            "udp",
            "sockperf ping-pong",
            "us",
            {slot: samples[slot] for slot in ("A", "B", "A again")},
            Limit("at most", 0.95),
            (f"{title}; both count from when they are about to call send",),
            checks=(True, True),
        ),
        compared(
            "rtt, from when due",
            "udp",
            "sockperf ping-pong",
            "us",
            {"A": samples["due"], "B": samples["B"]},
            None,
            (f"{title}; A counts from when a frame should have left, as a test does",),
            checks=(True, True),
        ),
    ]


RTT = Comparison("rtt", "round trip of engine udp against sockperf ping-pong", _rtt)
