"""A worker is a process of the traffic program that is up, with the parts that it plays."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.functions.traffic import TrafficProcess
from switchmark.model.topology import Part

__all__ = ["Worker"]


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker is a traffic process and the parts that it plays."""

    process: TrafficProcess
    parts: tuple[Part, ...]
