"""The functional trial before measuring. It checks that the switch does the work that the test
measures.

Every frame must arrive once, in order and at the right port only. Its bytes must not change, except
for headers that the switch rewrites by its addressing. Every port must count it as one frame. A
switch that does less, or more, is not measured.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Literal

from switchmark import clock
from switchmark.errors import HostTooBusy, NotEquivalent
from switchmark.lab.trial import Trials
from switchmark.metrics.balance import balanced
from switchmark.model.cpus import format_cpus
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import GateResult, TrialResult, TrialSpec
from switchmark.model.topology import PortKind
from switchmark.path.path import Path
from switchmark.path.ways import between_hosts, ways_of

Gate = Literal["refuse", "doubt", "off"]
"""The action for a switch that fails: refuse it, measure it with a doubt, or skip the check."""

_FRAMES = 100
_SPEC = TrialSpec(rate_pps=_FRAMES / 0.02, duration_s=0.02, warmup_s=0.0)
_TRIES, _SLOWER, _WARMED_UP = 3, 4, {"warmup_s": 0.005}
_LONGEST_S = 1.28  # a sender that shares its CPU with a process of nice -20 runs a few times in it
_KEPT_S = 0.2  # frames that a stopped switch kept come out now, not in the next try
_LAG_S = 1.5  # some devices update their counters once per second


def pass_gate(path: Path, trials: Trials, gate: Gate) -> GateResult | None:
    """Run the functional trial on a path that is up. None if there is nothing to check.

    Raise NotEquivalent if the switch fails and the gate is `refuse`. Raise HostTooBusy if the
    sender gets too little CPU time.

    A disturbance of the host can spoil one try, but a broken switch fails every try. After a loss,
    the next try is slower, because the queues of a crowded host hold few frames. A try that
    receives the frames of the tries before does not count. If frames arrive after the path was
    quiet, all later trials wait longer for quiet.
    """
    test = path.test
    if gate == "off" or all(end.kind is PortKind.NULL for _, end in path.ends):
        return None
    wrong: list[str] = []
    ports = [port.id for port in path.wiring.ports]
    ways = ways_of(path)
    spec = _SPEC
    if test.dimension == "latency" or any(flow.hops for flow in path.flows):
        # Servers and functions pass on the announcements of other parts, too.
        spec = _SPEC.model_copy(update=_WARMED_UP)
    tries, starved, past, missing = 0, 0, False, 0
    while tries < _TRIES:
        trial = trials.measure(spec, proving=True)
        repeated = not trial.lost and 0 < trial.foreign <= missing
        missing = max(0, missing - trial.foreign) + _missing(path, trial)
        if _is_starved(trial):
            starved += 1
            spec = _longer(path, trial, spec)
            continue
        trial = balanced(trial, ports=ports, through=False, ways=ways, **between_hosts(path))
        wrong = list(_wrong(path, trial))
        past = bool(trial.evidence.past)
        if past and not trials.lag_s and _counted_by_devices(path):
            trials.lag_s = _LAG_S
            continue
        tries += not repeated
        # On a busy host, a port counts fewer frames than passed it only if the switch was stopped
        # during its work. The switch then keeps the remaining frames, so some are lost.
        if past and not trial.lost:
            break
        # A try shows little if most frames could not be sent in time.
        if not wrong and trial.tx_frames >= trial.tx_unsent:
            break
        if trial.lost:
            spec = _stretched(spec, _SLOWER)
            clock.sleep(_KEPT_S)
        spec = spec.model_copy(update=_WARMED_UP)  # a switch may count announcements late
        if Place(PlaceKind.LATE) in trial.lost_at:
            trials.quiet_ms *= _SLOWER
    if past:
        trials.lag_s = 0.0
    if wrong and gate == "refuse":
        cables = "--nic names both ends of a cable, a0=SWITCH_END:FAR_END; "
        raise NotEquivalent(
            f"switch {path.switch.name} does not do the work that it is to be measured by, in "
            f"{tries} {'tries' if tries > 1 else 'try'} of {trial.tx_frames} frames"
            + "".join(f"\n  {reason}" for reason in wrong),
            hint=cables * (past and bool(test.nic))
            + "--gate doubt measures it nevertheless, and says so",
        )
    headers = trial.evidence.headers.values()
    return GateResult(
        passed=not wrong,
        tries=tries,
        starved=starved,
        frames=trial.tx_frames,
        headers=sum(flow.compared for flow in headers),
        unseen=next((flow.unseen for flow in headers if flow.unseen is not None), None),
        lag_s=trials.lag_s,
        wrong=tuple(wrong),
    )


def _missing(path: Path, trial: TrialResult) -> int:
    """Return how many frames of a try may arrive in the next ones: those that were lost. The frames
    of its warm-up, which nothing counts, may be behind them."""
    if not trial.lost:
        return 0
    warmup_s = trial.spec.warmup_s + path.test.ramp
    return trial.lost + math.ceil((trial.spec.rate_pps or 0.0) * warmup_s) * path.streams


def _is_starved(trial: TrialResult) -> bool:
    """Return whether the sender missed most of its frames although the switch accepted frames. The
    sender then got no CPU time."""
    senders = [part for part in trial.parts if {"sender", "client"} & set(part.roles)]
    return trial.tx_frames < trial.tx_unsent and not any(part.blocked for part in senders)


def _longer(path: Path, trial: TrialResult, spec: TrialSpec) -> TrialSpec:
    """Return a trial with as many frames in twice the time. Raise HostTooBusy if the trial is
    already at the limit."""
    if 2 * spec.duration_s <= _LONGEST_S:
        return _stretched(spec, 2)
    cpus = sorted({part.cpu for part in trial.parts if part.cpu is not None})
    taken = [
        f"\n  something else ran on CPU {cpu} for {share:.0%} of that time"
        for cpu, share in trial.evidence.taken.items()
        if share > 0
    ]
    raise HostTooBusy(
        f"the host is too busy to try switch {path.switch.name}: its sender got to send "
        f"{trial.tx_frames} of {trial.tx_frames + trial.tx_unsent} frames in {spec.duration_s:g} s"
        + "".join(taken or ["\n  it waited for its turn at a CPU"]),
        hint="end what else runs"
        + (f" on CPU {format_cpus(cpus)}" if cpus else "")
        + " (`top` names it), or --placement with other CPUs",
    )


def _stretched(spec: TrialSpec, times: int) -> TrialSpec:
    """Return a trial with as many frames in a multiple of the time, up to the limit."""
    duration_s = min(times * spec.duration_s, _LONGEST_S)
    return spec.model_copy(update={"duration_s": duration_s, "rate_pps": _FRAMES / duration_s})


def _counted_by_devices(path: Path) -> bool:
    """Return whether the switch's ports include hardware counters."""
    devices = {PortKind.NIC_KERNEL, PortKind.NIC_PCI}
    return any(end.kind in devices for _, end in path.ends)


def _wrong(path: Path, trial: TrialResult) -> Iterator[str]:
    if not trial.tx_frames:
        yield "no frame could be sent"
    if trial.lost:
        places = ", ".join(f"{n} {place}" for place, n in trial.lost_at.items())
        due = trial.tx_frames * trial.copies
        yield f"{trial.lost} of {due} frames did not arrive: {places or 'no trace'}"
    for count, name in (
        (trial.duplicated, "arrived more than once"),
        (trial.reordered, "arrived after a later one"),
        (trial.corrupted, "arrived with other bytes"),
        (trial.stray, "arrived at a port that they were not for"),
        (trial.foreign, "arrived that nobody here had sent"),
    ):
        if count:
            yield f"{count} frames {name}"
    by_port = trial.evidence.headers
    checked = sum(headers.compared + headers.unkept for headers in by_port.values())
    if (
        checked < trial.distinct
        and by_port
        and all(flow.unseen is None for flow in by_port.values())
    ):
        yield f"{trial.distinct - checked} frames arrived with headers that cannot be read"
    for flow, headers in by_port.items():
        if headers.broken:
            arrived_as, expected = (
                bytes.fromhex(text or "") for text in (headers.found, headers.promised)
            )
            yield f"{headers.broken} frames of {flow} arrived with " + "; ".join(
                differences(arrived_as, expected)
            )
    for place, frames in trial.evidence.past.items():
        arrived, counted = frames.arrived, frames.counted
        yield f"{arrived} frames arrived, and {place} counted {counted}: they went past the switch"
    yield from _wrong_at_ports(path, trial)


def _wrong_at_ports(path: Path, trial: TrialResult) -> Iterator[str]:
    """Yield the mistakes in the counters of the switch's ports: they reveal merged, divided and
    flooded frames."""
    ends = trial.counters.at_switch
    wired = {port.id for switch in path.switches for port in switch.wiring.ports}
    if trial.lost or set(ends) != wired:
        return
    for wiring in (switch.wiring for switch in path.switches):
        entered = left = 0
        used = {port for flow in wiring.flows for port in (flow.source, flow.sink)}
        for port in (port.id for port in wiring.ports):
            end = ends[port]
            if end.rx is None or end.tx is None:
                return
            entered, left = entered + end.rx * trial.copies, left + end.tx
            if port not in used and end.tx:
                yield f"{end.tx} frames left at port {port}, which no flow uses"
        if entered != left:
            copied = " as copies" * (trial.copies > 1)
            yield f"{entered} frames entered the switch{copied} and {left} left it"


# --- headers ---------------------------------------------------------------------------------

_VXLAN = (4789).to_bytes(2)


def differences(received: bytes, expected: bytes) -> list[str]:
    """Return the differences between the headers of a frame and the expected headers, up to the
    ports, in words. Lengths and checksums in the frame are checked on their own, not against the
    expected headers."""
    one, other = _fields(received), _fields(expected)
    wrong = [
        f"{name} {one.get(name, 'none')} instead of {other.get(name, 'none')}"
        for name in dict.fromkeys((*other, *one))
        if one.get(name) != other.get(name)
    ]
    start = received.find(b"\x08\x00\x45", 12, 19) + 2
    fields = struct.unpack(">10H", received[start : start + 20]) if start > 1 else ()
    if sum(fields) % 0xFFFF:
        wrong.append("a wrong checksum of the IP header")
    return wrong or ["another length than the IP header says"]


def _fields(head: bytes) -> dict[str, str]:
    offset = 12
    fields = {"destination MAC": head[:6].hex(":"), "source MAC": head[6:12].hex(":")}
    if head[12:14] == b"\x81\x00":
        fields["VLAN tag"] = str(int.from_bytes(head[14:16]))
        offset += 4
    ip = head[offset + 2 :]
    if head[offset : offset + 2] == b"\x86\xdd":
        return fields | {
            "EtherType": "86dd",
            "traffic class and flow label": ip[:4].hex(),
            "next header": str(ip[6]),
            "hop limit": str(ip[7]),
            "source address": str(IPv6Address(ip[8:24])),
            "destination address": str(IPv6Address(ip[24:40])),
            **_ports(ip[40:]),
        }
    return fields | {
        "EtherType": head[offset : offset + 2].hex(),
        "TOS": str(ip[1]),
        "IP identification": ip[4:6].hex(),
        "fragment bits": ip[6:8].hex(),
        "TTL": str(ip[8]),
        "source address": ".".join(map(str, ip[12:16])),
        "destination address": ".".join(map(str, ip[16:20])),
        **_ports(ip[20:]),
    }


def _ports(udp: bytes) -> dict[str, str]:
    ports = {
        "source port": str(int.from_bytes(udp[:2])),
        "destination port": str(int.from_bytes(udp[2:4])),
    }
    if udp[2:4] == _VXLAN:
        ports["UDP checksum"] = udp[6:8].hex()
        ports["VXLAN header"] = udp[8:16].hex()
        ports |= {f"{name} in the tunnel": value for name, value in _fields(udp[16:]).items()}
    return ports
