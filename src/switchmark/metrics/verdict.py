"""Which part was the limit, as far as the counts of the trials alone can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from switchmark.model.record import TrialResult

__all__ = ["verdict"]

_KEPT_UP = 0.001
"""A share of frames unsent or lost that still counts as keeping up."""


def verdict(trials: Sequence[TrialResult]) -> Literal["offered-load", "unknown"]:
    """`offered-load` if the path carried all that was offered. Otherwise `unknown`: to tell
    the sender's limit from the switch's takes a calibration on `direct`."""
    for trial in trials:
        wanted = trial.tx_frames + trial.tx_unsent
        if (
            trial.spec.rate_pps is None
            or trial.tx_unsent + trial.lost > _KEPT_UP * wanted * trial.copies
        ):
            return "unknown"
    return "offered-load" if trials else "unknown"
