"""Frames that went astray: lost and where, late, duplicated, reordered, corrupted, foreign."""

from __future__ import annotations

from collections import Counter

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.place import Place
from switchmark.model.record import Record

COUNTS = "lost unaccounted late duplicated reordered corrupted foreign stray".split()
"""The counts of a test, each the sum over its trials."""


def total(record: Record, name: str) -> int | None:
    """Return a count of frames over all trials; None where no trial was finished."""
    if not record.trials:
        return None
    counts: list[int] = [getattr(trial, name) for trial in record.trials]
    return sum(counts)


def lost_at(record: Record) -> dict[str, int]:
    """Return the lost frames of all trials by the place where they were lost, as far as counters
    tell."""
    places: Counter[Place] = Counter()
    for trial in record.trials:
        places.update(trial.lost_at)
    return {str(place): frames for place, frames in places.items()}


def lost_share(record: Record) -> float | None:
    """Return the share of lost frames in those sent, each copy counted; None where none was
    sent."""
    return loss_ratio(record.trials) if any(trial.tx_frames for trial in record.trials) else None
