"""The evidence for the verdict, the doubts and the balance of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from switchmark.model.event import EventResult
from switchmark.model.latency import Lag, Stamps
from switchmark.model.noise import HostActivity
from switchmark.model.place import WrittenPlace
from switchmark.model.written import Written, object_schema

Blamed = Literal["switch", "receiver", "function"]
"""The parts that can be charged with lost frames."""


class HeaderCheck(Written):
    """The headers of a flow's frames, compared with the headers that the switch should write."""

    compared: int
    """Frames whose headers were compared."""

    broken: int
    """Compared frames with wrong headers."""

    unkept: int = 0
    """Frames that arrived before a copy of their headers could be kept."""

    unseen: str | None = None
    """Why no headers were visible."""

    found: str | None = None
    """The headers of the first broken frame, in hexadecimal."""

    promised: str | None = None
    """The headers that it should have had, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The frames at both ends of a stretch of the path, `in` and `out` in records."""

    entered: int
    """Frames that entered the stretch."""

    left: int
    """Frames that left the stretch."""


def _balance(value: object) -> object:
    if isinstance(value, Mapping):
        return {"entered": value.get("in"), "left": value.get("out")}
    return value


def _in_and_out(balance: Balance) -> dict[str, int]:
    return {"in": balance.entered, "out": balance.left}


_FRAMES = {"type": "integer"}

_WrittenBalance = Annotated[
    Balance,
    BeforeValidator(_balance),
    PlainSerializer(_in_and_out),
    WithJsonSchema(object_schema(**{"in": _FRAMES, "out": _FRAMES})),
]


class PastSwitch(Written):
    """A port that frames bypassed: it counted fewer frames than arrived through it."""

    arrived: int
    """Frames that arrived on a path through the port."""

    counted: int
    """Frames that the port counted."""


class VerdictEvidence(Written):
    """The evidence for a verdict. Rates are in frames per second; three rates are the low, the mean
    and the high one."""

    rule: str = ""
    """The rule that decided the verdict."""

    unsent_share: float
    """The share of due frames that were not sent."""

    lost_share: float
    """The share of sent frames that were lost."""

    lost_by: dict[Blamed, int] = Field(default_factory=dict)
    """Lost frames by the part that lost them: `switch`, `receiver`, `function`."""

    sender_blocked: float | None = None
    """The share of the senders' attempts that had no room for a whole burst."""

    sender_ns: tuple[float, float] | None = None
    """The senders' CPU time per frame, in nanoseconds: in user space, and in total."""

    receiver_ns: tuple[float, float] | None = None
    """The receivers' CPU time per frame, in nanoseconds: in user space, and in total."""

    receiver_empty_polls: float | None = None
    """The share of the receivers' polls that found nothing."""

    receiver_idle: float | None = None
    """The share of the trial in which the idlest receiver had no frames."""

    switch_busy: float | None = None
    """The share of the phase in which the switch had frames; None if it does not report it."""

    stolen: float | None = None
    """The share of all CPU time that the hypervisor took (steal time)."""

    rate_pps: tuple[float, float, float]
    """The rate received."""

    sent_pps: float
    """The rate sent."""

    direct_pps: tuple[float, float, float] | None = None
    """The baseline: the rate received on a cable; None without a calibration."""

    direct_sent_pps: float | None = None
    """The rate sent on the cable."""

    functions_pps: tuple[float, float, float] | None = None
    """The rate of a chain's functions on cables, if known."""

    apart_pps: tuple[float, float, float] | None = None
    """The rate with a sender and a cable for every copy of a frame, if known."""


class ClockEvidence(Written):
    """The precision of the offset to another kernel's clock, from messages exchanged with a process
    there."""

    unsure_ns: int
    """The largest error of the offset during the trial, in nanoseconds."""

    round_trip_ns: int
    """The shortest round trip of a message, in nanoseconds."""

    drift_ppm: float
    """The drift: how much faster its counter runs than its kernel reports, in ppm."""


class Evidence(Written):
    """All evidence of a trial."""

    taken: dict[str, float] = Field(default_factory=dict)
    """The share of CPU time that other processes took, by CPUs such as `0-1`."""

    started_late_ns: dict[str, int] = Field(default_factory=dict)
    """The delay of threads that began the measured phase late, in nanoseconds, by their parts."""

    headers: dict[str, HeaderCheck] = Field(default_factory=dict)
    """The comparison of headers, by flow."""

    early: int = 0
    """Frames that arrived before they were sent, according to the clocks."""

    left_over: int = 0
    """Frames of the warm-up that the switch had queued and that arrived in the measured phase."""

    after_end: int = 0
    """Distinct frames that arrived from queues after the measured phase."""

    announced: int = 0
    """Frames by which receivers and functions announced their MACs again in the measured phase, as
    a learning switch forgets silent MACs. Only port counters include these frames."""

    clocks: dict[str, ClockEvidence] = Field(default_factory=dict)
    """The clocks of other hosts by host, and of virtual machines by part."""

    unsure_ns: int | None = None
    """The largest error of one-way latency between two clocks, in nanoseconds."""

    skew_ns: int | None = None
    """The largest difference between the cycle counters of the CPUs that read the two times, in
    nanoseconds; None if a single core read both times, or if it is unknown."""

    lag: dict[str, Lag] = Field(default_factory=dict)
    """The delay of paced senders behind their schedule, by the first flow of a sender."""

    stamps: dict[str, Stamps] = Field(default_factory=dict)
    """The source and the precision of arrival times, by flow."""

    mixed: int = 0
    """Flows whose frames arrived on several cores of a function."""

    unfollowed: int = 0
    """Mixed flows without an arrival time for every frame: here `reordered` counts reordering
    within single cores only."""

    ties: int = 0
    """Frames of mixed flows whose times do not show whether a later frame had already arrived on
    another core. Not included in any other counter."""

    events: tuple[EventResult, ...] = ()
    """The events of the trial, with their times and their proof."""

    balance: dict[WrittenPlace, _WrittenBalance] = Field(default_factory=dict)
    """Frames `in` and `out` by stretch of the path, as far as counters show it. A stretch with more
    frames out than in duplicates frames."""

    past: dict[WrittenPlace, PastSwitch] = Field(default_factory=dict)
    """The ports of the switch that frames bypassed, by place."""

    window: HostActivity | None = None
    """The kernel's counts during the trial, warm-up and drain included."""

    verdict: VerdictEvidence | None = None
    """The evidence for the verdict."""

    doubts: dict[str, Any] = Field(default_factory=dict)
    """The evidence for the doubts, by name."""

    discarded: tuple[str, ...] = ()
    """The disturbances that spoiled earlier attempts at this trial."""

    testbed: str = ""
    """The testbed of a lab; missing in a run on a single host."""
