"""The functional trial before measuring: does the switch do the work that it is compared by?

Each frame arrives once, in order, where it should and nowhere else, unchanged but for what the
switch's addressing says that it writes, and is one frame at every port. A switch that does less, or
more, is not measured.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Literal

from switchmark.campaign.layout import Layout
from switchmark.campaign.outcome import AT_SWITCH
from switchmark.campaign.trial import Trials
from switchmark.errors import NotEquivalent
from switchmark.metrics.balance import balanced
from switchmark.model.record import TrialResult
from switchmark.model.spec import TrialSpec
from switchmark.model.topology import PortKind

__all__ = ["Gate", "differences", "pass_gate"]

Gate = Literal["refuse", "doubt", "off"]
"""What is done with a switch that fails: not measured, measured with a doubt, not even tried."""

_SPEC = TrialSpec(rate_pps=5000, duration_s=0.02, warmup_s=0.0)
_TRIES = 3


def pass_gate(layout: Layout, trials: Trials, gate: Gate) -> dict[str, Any] | None:
    """Try a path that is up: `passed`, the number of `tries`, the `frames` sent, of how many the
    `headers` were compared (an engine of sockets sees none), and what was `wrong` at the last.
    NotEquivalent if it fails and is to be refused. None where nothing is to
    be tried.

    A host may disturb one try, a broken switch fails each.
    """
    test = layout.test
    nowhere = all(end.kind is PortKind.NULL for end in layout.endpoints.values())
    if gate == "off" or nowhere:
        return None
    wrong: list[str] = []
    ports = [port.id for port in layout.wiring.ports]
    spec = _SPEC
    if test.dimension == "latency" or any(flow.hops for flow in layout.flows):
        # Servers and functions pass on even what others announce.
        spec = _SPEC.model_copy(update={"warmup_s": 0.005})
    tries = 0
    while tries < _TRIES:
        tries += 1
        trial = balanced(trials.measure(spec, proving=True), ports=ports, through=False)
        wrong = list(_wrong(layout, trial))
        # Where most frames could not be sent in time, as on a busy host, little was shown.
        if not wrong and trial.tx_frames >= trial.tx_unsent:
            break
    if not wrong:
        return {"passed": True, "tries": tries, **_tried(trial), "wrong": []}
    if gate == "refuse":
        raise NotEquivalent(
            f"switch {layout.switch.name} does not do the work that it is to be measured by, in "
            f"{_TRIES} tries of {trial.tx_frames} frames"
            + "".join(f"\n  {reason}" for reason in wrong),
            hint="--gate doubt measures it nevertheless, and says so",
        )
    return {"passed": False, "tries": _TRIES, **_tried(trial), "wrong": wrong}


def _tried(trial: TrialResult) -> dict[str, int]:
    compared = sum(flow["compared"] for flow in trial.evidence.get("headers", {}).values())
    return {"frames": trial.tx_frames, "headers": compared}


def _wrong(layout: Layout, trial: TrialResult) -> Iterator[str]:
    if not trial.tx_frames:
        yield "no frame could be sent"
    if trial.lost:
        places = ", ".join(f"{n} {place}" for place, n in trial.lost_at.items())
        wanted = trial.tx_frames * trial.copies
        yield f"{trial.lost} of {wanted} frames did not arrive: {places or 'no trace'}"
    for count, what in (
        (trial.duplicated, "arrived more than once"),
        (trial.reordered, "arrived after a later one"),
        (trial.corrupted, "arrived with other bytes"),
        (trial.stray, "arrived at a port that they were not for"),
        (trial.foreign, "arrived that nobody here had sent"),
    ):
        if count:
            yield f"{count} frames {what}"
    for flow, headers in trial.evidence.get("headers", {}).items():
        if headers["broken"]:
            yield f"{headers['broken']} frames of {flow} arrived with " + "; ".join(
                differences(bytes.fromhex(headers["found"]), bytes.fromhex(headers["promised"]))
            )
    yield from _wrong_at_ports(layout, trial)


def differences(found: bytes, promised: bytes) -> list[str]:
    """What of the headers of a frame is not as promised, in words, up to the ports; lengths and
    checksums of its own are right or wrong by themselves."""
    one, other = _fields(found), _fields(promised)
    wrong = [
        f"{name} {one.get(name, 'none')} instead of {other.get(name, 'none')}"
        for name in dict.fromkeys((*other, *one))
        if one.get(name) != other.get(name)
    ]
    at = found.find(b"\x08\x00\x45", 12) + 2
    words = struct.unpack(">10H", found[at : at + 20])
    if sum(words) % 0xFFFF:
        wrong.append("a wrong checksum of the IP header")
    return wrong or ["another length than the IP header says"]


def _fields(head: bytes) -> dict[str, str]:
    at = 12
    fields = {"destination MAC": head[:6].hex(":"), "source MAC": head[6:12].hex(":")}
    if head[12:14] == b"\x81\x00":
        fields["VLAN tag"] = str(int.from_bytes(head[14:16]))
        at += 4
    ip = head[at + 2 :]
    return fields | {
        "EtherType": head[at : at + 2].hex(),
        "TOS": str(ip[1]),
        "IP identification": ip[4:6].hex(),
        "fragment bits": ip[6:8].hex(),
        "TTL": str(ip[8]),
        "source address": ".".join(map(str, ip[12:16])),
        "destination address": ".".join(map(str, ip[16:20])),
        "source port": str(int.from_bytes(ip[20:22])),
        "destination port": str(int.from_bytes(ip[22:24])),
    }


def _wrong_at_ports(layout: Layout, trial: TrialResult) -> Iterator[str]:
    """Frames merged, divided or flooded show in what the switch's ports counted."""
    ends = {
        place.removesuffix(AT_SWITCH): counted
        for place, counted in trial.counters.items()
        if place.endswith(AT_SWITCH)
    }
    if trial.lost or any(end["rx"] is None or end["tx"] is None for end in ends.values()):
        return
    if set(ends) != {port.id for port in layout.wiring.ports}:
        return
    used = {port for flow in layout.wiring.flows for port in (flow.source, flow.sink)}
    for port, end in ends.items():
        if port not in used and end["tx"]:
            yield f"{end['tx']} frames left at port {port}, which no flow uses"
    entered = sum(end["rx"] for end in ends.values()) * trial.copies
    left = sum(end["tx"] for end in ends.values())
    if entered != left:
        copied = " as copies" * (trial.copies > 1)
        yield f"{entered} frames entered the switch{copied} and {left} left it"
