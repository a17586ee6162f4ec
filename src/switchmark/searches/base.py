"""The contract of a search: a policy that picks trials to find a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from switchmark.model.record import TrialResult
from switchmark.model.spec import TrialSpec

__all__ = ["Estimate", "LoadBounds", "Measure", "Search"]

Measure = Callable[[TrialSpec], TrialResult]


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """What was asked: a rate per sender (None: max), seconds of a trial and of its warm-up,
    and how often to repeat."""

    rate_pps: float | None
    duration_s: float
    warmup_s: float
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """The trials that make the figure, in order, and the record's `search` object (None for
    `fixed`)."""

    trials: tuple[TrialResult, ...]
    summary: dict[str, Any] | None


@runtime_checkable
class Search(Protocol):
    """A search. `measure` is its only way to the lab."""

    name: str
    summary: str

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        """Run trials until the answer is known. Errors of `measure` pass through."""
        ...
