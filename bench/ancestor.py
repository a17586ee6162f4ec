"""The comparisons `raw-mmsg`, `raw-gso`, `udp-gso` and `best` are with the application of
nfv-testperf, from namespace to namespace through a linux-bridge. Both count what their receiver's
program got; neither sees the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from signal import SIGINT

from bench.bed import Track
from bench.comparison import Comparison, Session
from bench.ours import FRAME_BYTES, trial
from bench.pairs import Limit, interleaved
from bench.peers import NFV_TESTPERF, MissingPeer, find
from bench.report import Row, compared
from switchmark.errors import SwitchmarkError
from switchmark.metrics.throughput import steady_pps

_BURST = 32
_PACKET = 128  # frames of the longest packet
_RATE = 100_000_000  # more than it can: it has no other word for "as fast as it goes"
_SENDERS = ("raw-mmsg", "raw-gso", "mmap", "xdp", "xdp-live")
_RECEIVERS = ("raw-mmsg", "mmap", "xdp")
_MODES = ("udp", "udp-mmsg", "raw", "raw-mmsg")
"""All that it has of sockets, named as switchmark's engines are."""
_FLAGS = {"udp": "", "udp-mmsg": "-m", "raw": "-R", "raw-mmsg": "-R -m"}
_SCOUT_ROUNDS = 2
_SCOUT_S = 0.5
_SETTLE_S = 1.5  # its first period, which is thrown away, and its start

Measure = Callable[[], float]


def parse_periods(output: str) -> list[int]:
    """Return the frames that its receiver counted in each whole second, without the first, in which
    the sender began."""
    return [int(number) for number in re.findall(r"^Rx-pps: (\d+)$", output, re.MULTILINE)][1:]


def _ancestor(session: Session, track: Track, program: str, mode: str) -> float:
    """Return the rate in frames per second that its receiver got; `mode` has the name of one of
    switchmark's engines."""
    periods = max(1, round(session.seconds))
    several = ("-m",) if mode.endswith("-mmsg") else ()
    common = ("-s", *several, "-p", str(FRAME_BYTES - 4), "-b", str(_BURST), "-r", str(_RATE))

    def argv(role: str, address: str, peer: str) -> tuple[str, ...]:
        raw = ("-R", track.ifname(address)) if mode.startswith("raw") else ()
        ends = (track.ip(address), track.mac(address), track.ip(peer), track.mac(peer))
        return (program, role, *common, *raw, *ends)

    bed = session.bed
    with bed.block():
        receiver = bed.start(
            "ancestor-recv", argv("recv", "f1", "f0"), track.node("f1"), cpu=track.cpu("f1")
        )
        bed.start("ancestor-send", argv("send", "f0", "f1"), track.node("f0"), cpu=track.cpu("f0"))
        time.sleep(_SETTLE_S + periods)
        # While frames still come: it waits for a whole burst.
        receiver.stop(SIGINT, 3.0)
    lines = []
    while (line := receiver.receive(0.0)) is not None:
        lines.append(line)
    counted = parse_periods("\n".join(lines))
    if not sum(counted):
        raise MissingPeer(
            f"{NFV_TESTPERF.name} received nothing in mode {mode}: {NFV_TESTPERF.how}"
        )
    return sum(counted) / len(counted)


def _ours(
    session: Session,
    track: Track,
    sender: str,
    receiver: str,
    seconds: float,
    burst: int = _BURST,
) -> float:
    result = trial(
        session.bed, track, sender=sender, receiver=receiver, burst=burst, seconds=seconds
    )
    return steady_pps(result)


def _raw_mmsg(session: Session) -> list[Row]:
    return [_sockets(session, "raw-mmsg", "raw-mmsg", None)]


def _raw_gso(session: Session) -> list[Row]:
    return [
        _sockets(session, "raw-gso", "raw-mmsg", Limit("at least", 1.5), burst=burst)
        for burst in (_BURST, _PACKET)
    ]


def _udp_gso(session: Session) -> list[Row]:
    return [
        _sockets(session, "udp-gso", "udp-mmsg", Limit("at least", 1.8), burst=burst)
        for burst in (_BURST, _PACKET)
    ]


def _sockets(
    session: Session, engine: str, mode: str, limit: Limit | None, *, burst: int = _BURST
) -> Row:
    """Compare an engine with a mode of the ancestor, which sends bursts of its usual length."""
    program = find(NFV_TESTPERF)
    track = session.bed.track("linux-bridge", engine)
    ours = partial(_ours, session, track, engine, engine, session.seconds, burst)
    slots: dict[str, Measure] = {
        "A": ours,
        "B": partial(_ancestor, session, track, program, mode),
        "A again": ours,
    }
    samples = interleaved(session.pairs, slots, session.say)
    bursts = (
        f"bursts of {_BURST} in both"
        if burst == _BURST
        else f"bursts of {burst} in A and of {_BURST} in B"
    )
    # Only raw frames carry addresses that the ancestor writes.
    addressed = "; B is a build whose raw frames are addressed to its receiver"
    return compared(
        engine if burst == _BURST else f"{engine}, bursts of {burst}",
        engine,
        f"{NFV_TESTPERF.name} {_FLAGS[mode]}",
        "Mpps",
        _in_millions(samples),
        limit,
        checks=(True, mode.startswith("raw")),
        notes=(f"64 B, linux-bridge, v2v, received; {bursts}{addressed * mode.startswith('raw')}",),
    )


def _best(session: Session) -> list[Row]:
    program = find(NFV_TESTPERF)
    bed = session.bed
    tracks = {name: _tracks(session, name) for name in _SENDERS}
    plain, addressed = tracks["raw-mmsg"][0], bed.track("linux-bridge", "udp-mmsg")

    candidates: dict[tuple[str, str], float] = {}
    for _ in range(_SCOUT_ROUNDS):
        for sender in _SENDERS:
            for receiver in _RECEIVERS:
                pair = sender, receiver
                session.say(f"looking for the best: {sender} to {receiver}")
                try:
                    pps = _ours(session, tracks[sender][0], *pair, _SCOUT_S)
                except SwitchmarkError as refused:
                    session.say(f"{sender} to {receiver}: {refused}")
                    continue
                candidates[pair] = max(pps, candidates.get(pair, 0.0))
    sender, receiver = max(candidates, key=lambda pair: candidates[pair])
    modes = {
        mode: partial(
            _ancestor, session, addressed if mode.startswith("udp") else plain, program, mode
        )
        for mode in _MODES
    }
    scouted = {}
    for mode in _MODES:
        session.say(f"looking for the best: {NFV_TESTPERF.name} {mode}")
        try:
            scouted[mode] = modes[mode]()
        except MissingPeer as useless:
            session.say(str(useless))
    if not scouted:
        raise MissingPeer(f"{NFV_TESTPERF.name} received nothing in any of its modes")
    mode = max(scouted, key=lambda name: scouted[name])

    bridge, direct = tracks[sender]
    ours = partial(_ours, session, bridge, sender, receiver, session.seconds)
    slots: dict[str, Measure] = {
        "A": ours,
        "B": modes[mode],
        "A again": ours,
        "direct": partial(_ours, session, direct, sender, receiver, session.seconds),
    }
    samples = _in_millions(interleaved(session.pairs, slots, session.say))
    label = f"{sender} to {receiver}"
    flags = _FLAGS[mode]
    engines = ", ".join(
        f"{a} to {b} {pps / 1e6:.3f}"
        for (a, b), pps in sorted(candidates.items(), key=lambda item: -item[1])
    )
    return [
        compared(
            "best",
            label,
            f"nfv-testperf {flags}".rstrip(),
            "Mpps",
            {slot: samples[slot] for slot in ("A", "B", "A again")},
            Limit("at least", 2.2),
            (
                f"64 B, linux-bridge, v2v, received; bursts of {_BURST} in both; chosen before"
                f" the pairs, from (Mpps): {engines}",
                "the ancestor's modes (Mpps): "
                + ", ".join(f"{name} {pps / 1e6:.3f}" for name, pps in scouted.items()),
            ),
            checks=(True, mode.startswith("raw")),
        ),
        compared(
            "best, direct",
            f"{label}, no bridge",
            f"{label}, bridge",
            "Mpps",
            {"A": samples["direct"], "B": samples["A"]},
            None,
        ),
    ]


def _tracks(session: Session, engine: str) -> tuple[Track, Track]:
    """Make the path through the bridge that suits an engine, and the same without it."""
    return (
        session.bed.track("linux-bridge", engine),
        session.bed.track("direct", engine),
    )


def _in_millions(samples: dict[str, list[float]]) -> dict[str, list[float]]:
    return {slot: [value / 1e6 for value in values] for slot, values in samples.items()}


RAW_MMSG = Comparison(
    "raw-mmsg", "engine raw-mmsg through a linux-bridge against nfv-testperf -R -m", _raw_mmsg
)
RAW_GSO = Comparison(
    "raw-gso", "engine raw-gso through a linux-bridge against nfv-testperf -R -m", _raw_gso
)
UDP_GSO = Comparison(
    "udp-gso", "engine udp-gso through a linux-bridge against nfv-testperf -m", _udp_gso
)
BEST = Comparison(
    "best", "our best engine through a linux-bridge against the best mode of nfv-testperf", _best
)
