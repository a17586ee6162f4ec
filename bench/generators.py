"""The comparisons of the family `trafgen` are of switchmark's senders with netsniff-ng's trafgen,
`xdp-trafficgen` is with that of xdp-tools: each alone on the same CPU, into the same bare veth. The
kernel's counter of the peer interface counts for both, over equal windows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from bench.bed import Bed, RxCounter, Track
from bench.comparison import Comparison, Session
from bench.ours import FRAME_BYTES, address, sender
from bench.pairs import Limit, interleaved
from bench.peers import TRAFGEN, XDP_TRAFFICGEN, find, require_kernel_pktgen
from bench.report import Row, compared

_BURST = {"xdp-live": 1024}
"""Frames of one burst where it is not 256. trafgen asks the kernel once a ring, and xdp-trafficgen
once for all frames."""

_CPU = 0  # trafgen --cpus 1 pins its worker to this one, wherever it was started
_SETTLE_S = 0.4
_LIMITS = {"mmap": 1.05, "mmap-gso": 1.3, "xdp": 1.3, "xdp-live": 2.0}


def frame(track: Track) -> bytes:
    """Return a frame of switchmark's as it stands in memory: the same headers, and a payload of
    zeros."""
    payload = bytes(FRAME_BYTES - 4 - 42)
    ips = b"".join(bytes(map(int, track.ip(part).split("."))) for part in ("f0", "f1"))
    udp_bytes = (8 + len(payload)).to_bytes(2)
    ports = (20000).to_bytes(2) * 2
    head = b"\x45\x00" + (28 + len(payload)).to_bytes(2) + b"\x00\x00\x40\x00\x40\x11"
    ip = head + _checksum(head + ips) + ips
    udp = ports + udp_bytes
    udp += _checksum(ips + b"\x00\x11" + udp_bytes + udp + payload)
    macs = b"".join(bytes.fromhex(track.mac(part).replace(":", "")) for part in ("f1", "f0"))
    return macs + b"\x08\x00" + ip + udp + payload


def _checksum(data: bytes) -> bytes:
    total = sum(int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return (0xFFFF - total).to_bytes(2)


def _burst(engine: str) -> int:
    return _BURST.get(engine, 256)


_NOBODY = "02:00:00:00:00:ff"
"""A MAC of no interface, whose frames a stack drops at once. xdp-trafficgen sends IPv6 only, and a
stack without IPv6 drops that earlier than our IPv4."""


def generate(
    session: Session,
    track: Track,
    counter: RxCounter,
    engine: str,
    burst: int,
    **addresses: str,
) -> float:
    """Return the rate in frames per second that a sender of switchmark reaches alone."""
    with sender(session.bed, track.node("f0")) as ours:
        port = {"engine": engine, "ifname": track.ifname("f0"), "burst": burst}
        ours.open(port, ("sender",), _CPU)
        sent = {**address(track), **addresses}
        load = {"burst": burst, "frame_bytes": [FRAME_BYTES], "address": sent}
        phase_s = session.seconds + 2 * _SETTLE_S
        ours.start([load], phase_s)
        time.sleep(_SETTLE_S)
        pps = counter.rate(session.seconds)
        ours.finish(phase_s + 10.0)
    return pps


def _trafgen(session: Session, track: Track, counter: RxCounter, program: str) -> float:
    config = session.bed.logs / "trafgen.cfg"
    config.write_text("{ " + ", ".join(f"0x{byte:02x}" for byte in frame(track)) + " }\n")
    # It is kept from two settings of the whole machine: socket memory and interrupts.
    argv = (program, "--dev", track.ifname("f0"), "--conf", str(config), "--cpus", "1")
    quiet = ("--no-sock-mem", "--notouch-irq", "--no-cpu-stats")
    with session.bed.block():
        session.bed.start("trafgen", argv + quiet, track.node("f0"))
        time.sleep(_SETTLE_S)
        return counter.rate(session.seconds)


def _run(engine: str, session: Session) -> list[Row]:
    program = find(TRAFGEN)
    bed = session.bed
    track = bed.track("direct", engine)
    napi = track.layout.wiring.functions.napi
    counter = _counter(bed, track, "holder")
    ours = partial(generate, session, track, counter, engine, _burst(engine))
    slots: dict[str, Callable[[], float]] = {
        "A": ours,
        "B": partial(_trafgen, session, track, counter, program),
        "A again": ours,
    }
    if napi:
        plain = bed.track("direct", "mmap")
        slots["plain"] = partial(
            _trafgen, session, plain, _counter(bed, plain, "plain-holder"), program
        )
    samples = {
        slot: [value / 1e6 for value in values]
        for slot, values in interleaved(session.pairs, slots, session.say).items()
    }
    rows = [
        compared(
            f"trafgen-{engine}",
            engine,
            "trafgen --cpus 1",
            "Mpps",
            {slot: samples[slot] for slot in ("A", "B", "A again")},
            Limit("at least", _LIMITS[engine]),
            (
                "64 B into a bare veth, rx counter of its peer; ours in bursts of"
                f" {_burst(engine)}, each frame with sequence, time and checksum"
                + ("; the peer polls (NAPI) for both" if napi else ""),
            ),
        )
    ]
    if napi:
        rows.append(
            compared(
                f"trafgen-{engine}, plain",
                engine,
                "trafgen, no NAPI",
                "Mpps",
                {"A": samples["A"], "B": samples["plain"]},
                None,
                ("B on a veth of its own whose peer does not poll, which suits it better",),
            )
        )
    return rows


def _trafficgen(session: Session, track: Track, counter: RxCounter, program: str) -> float:
    ends = ("-m", _NOBODY, "-M", track.mac("f0"), "-t", "1", "-s", "64")
    argv = (program, "udp", track.ifname("f0"), *ends)
    with session.bed.block():
        session.bed.start("xdp-trafficgen", argv, track.node("f0"), cpu=_CPU)
        time.sleep(2 * _SETTLE_S)
        return counter.rate(session.seconds)


def _xdp(session: Session) -> list[Row]:
    program = find(XDP_TRAFFICGEN)
    track = session.bed.track("direct", "xdp-live")
    counter = _counter(session.bed, track, "holder")
    burst = _burst("xdp-live")
    ours = partial(generate, session, track, counter, "xdp-live", burst, dst_mac=_NOBODY)
    slots: dict[str, Callable[[], float]] = {
        "A": ours,
        "B": partial(_trafficgen, session, track, counter, program),
        "A again": ours,
    }
    samples = {
        slot: [value / 1e6 for value in values]
        for slot, values in interleaved(session.pairs, slots, session.say).items()
    }
    return [
        compared(
            "xdp-trafficgen",
            "xdp-live",
            "xdp-trafficgen udp",
            "Mpps",
            samples,
            Limit("at least", 1.0),
            (
                "64 B into a bare veth whose peer polls (NAPI), rx counter of the peer, a thread;"
                " to a MAC of nobody, so that the stack drops our IPv4 where it drops their IPv6;"
                " ours each with sequence, time and checksum, theirs all alike",
            ),
        )
    ]


def _kernel_pktgen(session: Session, track: Track, counter: RxCounter) -> float:
    """A veth takes no skb twice, so each frame is made anew; its number and time go into it."""
    folder, ifname = "/proc/net/pktgen", track.ifname("f0")
    device = (
        *("count 0", "delay 0", f"pkt_size {FRAME_BYTES - 4}"),
        *(f"src_mac {track.mac('f0')}", f"dst_mac {track.mac('f1')}"),
        *(f"src_min {track.ip('f0')}", f"src_max {track.ip('f0')}", f"dst {track.ip('f1')}"),
    )
    lines = (
        ("rem_device_all", f"kpktgend_{_CPU}"),
        (f"add_device {ifname}", f"kpktgend_{_CPU}"),
        *((line, ifname) for line in device),
        ("start", "pgctrl"),
    )
    script = " && ".join(f"echo '{line}' >{folder}/{file}" for line, file in lines)
    with session.bed.block():
        session.bed.start("kernel-pktgen", ("sh", "-c", script), track.node("f0"))
        time.sleep(_SETTLE_S)
        return counter.rate(session.seconds)


def _kernel(session: Session) -> list[Row]:
    require_kernel_pktgen()
    rows = []
    for engine in _LIMITS:
        track = session.bed.track("direct", engine)
        napi = track.layout.wiring.functions.napi
        counter = _counter(session.bed, track, f"holder-{engine}")
        ours = partial(generate, session, track, counter, engine, _burst(engine))
        slots: dict[str, Callable[[], float]] = {
            "A": ours,
            "B": partial(_kernel_pktgen, session, track, counter),
            "A again": ours,
        }
        samples = {
            slot: [value / 1e6 for value in values]
            for slot, values in interleaved(session.pairs, slots, session.say).items()
        }
        rows.append(
            compared(
                f"kernel-pktgen, {engine}",
                engine,
                "pktgen of the kernel, one thread",
                "Mpps",
                samples,
                None,
                (
                    "64 B into a bare veth, rx counter of its peer; ours with sequence, time and"
                    " checksum, theirs with number and time"
                    + ("; the peer polls (NAPI) for both" if napi else ""),
                ),
            )
        )
    return rows


def _counter(bed: Bed, track: Track, name: str) -> RxCounter:
    """Return a counter of what arrives. `cat` waits for its input, and costs nothing: it only keeps
    the namespace in sight."""
    return RxCounter(bed.start(name, ("cat",), track.node("f1")), track.ifname("f1"))


GENERATORS = (
    *(
        Comparison(
            f"trafgen-{engine}",
            f"engine {engine} into a veth against trafgen",
            partial(_run, engine),
        )
        for engine in _LIMITS
    ),
    Comparison("xdp-trafficgen", "engine xdp-live into a veth against xdp-trafficgen", _xdp),
    Comparison(
        "kernel-pktgen", "engines into a veth against the packet generator of the kernel", _kernel
    ),
)
