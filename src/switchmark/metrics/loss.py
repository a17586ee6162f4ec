"""This module counts frames that went astray: lost and where, late, duplicated, reordered,
corrupted, foreign."""

from __future__ import annotations

from collections import Counter

from switchmark.model.objects import Printed
from switchmark.model.place import Place
from switchmark.model.record import Record

_COUNTS = ("late", "duplicated", "reordered", "corrupted", "foreign", "stray")


def losses(record: Record) -> Printed:
    """Return `lost`, `lost_at`, `unaccounted` and the other counts, summed over the trials; None,
    and no places, where no trial was finished."""
    if not record.trials:
        return {"lost": None, "lost_at": {}, "unaccounted": None, **dict.fromkeys(_COUNTS)}
    places: Counter[Place] = Counter()
    for trial in record.trials:
        places.update(trial.lost_at)
    return {
        "lost": sum(trial.lost for trial in record.trials),
        "lost_at": {str(place): frames for place, frames in places.items()},
        "unaccounted": sum(trial.unaccounted for trial in record.trials),
        **{name: sum(getattr(trial, name) for trial in record.trials) for name in _COUNTS},
    }
