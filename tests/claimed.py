"""This module makes records of a host on which a claim of a paper is true, or on which it is false.

A host is made from what the claim says, by rules of this module alone: no line of the code that
judges claims is used. Its trials have figures of their own, with noise, which the real metrics
read.
"""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from switchmark.campaign.experiments import PlannedPoint, planned
from switchmark.metrics.latency import from_counts
from switchmark.model.axis import field_name
from switchmark.model.cable import Calibration
from switchmark.model.cost import (
    InterruptCost,
    PerfCost,
    ProcessorCounts,
    Profile,
    Shares,
    TrialCost,
)
from switchmark.model.latency import Latency
from switchmark.model.record import Origin, PartReport, Record, TrialResult
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.model.units import mean_frame_bytes
from switchmark.papers.claims import Claim
from switchmark.papers.experiment import Experiment
from switchmark.papers.points import Point, number

_STORED = Path(__file__).parent / "unit/data/records-schema-1.jsonl"
_RECORD = Record.model_validate(json.loads(_STORED.read_text())["record"])
_TRIAL = _RECORD.trials[0].model_copy(
    update={"doubts": (), "duplicated": 0, "intervals": (), "latency": None, "verdict": "switch"}
)
_S = 1_000_000_000

MANY_CPUS = 48
"""The CPUs of a host on which none is scarce."""

NOISE = 0.003
"""The standard deviation of a figure from trial to trial, as a share of it."""

Figures = dict[str, float]
"""The figures of a point, by metric."""

Host = dict[int, Figures]
"""The figures of a host, by the identity of a point."""


# --- what a claim says -----------------------------------------------------------------------


def host_of(claim: Claim, points: Sequence[Point], cpus: int, *, is_true: bool) -> Host:
    """Return figures for which a claim is true, or false, at the points that it is about."""
    members = [point for point in points if point.is_at(claim.among)]
    made: Host = {id(point): {claim.metric: _usual(claim.metric)} for point in members}
    rules: Mapping[str, Callable[..., None]] = {
        "order": _order,
        "differs-by": _differs_by,
        "exceeds": _exceeds,
        "factor": _factor,
        "flat": _flat,
        "monotone": _monotone,
        "scales": _scales,
        "slopes": _slopes,
        "knee": _knee,
        "crossover": _crossover,
        "gap": _gap,
        "follows": _follows,
        "saturates": _saturates,
        "winners-differ": _winners_differ,
        "within": _within,
    }
    rules[claim.kind](claim, members, made, is_true, cpus)
    return made


def _usual(metric: str) -> float:
    return 0.2 if metric == "loss_ratio" else 1.0


def _place(point: Point, axis: str) -> float:
    return number(point.axes[axis])


def _ranked(points: Sequence[Point], axis: str) -> dict[float, int]:
    """Return the rank of each value of an axis."""
    return {place: at for at, place in enumerate(sorted({_place(p, axis) for p in points}))}


def _put(made: Host, claim: Claim, point: Point, value: float) -> None:
    made[id(point)] = {**made[id(point)], claim.metric: value}


def _sides(claim: Any, members: Sequence[Point], made: Host, more: float, less: float) -> None:
    for point in members:
        if point.is_at(claim.greater):
            _put(made, claim, point, more)
        elif point.is_at(claim.less):
            _put(made, claim, point, less)


def _order(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    _sides(claim, members, made, *((2.0, 1.0) if is_true else (1.0, 2.0)))


def _differs_by(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    apart = claim.amount if is_true else claim.amount + 4 * claim.within
    _sides(claim, members, made, 3.0 + apart, 3.0)


def _exceeds(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    for point in members:
        more, less = (0.6, 0.4) if is_true else (0.4, 0.6)
        made[id(point)] = {claim.metric: more, claim.other: less}


def _outside(low: float, high: float) -> float:
    """Return a number that is far from a band."""
    return high * 1.5 if high < 100 else low / 2


def _inside(low: float, high: float) -> float:
    return math.sqrt(low * high) if low > 0 else high / 2


def _factor(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    ratio = (_inside if is_true else _outside)(*claim.between)
    base = 0.01 if claim.metric.startswith("profile.") else 1.0
    for point in members:
        if point.is_at(claim.from_):
            _put(made, claim, point, base)
        elif point.is_at(claim.to):
            _put(made, claim, point, base * ratio)


def _flat(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    values = list(dict.fromkeys(repr(point.axes[claim.along]) for point in members))
    level = _usual(claim.metric)
    for point in members:
        rank = values.index(repr(point.axes[claim.along]))
        bent = level * (1 + 4 * claim.spread * (rank % 2))
        _put(made, claim, point, level if is_true else bent)


def _monotone(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    ranks = _ranked(members, claim.along)
    rises = (claim.sense == "rises") == is_true
    for point in members:
        step = ranks[_place(point, claim.along)]
        _put(made, claim, point, 1.4 ** (step if rises else -step))


def _power(claim: Any, points: Sequence[Point], made: Host, exponent: float) -> None:
    for point in points:
        _put(made, claim, point, _place(point, claim.along) ** exponent)


def _scales(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    low, high = claim.exponent
    _power(claim, members, made, (low + high) / 2 if is_true else high + 0.7)


def _slopes(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    steep, little = (0.9, 0.2) if is_true else (0.2, 0.9)
    _power(claim, [p for p in members if p.is_at(claim.greater)], made, steep)
    _power(claim, [p for p in members if p.is_at(claim.less)], made, little)


def _knee(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    for point in members:
        place = _place(point, claim.along)
        if isinstance(claim.at, str):
            words = claim.at.split(" - ")[1:]
            less = sum(float(w) if w.isdigit() else _place(point, w) for w in words)
            end = cpus - less if is_true else (cpus - less) / 2
            past = max(place / end, 1.0) ** 6
            is_late = claim.metric.startswith("latency.")
            _put(made, claim, point, (place + 1) * past if is_late else 1 / ((place + 1) * past))
        elif claim.x:
            # A share of R+ is offered, of which all arrives up to the knee. Where it is below the
            # top, a share of the rest arrives, up to the top.
            at = claim.at if is_true else (0.3 if claim.at > 0.7 else 1.0)
            rest = at + (place - at) * (0.6 if at < 1 else 0.0)
            made[id(point)] = {claim.x: place, claim.metric: min(place, rest, 1.0)}
        else:
            at = claim.at if is_true else max(_ranked(members, claim.along)) - 1
            _put(made, claim, point, 10.0 - max(place - at, 0.0) * 2)


def _crossover(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    until = number(claim.below)
    for point in members:
        is_ahead = (_place(point, claim.along) > until) == is_true
        if point.is_at(claim.of):
            _put(made, claim, point, 3.0 if is_ahead else 1.0)
        elif point.is_at(claim.over):
            _put(made, claim, point, 2.0)


def _gap(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    names = list(dict.fromkeys(repr(point.axes[claim.over]) for point in members))
    for point in members:
        rank = names.index(repr(point.axes[claim.over])) / max(len(names) - 1, 1)
        is_wide = point.is_at(claim.from_) == is_true
        _put(made, claim, point, 1 + rank * (3.0 if is_wide else 0.1))


def _follows(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    for point in members:
        place = _place(point, claim.along)
        shares = {number(word): share for word, share in claim.shares.items()}
        if place in shares:
            _put(made, claim, point, shares[place] ** (1.0 if is_true else 0.5))


def _saturates(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    for point in members:
        _put(made, claim, point, claim.at if is_true else 0.8 * claim.at)


def _winners_differ(
    claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int
) -> None:
    del cpus
    names = sorted({str(point.axes[claim.over]) for point in members})
    places: dict[str, int] = {}
    for point in members:
        others = repr([value for axis, value in point.axes.items() if axis != claim.over])
        turn = places.setdefault(others, len(places)) if is_true else 0
        rank = (names.index(str(point.axes[claim.over])) + turn) % len(names)
        _put(made, claim, point, 1.5**rank)


def _within(claim: Any, members: Sequence[Point], made: Host, is_true: bool, cpus: int) -> None:
    del cpus
    low, high = claim.between
    for point in members:
        _put(made, claim, point, (low + high) / 2 if is_true else 1.5 * high)


# --- what is measured there ------------------------------------------------------------------


def anything(test: Test) -> Sequence[Refusal]:
    """Return no refusal: a host may have whatever a paper had."""
    del test
    return ()


def points_of(experiment: Experiment, cpus: int) -> list[PlannedPoint]:
    """Return the points of an experiment on a host that can measure all of them."""
    without = experiment.model_copy(update={"impossible": ()})
    if experiment.same_runs_as:
        owner = experiment.owner.model_copy(update={"impossible": ()})
        without = without.with_own(experiment.source, owner, experiment.file)
    found = planned(without, anything, {"hosts": "a,b"}, cores=cpus)
    return [
        each if each.test else PlannedPoint(Point(each.point.axes), _stand_in(each.point))
        for each in found
    ]


def _stand_in(point: Point) -> Test:
    """Return a test for a point whose switch no table has, such as an old version."""
    axes = {field_name(axis): value for axis, value in point.axes.items() if axis != "switch"}
    return Test.model_validate({**axes, "search": "max", "repeat": 3})


def measured_on(
    claim: Claim,
    points: Sequence[PlannedPoint],
    cpus: int,
    *,
    is_true: bool,
    seed: int = 1,
    noise: float = NOISE,
) -> list[tuple[Point, Record]]:
    """Return the records of a host on which a claim is true or false, in one run."""
    made = host_of(claim, [each.point for each in points], cpus, is_true=is_true)
    highest: dict[str, float] = defaultdict(float)
    for each in points:
        figures = made.get(id(each.point), {})
        rates = [value for name, value in figures.items() if name.startswith("rx.")]
        highest[_series(each.point)] = max([highest[_series(each.point)], *rates])
    draw = random.Random(seed)
    records = []
    for at, each in enumerate(points, 1):
        assert each.test is not None
        figures = made.get(id(each.point), {claim.metric: _usual(claim.metric)})
        r_plus = 1e6 * (highest[_series(each.point)] or 1.0)
        records.append(
            (each.point, _record(at, claim, each.test, figures, r_plus, cpus, draw, noise))
        )
    return records


def _series(point: Point) -> str:
    """Return the place of a point whatever its load: loads are shares of one maximum."""
    return repr([value for axis, value in point.axes.items() if axis != "rate"])


def _record(
    at: int,
    claim: Claim,
    test: Test,
    figures: Figures,
    r_plus: float,
    cpus: int,
    draw: random.Random,
    noise: float,
) -> Record:
    # A line that is full has little noise.
    noise = noise / 10 if claim.kind == "saturates" else noise
    trials = [
        _trial(
            test,
            {name: value * math.exp(draw.gauss(0, noise)) for name, value in figures.items()},
            round_,
        )
        for round_ in range(test.repeat)
    ]
    line = getattr(claim, "at", 0.0) if claim.kind == "saturates" else 0.0
    pps = float(line) * 1e9 / _bits(test)
    cable = Calibration(switch="direct", rate_pps=(pps, pps, pps), sent_pps=pps) if pps else None
    host = {**(_RECORD.origin.host if _RECORD.origin else {}), "cores_usable": cpus}
    return _RECORD.model_copy(
        update={
            "number": at,
            "test": test,
            "trials": tuple(trials),
            "doubts": (),
            "verdict": "switch",
            "switch_mode": claim.needs.switch_mode,
            "calibration": cable,
            "r_plus_pps": r_plus,
            "search": None,
            "origin": Origin(run="r", host=host, versions={}),
        }
    )


def _bits(test: Test) -> float:
    """Return the bits of a frame on the wire."""
    return 8 * (mean_frame_bytes(test.frame_size) + 20)


def _trial(test: Test, figures: Figures, round_: int) -> TrialResult:
    """Return a trial of a second in which the metrics have these figures."""
    pps = 1e6
    changes: dict[str, Any] = {}
    for name, value in figures.items():
        kind, _, unit = name.partition(".")
        if kind == "rx" and "stdev" not in name:
            pps = value * {"mpps": 1e6, "kpps": 1e3, "gbps_l1": 1e9 / _bits(test)}.get(
                unit, 1e6 * test.copies
            )
        elif name == "rx.stdev_mpps":
            changes["intervals"] = _intervals(value)
        elif kind == "latency":
            changes["latency"] = _latency(unit, value)
        elif kind == "cpu":
            changes["parts"] = (_part(unit, value),)
        elif kind in ("cost", "profile"):
            changes["cost"] = _cost(figures, pps)
    offered = figures.get("offered.mpps", figures.get("rx.mpps", pps / 1e6)) * 1e6
    if "loss_ratio" in figures:
        offered = pps / (1 - figures["loss_ratio"])
    sent = round(max(offered, pps / test.copies))
    received = round(pps)
    return _TRIAL.model_copy(
        update={
            "elapsed_ns": _S,
            "tx_frames": sent,
            "tx_unsent": 0,
            "copies": test.copies,
            "rx_frames": received,
            "lost": max(sent * test.copies - received, 0),
            "lost_at": {},
            "round": round_,
            "interval_ns": _S // 50,
            **changes,
        }
    )


def _intervals(mpps: float) -> tuple[int, ...]:
    """Return the frames of 50 intervals whose rate has this standard deviation."""
    away = 1e6 * mpps / 50
    return tuple(round(1e6 + (away if at % 2 else -away)) for at in range(50))


@lru_cache(maxsize=4096)
def _index(ns: int) -> int:
    return int(HdrHistogram(1, 100_000_000_000, 3)._counts_index_for(ns))


def _latency(what: str, us: float) -> Latency:
    """Return a latency whose mean, median and maximum are a figure, or its standard deviation."""
    values = [round(1e3 * us)] * 2
    if what == "stdev_us":
        values = [1_000_000 - round(1e3 * us), 1_000_000 + round(1e3 * us)]
    counts: dict[int, int] = defaultdict(int)
    for ns in values:
        counts[_index(ns)] += 1000
    ends = {"min": min(values), "max": max(values)}
    whole = {"count": 2000, "sum": 1000 * sum(values), "counts": sorted(counts.items())}
    made = from_counts("one-way", [{**whole, **ends}])
    assert made is not None
    return made


def _part(role: str, cores: float) -> PartReport:
    name = "f0" if role == "total" else role
    return PartReport(part=name, roles=("sender" if role == "total" else role,), cpu=1, cores=cores)


def _cost(figures: Figures, pps: float) -> TrialCost:
    """Return the costs of a trial on CPUs 1 and 2 whose cycle counter runs at 1 GHz."""
    misses = round(figures.get("cost.cache_misses_per_frame", 0) * pps)
    cycles = round(figures.get("cost.cycles_load", 0) * 2 * _S)
    cpus = ProcessorCounts(
        by="cpu", cpus=(1, 2), roles=(), cycles=cycles, ref_cycles=cycles, cache_misses=misses
    )
    groups = {n.partition(".")[2]: v for n, v in figures.items() if n.startswith("profile.")}
    shares = Shares(samples=1000, groups={"user": 0.5, **groups}, symbols={})
    return TrialCost(
        elapsed_ns=_S,
        softirq=InterruptCost(cpus={}, outside=0.0),
        perf=PerfCost(user_only=False, parts={"cpus": cpus}),
        tsc_hz=_S,
        load={cpu: figures.get("cost.scheduler_load", 0.0) for cpu in ("1", "2")},
        profile=Profile(event="cycles", hz=99, whole=shares),
    )
