"""The test (one point of a campaign) and the trial specs that a search asks for.

Every axis of the command line is a field of `Test`; campaigns, records and options are
derived from this one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from switchmark.model.units import (
    Rate,
    mean_frame_bytes,
    parse_cpu_limit,
    parse_duration,
    parse_frame_size,
    parse_rate,
    parse_share,
    parse_shares,
)

__all__ = ["Test", "TrialSpec"]


def _usual_burst(axes: dict[str, Any]) -> int:
    """32 frames for throughput; one at a time for latency, unless bursts are asked for."""
    return 1 if axes.get("dimension") == "latency" else 32


class Test(BaseModel):
    """One point: every axis at one value. Names are checked against the tables later
    (`layout.resolve`), ranges here. Rates are per sender and kept as written."""

    __test__ = False  # not a test case, whatever pytest thinks of its name

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: Literal["throughput", "latency"] = "throughput"
    locality: Literal["local"] = "local"
    scenario: str = "v2v"
    direction: Literal["uni", "bi"] = "uni"
    switch: str = "linux-bridge"
    switch_environment: str = "netns"
    environment: str = "netns"
    image: str | None = None
    function: str = "traffic"
    engine: str = "raw-mmsg"
    driver: str = "auto"
    port: str = "auto"
    semantics: str = "auto"
    memory: Literal["auto", "hugepages", "no-huge"] = "auto"
    offload: Literal["auto", "off"] = "auto"
    switch_cores: int = Field(1, ge=1, le=64)
    queues: int = Field(1, ge=1, le=16)
    descriptors: int | None = Field(None, ge=64, le=32768)
    frame_size: int | str = 64
    rate: str = "max"
    burst: int = Field(default_factory=_usual_burst, ge=1, le=4096)
    pairs: int = Field(1, ge=1, le=64)
    chain: int = Field(1, ge=1, le=8)
    chains: int = Field(1, ge=1, le=64)
    flows: int = Field(1, ge=1, le=16384)
    flows_by: Literal["mac", "ip", "port"] = "port"
    copies: int = Field(1, ge=1, le=64)
    vlan: int | None = Field(None, ge=1, le=4094)
    touch: Literal["none", "header", "full"] = "header"
    placement: str = "auto"
    cpu_limit: str | None = None
    noise: str | None = None
    search: str = "fixed"
    loss_ratio: float = 0.005
    precision: float = 0.005
    loads: str = "10,50,99"
    duration: float = Field(10.0, gt=0, le=86400)
    warmup: float = Field(0.5, ge=0, le=3600)
    repeat: int = Field(1, ge=1, le=1000)
    until_certain: float | None = None
    seed: int = Field(0, ge=0)
    nic: str | None = None

    @field_validator("frame_size", mode="before")
    @classmethod
    def _size(cls, value: str | int) -> int | str:
        return parse_frame_size(value)

    @field_validator("rate", mode="before")
    @classmethod
    def _rate(cls, value: str | int | float) -> str:
        parse_rate(value)
        return str(value)

    @field_validator("loss_ratio", "precision", "until_certain", mode="before")
    @classmethod
    def _share(cls, value: str | int | float | None) -> float | None:
        return None if value is None else parse_share(value)

    @field_validator("loads", mode="before")
    @classmethod
    def _loads(cls, value: str | int | float) -> str:
        parse_shares(str(value))
        return str(value)

    @field_validator("duration", "warmup", mode="before")
    @classmethod
    def _seconds(cls, value: str | int | float) -> float:
        return parse_duration(value)

    @field_validator("cpu_limit", mode="before")
    @classmethod
    def _cpu_limit(cls, value: str | int | float | None) -> str | None:
        return None if value is None else str(parse_cpu_limit(value))

    @property
    def limits(self) -> Mapping[str, float]:
        """The CPU limit in percent of one core, of `switch` or of `function`."""
        if self.cpu_limit is None:
            return {}
        limit = parse_cpu_limit(self.cpu_limit)
        return {limit.who: limit.percent}

    @property
    def parsed_rate(self) -> Rate:
        return parse_rate(self.rate)

    @property
    def rate_pps(self) -> float | None:
        """Frames per second and sender; None for `max`."""
        return self.parsed_rate.per_second(mean_frame_bytes(self.frame_size))


class TrialSpec(BaseModel):
    """One run of the traffic: a load for a time. `rate_pps` None means as fast as it goes;
    `frames` ends that after so many of each sender."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate_pps: float | None
    duration_s: float
    warmup_s: float
    frames: int | None = None
