"""Frames that did not arrive as sent: lost (with the place), late, duplicated, reordered, corrupted
or foreign."""

from __future__ import annotations

from collections import Counter

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.place import Place
from switchmark.model.record import Record

COUNTS = "lost unaccounted late duplicated reordered corrupted foreign stray".split()
"""The counts of a test, summed over its trials."""


def total(record: Record, name: str) -> int | None:
    """Return a count of frames summed over all trials; None without a finished trial."""
    if not record.trials:
        return None
    counts: list[int] = [getattr(trial, name) for trial in record.trials]
    return sum(counts)


def lost_at(record: Record) -> dict[str, int]:
    """Return the lost frames of all trials by the place of the loss, as far as counters show it."""
    places: Counter[Place] = Counter()
    for trial in record.trials:
        places.update(trial.lost_at)
    return {str(place): frames for place, frames in places.items()}


def lost_share(record: Record) -> float | None:
    """Return lost frames as a share of the frames sent, counting all copies; None if no frame was
    sent."""
    return loss_ratio(record.trials) if any(trial.tx_frames for trial in record.trials) else None
