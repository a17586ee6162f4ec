"""The comparisons vhost, memif, setup-bypass, and those through a switch are of ports in user
space, with dpdk-testpmd on the same devices, without hugepages on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from signal import SIGINT
from typing import Any

from bench.ancestor import parse_periods
from bench.bed import Bed, Track
from bench.comparison import Comparison, Session
from bench.ours import FRAME_BYTES, trial
from bench.own import set_up
from bench.pairs import Limit, interleaved
from bench.peers import DPERF, NFV_TESTPERF, PKTGEN, TESTPMD, MissingPeer, Peer, find
from bench.report import Row, absolute, compared
from bench.testpmd import devices, eal, listening, telemetry, testpmd
from switchmark.errors import Unavailable
from switchmark.hosts.base import Process
from switchmark.metrics.throughput import steady_pps
from switchmark.switches import TABLE as SWITCHES

_BURST = 32
_RX_BURST = 64  # our receivers ask for so many
_SETTLE_S = 0.3
_TXONLY = (f"--txpkts={FRAME_BYTES - 4}", f"--burst={_BURST}")
_SETUP_S = 4.0
_LEAST_MPPS = 0.001  # a peer that only looks for its gateway sends less
_DPERF_SOCKETS = 600  # 60 Mpps: more than it can
_DPERF_SETTLE_S = 4.0  # its wait for a gateway, and until its sockets are open
_PKTGEN_SETTLE_S = 2.5  # until it sees the link of a memif
_ANCESTOR_RATE = 1_000_000_000  # more than it can
_ANCESTOR_SETTLE_S = 2.5  # its start, and its first period, which is thrown away

Measure = Callable[[], float]
Start = Callable[[Bed, Track, str], None]
"""Starts a program that sends from `f0` until the block that this is called in ends."""


def _track(bed: Bed, switch: str, port: str, driver: str = "auto", **axes: Any) -> Track:
    return bed.track(switch, "dpdk", port=port, driver=driver, memory="no-huge", **axes)


def _ours(
    session: Session, track: Track, engine: str = "dpdk", *, timed: bool = True, **axes: Any
) -> float:
    """Return the received rate of switchmark in million frames per second. What touch `header` and
    `full` check has its latency noted, if it is `timed`."""
    result = trial(
        session.bed,
        track,
        sender=engine,
        receiver=engine,
        burst=_BURST,
        seconds=session.seconds,
        axes=axes,
        load={} if timed else {"latency": False},
    )
    return steady_pps(result) / 1e6


def _counted(session: Session, track: Track, program: str, settle_s: float = _SETTLE_S) -> float:
    """Return the rate that dpdk-testpmd receives at the end of the track, in million frames per
    second."""
    receiver = testpmd(session.bed, track, program, "rxonly", ("f1",), (f"--burst={_RX_BURST}",))
    with telemetry(session.bed, "testpmd-f1", receiver, (0,)) as counters:
        time.sleep(settle_s)
        return counters.rate(session.seconds) / 1e6


def _txonly(session: Session, track: Track, program: str) -> float:
    with session.bed.block():
        testpmd(session.bed, track, program, "txonly", ("f0",), _TXONLY)
        return _counted(session, track, program)


def _cable(
    name: str,
    port: str,
    driver: str,
    limits: Mapping[str, float],
    session: Session,
    *,
    engine: str = "dpdk",
) -> list[Row]:
    """Compare from end to end without a switch. `driver` is the peer's, and that of engine dpdk.
    `limits` are those of touch none, of touch header, and of touch header with latency."""
    program = find(TESTPMD)
    track = _track(session.bed, "direct", port, driver)
    ours = partial(_ours, session, track, engine)
    slots: dict[str, Measure] = {
        "A": partial(ours, touch="none"),
        "B": partial(_txonly, session, track, program),
        "A again": partial(ours, touch="none"),
        "header": partial(ours, touch="header", timed=False),
        "latency": partial(ours, touch="header"),
        "full": partial(ours, touch="full"),
        "full 1500": partial(ours, touch="full", frame_size=1500),
    }
    samples = interleaved(session.pairs, slots, session.say)
    peer = "testpmd txonly, rxonly"
    alike = "the same device arguments, " if engine == "dpdk" else ""

    def row(title: str, what: str, pairs: dict[str, list[float]], *notes: str) -> Row:
        limit = Limit("at least", limits[what]) if what in limits else None
        checks = (what != "none", False)
        label = f"{engine}, {'touch header, ' if what == 'latency' else 'touch '}{what}"
        return compared(title, label, peer, "Mpps", pairs, limit, notes, checks=checks)

    return [
        row(
            name,
            "none",
            {slot: samples[slot] for slot in ("A", "B", "A again")},
            f"64 B, {port}, received; no hugepages, {alike}a core each, sent"
            f" in bursts of {_BURST} and received in {_RX_BURST}; B's frames are not looked at",
        ),
        row(
            f"{name}, checked",
            "header",
            {"A": samples["header"], "B": samples["B"]},
            "sequence, time and checksum in every frame of A, and checked",
        ),
        row(
            f"{name}, checked, latency",
            "latency",
            {"A": samples["latency"], "B": samples["B"]},
            "the same, and the latency of every frame of A in a histogram",
        ),
        row(
            f"{name}, all bytes",
            "full",
            {"A": samples["full"], "B": samples["B"]},
            "A writes and checks every byte",
        ),
        absolute(
            f"{name}, all bytes of 1500",
            f"{engine}, touch full",
            "Mpps",
            samples["full 1500"],
            None,
        ),
    ]


def _generator(
    name: str,
    peer: Peer,
    start: Start,
    port: str,
    driver: str,
    session: Session,
    settle_s: float = _SETTLE_S,
) -> list[Row]:
    """Compare with a peer that only sends: at its other end testpmd counts, and checks nothing."""
    program, receiver = find(peer), find(TESTPMD)
    track = _track(session.bed, "direct", port, driver)
    ours = partial(_ours, session, track)

    def theirs() -> float:
        with session.bed.block():
            start(session.bed, track, program)
            mpps = _counted(session, track, receiver, settle_s)
        if mpps < _LEAST_MPPS:
            raise MissingPeer(f"of {peer.name} nothing arrived: {peer.how}")
        return mpps

    slots: dict[str, Measure] = {
        "A": partial(ours, touch="none"),
        "B": theirs,
        "A again": partial(ours, touch="none"),
        "header": partial(ours, touch="header", timed=False),
    }
    samples = interleaved(session.pairs, slots, session.say)
    label = f"{peer.name}, testpmd rxonly"
    return [
        compared(
            name,
            "dpdk, touch none",
            label,
            "Mpps",
            {slot: samples[slot] for slot in ("A", "B", "A again")},
            None,
            (f"64 B, {port}, received; no hugepages, a core each; bursts of {_BURST} in both",),
            checks=(False, False),
        ),
        compared(
            f"{name}, checked",
            "dpdk, touch header",
            label,
            "Mpps",
            {"A": samples["header"], "B": samples["B"]},
            None,
            ("sequence, time and checksum in every frame of A, and checked",),
            checks=(True, False),
        ),
    ]


def _pktgen(bed: Bed, track: Track, program: str) -> None:
    name, commands = "pktgen", bed.logs / "pktgen.pkt"
    commands.write_text(f"set 0 size {FRAME_BYTES}\nset 0 burst {_BURST}\nstart 0\n")
    # It makes six pools of 24 Ki frames.
    options = eal(bed, name, track.cpu("f0"), devices(track, ("f0",)), megabytes=2048)
    with listening(bed, track, "f0", name):
        bed.start(
            name,
            (program, *options, "--", "-P", "-m", "1.0", "-f", str(commands)),
            track.node("f0"),
            env={"RUNTIME_DIRECTORY": str(bed.folder)},
        )


def _dperf(bed: Bed, track: Track, program: str) -> None:
    """Start its UDP flood: each of its sockets is to send a frame every 10 us."""
    name, config, cpu = "dperf", bed.logs / "dperf.conf", track.cpu("f0")
    (device,) = devices(track, ("f0",))
    gateway = "198.18.255.254"  # it takes the MAC that is written behind it
    lines = {
        "mode": "client",
        "cpu": cpu,
        "duration": "10m",
        "protocol": "udp",
        "flood": "",
        "tx_burst": _BURST,
        "payload_size": FRAME_BYTES - 4 - 42,
        "cc": _DPERF_SOCKETS,
        "cps": "30k",
        "keepalive": "10us",
        "wait": 1,
        "port": f"{device.partition(',')[0]} {track.ip('f0')} {gateway} {track.mac('f1')}",
        "client": f"{track.ip('f0')} 1",
        "server": f"{track.ip('f1')} 1",
        "listen": "20000 1",
    }
    config.write_text("".join(f"{word} {value}\n" for word, value in lines.items()))
    # It has lcores of its own, and 64 Ki frames.
    (_, _, _, _, *options) = eal(bed, name, cpu, (device,), megabytes=1024)
    with listening(bed, track, "f0", name):
        bed.start(
            name,
            (program, "-c", str(config)),
            track.node("f0"),
            env={"RUNTIME_DIRECTORY": str(bed.folder), "DPERF_EAL": " ".join(options)},
        )


def _vhost_ancestor(session: Session) -> list[Row]:
    program = find(NFV_TESTPERF)
    track = _track(session.bed, "direct", "vhost-user")
    ours = partial(_ours, session, track, touch="header")
    slots: dict[str, Measure] = {
        "A": ours,
        "B": partial(_ancestor, session, track, program),
        "A again": ours,
    }
    return [
        compared(
            "vhost-ancestor",
            "dpdk, touch header",
            "nfv-testperf dpdk",
            "Mpps",
            interleaved(session.pairs, slots, session.say),
            Limit("at least", 1.0),
            (
                f"64 B, vhost-user, received; bursts of {_BURST} in both; no hugepages, the same"
                " device arguments, a core each; sequence, time and checksum in every frame of A,"
                " and checked",
            ),
            checks=(True, True),
        )
    ]


def _ancestor(session: Session, track: Track, program: str) -> float:
    """Return what the receiver of nfv-testperf counts by its DPDK sockets, a second and in
    millions."""
    bed, periods = session.bed, max(1, round(session.seconds))
    load = ("-p", str(FRAME_BYTES - 4), "-b", str(_BURST), "-r", str(_ANCESTOR_RATE))
    addressing = track.layout.flows[0].addressing
    ends = {
        "f0": (addressing.source_ip, addressing.sent_src_mac),
        "f1": (addressing.sink_ip, addressing.sent_dst_mac),
    }

    def start(role: str, address: str, peer: str) -> Process:
        name = f"ancestor-{role}"
        options = eal(bed, name, track.cpu(address), devices(track, (address,)))
        # Its loop runs on the main lcore; rings beyond what virtio-user offers are refused.
        argv = (program, f"dpdk-{role}", *load, *ends[address], *ends[peer], "--", *options)
        return bed.start(
            name, argv, track.node(address), env={"RUNTIME_DIRECTORY": str(bed.folder)}
        )

    with bed.block():
        with listening(bed, track, "f0", "ancestor-send"):
            start("send", "f0", "f1")
        receiver = start("recv", "f1", "f0")
        time.sleep(_ANCESTOR_SETTLE_S + periods)
        receiver.stop(SIGINT, 3.0)
    lines = []
    while (line := receiver.receive(0.0)) is not None:
        lines.append(line)
    counted = parse_periods("\n".join(lines))
    if not sum(counted):
        raise MissingPeer(f"{NFV_TESTPERF.name} received nothing by DPDK: {NFV_TESTPERF.how}")
    return sum(counted) / len(counted) / 1e6


def _flowgen(session: Session, track: Track, program: str) -> float:
    with session.bed.block():
        loop = testpmd(session.bed, track, program, "flowgen", ("f0", "f1"), (*_TXONLY,))
        with telemetry(session.bed, "testpmd-f0", loop, (0, 1)) as counters:
            time.sleep(_SETTLE_S)
            return counters.rate(session.seconds) / 1e6


def _through(
    name: str, switch: str, port: str, driver: str, engine: str, limit: float, session: Session
) -> list[Row]:
    """Compare through a switch. `driver` is the peer's, and that of engine dpdk."""
    program = find(TESTPMD)

    def with_a_new_switch(measure: Callable[[Track], float]) -> float:
        # The server of a memif may crash when its client leaves.
        with session.bed.block():
            return measure(
                _track(session.bed, _switch(switch), port, driver, placement="shared-process")
            )

    ours = partial(with_a_new_switch, lambda track: _ours(session, track, engine))
    slots: dict[str, Measure] = {
        "A": ours,
        "B": partial(with_a_new_switch, lambda track: _flowgen(session, track, program)),
        "A again": ours,
    }
    return [
        compared(
            name,
            f"{engine}, shared-process",
            "testpmd flowgen",
            "Mpps",
            interleaved(session.pairs, slots, session.say),
            Limit("at least", limit),
            (
                f"64 B through switch {switch}, {port}, received; both are one process of"
                " one thread on the same core; sender and receiver of A check every frame, one"
                " way; B sends and receives at both ports, and is counted at both",
            ),
            checks=(True, False),
        )
    ]


def _setup_bypass(session: Session) -> list[Row]:
    axes = {"switch": _switch("ovs-dpdk"), "engine": "dpdk"}
    return set_up(session, "setup-bypass", axes, Limit("at most", _SETUP_S))


def _switch(name: str) -> str:
    if name not in SWITCHES:
        raise Unavailable(f"there is no switch {name}")
    return name


BYPASS = (
    Comparison(
        "vhost",
        "engine dpdk from vhost to virtio-user against dpdk-testpmd",
        partial(
            _cable, "vhost", "vhost-user", "auto", {"none": 1.0, "header": 1.1, "latency": 1.0}
        ),
    ),
    Comparison(
        "vhost-pktgen",
        "engine dpdk from vhost to virtio-user against pktgen",
        partial(_generator, "vhost-pktgen", PKTGEN, _pktgen, "vhost-user", "auto"),
    ),
    Comparison(
        "vhost-dperf",
        "engine dpdk from vhost to virtio-user against the UDP flood of dperf",
        partial(
            _generator,
            *("vhost-dperf", DPERF, _dperf, "vhost-user", "auto"),
            settle_s=_DPERF_SETTLE_S,
        ),
    ),
    Comparison(
        "vhost-ancestor",
        "engine dpdk from vhost to virtio-user against nfv-testperf",
        _vhost_ancestor,
    ),
    Comparison(
        "memif",
        "engine dpdk over memif without copies against dpdk-testpmd",
        partial(_cable, "memif", "memif", "memif-zero-copy", {"none": 0.95}),
    ),
    Comparison(
        "memif-pktgen",
        "engine dpdk over memif without copies against pktgen",
        partial(
            _generator,
            *("memif-pktgen", PKTGEN, _pktgen, "memif", "memif-zero-copy"),
            settle_s=_PKTGEN_SETTLE_S,
        ),
    ),
    Comparison(
        "memif-native",
        "engine memif against dpdk-testpmd over memif without copies",
        partial(
            _cable, "memif-native", "memif", "memif-zero-copy", {"header": 1.5}, engine="memif"
        ),
    ),
    Comparison(
        "bypass-testpmd",
        "engine dpdk through switch testpmd against a closed loop of dpdk-testpmd",
        partial(_through, "bypass-testpmd", "testpmd", "vhost-user", "auto", "dpdk", 1.2),
    ),
    Comparison(
        "memif-testpmd",
        "engine memif through switch testpmd against a closed loop of dpdk-testpmd",
        partial(_through, "memif-testpmd", "testpmd", "memif", "memif-zero-copy", "memif", 1.2),
    ),
    Comparison(
        "memif-vpp",
        "engine memif through switch vpp against a closed loop of dpdk-testpmd",
        partial(_through, "memif-vpp", "vpp", "memif", "memif-zero-copy", "memif", 1.2),
    ),
    Comparison(
        "setup-bypass", "what a test through ovs-dpdk costs beyond its traffic", _setup_bypass
    ),
)
