"""These tests put records side by side: the pairing, the words for a difference, the failure of a
comparison, and the false alarms when a run is compared with itself."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from switchmark.errors import UsageError
from switchmark.metrics.difference import Difference, Reason, differences
from switchmark.metrics.family import Results
from switchmark.metrics.repeats import FIGURES, Repeats
from switchmark.metrics.statistics import stepwise
from switchmark.model.evidence import Evidence
from switchmark.model.noise import BUSY
from switchmark.model.record import Origin, Record
from switchmark.model.search import SearchResult
from switchmark.report.compare import Comparison, as_object, compared
from switchmark.report.compare_markdown import compare_markdown
from switchmark.report.compare_table import compare_lines
from switchmark.report.conditions import parse_conditions
from switchmark.report.host_differences import HostDifference, RunFacts, host_differences
from switchmark.report.json import to_object
from switchmark.report.junit import junit
from switchmark.report.pairing import against, between, parted_by, within

DATA = Path(__file__).parent / "data"
STORED = json.loads((DATA / "records-schema-1.jsonl").read_text())["record"]
SURE = Record.model_validate(STORED).model_copy(update={"doubts": (), "verdict": "switch"})

SLOW = [1_000_000, 1_010_000, 990_000, 1_005_000, 995_000]
FAST = [1_120_000, 1_130_000, 1_110_000, 1_125_000, 1_140_000]


def record(base: Record = SURE, number: int = 1, **test: object) -> Record:
    """Return a record of another test."""
    changes = {"number": number, "test": base.test.model_copy(update=test)}
    return base.model_copy(update=changes)


def repeats(
    rates: Sequence[float],
    *,
    taken: float | Sequence[float] = 0.0,
    p50_ns: Sequence[float] | None = None,
    lost: Sequence[int] | None = None,
    verdict: str = "switch",
    doubts: tuple[str, ...] = (),
    **test: Any,
) -> Record:
    """Return a record with a trial at each of these rates, where others had a share of a CPU."""
    shares = [taken] * len(rates) if isinstance(taken, float) else taken
    trials = []
    for index, (rate, share) in enumerate(zip(rates, shares, strict=True)):
        stored = SURE.trials[0]
        changes: dict[str, Any] = {
            "intervals": (round(rate / 10),) * 10,
            "rx_frames": round(rate),
            "duplicated": 0,
            "elapsed_ns": 10**9,
            "evidence": Evidence(taken={"0": share}),
            "doubts": ("host-busy",) if share > BUSY or "host-busy" in doubts else (),
        }
        if p50_ns is not None and stored.latency is not None:
            changes["latency"] = stored.latency.model_copy(update={"p50": p50_ns[index]})
        if lost is not None:
            changes |= {"tx_frames": 100_000, "lost": lost[index]}
        trials.append(stored.model_copy(update=changes))
    base = SURE.model_copy(
        update={"trials": tuple(trials), "verdict": verdict, "doubts": doubts, "search": None}
    )
    return record(base, **test)


def one(before: Record, after: Record, *fail_on: str) -> Comparison:
    return compared(between([[before]], [[after]]), parse_conditions(fail_on))


def difference(before: Record, after: Record) -> Difference:
    return one(before, after).pairs[0].difference


def text(comparison: Comparison, hosts: Sequence[HostDifference] = (), runs: int = 1) -> str:
    names = [f"run-{number}" for number in range(1, runs + 1)]
    return "\n".join(compare_lines(comparison, hosts, names))


# --- what is paired --------------------------------------------------------------------------


def test_runs_are_paired_by_their_tests_whatever_the_seed() -> None:
    before = [record(burst=1), record(burst=2), record(burst=3, seed=1)]
    after = [record(burst=3, seed=2), record(burst=1), record(burst=4)]
    found = between([before], [after])
    bursts = [[[record.test.burst for record in side] for side in pair.both] for pair in found]
    assert bursts == [[[1], [1]], [[2], []], [[3], [3]], [[], [4]]]


def test_each_two_values_of_one_axis_are_paired() -> None:
    records = [record(switch=s, frame_size=size) for s in ("a", "b", "c") for size in (64, 128)]
    found = within([records])
    rows = [
        (p.base[0].test.switch, p.other[0].test.switch, p.base[0].test.frame_size) for p in found
    ]
    assert rows == [
        (one, other, size)
        for size in (64, 128)
        for one, other in itertools.combinations(("a", "b", "c"), 2)
    ]
    assert all(p.base[0].test.frame_size == p.other[0].test.frame_size for p in found)
    assert within([records[:1]]) == []


def test_everything_is_paired_with_the_base_in_one_run_and_in_several() -> None:
    records = [record(switch=switch, burst=burst) for switch in "abc" for burst in (1, 2)]
    pairs = {("b", "a", 1), ("b", "a", 2), ("b", "c", 1), ("b", "c", 2)}
    for runs in ([records], [records[:2], records[2:4], records[4:]]):
        found = against(runs, "b")
        assert {
            (p.base[0].test.switch, p.other[0].test.switch, p.other[0].test.burst) for p in found
        } == pairs
    found = against([records], "burst=2")
    assert [(p.base[0].test.burst, p.other[0].test.burst) for p in found] == [(2, 1)] * 3
    with pytest.raises(UsageError, match=r"(?s)value 'd'.*switch a, b, c; burst 1, 2"):
        against([records], "d")


def test_a_test_without_its_base_is_lacking() -> None:
    found = against([[record(switch="a"), record(switch="b"), record(switch="b", burst=1)]], "a")
    comparison = compared(found)
    assert [(bool(p.base), p.is_lacking) for p in comparison.pairs] == [
        (True, False),
        (False, False),
    ]


def test_tests_pair_although_they_differ_in_what_is_to_be_ignored() -> None:
    before, after = [record(duration=1.0, switch="a")], [record(duration=2.0, switch="b")]
    assert len(between([before], [after])) == 2
    (pair,) = between([before], [after], ("duration", "switch"))
    assert (pair.base[0].test.switch, pair.other[0].test.switch) == ("a", "b")
    assert sorted(parted_by([before], [after])) == ["duration", "switch"]
    with pytest.raises(UsageError, match="tests of one run differ only in burst"):
        between([[record(burst=1), record(burst=2)]], [after], ("burst",))


# --- what is said ----------------------------------------------------------------------------


def test_a_difference_is_told_with_its_interval() -> None:
    comparison = one(repeats(SLOW), repeats(FAST))
    assert comparison.pairs[0].difference.word == "faster"
    assert "1.125  faster by 8.5..17 % (p 2.9e-05)" in text(comparison)
    assert "1 Mpps (0.99..1.01 of 5)" in text(comparison)
    assert "1 Mpps [0.99, 1.01]" in text(one(repeats([1e6, 1.01e6, 0.99e6] * 5), repeats(FAST)))
    assert difference(repeats(FAST), repeats(SLOW)).word == "slower"


def test_what_is_shown_to_be_within_the_margin_is_the_same_and_all_else_undecided() -> None:
    near = [rate + 500 for rate in SLOW]
    sides = between([[repeats(SLOW)]], [[repeats(near)]])
    outcomes = [compared(sides, margin=share).pairs[0].difference.word for share in (0.01, 0.04)]
    assert outcomes == ["undecided", "same"]
    assert "same: -3.1..+3.3 % (within 4 %)" in text(compared(sides, margin=0.04))
    fail_on = parse_conditions(["slower:4%"])
    assert compared(sides, fail_on).pairs[0].difference.margin == 0.04


def test_one_run_is_judged_as_its_answer_is() -> None:
    """All results of a run are a family, whichever of them a comparison prints."""
    slower = [0.955 * rate for rate in SLOW]
    one, other = (
        [rate * (1 + 0.06 * ((index + n) % 3)) for index, rate in enumerate(SLOW)] for n in (0, 1)
    )
    rates: dict[str, Sequence[float]] = {"a": SLOW, "b": slower, "c": one, "d": other}
    records = [repeats(rate, switch=name) for name, rate in rates.items()]
    results = Results.of(records)
    (alone,) = compared(within([records[:2]])).pairs
    among = compared(within([records]), results=results).pairs
    assert len(among) == 6
    for pair in among:
        assert pair.difference == results.difference(pair.base[0], pair.other[0])
    assert (alone.difference.word, among[0].difference.word) == ("slower", "undecided")
    assert among[0].difference.of == 4


def test_too_few_repeats_are_told_with_how_many_it_takes() -> None:
    comparison = one(repeats(SLOW[:2]), repeats(FAST[:2]))
    (pair,) = comparison.pairs
    assert (pair.difference.word, pair.difference.reason) == ("undecided", "few")
    assert (pair.is_undecided, pair.difference.needed) == (True, 3)
    assert "fewer than three repeats" in text(comparison)


def test_all_comparisons_are_counted() -> None:
    """One difference among many is found by chance."""
    assert stepwise([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stepwise([]) == []
    slower = [rate * 0.95 for rate in SLOW]
    before = [repeats(SLOW, burst=burst) for burst in range(1, 31)]
    after = [repeats(slower, burst=1), *before[1:]]
    for count, word in ((1, "slower"), (30, "undecided")):
        found = compared(between([before[:count]], [after[:count]]))
        assert (found.pairs[0].difference.word, found.pairs[0].difference.of) == (word, count)


def test_two_runs_differ_by_more_than_their_repeats_do() -> None:
    """Changes from run to run do not appear within a run, because tests of one run take turns."""
    slower = [rate * 0.98 for rate in SLOW]
    assert difference(repeats(SLOW), repeats(slower)).word == "undecided"
    output = text(one(repeats(SLOW), repeats(slower)), runs=2)
    assert "measure both in one run" in output
    (pair,) = compared(within([[repeats(SLOW, switch="a"), repeats(slower, switch="b")]])).pairs
    assert pair.difference.word == "slower"
    before, after = ([[repeats([rate] * 5)] for rate in rates] for rates in (SLOW, slower))
    assert compared(between(before, after)).pairs[0].difference.word == "slower"


def test_a_bound_is_never_called_slower() -> None:
    """The traffic program was the limit, so that the switch may be faster than its figure."""

    def bound(rates: Sequence[float]) -> Record:
        return repeats(rates, verdict="sender")

    assert difference(repeats(FAST), bound(SLOW)).word == "undecided"
    assert difference(bound(FAST), repeats(SLOW)).word == "slower"
    assert difference(bound(SLOW), repeats(FAST)).word == "undecided"
    assert difference(bound(SLOW), repeats(SLOW)).word == "undecided"
    comparison = one(repeats(FAST), bound(SLOW), "slower:3%")
    assert "cannot tell: the traffic generator was the limit" in text(comparison)
    assert ">= 1 Mpps" in text(comparison)
    assert ">= the traffic generator was the limit" in text(comparison)


def test_what_other_work_took_of_the_cpus_is_given_back_before_a_rate_is_called_slower() -> None:
    quiet, busy = repeats(FAST), repeats(SLOW, taken=0.25)
    found = difference(quiet, busy)
    assert (found.word, found.reason, found.is_shown) == ("undecided", "spoiled", True)
    assert difference(busy, quiet).reason == "spoiled"
    assert difference(quiet, repeats(SLOW, taken=0.02)).word == "slower"
    assert difference(repeats(FAST, taken=0.25), repeats(SLOW)).word == "slower"
    half = [rate / 2 for rate in SLOW]
    assert difference(quiet, repeats(half, taken=0.25)).word == "slower"
    assert "doubts about one side may explain the difference" in text(one(quiet, busy))


def test_less_latency_is_faster() -> None:
    def latency(p50_ns: Sequence[float], **options: Any) -> Record:
        return repeats(SLOW, p50_ns=p50_ns, dimension="latency", **options)

    low, high = [10_000, 10_100, 10_200, 10_050, 10_150], [12_000, 12_100, 12_200, 12_050, 12_150]
    comparison = one(latency(low), latency(high))
    assert (comparison.pairs[0].figure.name, comparison.pairs[0].difference.word) == (
        "latency",
        "slower",
    )
    assert "10.1 us (10..10.2 of 5)" in text(comparison)
    assert difference(latency(high), latency(low)).word == "faster"
    assert difference(latency(low), latency(high, doubts=("host-busy",))).reason == "spoiled"


def test_a_rate_that_a_search_found_is_one_value() -> None:
    """However often it was tried in the end: the search itself was made once."""

    def found(rates: Sequence[float]) -> Record:
        result = SearchResult(name="ndr", trials=20, goals=())
        return repeats(rates, search="ndr").model_copy(update={"search": result})

    assert difference(found(SLOW), found(FAST)).word == "undecided"
    before = [[found([rate] * 3)] for rate in SLOW]
    after = [[found([rate] * 3)] for rate in FAST]
    (pair,) = compared(between(before, after)).pairs
    assert (pair.difference.before.values, pair.difference.word) == (tuple(SLOW), "faster")


def test_several_runs_of_a_side_have_one_value_each() -> None:
    """There is no other way to see differences from run to run."""
    runs = [[repeats([rate, rate + 10, rate - 10])] for rate in SLOW]
    (pair,) = compared(between(runs, [[repeats(FAST)]])).pairs
    assert pair.difference.before.values == tuple(SLOW)
    assert len(pair.base) == 5


def of_run(record: Record, name: str) -> Record:
    return record.model_copy(update={"origin": Origin(run=name, host={}, versions={})})


def test_results_of_the_same_runs_are_compared_run_by_run() -> None:
    """The host is twice as fast in the second run and three times in the third, for both."""
    runs = [
        [
            of_run(repeats([factor * rate for rate in rates], switch=switch), f"run{number}")
            for switch, rates in (("a", FAST), ("b", [noise * rate for rate in SLOW]))
        ]
        for number, (factor, noise) in enumerate(((1, 1.001), (2, 0.999), (3, 1.0)), 1)
    ]
    (pair,) = compared(against(runs, "a")).pairs
    assert pair.difference.word == "slower"
    assert pair.difference.change == pytest.approx(1_000_000 / 1_125_000, rel=0.002)
    backwards = [[runs[0][0], runs[1][1]], [runs[1][0], runs[2][1]], [runs[2][0], runs[0][1]]]
    (pair,) = compared(against(backwards, "a")).pairs
    assert pair.difference.word == "slower", "the name of the run says what belongs together"
    alike = [[of_run(record, "run") for record in records] for records in runs]
    (pair,) = compared(against(alike, "a")).pairs
    assert pair.difference.word == "undecided", "names that are not unique pair nothing"


def test_runs_are_named_where_more_of_them_would_decide() -> None:
    runs = [
        [
            of_run(repeats([factor * rate for rate in rates], switch=switch), f"run{number}")
            for switch, rates, factor in (("a", FAST, 1.0), ("b", SLOW, noise))
        ]
        for number, noise in enumerate((1.2, 0.9, 1.0), 1)
    ]
    comparison = compared(against(runs, "a"))
    (pair,) = comparison.pairs
    assert pair.difference.word == "undecided"
    output = text(comparison, runs=3)
    assert f"needs about {pair.difference.needed} runs" in output
    assert f"about {pair.difference.needed} runs would decide" in output
    assert "measure both in one run" not in output


def test_shares_are_compared_by_what_lies_between_them() -> None:
    none, some = Repeats((0.0,) * 5), Repeats((0.01, 0.011, 0.012, 0.013, 0.014))
    (found,) = differences(FIGURES["loss"], [(none, some)], 0.0)
    assert found.word == "slower"
    assert found.change == pytest.approx(0.012)
    (found,) = differences(FIGURES["loss"], [(none, none)], 0.0)
    assert found.word == "same"
    (found,) = differences(FIGURES["rate"], [(none, some)], 0.0)
    assert (found.word, found.change, found.p) == ("undecided", None, None)


# --- when a comparison fails -----------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "slower",
        "slower:",
        "slower:3",
        "slower:0%",
        "faster:3%",
        "rate:3%",
        "undecided:1%",
        "",
        "loss:x",
    ],
)
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        parse_conditions([condition])


def test_conditions_are_read_as_they_are_written() -> None:
    found = parse_conditions(["slower:3%,latency-p99:0.1", "loss, loss:0.1%,undecided", "loss"])
    assert [(condition.figure, condition.amount) for condition in found] == [
        (None, 0.03),
        ("latency-p99", 0.1),
        ("loss", 0.0),
        ("loss", 0.001),
        (None, None),
    ]


def test_a_slowdown_fails_from_so_many_percent_on() -> None:
    fast, slow = repeats(FAST), repeats(SLOW)
    for percent, failures in ((1, 1), (11, 1), (12, 0)):
        assert len(one(fast, slow, f"slower:{percent}%").failures) == failures
    assert one(slow, fast, "slower:1%").failures == ()
    assert one(slow, slow, "slower:1%").failures == ()
    assert [failure.condition for failure in one(slow, slow, "undecided").failures] == ["undecided"]


FIVE = (1.0,) * 5
BEFORE, AFTER = Repeats(FIVE), Repeats(FIVE)
BOUND, LOWERED = Repeats(FIVE, bound=True), Repeats(FIVE, lowered=True)
RAISED, UNSURE = Repeats(FIVE, raised=True), Repeats(FIVE, error=0.02)


def judged(
    ends: tuple[float, float] | None,
    by: str = "rate",
    reason: Reason = "",
    *,
    p: float = 0.001,
    before: Repeats = BEFORE,
    after: Repeats = AFTER,
) -> Difference:
    """Return a difference with an interval of the change from none."""
    none = 0.0 if by == "loss" else 1.0
    interval = ends and (none + ends[0], none + ends[1])
    change = interval and sum(interval) / 2
    figure = FIGURES[by]
    return Difference(figure, before, after, 0.01 * none, change, interval, p, 1, reason)


@pytest.mark.parametrize(
    ("difference", "holds"),
    [
        (judged((-0.06, -0.02)), "yes"),  # shown, and 4 % worse
        (judged((-0.20, -0.02)), "yes"),
        (judged((-0.035, -0.02)), "cannot tell"),  # a slowdown is shown, whether of 3 % is not
        (judged((-0.02, -0.011)), "no"),
        (judged((-0.02, 0.10), reason="chance", p=0.2), "no"),
        (judged((-0.20, 0.02), reason="chance", p=0.2), "cannot tell"),
        (judged((-0.03, 0.10), reason="chance", p=0.2), "cannot tell"),
        (judged((0.02, 0.20)), "no"),
        (judged(None, reason="few", p=1), "cannot tell"),
        (judged((-0.01, 0.02), reason="load"), "cannot tell"),
        (judged((-0.20, -0.10), reason="bound", after=BOUND), "cannot tell"),
        (judged((-0.02, 0.02), reason="chance", p=1, after=BOUND), "no"),
        (judged((-0.02, 0.02), reason="chance", p=1, before=BOUND), "cannot tell"),
        (judged((-0.20, -0.10), before=BOUND), "yes"),
        (judged((-0.20, -0.10), reason="spoiled", after=LOWERED), "cannot tell"),
        (judged((-0.02, 0.02), reason="chance", p=1, after=LOWERED), "no"),
        (judged((-0.02, 0.02), reason="chance", p=1, before=LOWERED), "cannot tell"),
        (judged((-0.02, 0.02), reason="chance", p=1, after=RAISED), "cannot tell"),
        (judged((-0.02, 0.02), reason="chance", p=1, before=RAISED), "no"),
        (judged((-0.20, 0.02), "latency", "chance", p=0.2), "no"),
        (judged((-0.02, 0.20), "latency", "chance", p=0.2), "cannot tell"),
        (
            judged((-0.02, 0.02), "latency", "chance", p=1, after=UNSURE),
            "cannot tell",
        ),
        (judged((0.01, 0.05), "loss"), "yes"),
        (judged((-0.05, 0.02), "loss", "chance", p=0.2), "no"),
    ],
)
def test_a_condition_holds_or_is_excluded_or_nobody_can_tell(
    difference: Difference, holds: str
) -> None:
    (condition,) = parse_conditions([f"{difference.figure.name}:3%".replace("rate", "slower")])
    assert condition.holds(difference) == holds


def test_more_loss_without_an_amount_is_excluded_from_a_tenth_of_a_percent_on() -> None:
    (condition,) = parse_conditions(["loss"])
    for most, holds in ((0.0009, "no"), (0.0011, "cannot tell")):
        assert condition.holds(judged((-0.0005, most), "loss", "chance", p=0.9)) == holds
    assert condition.holds(judged((0.0001, 0.0003), "loss")) == "yes"


def test_a_switch_that_forwards_nothing_any_more_fails() -> None:
    comparison = one(repeats(SLOW), repeats([0] * 5), "slower:3%")
    assert [failure.reason for failure in comparison.failures] == ["100 % worse"]
    assert one(repeats([0] * 5), repeats([0] * 5), "slower:3%").unknown != ()


# 16 % slower, of repeats that scatter more.
NOISY = [0.84 * rate for rate in (1_300_000, 760_000, 1_000_000, 880_000, 1_060_000)]


def test_what_nobody_can_tell_is_never_green() -> None:
    sides = within(
        [[repeats(SLOW, switch="a"), repeats(NOISY, switch="b"), repeats(SLOW, switch="c")]]
    )
    fail_on = parse_conditions(["slower:3%"])
    comparison = compared(sides, fail_on)
    states = [comparison.state(pair) for pair in comparison.pairs]
    assert states == ["cannot tell", "passed", "cannot tell"]
    needed = max(pair.difference.needed or 0 for pair in comparison.pairs)
    assert needed > 10
    output = text(comparison)
    rounds = f"passed: 1, cannot tell: 2 (about {needed} rounds would); conditions: slower:3%\n"
    assert rounds in output
    assert f", needs about {needed} rounds" in output
    assert (
        f"slower:3%: cannot tell: chance may explain the difference; needs about {needed}" in output
    )
    suite = ElementTree.fromstring(junit(comparison, [], ["one"]))[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "2")
    cases = [case.find("skipped") for case in suite.findall("testcase")]
    messages = [None if case is None else case.get("message") for case in cases]
    reasons = [f"slower:3%: cannot tell: {case.reason}" for case in comparison.unknown]
    assert messages == [reasons[0], None, reasons[1]]
    page = compare_markdown(comparison, [], ["one"])
    assert page.count("| cannot tell: slower:3%: chance may") == 2
    assert as_object(comparison.pairs[0], (), comparison.unknown_of(comparison.pairs[0]))[
        "cannot_tell"
    ]

    strict = compared(sides, fail_on, unknown_fails=True)
    assert ([strict.state(pair) for pair in strict.pairs], strict.unknown) == (
        ["failed", "passed", "failed"],
        (),
    )
    suite = ElementTree.fromstring(junit(strict, [], ["one"]))[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("2", "0")
    unasked = ElementTree.fromstring(junit(compared(sides), [], ["one"]))[0]
    assert unasked.get("skipped") == "3"


def test_a_bound_is_so_many_times_as_fast_at_least() -> None:
    fast = repeats([2.2 * rate for rate in SLOW], verdict="sender", switch="a")
    comparison = within([[repeats(SLOW, switch="b"), fast]])
    assert re.search(r"faster: at least 2\.[01] times \(p ", text(compared(comparison)))
    slow = within([[fast, repeats(SLOW, switch="b")]])
    assert re.search(r"slower: at least 2\.[01] times \(p ", text(compared(slow)))


def test_latency_and_loss_are_judged_beside_the_rate() -> None:
    low, high = [10_000, 10_100, 10_200, 10_050, 10_150], [12_000, 12_100, 12_200, 12_050, 12_150]
    before = repeats(SLOW, p50_ns=low, lost=[0] * 5)
    after = repeats(SLOW, p50_ns=high, lost=[1000, 1100, 1200, 1050, 1150])
    comparison = one(before, after, "slower:3%", "latency:5%", "loss:0.5%")
    assert [(pair.figure.name, pair.difference.word) for pair in comparison.pairs] == [
        ("rate", "undecided"),
        ("latency", "slower"),
        ("loss", "slower"),
    ]
    assert [failure.condition for failure in comparison.failures] == ["latency:5%", "loss:0.5%"]
    assert "more loss by 0.87..1.3 pp (p 1.4e-06)" in text(comparison)
    assert one(before, after, "latency:25%", "loss:2%").failures == ()
    assert len(one(before, after, "loss").failures) == 1
    bare = repeats(SLOW)
    untold = bare.model_copy(
        update={"trials": tuple(t.model_copy(update={"latency": None}) for t in bare.trials)}
    )
    with pytest.raises(UsageError, match="latency: no test measured it"):
        one(untold, untold, "latency:5%")


def test_each_table_has_its_figure_as_a_heading_and_loss_is_in_percentage_points() -> None:
    before = repeats(SLOW, lost=[0] * 5)
    after = repeats(SLOW, lost=[1000, 1100, 1200, 1050, 1150])
    lines = text(one(before, after, "loss:0.5%")).splitlines()
    assert [line.split()[0] for line in lines if "before" in line] == ["rate", "loss"]
    assert re.search(r" \+1\.[0-9]+ pp ", "\n".join(lines))


def test_a_comparison_is_as_wide_as_its_terminal() -> None:
    comparison = one(repeats(SLOW), repeats([0.5 * rate for rate in SLOW]), "slower:3%")
    wide = [*compare_lines(comparison, (), ("a", "b"))]
    assert max(map(len, wide)) > 72
    narrow = [*compare_lines(comparison, (), ("a", "b"), 72)]
    assert max(map(len, narrow)) <= 72
    assert " ".join(narrow).split() == " ".join(wide).split()


@pytest.mark.parametrize("status", ["failed", "refused"])
def test_a_test_that_was_not_measured_fails_the_comparison(status: str) -> None:
    gone = {"status": status, "error": "no link\n  in b0", "trials": (), "semantics": None}
    failed = repeats(SLOW).model_copy(update=gone)
    comparison = one(repeats(SLOW), failed, "slower:3%")
    (pair,) = comparison.pairs
    assert (pair.is_lacking, pair.is_undecided) == (True, False)
    output = text(comparison)
    assert re.search(rf" 1 Mpps \(\S+ of 5\) +{status} +-\n", output)
    assert f"linux-bridge: {status} after: no link\n" in output
    assert "different work" not in output
    assert "undecided" not in output
    assert [failure.reason for failure in comparison.failures] == [f"{status} after: no link"]
    content = as_object(pair, comparison.failures)
    assert (content["after"]["status"], content["after"]["error"]) == (status, "no link\n  in b0")
    assert content["after"]["figure"] is None
    assert content["difference"] is None
    assert len(one(failed, repeats(SLOW)).failures) == 1


def test_what_one_run_has_alone_is_told_and_fails_if_it_is_the_later_that_lacks_it() -> None:
    sides = between([[record(burst=1), record(burst=2)]], [[record(burst=2), record(burst=3)]])
    comparison = compared(sides)
    assert [pair.is_lacking for pair in comparison.pairs] == [True, False, False]
    output = text(comparison)
    assert "linux-bridge burst 1: only in the earlier run\n" in output
    assert "linux-bridge burst 3: only in the later run\n" in output
    assert [as_object(pair)["after"] is None for pair in comparison.pairs] == [True, False, False]


# --- how it is written -----------------------------------------------------------------------


def test_each_side_of_a_comparison_has_the_names_of_a_report() -> None:
    content = as_object(one(SURE, SURE).pairs[0])
    report = to_object(SURE)
    for side in ("before", "after"):
        shared = set(content[side]) - {"figure", "ci95", "runs"}
        assert {"run", "time", "host", "versions", "status", "test"} <= shared
        assert {name: content[side][name] for name in shared} == {
            name: report[name] for name in shared
        }


def test_semantics_and_versions_that_differ_are_told_below_the_table() -> None:
    def of(switch: str, version: str, **options: Any) -> Record:
        return record(SURE.model_copy(update={"switch_version": version, **options}), switch=switch)

    routed = of("other", "1", semantics="routed")
    assert "do different work (linux-bridge learning; other routed): an order" in text(
        compared(within([[SURE, routed]]))
    )
    records = [of("vpp@26.10", "26.10-rc0"), of("vpp@24.06", "24.06.0"), of("ovs", "3.1")]
    output = text(compared(within([records])))
    assert "versions: vpp@26.10 26.10-rc0 before, vpp@24.06 24.06.0 after" in output
    assert "vpp@24.06 against vpp@26.10" in output
    assert output.count("versions: ") == 1
    assert re.search(r"base +test +ratio", output)
    output = text(one(of("ovs", "3.1"), of("ovs", "3.2")))
    assert "versions: ovs 3.1 before, ovs 3.2 after" in output


def test_what_differs_between_hosts_is_told_first() -> None:
    def run(name: str, kernel: str, switchmark: str, free: int) -> RunFacts:
        host = {
            "kernel": kernel,
            "cpu_model": "One",
            "mitigations": {"retbleed": "Not affected"},
            "hugepages": {"total": 4 * free, "free": free},
            "kernel_parameters": [] if kernel == "6.1" else ["mitigations=off", "nosmt"],
            "versions": {"switchmark": switchmark, "python": "3.11"},
        }
        versions = {"switchmark": switchmark, "switch ovs": "3.1", "placement": "pinned"}
        origin = Origin(run=name, host={}, versions=versions)
        record = SURE.model_copy(update={"origin": origin, "switch_version": None})
        return RunFacts(name, host, [record])

    found = host_differences([run("one", "6.1", "0.1", 1), run("two", "6.6", "0.2", 2)])
    assert [(difference.what, difference.values) for difference in found] == [
        ("switchmark", ("0.1", "0.2")),
        ("kernel", ("6.1", "6.6")),
        ("kernel_parameters", ("none", "mitigations=off nosmt")),
    ]
    comparison = one(SURE, SURE)
    assert text(comparison, found, runs=2).startswith(
        "differences between the runs\n                     run-1  run-2\n"
        "  switchmark         0.1    0.2\n"
    )
    assert text(comparison, [], runs=2).startswith("hosts and versions: the same in all runs\n")
    assert "hosts" not in text(comparison)
    page = compare_markdown(comparison, found, ["run-1", "run-2"])
    assert page.index("| kernel | 6.1 | 6.6 |") < page.index("| test | by |")


def test_ci_reads_the_result_as_junit() -> None:
    gone = {"status": "failed", "error": "no <link> & \x1b[0m more", "trials": ()}
    before = [repeats(FAST, burst=1), repeats(SLOW, burst=2), repeats(SLOW, burst=3)]
    after = [
        repeats(SLOW, burst=1),
        repeats([*SLOW[:3], 900_000, 1_100_000], burst=2),
        repeats(SLOW, burst=3).model_copy(update=gone),
        repeats(SLOW, burst=4),
    ]
    comparison = compared(between([before], [after]), parse_conditions(["slower:3%", "undecided"]))
    hosts = [HostDifference("kernel", ("6.1", "6.6"))]
    suite = ElementTree.fromstring(junit(comparison, hosts, ["one", "two"]))[0]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "2", "errors": "1", "skipped": "1"}
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [f"linux-bridge burst {n}" for n in (1, 2, 3, 4)]
    assert [[element.tag for element in case] for case in cases] == [
        ["failure", "system-out"],
        ["failure", "system-out"],
        ["error", "system-out"],
        ["skipped", "system-out"],
    ]
    failure = cases[0].find("failure")
    assert failure is not None
    assert failure.get("type") == "slower:3%"
    properties = {element.get("name"): element.get("value") for element in suite.iter("property")}
    assert properties["differs: kernel"] == "6.1 | 6.6"
    assert (properties["result"] or "").startswith("passed: 0, failed: 3; ")


def test_ci_shows_the_result_as_markdown() -> None:
    comparison = one(repeats(FAST), repeats(SLOW), "slower:3%")
    page = compare_markdown(comparison, [], ["run|1", "run_2"])
    assert "Hosts and versions: the same in all runs." in page
    assert "**passed: 0, failed: 1; conditions: slower:3%**" in page
    (row,) = [line for line in page.splitlines() if line.startswith("| linux-bridge")]
    assert "failed: slower:3%: 11 % worse" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 7


# --- a run that is compared with itself ------------------------------------------------------

RECORDED = json.loads((DATA / "one-run-repeated.json").read_text())


def recorded_run(run: dict[str, Any]) -> list[Record]:
    return [
        repeats(outcome["pps"], taken=outcome["taken"], switch=switch, verdict="unknown")
        for switch, outcome in run.items()
    ]


@pytest.mark.parametrize("host", RECORDED["hosts"])
def test_a_run_that_is_repeated_differs_from_itself_in_five_of_a_hundred_times_at_most(
    host: str,
) -> None:
    """Of 100 pairs that are drawn from runs of one campaign, made one after the other."""
    runs = [recorded_run(run) for run in RECORDED["hosts"][host]]
    pairs = random.Random(1).sample(list(itertools.combinations(runs, 2)), 100)
    outcomes = [
        {pair.difference.word for pair in compared(between([one], [other])).pairs}
        for one, other in pairs
    ]
    alarms = sum(bool(outcome & {"faster", "slower"}) for outcome in outcomes)
    print(f"{host}: {len(runs)} runs, 100 pairs, {alarms} alarms")
    assert alarms <= 5


def test_a_switch_that_lost_a_third_of_its_rate_is_found_in_a_quiet_host_s_repeats() -> None:
    """A rule that never raises an alarm would pass this test too."""
    draw = random.Random(1)
    found = 0
    for _ in range(20):
        before = [1e6 * draw.gauss(1, 0.03) for _ in range(6)]
        after = [0.67e6 * draw.gauss(1, 0.03) for _ in range(6)]
        found += difference(repeats(before), repeats(after)).word == "slower"
    assert found == 20
