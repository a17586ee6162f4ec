"""This module says what the functional trial before measuring showed of a path."""

from __future__ import annotations

from switchmark.model.written import Written


class GateResult(Written):
    """This record says whether the switch does the work that it is to be measured by."""

    passed: bool
    """It does."""

    tries: int
    """Trials that counted."""

    starved: int = 0
    """Trials that were void, as the sender had no turn at its CPU."""

    frames: int
    """Frames that were sent in the last of them."""

    headers: int = 0
    """Of how many of those the headers were compared."""

    unseen: str | None = None
    """Why of none, where they could not be."""

    lag_s: float = 0.0
    """How late the counters of devices are, in seconds."""

    wrong: tuple[str, ...] = ()
    """What was wrong in the last trial, in sentences."""
