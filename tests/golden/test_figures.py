"""These tests compare figures with stored ones: those of every recorded run, of the same runs with
more trials, and of series of numbers, by every function of `metrics` that makes a number of them.

Records give more numbers than a reader can check, so a line has how many there are, their sum, and
the sum weighted by their place: none can change unseen."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from pydantic import BaseModel

from recorded import RECORDINGS
from switchmark.metrics import (
    disturbed,
    growth,
    loss,
    named,
    outage,
    searched,
    soak,
    statistics,
    throughput,
    trend,
    verdict,
)
from switchmark.metrics import latency as latencies
from switchmark.metrics import profile as profiles
from switchmark.metrics.cpu import cores_by_role, cost
from switchmark.metrics.difference import Difference, Family, differences
from switchmark.metrics.distribution import cdf, percentile_ns, stdev_ns
from switchmark.metrics.family import Results, further_repeats
from switchmark.metrics.repeats import FIGURES, Figure, Repeats, figure_of_goal, repeats_of
from switchmark.metrics.studentized import range_odds, range_quantile, t_quantile
from switchmark.model.cable import Calibration
from switchmark.model.record import Record, TrialResult
from switchmark.model.search import OneSearch

Golden = Callable[[str, str], None]


@cache
def records() -> tuple[Record, ...]:
    """Return the records of all recorded runs."""
    lines = [
        json.loads(line)
        for file in sorted(RECORDINGS.glob("*.records.jsonl"))
        for line in file.read_text().splitlines()
    ]
    return tuple(
        Record.model_validate({"key": str(number), **line["record"]})
        for number, line in enumerate(lines)
    )


def repeated(record: Record, draw: random.Random, count: int) -> Record:
    """Return a record with more trials: each is one of the record's with other counts."""
    trials = []
    for number in range(count):
        trial = record.trials[number % len(record.trials)]
        share = 1 - abs(draw.gauss(0, 0.02))
        rx = round(trial.rx_frames * share)
        changes: dict[str, Any] = {
            "rx_frames": rx,
            "lost": trial.lost + trial.rx_frames - rx,
            "intervals": tuple(round(frames * share) for frames in trial.intervals),
            "tx_unsent": trial.tx_unsent + draw.randrange(3),
        }
        if trial.latency and trial.latency.p50:
            latency = trial.latency.model_copy(update={"p50": round(trial.latency.p50 / share)})
            changes["latency"] = latency
        trials.append(trial.model_copy(update=changes))
    return record.model_copy(update={"trials": tuple(trials)})


@cache
def all_records() -> tuple[Record, ...]:
    """Return the recorded runs, and some once more with 5 or with 15 trials."""
    draw = random.Random(28)
    single = [record for record in records() if len(record.trials) == 1 and record.search is None]
    more = (repeated(record, draw, 5 + 10 * (n % 2)) for n, record in enumerate(single[::5]))
    return (*records(), *more)


def trials() -> Iterator[TrialResult]:
    return (trial for record in all_records() for trial in record.trials)


def numbers_of(value: Any) -> Iterator[float]:
    """Yield the numbers in a value, whatever it is made of; a text counts by its letters."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        yield -1e-3
    elif isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, str):
        yield float(sum(place * ord(letter) for place, letter in enumerate(value, 1)))
    elif isinstance(value, BaseModel):
        yield from numbers_of(value.model_dump(mode="json"))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from numbers_of(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from numbers_of(str(key))
            yield from numbers_of(one)
    elif isinstance(value, Iterable):
        for one in value:
            yield from numbers_of(one)
    else:
        raise AssertionError(f"a figure is no {type(value)}")


def summed(name: str, values: Iterable[Any]) -> str:
    """Return the line of some values."""
    found = list(values)
    finite = [min(max(number, -1e30), 1e30) for number in numbers_of(found)]
    known = sum(value is not None for value in found)
    weighted = math.fsum((place % 97 + 1) * number for place, number in enumerate(finite))
    return f"{name}: {known} of {len(found)}, {math.fsum(finite):.9g}, {weighted:.9g}"


# --- of records --------------------------------------------------------------------------------


def test_the_metrics_of_recorded_runs(golden: Golden) -> None:
    chosen = [*named.METRICS.values(), *map(named.metric, ("latency.p45_us", "latency.p99.9_us"))]
    lines = []
    for metric in chosen:
        lines += [
            summed(metric.name, map(metric.of, all_records())),
            summed("  trials", map(metric.samples, all_records())),
            summed("  repeats", map(metric.repeats, all_records())),
            summed("  intervals", map(metric.interval, all_records())),
        ]
    golden("figures/metrics.txt", "\n".join([*lines, ""]))


OF_RECORDS: dict[str, Callable[[Record], Any]] = {
    "cores by role": cores_by_role,
    "cost": cost,
    "rates": named.received,
    "sent": throughput.sent,
    "flows": throughput.per_flow,
    "fairness": throughput.fairness,
    "confidence": throughput.confidence,
    "confidence of latencies": throughput.latency_confidence,
    "latency": latencies.latency_ns,
    "latency of cables": latencies.cable_latency_ns,
    "distribution": cdf,
    "losses by place": loss.lost_at,
    "lost share": loss.lost_share,
    "loss bound": loss.loss_bound,
    "outages": outage.outages,
    "first loss": soak.first_loss_of,
    "worst loss": soak.worst_loss_of,
    "drift of latencies": soak.latency_drift_of,
    "drifting": lambda record: throughput.is_drifting(record.test, record.trials),
    "uncertain": lambda record: [
        throughput.is_uncertain(
            record.test.model_copy(update={"until_certain": share}), record.trials
        )
        for share in (0.001, 0.01, 0.05)
    ],
    "searches": lambda record: searched.searches_of(record) if record.search else None,
    "values of goals": lambda record: [
        (searched.values_of_goal(record, goal.goal), searched.precision_of(goal))
        for goal in (record.search.goals if record.search else ())
    ],
    "figures of goals": lambda record: [
        repeats_of([record], figure_of_goal(record, goal.goal)).values
        for goal in (record.search.goals if record.search else ())
    ],
}

OF_TRIALS: dict[str, Callable[[TrialResult], Any]] = {
    "evidence": lambda trial: verdict.judge(trial, None, dedicated_core=False),
    "verdict of two": lambda trial: verdict.verdict([trial, trial]),
    "interval of the rate": verdict.rate_interval,
    "own time": lambda trial: [verdict.own_ns(trial, role) for role in ("sender", "receiver")],
    "steady rate": throughput.steady_pps,
    "unstable": throughput.is_unstable,
    "outage": outage.outage_of,
    "outages by flow": outage.outages_by_flow,
    "phases": outage.phases_of,
    "recovery": outage.recovery_s,
    "worst intervals": lambda trial: [one.number for one in soak.worst(trial, 3)],
    "best intervals": lambda trial: [one.number for one in soak.best(trial, 3)],
    "growth": growth.growing,
    "drift of the latency": soak.latency_drift,
    "past the switch": disturbed.past_switch,
    "slow path": disturbed.slow_path,
    "profile": profiles.weighs,
    "percentiles": lambda trial: (
        [percentile_ns(trial.latency, Fraction(p)) for p in ("1", "45", "99.9")]
        if trial.latency
        else None
    ),
    "standard deviation": lambda trial: stdev_ns(trial.latency) if trial.latency else None,
}


def judged(record: Record) -> list[Any]:
    """Return the verdicts of the trials of a record, held against its baseline and against others
    that are faster or slower, with and without a cable, a switch that polls, and shared turns."""
    base = record.calibration
    if not isinstance(base, Calibration):
        return []
    scaled = [
        base.model_copy(
            update={
                "sent_pps": share * base.sent_pps,
                **{
                    name: value and tuple(share * one for one in value)
                    for name in ("rate_pps", "sender_ns", "receiver_ns")
                    for value in (getattr(base, name),)
                },
            }
        )
        for share in (0.2, 1.0, 3.0)
    ]
    flags = [{"dedicated_core": one, "cable": two, "together": one != two} for one, two in TWO]
    return [
        verdict.judge(trial, one, **each)
        for trial in record.trials
        for one in scaled
        for each in flags
    ]


TWO = ((False, False), (False, True), (True, False), (True, True))


def test_the_figures_of_recorded_runs(golden: Golden) -> None:
    lines = [summed(name, map(of, all_records())) for name, of in OF_RECORDS.items()]
    lines += [summed(name, map(of, trials())) for name, of in OF_TRIALS.items()]
    lines.append(summed("verdicts", map(judged, all_records())))
    pairs = [
        (one, other)
        for one, other in combinations([r for r in all_records() if len(r.trials) > 4], 2)
        if one.test.switch == other.test.switch and one.test.search == other.test.search
    ]
    for name, figure in FIGURES.items():
        sides = [repeats_of([record], figure) for record in all_records()]
        lines.append(summed(f"repeats of {name}", sides))
        by_run = [repeats_of(pair, figure, by_run=True) for pair in pairs]
        lines.append(summed(f"runs of {name}", by_run))
        found = [Results.of(pair).difference(*pair, figure) for pair in pairs]
        lines.append(summed(f"differences of {name}", map(told, found)))
    needed = [further_repeats(pair, pair, 100) for pair in pairs]
    golden("figures/records.txt", "\n".join([*lines, summed("further repeats", needed), ""]))


# --- of numbers --------------------------------------------------------------------------------


def told(found: Difference) -> list[Any]:
    """Return what a difference says."""
    return [
        *(found.word, found.reason, found.change, found.interval, found.p, found.of),
        *(found.needed, found.times, found.ends, found.amount, found.is_shown, found.is_at_least),
        *(found.are_run_by_run, *(found.excludes(amount) for amount in (0.01, 0.05, 0.3))),
    ]


def worded(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(worded, value))})"
    return str(value)


def drawn(seed: int, count: int, spread: float, step: float = 0.0) -> tuple[float, ...]:
    """Return values near 100, of which the last third is larger by a step."""
    draw = random.Random(seed)
    return tuple(
        100 * (1 + draw.gauss(0, spread) + (step if 3 * number >= 2 * count else 0))
        for number in range(count)
    )


SIDES: dict[str, Repeats] = {
    "five": Repeats(drawn(1, 5, 0.01), tuple(range(5))),
    "five others": Repeats(tuple(0.9 * v for v in drawn(2, 5, 0.01)), tuple(range(5))),
    "thirteen": Repeats(drawn(3, 13, 0.02), (None,) * 13),
    "thirty": Repeats(tuple(0.97 * v for v in drawn(4, 30, 0.02)), tuple(range(30))),
    "thirty with extremes": Repeats((*drawn(5, 27, 0.02), 1.0, 500.0, 0.0), tuple(range(30))),
    "alike": Repeats((100.0,) * 6, tuple(range(6))),
    "runs": Repeats(tuple(1.03 * v for v in drawn(6, 6, 0.005)), tuple("abcdef")),
    "the same runs": Repeats(drawn(7, 6, 0.005), tuple("abcdef")),
    "a bound": Repeats(tuple(0.8 * v for v in drawn(8, 6, 0.01)), tuple(range(6)), bound=True),
    "lowered": Repeats(
        *(tuple(0.8 * v for v in drawn(9, 6, 0.01)), tuple(range(6)), drawn(9, 6, 0.012)),
        lowered=True,
    ),
    "lowered by little": Repeats(
        *(tuple(0.7 * v for v in drawn(9, 6, 0.01)), tuple(range(6))),
        best=tuple(0.75 * v for v in drawn(9, 6, 0.01)),
        lowered=True,
    ),
    "raised": Repeats(tuple(1.2 * v for v in drawn(10, 6, 0.01)), tuple(range(6)), raised=True),
    "with an error": Repeats(tuple(1.1 * v for v in drawn(11, 6, 0.01)), error=8.0),
    "of a load": Repeats(drawn(12, 6, 0.01), offered=1000.0),
    "of another load": Repeats(tuple(1.1 * v for v in drawn(13, 6, 0.01)), offered=1006.0),
    "two": Repeats((99.0, 101.0), (0, 1)),
    "nothing": Repeats((0.0,) * 5, tuple(range(5))),
    "none": Repeats(()),
}


def figure_of(unit: Any) -> Figure:
    return Figure(f"a figure in {unit}", unit, lambda record: [])


@pytest.mark.parametrize("unit", ["pps", "ns", "share"])
def test_the_differences_of_sides(unit: str, golden: Golden) -> None:
    figure, lines = figure_of(unit), []
    names = list(SIDES)
    scale = 0.001 if unit == "share" else 1.0
    sides = {
        name: dataclasses.replace(
            *(side,),
            values=tuple(scale * value for value in side.values),
            best=tuple(scale * value for value in side.best),
            error=scale * side.error,
        )
        for name, side in SIDES.items()
    }
    for before, after in combinations(names, 2):
        pair = sides[before], sides[after]
        lines.append(f"{before} | {after}: {worded(told(Family(figure, pair).difference(0, 1)))}")
    for some in (names[:3], names[2:6], names):
        for looks, margin in ((1, None), (3, 0.05)):
            family = Family(figure, tuple(sides[name] for name in some), margin, looks)
            found = [told(family.difference(*p)) for p in combinations(range(len(some)), 2)]
            levels = [family.level(index, looks) for index in range(len(some))]
            lines.append(summed(f"{len(some)} of a family, {looks} looks", found))
            lines.append(f"  levels {worded(levels)}")
    pairs = [(sides[before], sides[after]) for before, after in combinations(names[:8], 2)]
    for two in ((), [number % 2 == 0 for number in range(len(pairs))]):
        planned = differences(figure, pairs, 0.02, two)
        lines += [f"planned {worded(told(one))}" for one in planned]
    golden(f"figures/differences-{unit}.txt", "\n".join([*lines, ""]))


SERIES: dict[str, tuple[float, ...]] = {
    **{f"{n} of noise": drawn(n, n, 0.02) for n in (3, 5, 6, 9, 10, 12, 13, 14, 20, 31, 57, 130)},
    **{f"{n} with a step": drawn(n, n, 0.01, 0.08) for n in (6, 13, 25, 60, 250)},
    "a rise": tuple(100 + 2.0 * number for number in range(24)),
    "a slow rise": tuple(100 + 0.4 * n + v / 100 for n, v in enumerate(drawn(1, 26, 0.3))),
    "a fall": tuple(100 - 3.0 * number for number in range(16)),
    "two bands": tuple(100 + 30 * (number * 7 % 3 == 0) + number % 5 for number in range(60)),
    "two near bands": tuple(100 + 11 * (number % 2) + number % 4 for number in range(30)),
    "ups and downs": tuple(100 + 10 * math.sin(number / 3) for number in range(80)),
    "equal values": (7.0,) * 40,
    "zeros": (0.0,) * 12,
    "a transient": (*(100.0 - 8 * n for n in range(12)), *drawn(3, 60, 0.01)),
    "infinite ends": (*drawn(2, 14, 0.01), math.inf, math.inf),
}


def test_the_statistics_of_series(golden: Golden) -> None:
    lines = []
    for name, series in SERIES.items():
        whole = [round(value) for value in series if math.isfinite(value)]
        finite = [value for value in series if math.isfinite(value)]
        slope = growth.trend_of(range(len(finite)), finite)
        lines += [
            f"{name}: interval {worded(statistics.median_interval(series))}, steady from "
            f"{statistics.mser_start(whole)}, drifting {statistics.is_drifting(finite)}, unstable "
            f"{statistics.is_unstable(finite)}, half width "
            f"{worded(throughput.relative_half_width(series))}, steady rate "
            f"{worded(throughput.steady_rate_pps(whole, len(whole) * 10**7 + 5, 10**7))}, trend "
            f"{worded(slope and (slope.slope, slope.low, slope.high, slope.rises))}"
        ]
    odds = ((), (0.3,), (0.01, 0.04, 0.03), (0.5, 0.9, 0.02, 0.02, 0.6))
    lines += [
        f"stepwise {worded(list(some))}: {worded(statistics.stepwise(some))}" for some in odds
    ]
    lines += [
        f"{lost} lost of {frames}: at most {loss.upper_bound(lost, frames):.9g}"
        for lost, frames in (
            (0, 1),
            (0, 2000),
            (1, 100),
            (7, 10**6),
            (9999, 10**7),
            (10_001, 10**7),
        )
    ]
    lines += [f"{share:g} takes {loss.frames_that_tell(share)}" for share in (1.0, 0.005, 1e-7)]
    golden("figures/statistics.txt", "\n".join([*lines, ""]))


def test_the_changes_of_nights(golden: Golden) -> None:
    lines = []
    for name, series in SERIES.items():
        if not all(map(math.isfinite, series)):
            continue
        nights = [value / 100 for value in series]
        found = trend.changes(nights)
        states = trend.states(nights, found)
        good = [
            trend.last_good(states, more_is_better=more, accepted=accepted)
            for more in (True, False)
            for accepted in (0, len(nights) - 1)
        ]
        lines.append(f"{name}: last good {good}")
        rows: list[trend.ChangePoint | trend.State] = [*found, *states]
        lines += [f"  {worded([*dataclasses.asdict(one).values()])}" for one in rows]
    golden("figures/trend.txt", "\n".join([*lines, ""]))


def test_the_studentized_range(golden: Golden) -> None:
    grid = [(means, freedom) for means in (2, 3, 7) for freedom in (1.0, 2.5, 12.0, 100.0)]
    lines = [
        f"{means} means, {freedom:g}: "
        # Differences from 1 in the last digit depend on the processor.
        + worded(
            [
                round(range_odds(value, means, freedom), 14)
                for value in (-1, 0, 0.1, 1, 3.7, 20, 1e6)
            ]
        )
        + f" {worded([range_quantile(odds, means, freedom) for odds in (0.5, 0.03, 1e-4)])}"
        for means, freedom in grid
    ]
    lines.append(f"t {worded([t_quantile(0.05, freedom) for freedom in (1, 4, 30)])}")
    golden("figures/studentized.txt", "\n".join([*lines, ""]))


def searched_again(record: Record, repeats: Sequence[OneSearch]) -> Iterator[str]:
    """Yield the figures of a record whose search was repeated: its trials are those of each repeat,
    whose number of trials is its own."""
    assert record.search is not None
    results = tuple(
        one.model_copy(update={"trials": one.trials + number, "r_plus_pps": 1e6 * number})
        for number, one in enumerate(repeats, 1)
    )
    trials = tuple(
        trial.model_copy(
            update={
                "spec": trial.spec.model_copy(update={"repeat": number}),
                "rx_frames": trial.rx_frames - number,
            }
        )
        for number in range(len(results), 0, -1)
        for trial in record.trials
    )
    search = record.search.model_copy(update={"results": results})
    again = record.model_copy(update={"search": search, "trials": trials})
    yield summed("  each", searched.searches_of(again))
    for goal in repeats[0].goals:
        found = searched.values_of_goal(again, goal.goal)
        lowest = [dataclasses.replace(one, at_least=n == 2) for n, one in enumerate(found * 5)]
        yield summed(
            *(f"  {goal.goal}",),
            [found, searched.search_values(again, goal.goal), searched.values_interval(found * 5)],
        )
        yield summed("    bounds", [searched.values_interval(lowest), searched.is_bound(goal)])
        yield summed("    precision", [searched.precision_of(goal)])


def test_goals_of_repeated_searches(golden: Golden) -> None:
    lines = []
    for record in records():
        if record.search is None or not record.search.repeats:
            continue
        one = record.search.repeats[0]
        scaled = [
            one.model_copy(
                update={
                    "goals": tuple(
                        goal.model_copy(
                            update={
                                name: None if value is None else value * share
                                for name in ("rate_pps", "low_pps", "high_pps", "conditional_pps")
                                for value in (getattr(goal, name),)
                            }
                        )
                        for goal in one.goals
                    )
                }
            )
            for share in (1.0, 0.93, 1.04, 0.98)
        ]
        for count in (1, 2, 3, 4):
            goals = searched.goals_of(scaled[:count], {g.goal: record.trials for g in one.goals})
            lines.append(summed(f"{record.test.search}, {count} searches", goals))
        lines += searched_again(record, scaled)
    golden("figures/searched.txt", "\n".join([*lines, ""]))


def test_merged_latencies(golden: Golden) -> None:
    found = [trial.latency for trial in trials() if trial.latency]
    groups: list[Sequence[Any]] = [found[:1], found[:2], found[3:9], found[::7]]
    lines = [
        summed(f"{len(group)} latencies", [latencies.figures_of(group), latencies.merged(group)])
        for group in groups
    ]
    golden("figures/latencies.txt", "\n".join([*lines, ""]))
