"""The comparisons vhost, memif, bypass-testpmd and setup-bypass are of ports in user space, with
dpdk-testpmd on the same devices, without hugepages on both sides."""

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
from bench.peers import NFV_TESTPERF, PKTGEN, TESTPMD, MissingPeer, find
from bench.report import Row, absolute, compared
from bench.testpmd import devices, eal, telemetry, testpmd
from switchmark.errors import Unavailable
from switchmark.hosts.base import Process
from switchmark.metrics.throughput import steady_pps
from switchmark.model.plan import Check, Run, Wait
from switchmark.switches import TABLE as SWITCHES

_BURST = 32
_RX_BURST = 64  # our receivers ask for so many
_SETTLE_S = 0.3
_TXONLY = (f"--txpkts={FRAME_BYTES - 4}", f"--burst={_BURST}")
_SETUP_S = 4.0
_ANCESTOR_RATE = 1_000_000_000  # more than it can
_ANCESTOR_SETTLE_S = 2.5  # its start, and its first period, which is thrown away

Measure = Callable[[], float]


def _track(bed: Bed, switch: str, port: str, driver: str = "auto", **axes: Any) -> Track:
    return bed.track(switch, "dpdk", port=port, driver=driver, memory="no-huge", **axes)


def _ours(session: Session, track: Track, engine: str = "dpdk", **axes: Any) -> float:
    """Return the received rate of switchmark in million frames per second."""
    result = trial(
        session.bed,
        track,
        sender=engine,
        receiver=engine,
        burst=_BURST,
        seconds=session.seconds,
        axes=axes,
    )
    return steady_pps(result) / 1e6


def _counted(session: Session, track: Track, program: str) -> float:
    """Return the rate that dpdk-testpmd receives at the end of the track, in million frames per
    second."""
    receiver = testpmd(session.bed, track, program, "rxonly", ("f1",), (f"--burst={_RX_BURST}",))
    with telemetry(session.bed, "testpmd-f1", receiver, (0,)) as counters:
        time.sleep(_SETTLE_S)
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
    `limits` are those of touch none and of touch header."""
    program = find(TESTPMD)
    track = _track(session.bed, "direct", port, driver)
    ours = partial(_ours, session, track, engine)
    slots: dict[str, Measure] = {
        "A": partial(ours, touch="none"),
        "B": partial(_txonly, session, track, program),
        "A again": partial(ours, touch="none"),
        "header": partial(ours, touch="header"),
        "full": partial(ours, touch="full"),
        "full 1500": partial(ours, touch="full", frame_size=1500),
    }
    samples = interleaved(session.pairs, slots, session.say)
    peer = "testpmd txonly, rxonly"
    alike = "the same device arguments, " if engine == "dpdk" else ""

    def row(title: str, touch: str, pairs: dict[str, list[float]], *notes: str) -> Row:
        limit = Limit("at least", limits[touch]) if touch in limits else None
        return compared(title, f"{engine}, touch {touch}", peer, "Mpps", pairs, limit, notes)

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


def _vhost_pktgen(session: Session) -> list[Row]:
    program, receiver = find(PKTGEN), find(TESTPMD)
    track = _track(session.bed, "direct", "vhost-user")
    ours = partial(_ours, session, track, touch="none")
    slots: dict[str, Measure] = {
        "A": ours,
        "B": partial(_pktgen, session, track, program, receiver),
        "A again": ours,
    }
    return [
        compared(
            "vhost-pktgen",
            "dpdk, touch none",
            "pktgen, testpmd rxonly",
            "Mpps",
            interleaved(session.pairs, slots, session.say),
            None,
            ("64 B, vhost-user, received",),
        )
    ]


def _pktgen(session: Session, track: Track, program: str, receiver: str) -> float:
    bed, name = session.bed, "pktgen"
    commands = bed.logs / "pktgen.pkt"
    commands.write_text(f"set 0 size {FRAME_BYTES}\nset 0 burst {_BURST}\nstart 0\n")
    with bed.block():
        options = eal(bed, name, track.cpu("f0"), devices(track, ("f0",)))
        bed.start(
            name,
            (program, *options, "--", "-P", "-m", "1.0", "-f", str(commands)),
            track.node("f0"),
            env={"RUNTIME_DIRECTORY": str(bed.folder)},
        )
        return _counted(session, track, receiver)


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

    path = track.layout.endpoints["f0"].path
    remove = ("rm", "-f", path)
    with bed.block():
        bed.executor.execute((Run("no socket of another before", remove, undo=remove),))
        start("send", "f0", "f1")
        listens = ("ss", "--unix", "--no-header", "state", "listening", "src", path)
        check = Check(listens, track.node("f0"), pattern=r"\S")
        bed.executor.execute((Wait("it listens", check, unless_dead="ancestor-send"),))
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


def _bypass_testpmd(session: Session) -> list[Row]:
    program = find(TESTPMD)
    track = _track(session.bed, _switch("testpmd"), "vhost-user", placement="shared-process")
    ours = partial(_ours, session, track)
    slots: dict[str, Measure] = {
        "A": ours,
        "B": partial(_flowgen, session, track, program),
        "A again": ours,
    }
    return [
        compared(
            "bypass-testpmd",
            "dpdk, shared-process",
            "testpmd flowgen",
            "Mpps",
            interleaved(session.pairs, slots, session.say),
            Limit("at least", 1.1),
            (
                "64 B through switch testpmd (io), vhost-user, received; both are one process of"
                " one thread on the same core; sender and receiver of A check every frame, one"
                " way; B sends and receives at both ports, and is counted at both",
            ),
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
        partial(_cable, "vhost", "vhost-user", "auto", {"none": 1.0, "header": 0.8}),
    ),
    Comparison("vhost-pktgen", "engine dpdk into vhost against pktgen", _vhost_pktgen),
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
        "memif-native",
        "engine memif against dpdk-testpmd over memif without copies",
        partial(
            _cable, "memif-native", "memif", "memif-zero-copy", {"header": 1.5}, engine="memif"
        ),
    ),
    Comparison(
        "bypass-testpmd",
        "engine dpdk through switch testpmd against a closed loop of dpdk-testpmd",
        _bypass_testpmd,
    ),
    Comparison(
        "setup-bypass", "what a test through ovs-dpdk costs beyond its traffic", _setup_bypass
    ),
)
