"""The evidence for the verdict, the doubts and the balance of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from switchmark.model.latency import Lag, Stamps
from switchmark.model.noise import HostActivity
from switchmark.model.place import WrittenPlace
from switchmark.model.written import Written, object_schema

Blamed = Literal["switch", "receiver", "function"]
"""Who can be charged with lost frames."""


class HeaderCheck(Written):
    """The headers of a flow's frames, compared with those that the addressing of the switch
    promises."""

    compared: int
    """Frames whose headers were compared."""

    broken: int
    """Those of them that had other headers."""

    unkept: int = 0
    """Frames that arrived, of whose headers no copy was kept in time."""

    unseen: str | None = None
    """Why no headers could be seen."""

    found: str | None = None
    """The headers of the first broken frame, in hexadecimal."""

    promised: str | None = None
    """What they should have been."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The frames at both ends of a stretch of the path; a record says `in` and `out`."""

    entered: int
    """Frames that went into it."""

    left: int
    """Frames that came out of it."""


def _balance(value: object) -> object:
    return Balance(value["in"], value["out"]) if isinstance(value, Mapping) else value


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
    """Frames went past a port that counted fewer than must have come through it."""

    arrived: int
    """Frames that arrived by way of it."""

    counted: int
    """Those that the port counted."""


class VerdictEvidence(Written):
    """The evidence for a verdict. Rates are frames a second; three rates are low, mean and high."""

    rule: str = ""
    """The rule that decided."""

    unsent_share: float
    """Frames that were not sent, of those that should have been."""

    lost_share: float
    """Frames that were lost, of those sent."""

    lost_by: dict[Blamed, int] = Field(default_factory=dict)
    """Lost frames by whose they are: `switch`, `receiver`, `function`."""

    sender_blocked: float | None = None
    """The share of the senders' attempts that found no room for all of a burst."""

    sender_ns: tuple[float, float] | None = None
    """What the senders spend on a frame, in nanoseconds: outside of the kernel, and in all."""

    receiver_ns: tuple[float, float] | None = None
    """The same of the receivers."""

    receiver_empty_polls: float | None = None
    """The share of the receivers' polls that found nothing."""

    receiver_idle: float | None = None
    """The share of the trial that the idlest receiver was without a frame."""

    switch_busy: float | None = None
    """The share of the phase in which the switch had frames; None where it does not tell."""

    stolen: float | None = None
    """The share of all CPU time that the hypervisor kept."""

    rate_pps: tuple[float, float, float]
    """The rate received."""

    sent_pps: float
    """The rate sent."""

    direct_pps: tuple[float, float, float] | None = None
    """The rate received on a cable; None without a calibration."""

    direct_sent_pps: float | None = None
    """The rate sent there."""

    functions_pps: tuple[float, float, float] | None = None
    """The rate of the functions of a chain on cables, where it is known."""

    apart_pps: tuple[float, float, float] | None = None
    """The rate of a sender and a cable for each copy of a frame, where it is known."""


class ClockEvidence(Written):
    """How precisely the clock of another kernel is known, from messages exchanged with a process
    there."""

    unsure_ns: int
    """By how much it was wrong at most during the trial, in nanoseconds."""

    round_trip_ns: int
    """The shortest exchange, in nanoseconds."""

    drift_ppm: float
    """By how much its counter runs faster than its kernel says, in millionths."""


class Evidence(Written):
    """All evidence of a trial."""

    taken: dict[str, float] = Field(default_factory=dict)
    """By CPUs, such as `0-1`: the share of them that others took."""

    started_late_ns: dict[str, int] = Field(default_factory=dict)
    """By the parts of a thread: how long after its start it began, in nanoseconds; if late."""

    headers: dict[str, HeaderCheck] = Field(default_factory=dict)
    """By flow, where headers were looked at."""

    early: int = 0
    """Frames that came before they were sent, by the clocks."""

    left_over: int = 0
    """Frames of the warm-up that came in the measured phase: the switch had held them."""

    after_end: int = 0
    """Distinct frames that came when the measured phase was over: queues had held them."""

    announced: int = 0
    """Frames by which receivers and functions announced their MACs again in the measured phase, as
    a switch that learns forgets a MAC that sends nothing. Only the counters of ports have them."""

    clocks: dict[str, ClockEvidence] = Field(default_factory=dict)
    """By host, or by part in a virtual machine: the clocks that are not this host's."""

    unsure_ns: int | None = None
    """Between two clocks: by how much one-way latency may be wrong at most, in nanoseconds."""

    skew_ns: int | None = None
    """By how much the cycle counters of the CPUs may differ between which latencies were measured,
    in nanoseconds; None where one core read both times, or where that is not known."""

    lag: dict[str, Lag] = Field(default_factory=dict)
    """By the first flow of each sender with a rate: how far it was behind when a frame was made."""

    stamps: dict[str, Stamps] = Field(default_factory=dict)
    """By flow: who told when its frames arrived, and within which time."""

    mixed: int = 0
    """Flows of which frames came to several cores of a function."""

    unfollowed: int = 0
    """Of these, such of which not every frame's time was noted: of their frames `reordered` counts
    what overtook within each core."""

    ties: int = 0
    """Frames of flows that came to several cores, of which their times do not tell whether a later
    one had come before to another core. In no count."""

    balance: dict[WrittenPlace, _WrittenBalance] = Field(default_factory=dict)
    """By stretch of the path, as far as counters tell: frames `in` and `out`. One that gives more
    than it got multiplies frames."""

    past: dict[WrittenPlace, PastSwitch] = Field(default_factory=dict)
    """By place, where frames went past a port of the switch."""

    window: HostActivity | None = None
    """What the kernel counted meanwhile, warm-up and drain included."""

    verdict: VerdictEvidence | None = None
    """Of the verdict."""

    doubts: dict[str, Any] = Field(default_factory=dict)
    """Of each doubt, by its name: whatever shows it."""

    discarded: tuple[str, ...] = ()
    """For each trial that was run again before this one: the disturbance that spoiled it."""

    testbed: str = ""
    """The testbed of a lab that it was measured on; missing in a run of one host."""
