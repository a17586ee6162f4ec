"""Frames that did not arrive as sent: lost (with the place), late, duplicated, reordered, corrupted
or foreign; and the loss that trials can exclude."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.place import Place
from switchmark.model.record import Record, TrialResult

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


# --- the loss that trials can exclude --------------------------------------------------------

_BEYOND = 0.05
_EXACT = 10_000
"""The most lost frames for which the bound is computed exactly. Above, the approximation of Wilson
and Hilferty (1931) differs by less than a millionth."""

_NORMAL = 1.6448536269514722  # the quantile of the normal distribution beyond which 5 % lie


def loss_bound(record: Record) -> float | None:
    """Return the 95 % upper bound of the loss ratio of a test (see `bound_of`); None if no frame
    was sent."""
    return bound_of(record.trials)


def bound_of(trials: Sequence[TrialResult]) -> float | None:
    """Return the 95 % upper bound of the loss ratio that some trials show; None if no frame was
    sent.

    It is the loss ratio at which so few lost frames, or fewer, would be seen in 5 % of cases, if
    frames were lost independently of each other: 3/n for no loss in n frames.
    """
    frames = sum(trial.tx_frames * trial.copies for trial in trials)
    return upper_bound(sum(trial.lost for trial in trials), frames) if frames else None


def upper_bound(lost: int, frames: int) -> float:
    """Return the 95 % upper bound of a loss ratio after `lost` of `frames` frames were lost."""
    return min(1.0, _most(max(lost, 0)) / frames)


def frames_that_tell(loss_ratio: float) -> int:
    """Return how many frames without loss show that the loss ratio is below this one."""
    return math.ceil(_most(0) / loss_ratio)


@lru_cache(maxsize=4096)
def _most(count: int) -> float:
    """Return the mean of the Poisson distribution that gives at most `count` in 5 % of cases."""
    shape = count + 1
    if count > _EXACT:
        part = 1 - 1 / (9 * shape) + _NORMAL / (3 * math.sqrt(shape))
        return shape * part**3
    low, high = float(count), count + 10 + 10 * math.sqrt(shape)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(count, middle) > _BEYOND else (low, middle)
    return high


def _at_most(count: int, mean: float) -> float:
    """Return the probability that a Poisson variable with this mean is at most `count`."""
    if mean <= 0:
        return 1.0
    # The largest term is the last one, as the mean is above the count: the sum runs down from it.
    term = total = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    for number in range(count, 0, -1):
        term *= number / mean
        total += term
        if term < total * 1e-17:
            break
    return total
