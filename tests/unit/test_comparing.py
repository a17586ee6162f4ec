"""These tests judge claims from records, as `compare` would: what is noise, a bound, a doubt or
another load decides nothing, and what is no such thing does."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from switchmark.metrics.family import Results
from switchmark.model.cable import Calibration
from switchmark.model.record import Record
from switchmark.papers.claims import Claim
from switchmark.papers.judging import ClaimAnswer
from switchmark.papers.points import Point, meaning
from switchmark.report.judged import measured

CLAIM: TypeAdapter[Any] = TypeAdapter(Claim)
STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
STEADY = (1.000, 1.020, 1.010, 0.990, 1.005)
OTHER = (1.004, 1.013, 1.016, 0.985, 1.001)
ORDER = {"greater": {"switch": "vpp"}, "less": {"switch": "ovs"}}


def times(factor: float, steady: Sequence[float] = OTHER) -> list[float]:
    return [factor * value for value in steady]


def record(
    mpps: Sequence[float],
    doubts: tuple[str, ...] = (),
    taken: float = 0.0,
    verdict: str = "switch",
    **test: object,
) -> Record:
    """Return a record of trials that received so much, a round each."""
    first = RECORD.trials[0]
    evidence = first.evidence.model_copy(update={"taken": {0: taken} if taken else {}})
    trials = tuple(
        first.model_copy(
            update={
                "rx_frames": round(value * 1e6),
                "elapsed_ns": 10**9,
                "duplicated": 0,
                "round": index,
                "doubts": doubts,
                "evidence": evidence,
                "verdict": verdict,
            }
        )
        for index, value in enumerate(mpps)
    )
    measured_test = RECORD.test.model_copy(update={"search": "fixed", **test})
    return RECORD.model_copy(
        update={"test": measured_test, "trials": trials, "doubts": doubts, "verdict": verdict}
    )


def points(*placed: tuple[dict[str, Any], Record]) -> list[Point]:
    """Return points of one run."""
    results = Results.of([record for _, record in placed])
    points = []
    for axes, result in placed:
        values = {axis: meaning(axis, word) for axis, word in axes.items()}
        points.append(measured(Point(values), result, ["rx.mpps", "rx.gbps_l1"], results))
    return points


def pair(vpp: Record, ovs: Record) -> list[Point]:
    return points(({"switch": "vpp"}, vpp), ({"switch": "ovs"}, ovs))


def answer(kind: str, placed: list[Point], **members: object) -> ClaimAnswer:
    content = {"id": "c", "says": "it is so", "kind": kind, "metric": "rx.mpps", **members}
    found: ClaimAnswer = CLAIM.validate_python(content).judge(placed)
    return found


_GBPS = 84 * 8 / 1e3
"""Gbps of a million frames of 64 bytes, with the gaps between them."""

FAST, SLOW = record(STEADY), record(times(0.5))


@pytest.mark.parametrize(
    ("vpp", "ovs", "verdict", "why"),
    [
        (FAST, SLOW, "holds", "vpp 1.005 against ovs"),
        (SLOW, FAST, "does not hold", "vpp 0.502"),
        (record(STEADY), record(times(0.995)), "cannot be told", "chance may have made the"),
        (record((1, 1.001, 0.999)), record((1, 1, 1.001)), "does not hold", "the same: vpp"),
        # A bound of the better one makes it better by at least so much; that of the worse does not.
        (record(STEADY, verdict="sender"), SLOW, "holds", "vpp >= 1.005"),
        (FAST, record(times(0.5), verdict="sender"), "cannot be told", "the traffic generator was"),
        (record(times(0.5), verdict="sender"), FAST, "cannot be told", "the traffic generator was"),
        (SLOW, record(STEADY, verdict="sender"), "does not hold", "against ovs >= 1.005"),
        # Doubts spoil on the side on which they may have made the difference.
        (FAST, record(times(0.5), ("host-busy",)), "cannot be told", "(ovs: host-busy)"),
        (FAST, record(times(0.5), ("host-busy",), taken=0.3), "holds", ""),
        (FAST, record(times(0.5), ("host-busy",), taken=0.6), "cannot be told", "ovs: host-busy"),
        (FAST, record(times(0.5), ("emulated",), taken=0.3), "cannot be told", "ovs: emulated"),
        (record(STEADY, ("host-busy",)), SLOW, "holds", ""),
        (FAST, record(times(0.5), verdict="host"), "cannot be told", "the host was the limit"),
        (record(STEADY, ("past-switch",)), SLOW, "cannot be told", "vpp: past-switch"),
        (record(STEADY, rate="1M"), record(times(0.5), rate="2M"), "cannot be told", "the loads"),
        (record((2, 2)), record((1, 1)), "cannot be told", "fewer than 3 repeats"),
    ],
)
def test_an_order_is_what_compare_says_of_the_same_records(
    vpp: Record, ovs: Record, verdict: str, why: str
) -> None:
    result = answer("order", pair(vpp, ovs), **ORDER)
    assert (result.verdict, why in result.why) == (verdict, True), result
    word = Results.of(records := [vpp, ovs]).difference(records[1], records[0]).word
    assert {"faster": "holds", "undecided": "cannot be told"}.get(word, "does not hold") == verdict


def test_what_is_not_below_holds_for_or_equal_and_noise_does_not() -> None:
    either = {**ORDER, "or-equal": True}
    same = pair(record((1, 1.001, 0.999)), record((1, 1, 1.001)))
    assert answer("order", same, **either).verdict == "holds"
    assert answer("order", pair(FAST, record(times(0.985))), **either).verdict == "holds"
    noisy = pair(record((0.5, 1, 1.5)), record((1.4, 0.6, 1)))
    result = answer("order", noisy, **either)
    assert result.verdict == "cannot be told"
    assert answer("order", pair(SLOW, FAST), **either).verdict == "does not hold"


def test_what_would_decide_is_said() -> None:
    result = answer("order", pair(record(STEADY), record(times(0.995))), **ORDER)
    assert result.needed is not None
    assert result.needed > 5
    assert result.why.endswith(f"; about {result.needed} rounds would decide")


def test_bands_rest_on_ends_that_hold_for_all_and_are_open_where_they_are_not_known() -> None:
    band = {"from": {"switch": "ovs"}, "to": {"switch": "vpp"}}
    half = pair(SLOW, FAST)
    assert answer("factor", half, **band, between=[0.4, 0.6]).verdict == "holds"
    assert answer("factor", half, **band, between=[0.6, 0.8]).verdict == "does not hold"
    least = pair(record(times(0.5), verdict="sender"), FAST)
    assert answer("factor", least, **band, between=[0.4, 0.6]).verdict == "cannot be told"
    assert answer("factor", least, **band, between=[0.1, 0.3]).verdict == "does not hold"
    alike = pair(record((1, 1.001, 0.999)), record((1, 1, 1.001)))
    assert answer("factor", alike, **band, between=[1.0, 1.3]).verdict == "holds"
    # With many other results in its run the ends are wider.
    many = [({"switch": "snabb", "chain": length}, record(times(1.0))) for length in range(1, 40)]
    among = points(({"switch": "vpp"}, SLOW), ({"switch": "ovs"}, FAST), *many)[:2]
    narrow = {"between": [0.5, 0.5]}
    assert answer("factor", half, **band, **narrow).verdict == "holds"
    assert answer("factor", among, **band, **narrow).verdict == "cannot be told"


def test_loads_that_a_claim_is_about_may_differ() -> None:
    series = points(
        ({"rate": "1M"}, record(times(1.0), rate="1M")),
        ({"rate": "2M"}, record(times(2.0), rate="2M")),
        ({"rate": "3M"}, record(times(3.0), rate="3M")),
    )
    assert answer("monotone", series, along="rate", sense="rises").verdict == "holds"
    assert answer("scales", series, along="rate", exponent=[0.9, 1.1]).verdict == "holds"
    back = answer("order", series, greater={"rate": "1M"}, less={"rate": "3M"})
    assert back.verdict == "does not hold"


def test_a_share_of_the_line_is_reached_by_more_than_chance() -> None:
    seven = {"metric": "rx.gbps_l1", "at": 7 * _GBPS}
    assert answer("saturates", points(({}, record((1, 9.9, 14)))), **seven).verdict == (
        "cannot be told"
    )
    for factor, verdict in ((7.05, "holds"), (6.5, "does not hold")):
        steady = points(({}, on_cable(record([factor, factor, factor * 1.0001]), 7.1)))
        assert answer("saturates", steady, **seven).verdict == verdict
    bound = on_cable(record([6.5, 6.5, 6.501], verdict="sender"), 7.1)
    assert answer("saturates", points(({}, bound)), **seven).verdict == "cannot be told"


def on_cable(made: Record, mpps: float) -> Record:
    """Return a record whose traffic got through so much on a bare cable."""
    pps = 1e6 * mpps
    cable = Calibration(switch="direct", rate_pps=(pps, pps, pps), sent_pps=pps)
    return made.model_copy(update={"calibration": cable})


def test_a_rate_below_the_line_says_nothing_where_a_cable_does_not_carry_the_line() -> None:
    slow = record([6.5, 6.5, 6.501]).model_copy(update={"calibration": None})
    line = {"metric": "rx.gbps_l1", "at": 7 * _GBPS}
    for made, words in (
        (slow, "what a bare cable carries is not known"),
        (on_cable(slow, 6.9), "a bare cable carries"),
        (on_cable(slow, 7.0), ""),
    ):
        told = answer("saturates", points(({}, made)), **line)
        assert told.verdict == ("cannot be told" if words else "does not hold"), told
        assert words in told.why


def test_a_knee_has_ends_that_noise_makes_wide() -> None:
    def curve(noise: float) -> list[Point]:
        draw = random.Random(3)
        series = []
        for load in range(1, 11):
            values = [min(load, 6) * math.exp(draw.gauss(0, noise)) for _ in range(3)]
            series.append(({"pairs": load}, record(values)))
        return points(*series)

    options = {"along": "pairs", "within": 0.5}
    assert answer("knee", curve(0.01), **options, at=6).verdict == "holds"
    assert answer("knee", curve(0.01), **options, at=3).verdict == "does not hold"
    assert answer("knee", curve(0.2), **options, at=6).verdict == "cannot be told"


def test_runs_are_draws_of_their_own() -> None:
    one = measured(Point({"switch": "vpp"}), record(times(1.03)), ["rx.mpps"])
    other = measured(Point({"switch": "ovs"}), record(STEADY), ["rx.mpps"])
    assert answer("order", [one, other], **ORDER).verdict == "cannot be told"
    twice = measured(Point({"switch": "vpp"}), record(times(2.0)), ["rx.mpps"])
    assert answer("order", [twice, other], **ORDER).verdict == "holds"


def drawn(draw: random.Random, middle: float, noise: float, repeats: int) -> Record:
    return record([middle * math.exp(draw.gauss(0, noise)) for _ in range(repeats)])


@pytest.mark.parametrize("runs", [40, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("repeats", [3, 5])
def test_a_claim_of_thirty_equal_pairs_is_seldom_refuted(repeats: int, runs: int) -> None:
    """With intervals that are held apart one by one it was refuted in 94 of 100 runs."""
    draw, verdicts = random.Random(repeats), []
    for _ in range(runs):
        series = []
        for place in range(30):
            series += [
                ({"switch": switch, "chain": place + 1}, drawn(draw, 5.0, 0.05, repeats))
                for switch in ("vpp", "ovs")
            ]
        verdicts.append(answer("order", points(*series), **ORDER).verdict)
    assert verdicts.count("does not hold") <= 0.05 * runs
    assert verdicts.count("holds") == 0


def test_a_true_order_is_shown() -> None:
    draw, runs, held, all_held = random.Random(8), 100, 0, 0
    for _ in range(runs):
        sides = pair(drawn(draw, 1.3, 0.02, 5), drawn(draw, 1.0, 0.02, 5))
        held += answer("order", sides, **ORDER).verdict == "holds"
        series = [
            ({"switch": switch, "chain": place + 1}, drawn(draw, middle, 0.02, 5))
            for place in range(6)
            for switch, middle in (("vpp", 1.3), ("ovs", 1.0))
        ]
        all_held += answer("order", points(*series), **ORDER).verdict == "holds"
    assert held >= 0.9 * runs
    assert all_held >= 0.9 * runs
