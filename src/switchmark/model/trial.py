"""The trial that a search, a gate or a calibration asks for; `model.record` has what came of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["TrialSpec"]


class TrialSpec(BaseModel):
    """A trial that is asked for is one run of the traffic, at a load for a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate_pps: float | None
    """Frames per second of each sender; None for as fast as it can."""
    duration_s: float
    """Seconds that are measured."""
    warmup_s: float
    """Seconds of traffic before them, which are not."""
    frames: int | None = None
    """The frames of each sender after which the trial ends, if that is before its time."""
