"""A trial, as it is asked for and as it came out, and the record of a test: schema 1 of
docs/guide/reading-a-record.md.

Counts are integers and exact; rates are derived by whoever prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

from switchmark.model.cable import CableLatency, Calibration, NoCableLatency, NoCalibration
from switchmark.model.cost import TrialCost
from switchmark.model.counters import PathCounters, WrittenCounters
from switchmark.model.cpus import Pin
from switchmark.model.evidence import Evidence
from switchmark.model.latency import Latency
from switchmark.model.noise import Noise
from switchmark.model.place import WrittenEnd, WrittenPlace
from switchmark.model.search import SearchResult
from switchmark.model.test import Test
from switchmark.model.written import OrEmpty, Written, object_schema

SCHEMA = 1

_INTERVALS = 50  # at least so many in a trial, for its steady part to be found
_INTERVALS_MAX = 60_000

Verdict = Literal["offered-load", "sender", "receiver", "switch", "function", "host", "unknown"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrialSpec(BaseModel):
    """A trial to be run: a load for a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate_pps: float | None
    """Frames per second of each sender; None for as fast as it can."""
    duration_s: float
    """Seconds that are measured."""
    warmup_s: float
    """Seconds of traffic before them, which are not."""
    frames: int | None = None
    """The frames of each sender after which the trial ends, if that is before its time."""
    repeat: int = 1
    """The repeat of its search that it belongs to, from 1; 1 where each trial is a repeat."""

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write it as before there were repeats of searches, where it is none."""
        written: dict[str, Any] = write(self)
        if self.repeat == 1:
            written.pop("repeat", None)
        return written

    @property
    def longest_ns(self) -> int:
        """Return how long its longer phase lasts."""
        return round(max(self.duration_s, self.warmup_s) * 1e9)

    @property
    def interval_ns(self) -> int:
        """Return the intervals in which arrivals are counted: 0.1 s, less in a trial below 5 s."""
        wanted = max(1_000_000, min(100_000_000, round(self.duration_s * 1e9) // _INTERVALS))
        return max(wanted, self.longest_ns // _INTERVALS_MAX)


class FlowCounts(_Frozen):
    """The frames of one flow in the measured phase."""

    flow: str
    """The flow: its sender and its receiver, such as `f0-f1`, and a number where there are more."""

    tx: int
    """Frames sent."""

    rx: int
    """Distinct frames received."""

    lost: int
    """Frames sent that did not arrive."""

    duplicated: int = 0
    """Further copies of a frame."""

    reordered: int = 0
    """Frames that arrived after one that was sent later."""

    corrupted: int = 0
    """Frames with a wrong checksum or wrong bytes."""

    latency: Latency | None = None
    """Its latency, where each flow was measured by itself."""


class PartReport(_Frozen):
    """What one part used in the measured phase. Cores are CPU time divided by elapsed time."""

    part: str
    """The part, or `switch`."""

    roles: tuple[str, ...]
    """What it does: `sender`, `receiver`, `client`, `server`, `forwarder`, `function`, `switch`."""

    cpu: int | None
    """The CPU that it ran on; None where it is not pinned to one."""

    cores: float | None
    """Cores that it used; None where that is not known."""

    user_cores: float | None = None
    """That of it which was not the kernel's."""

    threads: dict[str, float] = Field(default_factory=dict)
    """Of a switch: the cores of each of its threads, by name."""

    polls: int = 0
    """Attempts to send or to receive a burst."""

    blocked: int = 0
    """Attempts to send that found no room for all of the burst."""

    empty_polls: int = 0
    """Attempts to receive that found nothing."""

    idle: float | None = None
    """The share of the phase in which a receiver found nothing."""

    yields: int = 0
    """How often it gave up its turn at the CPU."""

    lag_max_ns: int = 0
    """How far a paced sender fell behind, at most, in nanoseconds."""

    engine_mode: str = ""
    """The variant of the engine that was used."""


class TrialResult(_Frozen):
    """One finished trial: sums over all flows. Each frame has `copies`, so that `copies * tx_frames
    == rx_frames - duplicated + lost`."""

    spec: TrialSpec
    """What was asked for."""

    elapsed_ns: int = Field(gt=0)
    """The measured phase, in nanoseconds."""

    tx_frames: int
    """Frames that the senders' engines took."""

    tx_unsent: int
    """Frames that should have been sent and were not."""

    copies: int = 1
    """How many frames are to arrive of each that is sent."""

    rx_frames: int
    """Frames that arrived, duplicates too."""

    rx_bytes: int
    """Their bytes, with headers and FCS."""

    lost: int
    """Frames that were to arrive and did not."""

    lost_at: dict[WrittenPlace, int]
    """The places of these, as far as counters tell."""

    late: int = 0
    """Of those that arrived, the ones that came after the senders had stopped."""

    duplicated: int = 0
    """Further copies of a frame that was to arrive once."""

    reordered: int = 0
    """Frames that arrived after one that was sent later."""

    corrupted: int = 0
    """Frames with a wrong checksum or wrong bytes; they count as lost."""

    foreign: int = 0
    """Frames that this run did not send; they count nowhere else."""

    stray: int = 0
    """Frames that came to a receiver which they were not for."""

    interval_ns: int = 100_000_000
    """The length of an interval, in nanoseconds."""

    intervals: tuple[int, ...] = ()
    """Distinct frames received in each interval since the start of the measured phase, on the
    receivers' clock."""

    latency: Latency | None = None
    """Of all frames; None where none was measured."""

    parts: tuple[PartReport, ...] = ()
    """What each part used."""

    per_flow: tuple[FlowCounts, ...] = ()
    """What became of each flow."""

    verdict: Verdict = "unknown"
    """Which part was the limit."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust it."""

    evidence: Evidence = Evidence()
    """What the verdict, the doubts and the balance of the ports rest on."""

    round: int | None = None
    """The round that it was measured in, where tests were compared in turn: trials of two tests in
    one round of one run were measured a moment apart. None where tests were not measured in
    turn."""

    counters: WrittenCounters = PathCounters()
    """Frames that the ends of each port have counted (`f0`, at its part; `f0@switch`), and
    functions (`function f2 f2.0`); of a `switch` the cycles if it polls, and the frames that took
    its slow path, if it has a fast one."""

    cost: OrEmpty[TrialCost] = None
    """What the kernel and the processor counted in the measured phase; an empty object where they
    were not asked."""

    @property
    def distinct(self) -> int:
        """Return the frames that arrived at least once."""
        return self.rx_frames - self.duplicated

    @property
    def unaccounted(self) -> int:
        return self.lost - sum(self.lost_at.values())


class GateResult(Written):
    """The functional trial before measuring: whether the switch does the work that it is measured
    by."""

    passed: bool
    """It does."""

    tries: int
    """Trials that counted."""

    starved: int = 0
    """Trials that were void, as the sender had no turn at its CPU."""

    frames: int
    """Frames that were sent in the last of them."""

    headers: int = 0
    """Of how many of those the headers were compared."""

    unseen: str | None = None
    """Why of none, where they could not be."""

    lag_s: float = 0.0
    """How late the counters of devices are, in seconds."""

    wrong: tuple[str, ...] = ()
    """What was wrong in the last trial, in sentences."""


Kept = Literal["frozen", "idle", "set-up-again", "one-at-a-time"]


class TurnsRecord(Written):
    """What became of a test's path while the tests that it is compared with were measured."""

    kept: Kept
    """It stayed up, its processes `frozen`; or `idle`, as none of them works without frames; it was
    `set-up-again` for each round; or the tests were run `one-at-a-time`, without rounds."""

    why: str | None = None
    """Why it was set up again, or why tests were run one at a time."""

    freezer: str | None = None
    """What froze it: `cgroup v1` or `cgroup v2`."""

    rested_s: float | None = None
    """Seconds for which it was up and others were measured."""

    rested_cpu_s: float | None = None
    """The CPU time that its processes used meanwhile, in seconds."""

    frames_after: int | None = None
    """The frames of the functional trial after it had rested for the first time."""

    looks: int = 1
    """How often the run was judged, to see whether its results are decided (`until_decided`)."""


LOOKS = 3
"""As often at most is a run judged that goes on until its results are decided."""


def one_at_a_time(why: str) -> TurnsRecord:
    """Return the record of a test that was not measured in turn with those that it is compared
    with, and why."""
    return TurnsRecord(kept="one-at-a-time", why=why)


def _pin(value: object) -> object:
    if isinstance(value, Mapping):
        return Pin(tuple(value["cpus"]), value["yield"])
    return tuple(value) if isinstance(value, list) else value


def _cpus_and_yield(pin: Pin | tuple[int, ...]) -> dict[str, Any] | list[int]:
    if isinstance(pin, Pin):
        return {"cpus": list(pin.cpus), "yield": pin.yield_}
    return list(pin)


_CPUS = {"type": "array", "items": {"type": "integer"}}

_WrittenPin = Annotated[
    Pin | tuple[int, ...],
    BeforeValidator(_pin),
    PlainSerializer(_cpus_and_yield),
    WithJsonSchema({"anyOf": [object_schema(cpus=_CPUS, **{"yield": {"type": "boolean"}}), _CPUS]}),
]
"""A seat as a member of a record; in early ones its CPUs alone."""


class PlacementRecord(Written):
    """Where the parts of a test ran."""

    policy: str
    """The policy that was followed, never `auto`."""

    seats: dict[str, _WrittenPin]
    """By part: its `cpus`, and whether it must `yield` to a neighbour."""

    orchestrator: int | None = None
    """The CPU left for switchmark itself; None where none is."""

    doubts: tuple[str, ...] = ()
    """What is to be doubted of it."""


class Origin(_Frozen):
    """Where a record comes from. A run folder knows; a record made elsewhere has none."""

    run: str
    """The name of its run."""

    host: dict[str, Any]
    """Facts of the host that it was measured on."""

    versions: dict[str, str]
    """The versions that its figures depend on."""

    alike: tuple[str, ...] = ()
    """The testbeds that are like its own, where those of its lab are not all alike."""

    differences: tuple[str, ...] = ()
    """In what the testbeds of its lab differ."""


def _time(text: str) -> str:
    """Return a text that is a time which can be told in UTC; ValueError for any other."""
    try:
        time = datetime.fromisoformat(text)
        time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("out of range") from error
    if time.tzinfo is None or time.year < 1970:
        raise ValueError("a time is written with its offset, since 1970")
    return text


class Record(BaseModel):
    """The outcome of one test. `report.json` gives its members the names that a reader meets."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(pattern="^[0-9a-z]*$")
    """The hash of what the result belongs to: the test's axes and the versions that matter."""

    number: int
    """The test's number in its run."""

    status: Literal["ok", "failed", "refused"]
    """Measured; set up or tried in vain; or never to work as asked."""

    error: str | None
    """Why it was not measured."""

    test: Test
    """Every axis with its value."""

    semantics: str | None = None
    """What the switch did with a frame."""

    steering: str | None = None
    """How frames found their way through a chain; None without one."""

    port: str | None = None
    """The kinds of the ports."""

    memory: str | None = None
    """Where frames were kept; None where there is no choice."""

    engine_mode: str | None = None
    """The variant of the engine that was used."""

    switch_version: str | None = None
    """The version of the switch."""

    switch_mode: str | None = None
    """A variant of it that matters, such as its datapath."""

    nics: dict[WrittenEnd, str] = Field(default_factory=dict)
    """The NICs that were named by PCI address, as they were found, by end of a port."""

    cables: dict[str, str] | None = None
    """What joined the two hosts of a test, by the name of each cable: both ends, and whether it was
    made for the test; None where there was one host."""

    verdict: Verdict = "unknown"
    """Which part was the limit."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust the figure."""

    noise: Noise | None = None
    """The host's certificates."""

    calibration: Calibration | NoCalibration | None = None
    """What the traffic program does on a cable; None without one."""

    floor: CableLatency | NoCableLatency | None = None
    """The latency of the same test on a cable; None for a test of no latency."""

    gate: GateResult | None = None
    """What the functional trial of the path showed; None where there was none."""

    turns: TurnsRecord | None = None
    """How its path was kept between the rounds of tests that are compared in turn; None for a test
    that is compared with none."""

    discarded: tuple[str, ...] = ()
    """For each trial that was run again: the disturbance that spoiled it, and its evidence."""

    placement: OrEmpty[PlacementRecord] = None
    """The CPUs of each part; an empty object where it has none."""

    trials: tuple[TrialResult, ...] = ()
    """The trials that make the figure, in order."""

    search: SearchResult | None = None
    """What the search found; None where there was nothing to search for."""

    reused: bool = False
    """The path was up already, from the test before."""

    r_plus_pps: float | None = None
    """The R+ that a rate in percent is a share of: frames a second of all receivers together."""

    setup_s: float | None = None
    """Seconds to build the path; 0 where it was up already."""

    start_s: float | None = None
    """Of these, the seconds from the switch's exec to its own word that it is ready; None for one
    of the kernel, and where the path was up already."""

    teardown_s: float | None = None
    """Seconds to take it down; 0 where it stays up for the next."""

    stop_s: float | None = None
    """Of these, the seconds that the switch's processes took to end; None where none did."""

    started: Annotated[str, AfterValidator(_time)] | None = None
    """When the test began: date, time and offset (ISO 8601)."""

    @property
    def alike(self) -> tuple[str, ...]:
        """Return the testbeds that are like its own, where those of its lab are not all alike: with
        what others measured it cannot be compared."""
        return self.origin.alike if self.origin else ()

    @property
    def testbeds(self) -> tuple[str, ...]:
        """Return the testbeds of a lab that its trials were made on; none in a run of one host."""
        return tuple(sorted({trial.evidence.testbed for trial in self.trials} - {""}))

    origin: Origin | None = Field(None, exclude=True)
    """Where it comes from."""
