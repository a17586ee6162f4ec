"""The trial that a search, a gate or a calibration asks for; `model.record` has what came of it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

_INTERVALS = 50  # at least so many in a trial, for its steady part to be found
_INTERVALS_MAX = 60_000


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
