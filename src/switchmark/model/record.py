"""The specification and the result of a trial, and the record of a test: schema 1 of
docs/guide/reading-a-record.md.

Counts are exact integers; the code that prints a record derives the rates.
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
from switchmark.model.imported import Imported
from switchmark.model.latency import Latency
from switchmark.model.noise import HostNoise
from switchmark.model.place import WrittenEnd, WrittenPlace
from switchmark.model.search import SearchResult
from switchmark.model.series import TimeSeries
from switchmark.model.test import Test
from switchmark.model.written import OrEmpty, Written, object_schema

SCHEMA = 1

_INTERVALS = 50  # the least per trial that is enough to find its steady part
_INTERVALS_MAX = 60_000

Verdict = Literal["offered-load", "sender", "receiver", "switch", "function", "host", "unknown"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrialSpec(BaseModel):
    """A trial to run: a load and a duration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate_pps: float | None
    """The offered load per sender, in frames per second; None for the maximum."""
    duration_s: float
    """The measured phase, in seconds."""
    warmup_s: float
    """The warm-up before the measured phase, in seconds."""
    frames: int | None = None
    """The number of frames per sender that ends the trial early; None for no limit."""
    repeat: int = 1
    """The repeat of its search, from 1; always 1 if every trial is a repeat."""
    steps: tuple[tuple[float, float], ...] = ()
    """The changes of the load in the measured phase: the time in seconds, and the share of
    `rate_pps` from then on. Missing without changes."""

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `repeat` if it is 1, and `steps` if there are none, as in early records."""
        content: dict[str, Any] = write(self)
        if self.repeat == 1:
            content.pop("repeat", None)
        if not self.steps:
            content.pop("steps", None)
        return content

    @property
    def longest_ns(self) -> int:
        """Return the duration of its longer phase, in nanoseconds."""
        return round(max(self.duration_s, self.warmup_s) * 1e9)

    @property
    def interval_ns(self) -> int:
        """Return the interval for counting arrivals: 0.1 s, or less in a trial below 5 s."""
        interval_ns = max(1_000_000, min(100_000_000, round(self.duration_s * 1e9) // _INTERVALS))
        return max(interval_ns, self.longest_ns // _INTERVALS_MAX)


class FlowCounts(_Frozen):
    """The frame counts of a flow in the measured phase."""

    flow: str
    """The flow: sender and receiver, such as `f0-f1`, with a number if they share several flows."""

    tx: int
    """Frames sent."""

    rx: int
    """Distinct frames that arrived."""

    lost: int
    """Frames sent that did not arrive."""

    duplicated: int = 0
    """Duplicates of frames that had already arrived."""

    reordered: int = 0
    """Frames that arrived after a frame that was sent later."""

    corrupted: int = 0
    """Frames with a wrong checksum or wrong bytes."""

    latency: Latency | None = None
    """The latency of the flow, if flows were measured separately."""


class PartReport(_Frozen):
    """The CPU use of a part in the measured phase. Cores are CPU time divided by elapsed time."""

    part: str
    """The id of the part, or `switch`."""

    roles: tuple[str, ...]
    """Its roles: `sender`, `receiver`, `client`, `server`, `forwarder`, `function`, `switch`."""

    cpu: int | None
    """Its CPU; None if it is not pinned to a single CPU."""

    cores: float | None
    """Cores used; None if unknown."""

    user_cores: float | None = None
    """Cores used in user space."""

    threads: dict[str, float] = Field(default_factory=dict)
    """Cores used by the threads of a switch, by thread name."""

    polls: int = 0
    """Attempts to send or to receive a burst."""

    blocked: int = 0
    """Attempts to send that had no room for the whole burst."""

    empty_polls: int = 0
    """Attempts to receive that found nothing."""

    idle: float | None = None
    """The share of the phase in which a receiver had no frames."""

    yields: int = 0
    """How often it yielded the CPU."""

    lag_max_ns: int = 0
    """The longest delay of a paced sender behind its schedule, in nanoseconds."""

    engine_mode: str = ""
    """The variant of the engine."""


class TrialResult(_Frozen):
    """The result of a trial: sums over all flows.

    Every frame has `copies` receivers, so `copies * tx_frames == rx_frames - duplicated + lost`."""

    spec: TrialSpec
    """The specification of the trial."""

    elapsed_ns: int = Field(gt=0)
    """The length of the measured phase, in nanoseconds."""

    tx_frames: int
    """Frames sent: those that the senders' engines accepted."""

    tx_unsent: int
    """Frames that were due and not sent."""

    copies: int = 1
    """Frames that should arrive for every frame sent."""

    rx_frames: int
    """Frames that arrived, with duplicates."""

    rx_bytes: int
    """Bytes of the frames that arrived, with headers and FCS."""

    lost: int
    """Frames that should have arrived and did not."""

    lost_at: dict[WrittenPlace, int]
    """Lost frames by place, as far as counters show it."""

    late: int = 0
    """Frames that arrived after the senders had stopped."""

    duplicated: int = 0
    """Duplicates of frames that should arrive once."""

    reordered: int = 0
    """Frames that arrived after a frame that was sent later."""

    corrupted: int = 0
    """Frames with a wrong checksum or wrong bytes; they count as lost."""

    foreign: int = 0
    """Frames that this run did not send; they count nowhere else."""

    stray: int = 0
    """Frames that reached a receiver they were not addressed to."""

    interval_ns: int = 100_000_000
    """The length of an interval, in nanoseconds."""

    intervals: tuple[int, ...] = ()
    """Distinct frames received in each interval since the start of the measured phase, on the
    receivers' clock."""

    latency: Latency | None = None
    """The latency of all frames; None if it was not measured."""

    series: TimeSeries | None = Field(None, exclude_if=lambda series: series is None)
    """The counts by interval (`interval`), and the longest gaps; missing without `interval`."""

    parts: tuple[PartReport, ...] = ()
    """CPU use, by part."""

    per_flow: tuple[FlowCounts, ...] = ()
    """Frame counts, by flow."""

    verdict: Verdict = "unknown"
    """The bottleneck."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust the trial."""

    evidence: Evidence = Evidence()
    """The evidence for the verdict, the doubts and the balance of the ports."""

    round: int | None = None
    """The round of a comparison: trials of two tests in the same round of a run took place within
    moments of each other. None if trials were not interleaved."""

    counters: WrittenCounters = PathCounters()
    """Frames counted at the ends of ports (`f0` at its part, `f0@switch`) and by functions
    (`function f2 f2.0`). `switch` has the cycles of a polling switch, and the frames on the slow
    path of a switch with a fast path."""

    cost: OrEmpty[TrialCost] = None
    """Counts of the kernel and the processor in the measured phase; an empty object if they were
    not read."""

    @property
    def distinct(self) -> int:
        """Return the frames that arrived at least once."""
        return self.rx_frames - self.duplicated

    @property
    def unaccounted(self) -> int:
        return self.lost - sum(self.lost_at.values())


class GateResult(Written):
    """The functional trial before the measurement: whether the switch forwards frames as the test
    requires."""

    passed: bool
    """Whether the switch passed."""

    tries: int
    """Functional trials that were valid."""

    starved: int = 0
    """Functional trials that were void because the sender got no CPU time."""

    frames: int
    """Frames sent in the last functional trial."""

    headers: int = 0
    """Frames of that trial whose headers were compared."""

    unseen: str | None = None
    """Why headers could not be compared; None if they were."""

    lag_s: float = 0.0
    """The delay of device counters, in seconds."""

    wrong: tuple[str, ...] = ()
    """The faults in the last functional trial, in sentences."""


Kept = Literal["frozen", "idle", "set-up-again", "one-at-a-time"]


class TurnsRecord(Written):
    """The state of a test's path while the tests that it is compared with were measured."""

    kept: Kept
    """`frozen`: the path stayed up with frozen processes. `idle`: it stayed up, as its processes do
    nothing without frames. `set-up-again`: it was built again for every round. `one-at-a-time`: the
    tests ran without rounds."""

    why: str | None = None
    """Why the path was built again, or why tests ran one at a time."""

    freezer: str | None = None
    """The freezer: `cgroup v1` or `cgroup v2`."""

    rested_s: float | None = None
    """The time that the path was up while other tests were measured, in seconds."""

    rested_cpu_s: float | None = None
    """The CPU time of the path's processes in that time, in seconds."""

    frames_after: int | None = None
    """The frames of the functional trial after the first rest."""

    looks: int = 1
    """How often the run was checked for decided results (`until_decided`)."""


LOOKS = 3
"""The most checks of a run that continues until its results are decided."""


def one_at_a_time(why: str) -> TurnsRecord:
    """Return the record of a test without rounds, and the reason."""
    return TurnsRecord(kept="one-at-a-time", why=why)


def _pin(value: object) -> object:
    if isinstance(value, Mapping):
        return {"cpus": value.get("cpus"), "yield_": value.get("yield")}
    return value


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
"""A pin as a member of a record; early records have its CPUs only."""


class PlacementRecord(Written):
    """The CPUs of the parts of a test."""

    policy: str
    """The placement policy in effect, never `auto`."""

    seats: dict[str, _WrittenPin]
    """`cpus` by part, and whether the part must `yield` to a neighbour on them."""

    orchestrator: int | None = None
    """The CPU of switchmark itself; None if no CPU is free for it."""

    doubts: tuple[str, ...] = ()
    """The doubts of this placement."""


class Origin(_Frozen):
    """The origin of a record in a run folder; other records have none."""

    run: str
    """The name of the run."""

    host: dict[str, Any]
    """The facts about the host of the measurement that reports show."""

    facts: dict[str, Any] = Field(default_factory=dict)
    """All facts about that host, as in `host.json`."""

    versions: dict[str, str]
    """The versions that the figures depend on."""

    alike: tuple[str, ...] = ()
    """The testbeds with the same properties, if the testbeds of the lab differ."""

    differences: tuple[str, ...] = ()
    """The differences between the testbeds of the lab."""


def _time(text: str) -> str:
    """Return the text if it is a time with an offset, since 1970; raise ValueError otherwise."""
    try:
        time = datetime.fromisoformat(text)
        time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("out of range") from error
    if time.tzinfo is None or time.year < 1970:
        raise ValueError("a time is written with its offset, since 1970")
    return text


class PreparedValue(Written):
    """A value that `--prepare` set on a host: all files of a pattern with the same values."""

    host: str = ""
    """The name of the host; empty for the local host."""

    preparation: str
    """The name of the preparation."""

    files: str
    """The files, as a pattern."""

    count: int
    """The number of files."""

    was: str
    """The value before the run."""

    asked: str
    """The value to set."""

    now: str
    """The value during the test. It differs from `asked` if the kernel refused it, or writes the
    same value in another way."""


class Record(BaseModel):
    """The outcome of a test. `report.json` gives its members the names in `--json`."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(pattern="^[0-9a-z]*$")
    """The hash of the test's axes and of the versions that matter."""

    number: int
    """The number of the test in its run."""

    status: Literal["ok", "failed", "refused"]
    """`ok`: measured. `failed`: set-up or a trial failed. `refused`: the test can never work."""

    error: str | None
    """Why the test was not measured."""

    test: Test
    """The values of all axes."""

    semantics: str | None = None
    """How the switch forwarded frames."""

    steering: str | None = None
    """How frames were steered through a chain; None without a chain."""

    port: str | None = None
    """The kinds of the ports."""

    memory: str | None = None
    """The memory of the frames; None if there is no choice."""

    engine_mode: str | None = None
    """The variant of the engine."""

    switch_version: str | None = None
    """The version of the switch."""

    switch_mode: str | None = None
    """The variant of the switch, such as its datapath."""

    nics: dict[WrittenEnd, str] = Field(default_factory=dict)
    """The NICs named by PCI address, as the host found them, by end of a port."""

    cables: dict[str, str] | None = None
    """The cables between the hosts of a remote test, by name: both ends, and whether the cable was
    made for the test. None for a local test."""

    verdict: Verdict = "unknown"
    """The bottleneck."""

    doubts: tuple[str, ...] = ()
    """Reasons not to trust the result."""

    noise: HostNoise | None = None
    """The noise of the host before and after the test."""

    calibration: Calibration | NoCalibration | None = None
    """The baseline: the rate on a cable without the switch. None without a calibration."""

    floor: CableLatency | NoCableLatency | None = None
    """The baseline latency: the same test on a cable. None for a test without latency."""

    gate: GateResult | None = None
    """The result of the functional trial; None without one."""

    turns: TurnsRecord | None = None
    """The state of the path between rounds; None for a test without a comparison."""

    discarded: tuple[str, ...] = ()
    """The disturbances that spoiled trials which were then repeated, with their evidence."""

    placement: OrEmpty[PlacementRecord] = None
    """The CPUs of the parts; an empty object if there is no placement."""

    prepared: tuple[PreparedValue, ...] | None = None
    """The values of the hosts that `--prepare` set; None without it."""

    refused: tuple[str, ...] | None = None
    """The undos of the set-up that a program refused and that left nothing, in words. None if there
    are none."""

    trials: tuple[TrialResult, ...] = ()
    """The trials behind the result, in order."""

    search: SearchResult | None = None
    """The result of the search; None for a test without a search."""

    reused: bool = False
    """Whether the path was still up from the previous test."""

    r_plus_pps: float | None = None
    """The R+ behind a rate in percent: frames per second over all receivers."""

    setup_s: float | None = None
    """The time to build the path, in seconds; 0 if it was already up."""

    start_s: float | None = None
    """The part of `setup_s` from the exec of the switch to its ready message, in seconds; None for
    a kernel switch, and if the path was already up."""

    teardown_s: float | None = None
    """The time to take the path down, in seconds; 0 if it stays up for the next test."""

    stop_s: float | None = None
    """The part of `teardown_s` in which the processes of the switch ended, in seconds; None without
    any."""

    started: Annotated[str, AfterValidator(_time)] | None = None
    """The start of the test: date, time and offset (ISO 8601)."""

    @property
    def alike(self) -> tuple[str, ...]:
        """Return the testbeds with the same properties, if the testbeds of the lab differ. Results
        of other testbeds are not comparable."""
        return self.origin.alike if self.origin else ()

    @property
    def testbeds(self) -> tuple[str, ...]:
        """Return the testbeds of the lab that ran its trials; empty for a run on a single host."""
        return tuple(sorted({trial.evidence.testbed for trial in self.trials} - {""}))

    origin: Origin | None = Field(None, exclude=True)
    """The run that it comes from."""

    imported: Imported | None = Field(None, exclude=True)
    """The file of another program that it comes from; None for a test of this program."""
