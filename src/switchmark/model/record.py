"""What a trial yields and what a record says: schema 1 of docs/guide/reading-a-record.md.

Counts are integers and exact; rates are derived by whoever prints them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.model.counters import PathCounters, WrittenCounters
from switchmark.model.place import WrittenEnd, WrittenPlace
from switchmark.model.spec import Test
from switchmark.model.trial import TrialSpec

__all__ = [
    "SCHEMA",
    "FlowCounts",
    "Latency",
    "Origin",
    "PartReport",
    "Record",
    "TrialResult",
    "Variation",
    "Verdict",
]

SCHEMA = 1

Verdict = Literal["offered-load", "sender", "receiver", "switch", "function", "host", "unknown"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FlowCounts(_Frozen):
    """One flow's frames of the measured phase. `rx` counts distinct frames."""

    flow: str
    tx: int
    rx: int
    lost: int
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    latency: Latency | None = None


class Variation(_Frozen):
    """How the delays of frames sent in turn differ (IPDV, RFC 5481): absolute nanoseconds, of
    those of a flow that arrived in turn too."""

    count: int
    min: int
    mean: float
    p50: int | None
    p90: int | None
    p99: int | None
    p999: int | None
    max: int
    histogram: str | None = None


class Latency(_Frozen):
    """Nanoseconds from when a frame should have left. A percentile is None unless at least
    ten samples lie beyond it. `histogram` is HdrHistogram's V2 compressed encoding."""

    kind: Literal["rtt", "one-way"]
    count: int
    min: int
    mean: float
    p50: int | None
    p90: int | None
    p99: int | None
    p999: int | None
    p9999: int | None = None
    p99999: int | None = None
    p999999: int | None = None
    max: int
    histogram: str | None = None
    ipdv: Variation | None = None


class PartReport(_Frozen):
    """What one part used in the measured phase; `cores` is CPU time over elapsed time, `user_cores`
    that of it which was not the kernel's. `blocked` are attempts to send that found no room for
    all of the burst, `idle` is the share of the phase in which a receiver found nothing. `threads`
    are the cores of each thread of a switch, by name."""

    part: str
    roles: tuple[str, ...]
    cpu: int | None
    cores: float | None
    user_cores: float | None = None
    threads: dict[str, float] = Field(default_factory=dict)
    polls: int = 0
    blocked: int = 0
    empty_polls: int = 0
    idle: float | None = None
    yields: int = 0
    lag_max_ns: int = 0
    engine_mode: str = ""


class TrialResult(_Frozen):
    """One finished trial. Sums over all flows; `rx_frames` counts duplicates too, so that
    `copies * tx_frames == rx_frames - duplicated + lost`, where a switch makes `copies` of each
    frame. `intervals` are distinct frames received in each interval of `interval_ns` since the
    start of the measured phase, on the receivers' clock. `evidence` has what the verdict, the
    doubts and the balance of the ports rest on, `cost` what the kernel and the processor counted
    of the measured phase and its drain (`lab.meter`)."""

    spec: TrialSpec
    elapsed_ns: int = Field(gt=0)
    tx_frames: int
    tx_unsent: int
    copies: int = 1
    rx_frames: int
    rx_bytes: int
    lost: int
    lost_at: dict[WrittenPlace, int]
    late: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    foreign: int = 0
    stray: int = 0
    interval_ns: int = 100_000_000
    intervals: tuple[int, ...] = ()
    latency: Latency | None = None
    parts: tuple[PartReport, ...] = ()
    per_flow: tuple[FlowCounts, ...] = ()
    verdict: Verdict = "unknown"
    doubts: tuple[str, ...] = ()
    evidence: dict[str, Any] = Field(default_factory=dict)
    counters: WrittenCounters = PathCounters()
    cost: dict[str, Any] = Field(default_factory=dict)

    @property
    def distinct(self) -> int:
        """Frames that arrived at least once."""
        return self.rx_frames - self.duplicated

    @property
    def unaccounted(self) -> int:
        return self.lost - sum(self.lost_at.values())


class Origin(_Frozen):
    """Where a record comes from: the name of its run, the host that it was measured on, and the
    versions that its figures depend on. The run folder knows them; a record that was made
    elsewhere has none."""

    run: str
    host: dict[str, Any]
    versions: dict[str, str]


class Record(BaseModel):
    """One test's outcome (`report.json` gives it the names that a reader meets).

    `reused`: the path was up already, from the test before; it was set up in 0 s then, as one
    that stays up for the next is taken down in 0 s. `r_plus_pps` is the R+ that a rate in
    percent is a share of, all receivers together. `noise` has the host's certificates,
    `calibration` what the traffic program does on a cable, `floor` the latency there, `gate` what
    the functional trial of the path showed; `discarded` says for each trial that was run again,
    why. `nics` are those that were named by PCI address, as they were found, by place.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    number: int
    status: Literal["ok", "failed", "refused"]
    error: str | None
    test: Test
    semantics: str | None = None
    steering: str | None = None
    port: str | None = None
    memory: str | None = None
    engine_mode: str | None = None
    switch_version: str | None = None
    switch_mode: str | None = None
    nics: dict[WrittenEnd, str] = Field(default_factory=dict)
    verdict: Verdict = "unknown"
    doubts: tuple[str, ...] = ()
    noise: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None
    floor: dict[str, Any] | None = None
    gate: dict[str, Any] | None = None
    discarded: tuple[str, ...] = ()
    placement: dict[str, Any] = Field(default_factory=dict)
    trials: tuple[TrialResult, ...] = ()
    search: dict[str, Any] | None = None
    reused: bool = False
    r_plus_pps: float | None = None
    setup_s: float | None = None
    teardown_s: float | None = None
    started: str | None = None
    origin: Origin | None = Field(None, exclude=True)
