"""Frames and rates: what was sent, what arrived, how sure that is, and how evenly it was shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from switchmark.model.record import Record, TrialResult
from switchmark.model.units import gbps_l1, gbps_l2, mean_frame_bytes

__all__ = ["confidence", "fairness", "is_lower_bound", "per_flow", "received", "sent", "steady_pps"]

_DRAWS = 10_000
_MIN_REPEATS = 3


def sent(record: Record) -> dict[str, Any] | None:
    """`tx`: frames of the measured phase, frames per second, and frames that had no room."""
    if not record.trials:
        return None
    frames = sum(trial.tx_frames for trial in record.trials)
    return {
        "frames": frames,
        "pps": frames / _elapsed_s(record.trials),
        "unsent": sum(trial.tx_unsent for trial in record.trials),
    }


def received(record: Record) -> dict[str, Any] | None:
    """`rx`: all frames that arrived, duplicates too, and the rate of distinct ones in frames
    and in bits per second of L1 and L2."""
    if not record.trials:
        return None
    if record.test.search == "max":
        pps = sum(map(steady_pps, record.trials)) / len(record.trials)
    else:
        pps = sum(trial.distinct for trial in record.trials) / _elapsed_s(record.trials)
    size = mean_frame_bytes(record.test.frame_size)
    return {
        "frames": sum(trial.rx_frames for trial in record.trials),
        "pps": pps,
        "gbps_l1": gbps_l1(pps, size),
        "gbps_l2": gbps_l2(pps, size),
    }


def steady_pps(trial: TrialResult) -> float:
    """R+: the mean of the interval arrivals without the first and the last interval, and
    without what came after the measured phase; of the whole trial where that leaves none."""
    within = trial.intervals[: trial.elapsed_ns // trial.interval_ns]
    steady = within[1:-1]
    if not steady:
        return _whole_pps(trial)
    return sum(steady) / len(steady) * 1e9 / trial.interval_ns


def is_lower_bound(verdict: str) -> bool:
    """Whether the rate bounds the traffic program, so that the switch may be faster."""
    return verdict in ("sender", "receiver")


def confidence(record: Record) -> tuple[float, float] | None:
    """95 % of the mean received rate, bootstrapped over the repeats; None below three of them.

    The draws are seeded by a constant, so that a record always yields the same interval.
    """
    if len(record.trials) < _MIN_REPEATS:
        return None
    import numpy as np

    one = steady_pps if record.test.search == "max" else _whole_pps
    rates = np.array([one(trial) for trial in record.trials])
    draws = np.random.default_rng(0).choice(rates, (_DRAWS, len(rates))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    return float(low), float(high)


def per_flow(record: Record) -> list[dict[str, Any]]:
    """The counts of each flow, summed over the trials."""
    flows: dict[str, dict[str, Any]] = {}
    for trial in record.trials:
        for counts in trial.per_flow:
            new = counts.model_dump()
            old = flows.get(counts.flow)
            flows[counts.flow] = (
                {name: n if name == "flow" else n + old[name] for name, n in new.items()}
                if old
                else new
            )
    return list(flows.values())


def fairness(record: Record) -> float | None:
    """Jain's index over what each flow received: 1 if all alike, 1/n if one took it all.
    (Jain, Chiu, Hawe: DEC-TR-301, 1984.)"""
    shares = [flow["rx"] for flow in per_flow(record)]
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def _whole_pps(trial: TrialResult) -> float:
    return trial.distinct * 1e9 / trial.elapsed_ns


def _elapsed_s(trials: Sequence[TrialResult]) -> float:
    return sum(trial.elapsed_ns for trial in trials) / 1e9
