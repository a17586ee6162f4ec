"""Checks of the counters read during a trial: frames that bypassed the switch or its fast path,
flooded frames, and CPUs that changed their frequency."""

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
    """Return the ports that counted fewer frames than arrived through them. Counters of a link are
    read one after another, so a difference below 1 % is ignored."""
    return {
        str(place): frames.model_dump()
        for place, frames in trial.evidence.past.items()
        if frames.counted < (1 - _PAST) * frames.arrived
    }


def flooded(trial: TrialResult, feeds: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return the number of frames that reached the wrong receivers, and the number of excess frames
    by port.

    `feeds` maps an output port of the switch to the input ports whose frames should leave there. A
    port has excess frames if it sends more than these inputs received. Frames that announce a MAC
    address and frames left over from the warm-up may leave by any port. A small excess is ignored:
    counters are read one after another, and other traffic may be present.
    """
    astray = {"stray": trial.stray} if trial.stray else {}
    ends = trial.counters.at_switch
    allowed = max(_FLOODED * trial.tx_frames, _FLOODED_FRAMES)
    allowed += trial.evidence.announced + trial.evidence.left_over
    for port, sources in feeds.items():
        left = ends[port].tx if port in ends else None
        came = [ends[source].rx if source in ends else None for source in sources]
        counts = [frames for frames in came if frames is not None]
        if left is not None and len(counts) == len(came) and left - sum(counts) > allowed:
            astray[port] = left - sum(counts)
    return astray


def slow_path(trial: TrialResult) -> dict[str, int] | None:
    """Return the frames that entered the switch and missed its fast path, if there are too many."""
    slow = trial.counters.slow_path or 0
    entered = sum(port.rx or 0 for port in trial.counters.at_switch.values())
    return {"slow_path": slow, "entered": entered} if slow > _SLOW * entered else None


def frequency_changed(window: HostActivity) -> dict[str, Any]:
    """Return the CPUs whose frequency changed during the trial, with the first and the last
    value."""
    frequencies = (window.frequency_khz or {}).items()
    return {
        cpu: [before, now]
        for cpu, (before, now) in frequencies
        if before and now and abs(now - before) > _FREQUENCY * before
    }
