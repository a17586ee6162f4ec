"""The places where links, switch and functions of a path dropped frames, from their counters: in a
trial, and in its intervals."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.model.counters import PathCounters
from switchmark.model.place import Place, PortEnd
from switchmark.model.record import TrialResult
from switchmark.path.path import Path


def counted_places(path: Path, counted: PathCounters) -> dict[Place, int]:
    """Return the places at which counters of a path show drops, and those frames. A frame lost
    before the switch is missing in every copy."""
    places = {
        Place.function(part_id): sum(
            (port.rx_dropped or 0) + (port.tx_dropped or 0) for port in ports.values()
        )
        for part_id, ports in counted.functions.items()
    }
    guests = {port.id for part in path.in_vms for port in part.ports}
    for end, counters in counted.links.items():
        places[Place.out(end)] = counters.tx_dropped or 0
        # Drops at a full veth end show at its peer. A guest's NIC has no such peer.
        if end.at_switch or end.port in guests:
            places[Place.into(end)] = counters.rx_dropped or 0
    for source in {flow.source for flow in path.flows}:
        ends = (Place.out(PortEnd(source)), Place.into(PortEnd(source, at_switch=True)))
        places |= {end: places[end] * path.test.copies for end in ends if end in places}
    return {place: frames for place, frames in places.items() if frames}


def by_interval(path: Path, trial: TrialResult, counted: Mapping[int, PathCounters]) -> TrialResult:
    """Return the trial with the places of the losses of its intervals. `counted` are the counters
    of intervals, by number. They show drops only: frames are in flight while they are read one
    after the other, so their differences are no losses."""
    series = trial.series
    if series is None or series.lost is None or not counted:
        return trial
    places = tuple(
        _at_most(counted_places(path, counted[number]), lost) if number in counted else None
        for number, lost in enumerate(series.lost)
    )
    with_places = series.model_copy(update={"lost_at": places})
    return trial.model_copy(update={"series": with_places})


def _at_most(places: Mapping[Place, int], lost: int) -> dict[Place, int]:
    """Return places with no more frames than were lost. A drop at the end of an interval may be of
    a frame that was due in the next one."""
    kept: dict[Place, int] = {}
    for place, frames in places.items():
        kept[place] = min(frames, lost - sum(kept.values()))
    return {place: frames for place, frames in kept.items() if frames}
