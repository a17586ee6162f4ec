"""This module finds in what was counted beside a trial that frames went past the switch or its
fast path, or that CPUs changed their speed."""

from __future__ import annotations

from typing import Any

from switchmark.model.noise import HostActivity
from switchmark.model.record import TrialResult

__all__ = ["frequency_changed", "past_switch", "slow_path"]

_FREQUENCY = 0.05
_PAST = 0.01
_SLOW = 0.1


def past_switch(trial: TrialResult) -> dict[str, Any]:
    """Return the ports that counted too few of the frames that arrived. The counters of a link,
    read one by one, may be some frames apart."""
    return {
        str(place): frames.model_dump()
        for place, frames in trial.evidence.past.items()
        if frames.counted < (1 - _PAST) * frames.arrived
    }


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
