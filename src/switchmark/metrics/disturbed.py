"""This module finds in what was counted beside a trial that frames went past the switch or its
fast path, or to ports that they were not for, or that CPUs changed their speed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from switchmark.model.noise import HostActivity
from switchmark.model.record import TrialResult

_FREQUENCY = 0.05
_PAST = 0.01
_SLOW = 0.1
_FLOODED, _FLOODED_FRAMES = 0.001, 10


def past_switch(trial: TrialResult) -> dict[str, Any]:
    """Return the ports that counted too few of the frames that arrived. The counters of a link,
    read one by one, may be some frames apart."""
    return {
        str(place): frames.model_dump()
        for place, frames in trial.evidence.past.items()
        if frames.counted < (1 - _PAST) * frames.arrived
    }


def flooded(trial: TrialResult, feeds: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return how many frames came to receivers that they were not for, and how many more frames
    left at ports of the switch than came in for them, by `feeds`: the ports where the frames come
    in that are to leave by a port. What announces a MAC may leave by any port, and so may
    what was left over from the warm-up. Some frames more are those of others, or counters that are
    read one by one."""
    astray = {"stray": trial.stray} if trial.stray else {}
    ends = trial.counters.at_switch
    allowed = max(_FLOODED * trial.tx_frames, _FLOODED_FRAMES)
    allowed += trial.evidence.announced + trial.evidence.left_over
    for port, sources in feeds.items():
        left = ends[port].tx if port in ends else None
        came = [ends[source].rx if source in ends else None for source in sources]
        known = [frames for frames in came if frames is not None]
        if left is not None and len(known) == len(came) and left - sum(known) > allowed:
            astray[port] = left - sum(known)
    return astray


def slow_path(trial: TrialResult) -> dict[str, int] | None:
    """Return how many of the frames that came into the switch did not take its fast path, if they
    are too many."""
    slow = trial.counters.slow_path or 0
    entered = sum(each.rx or 0 for each in trial.counters.at_switch.values())
    return {"slow_path": slow, "entered": entered} if slow > _SLOW * entered else None


def frequency_changed(window: HostActivity) -> dict[str, Any]:
    """Return the CPUs whose frequency at the end is another than at the beginning, with both."""
    both = (window.frequency_khz or {}).items()
    return {
        cpu: [then, now]
        for cpu, (then, now) in both
        if then and now and abs(now - then) > _FREQUENCY * then
    }
