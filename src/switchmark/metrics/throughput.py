"""Rates and losses of trials: frames sent and received, confidence intervals, stability and
fairness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from switchmark.metrics import statistics
from switchmark.metrics.latency import merged
from switchmark.metrics.statistics import MIN_OF_INTERVAL, median_interval, mser_start
from switchmark.model.objects import Printed
from switchmark.model.record import FlowCounts, Record, TrialResult
from switchmark.model.test import Test

MIN_REPEATS = MIN_OF_INTERVAL
"""The least number of figures for an interval."""


def sent(record: Record) -> Printed | None:
    """Return the field `tx`: frames of the measured phase, frames per second, and frames for which
    the sender had no room."""
    if not record.trials:
        return None
    frames = sum(trial.tx_frames for trial in record.trials)
    return {
        "frames": frames,
        "pps": frames / _elapsed_s(record.trials),
        "unsent": sum(trial.tx_unsent for trial in record.trials),
    }


def steady_pps(trial: TrialResult) -> float:
    """Return R+: the mean rate of the intervals in the steady part of a trial, or the rate of the
    whole trial if no interval remains.

    The steady part omits the first and the last interval, arrivals after the measured phase, and
    the initial transient that MSER-5 finds.
    """
    steady = steady_rate_pps(trial.intervals, trial.elapsed_ns, trial.interval_ns)
    return _whole_pps(trial) if steady is None else steady


def steady_rate_pps(intervals: Sequence[int], elapsed_ns: int, interval_ns: int) -> float | None:
    """Return R+ from the intervals of a trial; None if there are too few intervals."""
    return _steady_rate_pps(tuple(intervals), elapsed_ns, interval_ns)


@lru_cache(maxsize=16384)
def _steady_rate_pps(intervals: tuple[int, ...], elapsed_ns: int, interval_ns: int) -> float | None:
    steady = intervals[: elapsed_ns // interval_ns][1:-1]
    if not steady:
        return None
    steady = steady[mser_start(steady) :]
    return sum(steady) / len(steady) * 1e9 / interval_ns


def loss_ratio(trials: Sequence[TrialResult], *, unsent: bool = False) -> float:
    """Return lost frames as a share of the frames sent; 0 if there were none. With `unsent`, frames
    that could not be sent count as lost."""
    lost = sum(trial.lost + trial.tx_unsent * trial.copies * unsent for trial in trials)
    expected = sum((t.tx_frames + t.tx_unsent * unsent) * t.copies for t in trials)
    return lost / expected if expected else 0.0


def rates_pps(record: Record) -> list[float]:
    """Return the received rate of each trial: R+ for a search of R+, else the rate of the whole
    trial. A record of another program has the rates of its file."""
    if record.imported is not None:
        return list(record.imported.rates_pps)
    return trial_rates_pps(record.trials, steady=of_steady_part(record.test))


def trial_rates_pps(trials: Sequence[TrialResult], *, steady: bool) -> list[float]:
    """Return the received rate of each trial, over its steady part or the whole trial."""
    return [steady_pps(trial) if steady else _whole_pps(trial) for trial in trials]


def of_steady_part(test: Test) -> bool:
    """Return whether the rate of a test is R+, measured in the steady part of its trials."""
    return test.search == "max"


def is_lower_bound(verdict: str) -> bool:
    """Return whether the traffic program limited the rate, so the switch may be faster."""
    return verdict in ("sender", "receiver")


def is_of_search(record: Record) -> bool:
    """Return whether a search with many trials set the load of the trials in the figure. Such a
    search is one value, or one value for each repeat."""
    return record.search is not None and record.search.trials > len(record.trials)


def is_unstable(trial: TrialResult) -> bool:
    """Return whether the arrivals of a trial drift or split into two bands over its intervals."""
    within = trial.intervals[: trial.elapsed_ns // trial.interval_ns]
    return trial.spec.frames is None and statistics.is_unstable(within[1:-1])


def is_uncertain(test: Test, trials: Sequence[TrialResult]) -> bool:
    """Return whether a test with `until_certain` did not reach the requested precision."""
    searched = any(trial.spec.repeat > 1 for trial in trials)
    repeats = _by_search(trials) if searched else [(trial,) for trial in trials]
    if test.until_certain is None or len(repeats) < MIN_REPEATS:
        return False
    repeat_figures = (
        figures(one, latency=of_latency(test), steady=of_steady_part(test)) for one in repeats
    )
    values = [median(one) for one in repeat_figures if one]
    return len(values) < MIN_REPEATS or relative_half_width(values) > test.until_certain


def is_drifting(test: Test, trials: Sequence[TrialResult]) -> bool:
    """Return whether the figures of a test rise or fall from the first repeat to the last."""
    repeats = _by_search(trials)
    repeats = repeats if len(repeats) > 1 else [(trial,) for trial in trials]
    repeat_figures = (
        figures(one, latency=of_latency(test), steady=of_steady_part(test)) for one in repeats
    )
    return statistics.is_drifting([median(one) for one in repeat_figures if one])


def of_latency(test: Test) -> bool:
    """Return whether the figure of a test is a latency rather than a rate."""
    return test.dimension == "latency" or test.search == "latency-at-load"


def figures(trials: Sequence[TrialResult], *, latency: bool, steady: bool) -> list[float]:
    """Return the figure of each trial: its received rate as in the record, or its median latency.
    Trials with too few samples for a median are left out."""
    if not latency:
        return trial_rates_pps(trials, steady=steady)
    medians = [trial.latency.p50 for trial in trials if trial.latency]
    return [float(median) for median in medians if median is not None]


def relative_half_width(rates: Sequence[float]) -> float:
    """Return half the width of the 95 % confidence interval of the median, relative to the median;
    0 if all values are 0, infinity for too few values."""
    ends = median_interval(rates)
    if ends is None:
        return math.inf
    middle = median(rates)
    return (ends[1] - ends[0]) / 2 / middle if middle else ends[1] - ends[0]


def latency_confidence(record: Record) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the median latency over the repeats in nanoseconds;
    None for too few repeats with a latency."""
    return median_interval(repeated_latencies_ns(record))


def confidence(record: Record) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the median received rate over the repeats; None if
    there are too few repeats."""
    return median_interval(repeated_rates_pps(record))


def repeated_latencies_ns(record: Record) -> list[float]:
    """Return the median latency of each repeat (a trial or a whole search) that has one."""
    repeat_figures = (figures(trials, latency=True, steady=False) for trials in _repeats(record))
    return [median(one) for one in repeat_figures if one]


def repeated_rates_pps(record: Record) -> list[float]:
    """Return the received rate of each repeat (a trial or a whole search)."""
    if record.imported is not None:
        return rates_pps(record)
    steady = of_steady_part(record.test)
    return [median(trial_rates_pps(trials, steady=steady)) for trials in _repeats(record)]


def _repeats(record: Record) -> list[tuple[TrialResult, ...]]:
    """Return the trials of each repeat of a test: a single trial, or all trials in the figure of a
    search."""
    if is_of_search(record):
        return _by_search(record.trials)
    return [(trial,) for trial in record.trials]


def _by_search(trials: Sequence[TrialResult]) -> list[tuple[TrialResult, ...]]:
    by_search: dict[int, tuple[TrialResult, ...]] = {}
    for trial in trials:
        by_search[trial.spec.repeat] = (*by_search.get(trial.spec.repeat, ()), trial)
    return list(by_search.values())


_COUNTS = tuple(name for name in FlowCounts.model_fields if name not in ("flow", "latency"))


def per_flow(record: Record) -> list[Printed]:
    """Return the counts of each flow, summed over the trials, and its latency if it was measured by
    flow."""
    flows: dict[str, list[FlowCounts]] = {}
    for trial in record.trials:
        for counts in trial.per_flow:
            flows.setdefault(counts.flow, []).append(counts)
    summed = []
    for flow, of_flow in flows.items():
        printed: Printed = {"flow": flow}
        for name in _COUNTS:
            printed[name] = sum(getattr(counts, name) for counts in of_flow)
        latency = merged([counts.latency for counts in of_flow if counts.latency])
        if latency is not None:
            printed["latency_ns"] = latency.model_dump(exclude={"histogram", "ipdv"})
        summed.append(printed)
    return summed


def fairness(record: Record) -> float | None:
    """Return Jain's index over the frames received by flow: 1 if all flows received the same, 1/n
    if one flow received everything (Jain, Chiu, Hawe: DEC-TR-301, 1984)."""
    shares = [flow["rx"] for flow in per_flow(record)]
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def _whole_pps(trial: TrialResult) -> float:
    """Return the received rate of a whole trial. At full load, frames that arrived after the end
    came from queues and do not count."""
    if trial.spec.rate_pps is None and trial.spec.frames is None:
        return (trial.distinct - trial.evidence.after_end) * 1e9 / trial.elapsed_ns
    return trial.distinct * 1e9 / trial.elapsed_ns


def _elapsed_s(trials: Sequence[TrialResult]) -> float:
    return sum(trial.elapsed_ns for trial in trials) / 1e9
