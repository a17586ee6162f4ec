"""This module says how the path of a test was kept between the rounds in which it was compared."""

from __future__ import annotations

from typing import Literal

from switchmark.model.written import Written

Kept = Literal["frozen", "idle", "set-up-again", "one-at-a-time"]


class TurnsRecord(Written):
    """This record says what became of a test's path while others that it is compared with were
    measured."""

    kept: Kept
    """It stayed up, its processes `frozen`; or `idle`, as none of them works without frames; it was
    `set-up-again` for each round; or the tests were run `one-at-a-time`, without rounds."""

    why: str | None = None
    """Why it was set up again, or why tests were run one at a time."""

    freezer: str | None = None
    """What froze it: `cgroup v1` or `cgroup v2`."""

    rested_s: float | None = None
    """Seconds for which it was up and others were measured."""

    rested_cpu_s: float | None = None
    """The CPU time that its processes used meanwhile, in seconds."""

    frames_after: int | None = None
    """The frames of the functional trial after it had rested for the first time."""

    looks: int = 1
    """How often the run was judged, to see whether its results are decided (`until_decided`)."""


LOOKS = 3
"""As often at most is a run judged that goes on until its results are decided."""


def one_at_a_time(why: str) -> TurnsRecord:
    """Return the record of a test that was not measured in turn with those that it is compared
    with, and why."""
    return TurnsRecord(kept="one-at-a-time", why=why)
