"""These tests compare the sentences about records with the intervals: no sentence claims more."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.metrics.family import Results
from switchmark.metrics.latency import from_counts
from switchmark.model.evidence import Evidence
from switchmark.model.latency import Latency, Stamps
from switchmark.model.record import Record
from switchmark.model.search import Goal, OneSearch, SearchResult
from switchmark.report.answer import answer
from switchmark.report.phrases import listed, times
from switchmark.report.sections import sections
from switchmark.report.standing import figures_of, ranked
from switchmark.report.table import table_lines

DATA = Path(__file__).parent / "data"
RECORD = Record.model_validate(
    json.loads((DATA / "records-schema-1.jsonl").read_text())["record"]
).model_copy(update={"doubts": ()})


def of_rates(rates: Sequence[float], *, found: dict[str, Any] | None = None, **test: Any) -> Record:
    """Return a record of trials that received at these rates."""
    one = RECORD.trials[0]
    trials = tuple(
        one.model_copy(
            update={"elapsed_ns": 10**9, "rx_frames": int(rate), "duplicated": 0, "intervals": ()}
        )
        for rate in rates
    )
    axes = {"search": "fixed", **test}
    changes = {"trials": trials, "search": None, "test": RECORD.test.model_copy(update=axes)}
    return RECORD.model_copy(update=changes | (found or {}))


def of_delays(medians_ns: Sequence[int], **test: Any) -> Record:
    """Return a record of trials of latency with these medians."""
    trials = tuple(
        RECORD.trials[0].model_copy(update={"latency": delay(median)}) for median in medians_ns
    )
    axes = {"search": "fixed", "dimension": "latency", **test}
    test_of = RECORD.test.model_copy(update=axes)
    return RECORD.model_copy(update={"trials": trials, "search": None, "test": test_of})


def delay(ns: int) -> Latency | None:
    """Return the latency of a thousand frames, all of them of one delay below 1024 ns."""
    counts = {"count": 1000, "min": ns, "max": ns, "sum": 1000 * ns, "counts": [[ns, 1000]]}
    return from_counts("rtt", [counts])


def searched(low: float, high: float | None, **test: Any) -> Record:
    goal = Goal(
        goal="ndr", loss_ratio=0, rate_pps=low, low_pps=low, high_pps=high, verdict="switch"
    )
    search = SearchResult(name="ndr", trials=15, goals=(goal,))
    return of_rates([low], found={"search": search}, search="ndr", **test)


def searches(
    found: Sequence[float], *, failed: bool = True, bursts: bool = False, **test: Any
) -> Record:
    """Return a record of searches that found these rates or bursts."""
    name = "back-to-back" if bursts else "ndr"
    kind, ends = ("burst_frames", "burst") if bursts else ("rate_pps", "pps")
    goals = []
    for value in (*found, median(found)):
        high = value * 1.01 if failed else None
        passed = {"burst_low": int(value), "burst_high": high and int(high) + 1}
        bounds = passed if ends == "burst" else {"low_pps": value, "high_pps": high}
        found_of = {"goal": name, "loss_ratio": 0, "rate_pps": None, "verdict": "switch"}
        goals.append(Goal.model_validate({**found_of, kind: value, **bounds}))
    *each_goal, whole = goals
    results = tuple(OneSearch(trials=15, goals=(goal,)) for goal in each_goal)
    search = SearchResult(name=name, trials=15 * len(found), goals=(whole,), results=results)
    record = of_rates(found, found={"search": search}, **{**test, "search": name})
    trials = tuple(
        trial.model_copy(update={"spec": trial.spec.model_copy(update={"repeat": number})})
        for number, trial in enumerate(record.trials, 1)
    )
    return record.model_copy(update={"trials": trials})


FAST, SLOW = (300e3, 310e3, 290e3) * 5, (150e3, 152e3, 148e3) * 5
ALIKE = (300e3, 290e3, 310e3, 310e3, 290e3, 300e3) * 2
TOGETHER = "All comparisons of this run together hold with 95 % confidence."


def test_one_test_is_answered_by_its_figure_and_its_limit() -> None:
    assert answer([of_rates(FAST)]) == ["linux-bridge forwards 300 kpps [290, 310]."]
    bound = of_rates(FAST, found={"verdict": "sender"})
    assert answer([bound]) == [
        "linux-bridge forwards at least 300 kpps [290, 310], limited by the sender."
    ]
    unknown = of_rates(FAST[:1], found={"verdict": "unknown"})
    assert answer([unknown]) == ["linux-bridge forwards 300 kpps (1 trial), bottleneck unknown."]


def test_who_leads_by_how_much_and_who_does_not_differ() -> None:
    records = [of_rates(FAST), of_rates(SLOW, switch="ovs"), of_rates(ALIKE, switch="ip-forward")]
    assert answer(records) == [
        "linux-bridge forwards 300 kpps [290, 310]: 1.9 to 2.1 times as much as ovs; the "
        "difference from ip-forward is not significant (about 127 rounds would decide: --repeat "
        "127).",
        TOGETHER,
    ]


def test_what_is_the_same_is_said_to_be_so() -> None:
    """Within 1 %, which is more than a difference that is not significant."""
    steady, close = (3e5, 3.01e5, 2.999e5) * 5, (3.003e5, 3e5, 2.997e5) * 5
    records = [of_rates(steady, switch="a"), of_rates(close, switch="b")]
    assert answer(records) == [
        "a (300 kpps [300, 301]) and b (300 kpps [300, 300]) are the same within 1 %.",
        TOGETHER,
    ]
    slow = of_rates(SLOW, switch="c")
    assert "b is within 1 % of a" in answer([*records, slow])[0]


def test_the_same_is_said_once_of_all_cases() -> None:
    records = [
        of_rates([rate / n for rate in rates], switch=switch, frame_size=64 * n)
        for n in (1, 2, 3)
        for switch, rates in (("a", FAST), ("b", SLOW))
    ]
    assert answer(records) == [
        "In all 3 cases: a forwards 1.9 to 2.1 times as much as b.",
        TOGETHER,
    ]
    other = of_rates(FAST, switch="b", frame_size=64)
    assert answer([records[0], other, *records[2:]]) == [
        "64 B: the difference between a (300 kpps [290, 310]) and b (300 kpps [290, 310]) is not "
        "significant (about 173 rounds would decide: --repeat 173).",
        "128 B and 192 B: a forwards 1.9 to 2.1 times as much as b.",
        TOGETHER,
    ]


def test_other_axes_than_the_switch_are_compared_too() -> None:
    records = [of_rates(FAST, engine="xdp"), of_rates(SLOW, engine="raw")]
    assert answer(records) == [
        "linux-bridge with xdp forwards 300 kpps [290, 310]: 1.9 to 2.1 times as much as raw.",
        TOGETHER,
    ]
    records = [
        of_rates(rates, engine=engine, frame_size=size)
        for size in (64, 128)
        for engine, rates in (("xdp", FAST), ("raw", SLOW))
    ]
    text, _ = answer(records)
    assert text.startswith("In both cases: linux-bridge with xdp forwards 1.9 to 2.1 times as")


def test_a_case_names_the_axis_of_a_word_that_several_axes_have() -> None:
    """A value such as auto says nothing by itself; that of an engine does."""
    records = [
        of_rates(FAST, engine="udp-mmsg", placement="auto"),
        of_rates(SLOW, engine="udp-mmsg", placement="auto", switch="ovs"),
        of_rates(SLOW, engine="udp-mmsg", placement="pinned", switch_burst=32),
        of_rates(FAST, engine="udp-mmsg", placement="pinned", switch_burst=32, switch="ovs"),
    ]
    text = " ".join(answer(records))
    assert "placement auto" in text
    assert "switch burst none" in text
    assert "placement pinned" not in text


def test_of_a_bound_no_order_is_told_against_it() -> None:
    low = of_rates(SLOW, found={"verdict": "sender"}, switch="ovs")
    assert answer([of_rates(FAST), low]) == [
        "linux-bridge (300 kpps [290, 310]) cannot be ranked above ovs (at least 150 kpps "
        "[148, 152]), which is only a bound, as the traffic generator was the limit."
    ]
    high = of_rates(FAST, found={"verdict": "receiver"})
    assert answer([high, of_rates(SLOW, switch="ovs")]) == [
        "linux-bridge forwards at least 300 kpps [290, 310], limited by the receiver: "
        "at least 1.9 times as much as ovs.",
        TOGETHER,
    ]


def test_a_load_that_all_carry_ranks_nobody() -> None:
    offered = {"verdict": "offered-load"}
    records = [of_rates(FAST, found=offered, switch=switch, rate="300000") for switch in "ab"]
    assert answer(records) == ["a and b forward all of the offered load."]
    rates = [
        of_rates([pps] * 3, found=offered, rate=rate)
        for pps, rate in ((1e5, "100kpps"), (2e5, "200kpps"))
    ]
    assert answer(rates) == [
        "linux-bridge forwards all of the offered load, at rate 200kpps and rate 100kpps."
    ]


def test_shares_of_what_each_carries_are_no_race() -> None:
    """20 % of the one is more than 20 % of the other: that is R+ once more."""
    records = [
        of_rates(
            [rate * factor for rate in FAST],
            switch=switch,
            rate=rate,
            found={"r_plus_pps": 300e3 * factor, "verdict": "offered-load"},
        )
        for switch, factor in (("a", 1), ("b", 0.5))
        for rate in ("50%", "80%")
    ]
    assert answer(records) == [
        "In both cases: a and b are not compared, as their loads were shares of different maximum "
        "rates."
    ]


def test_too_few_trials_show_no_order() -> None:
    text = answer([of_rates(FAST[:2]), of_rates(SLOW[:2], switch="ovs")])
    assert text == [
        "No order is shown with fewer than three trials (--repeat 5): linux-bridge (305 kpps, 300 "
        "to 310 in 2 trials) and ovs (151 kpps, 150 to 152 in 2 trials)."
    ]
    text = answer([of_rates(FAST), of_rates(SLOW[:2], switch="ovs")])
    assert text == ["ovs is not ranked, with fewer than three trials (--repeat 5)."]


def test_three_trials_have_no_interval_and_may_show_an_order() -> None:
    assert answer([of_rates(FAST[:3]), of_rates(SLOW[:3], switch="ovs")]) == [
        "linux-bridge forwards 300 kpps (290 to 310 in 3 trials): 1.8 to 2.2 times as much as ovs.",
        TOGETHER,
    ]
    assert len(answer([of_rates(FAST[:3]), of_rates(ALIKE[:3], switch="ovs")])) == 1


def test_a_disturbance_of_the_slower_spoils_the_order() -> None:
    """CPU time that background load took is added back if it is known, which is all of it here."""
    disturbed = {"verdict": "host", "doubts": ("cpu-stolen",)}
    slow = of_rates(SLOW, switch="ovs", found=disturbed)
    evidence = slow.trials[0].evidence.model_copy(update={"taken": {"0": 0.5}})
    stolen = tuple(trial.model_copy(update={"evidence": evidence}) for trial in slow.trials)
    assert answer([of_rates(FAST), slow.model_copy(update={"trials": stolen})]) == [
        "linux-bridge (300 kpps [290, 310]) cannot be ranked above ovs (150 kpps [148, 152]): "
        "disturbances (cpu-stolen and verdict host) may explain the difference."
    ]


def test_a_rate_of_nothing_has_no_ratio() -> None:
    assert answer([of_rates(FAST), of_rates((0,) * 13, switch="ovs")]) == [
        "linux-bridge (300 kpps [290, 310]) and ovs (0 pps [0, 0]) are not compared, as a ratio "
        "to 0 is undefined."
    ]


def test_latency_is_led_by_the_least() -> None:
    soon, late = (100, 101, 99) * 5, (200, 201, 199) * 5
    assert answer([of_delays(late, switch="ovs"), of_delays(soon)]) == [
        "The median round trip of linux-bridge is 100 ns [99, 101]; "
        "ovs takes 1.9 to 2.1 times as long.",
        TOGETHER,
    ]
    records = [
        of_delays(delays, switch=switch, engine=engine)
        for engine in ("raw", "xdp")
        for switch, delays in (("a", soon), ("b", late))
    ]
    assert answer(records) == [
        "In both cases: a has the least median round trip; b takes 1.9 to 2.1 times as long.",
        TOGETHER,
    ]
    (text,) = answer([of_delays(soon[:5], switch=switch) for switch in "ab"])
    assert "is not significant" in text


def test_a_latency_that_is_no_larger_than_its_error_is_a_bound() -> None:
    record = of_delays((100, 101, 99, 100, 100))
    wide = Evidence(stamps={"a": Stamps(by="poll", noted=0, p50=500, p99=900, max=7000)})
    trials = tuple(trial.model_copy(update={"evidence": wide}) for trial in record.trials)
    (text, *_) = answer([record.model_copy(update={"trials": trials})])
    assert text == "The median round trip of linux-bridge is at most 100 ns."


def test_latency_and_throughput_are_answered_apart() -> None:
    records = [
        *(of_rates(FAST, switch="a"), of_rates(SLOW, switch="b")),
        *(of_delays((200,) * 13, switch="a"), of_delays((100,) * 13, switch="b")),
    ]
    one, other, _ = answer(records)
    assert one.startswith("a forwards 300 kpps")
    assert "of b is 100 ns [100, 100]; a takes" in other


def test_different_work_is_said_to_be_so() -> None:
    routed = of_rates(SLOW, found={"semantics": "routed"}, switch="ip-forward")
    assert answer([of_rates(FAST), routed])[1] == (
        "The switches do different work (linux-bridge learning; ip-forward routed): an order shows "
        "measured speed only, not which switch is better."
    )


def test_the_cable_is_no_switch() -> None:
    cable = of_rates((500e3,) * 5, found={"verdict": "sender"}, switch="direct")
    assert answer([cable, of_rates(FAST)]) == [
        "linux-bridge forwards 300 kpps [290, 310].",
        "Baseline (no switch): 500 kpps.",
    ]
    assert answer([cable]) == ["Baseline (no switch): 500 kpps."]


def test_what_failed_or_was_refused_is_named() -> None:
    gone = {"status": "failed", "error": "no link", "trials": ()}
    failed = of_rates((), found=gone, switch="ovs")
    refused = of_rates((), found=gone | {"status": "refused"}, switch="vpp")
    assert answer([of_rates(FAST), failed, refused])[-1] == (
        "Not measured: ovs (failed) and vpp (refused)."
    )
    assert answer([failed, refused]) == ["Nothing was measured: 1 failed and 1 refused."]
    assert answer([]) == []


def test_functional_results_are_left_out() -> None:
    crowded = of_rates(FAST, found={"doubts": ("cores-overcommitted",)}, switch="ovs")
    assert answer([of_rates(SLOW), crowded]) == [
        "linux-bridge forwards 150 kpps [148, 152].",
        "Left out because too many parts share a core: ovs.",
    ]


def test_doubted_figures_are_counted() -> None:
    doubted = of_rates(SLOW, found={"doubts": ("clock",)}, switch="ovs")
    assert answer([of_rates(FAST), doubted])[-1] == (
        "1 of these 2 tests have doubts that may falsify a figure: see their rows."
    )


def test_one_search_of_each_shows_no_order() -> None:
    assert answer([searched(236e3, 237e3), searched(120e3, 121e3, switch="ovs")]) == [
        "NDR: no order is shown with fewer than three searches (--repeat 5): linux-bridge (236 "
        "kpps, 1 search, found to within 0.42 %) and ovs (120 kpps, 1 search, found to "
        "within 0.83 %)."
    ]


def test_searches_that_are_repeated_are_compared_by_what_each_found() -> None:
    records = [
        searches((236e3, 240e3, 231e3) * 5),
        searches((120e3, 121e3, 119e3, 118e3, 122e3), switch="ovs"),
    ]
    assert answer(records) == [
        "NDR: linux-bridge forwards 236 kpps [231, 240]: 1.9 to 2.1 times as much as ovs.",
        TOGETHER,
    ]


def test_a_search_that_nothing_failed_is_a_bound() -> None:
    rates = (120e3, 122e3, 118e3) * 5
    bound = searches(rates, failed=False, switch="ovs")
    assert answer([searches([2 * rate for rate in rates]), bound]) == [
        "NDR: linux-bridge (240 kpps [236, 244]) cannot be ranked above ovs (at least 120 kpps "
        "[118, …]), which is only a bound, as no more was offered."
    ]


def test_bursts_are_compared_as_bursts() -> None:
    """Their rate is that of the sender."""
    records = [
        searches((5000, 5010, 4990), bursts=True),
        searches((2500, 2505, 2495), bursts=True, switch="ovs"),
    ]
    assert answer(records)[0] == (
        "back-to-back: linux-bridge takes a burst of 5000 frames (4990 to 5010 in 3 searches): "
        "1.9 to 2.1 times as much as ovs."
    )


def test_a_goal_that_no_rate_met_has_no_figure() -> None:
    none = searched(1.0, None).model_copy(
        update={
            "search": SearchResult(
                name="ndr", trials=1, goals=(Goal(goal="ndr", loss_ratio=0, rate_pps=None),)
            )
        }
    )
    assert answer([none]) == ["No figure was found for linux-bridge."]


def test_many_names_are_counted() -> None:
    records = [of_rates(FAST, switch="a")]
    records += [of_rates([rate / n for rate in SLOW], switch=f"b{n}") for n in range(1, 8)]
    assert answer(records) == [
        "a forwards 300 kpps [290, 310]: 1.9 to 15 times as much as 7 others.",
        TOGETHER,
    ]
    assert listed(["a", "b"]) == "a and b"
    assert listed(list("abcdefgh")) == "a, b, c, d and 4 more"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        *((1.93, 2.98, "1.9 to 3.0 times"), (1.031, 1.058, "1.03 to 1.06 times")),
        *((1.001, 1.2, "up to 1.20 times"), (1.04, 3.2, "1.04 to 3.2 times")),
        *(
            (9.99, 21.2, "9.9 to 22 times"),
            (2.0, 2.0, "2.0 times"),
            (2.34, None, "at least 2.3 times"),
        ),
    ],
)
def test_a_ratio_says_no_more_than_was_found(low: float, high: float | None, text: str) -> None:
    assert times(low, high) == text


# --- properties ------------------------------------------------------------------------------

rates = st.lists(st.integers(1_000, 2_000_000), min_size=1, max_size=6)
verdicts = st.sampled_from(["switch", "sender", "receiver", "offered-load", "host", "unknown"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(rates, verdicts), min_size=2, max_size=4))
def test_no_sentence_claims_more_than_the_differences_say(
    found: list[tuple[list[int], str]],
) -> None:
    records = {
        f"s{n}": of_rates(samples, found={"verdict": verdict}, switch=f"s{n}")
        for n, (samples, verdict) in enumerate(found)
    }
    text = " ".join(answer(list(records.values())))
    results = Results.of(records.values())
    for leader, claims in re.findall(r"(s\d) forwards (.*?times as much as [^.;]*)", text):
        for other in re.findall(r"times as much as (s\d)", claims):
            difference = results.difference(records[leader], records[other])
            assert difference.is_decided
            assert difference.better is difference.before
            assert ("at least" in claims) >= difference.is_at_least


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(rates, verdicts), min_size=2, max_size=4))
def test_no_other_is_shown_to_be_better_than_the_first(
    found: list[tuple[list[int], str]],
) -> None:
    records = [
        of_rates(samples, found={"verdict": verdict}, switch=f"s{n}")
        for n, (samples, verdict) in enumerate(found)
    ]
    results = Results.of(records)
    figures, relations = ranked([next(figures_of(record)) for record in records], results)
    for figure, relation in zip(figures[1:], relations, strict=True):
        difference = results.difference(figures[0].record, figure.record)
        assert (relation.kind == "better") == (difference.is_decided and difference.word != "same")
        if relation.kind == "better":
            assert difference.better is difference.before
            assert relation.low is None or relation.low > 1
            assert relation.high is None or relation.low is None or relation.low <= relation.high


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(10, 1000), min_size=1, max_size=5), min_size=2, max_size=4))
def test_no_delay_is_said_to_be_longer_that_is_not_shown_to_be(found: list[list[int]]) -> None:
    records = {f"s{n}": of_delays(delays, switch=f"s{n}") for n, delays in enumerate(found)}
    text = " ".join(answer(list(records.values())))
    results = Results.of(records.values())
    for leader in re.findall(r"median [a-z ]* of (s\d) is", text):
        for other in re.findall(r"(s\d) takes", text):
            difference = results.difference(records[leader], records[other])
            assert difference.is_decided
            assert difference.better is difference.before


# --- recorded runs ---------------------------------------------------------------------------


def recorded() -> dict[str, list[Record]]:
    """Return the records of runs on two busy cores, by their subject."""
    runs: dict[str, list[Record]] = {}
    with gzip.open(DATA / "answered.jsonl.gz", "rt") as lines:
        for line in lines:
            entry = json.loads(line)
            runs.setdefault(entry["run"], []).append(Record.model_validate(entry["record"]))
    return runs


RECORDED = recorded()
ANSWERED = {
    "three switches": (
        "linux-bridge forwards 80.1 kpps (69.3 to 102 in 3 trials), bottleneck unknown: 1.2 to 3.5 "
        "times as much as ovs.",
        "Baseline (no switch): 98.7 kpps.",
        TOGETHER,
        "All of these tests have doubts that may falsify a figure: see their rows.",
    ),
    "four sizes": (
        "No order is shown with fewer than three trials (--repeat 5): linux-bridge with 256 B "
        "(91.8 kpps, 1 trial), 128 B (88.8 kpps, 1 trial), 64 B (62 kpps, 1 trial) and 512 B "
        "(57.2 kpps, 1 trial).",
    ),
    "mlr": (
        "NDR: linux-bridge forwards 82.3 kpps (1 search, found to within 0.5 %), limited by the "
        "host.",
        "PDR 0.5 %: linux-bridge forwards 82.3 kpps (1 search, found to within 0.5 %), limited by "
        "the host.",
    ),
    "ndr": (
        "NDR: linux-bridge forwards 141 kpps (1 search, found to within 0.49 %), limited by the "
        "host.",
    ),
    "latency-at-load": (
        "At the highest load: the median one-way delay of linux-bridge is 1.96 ms (1 search).",
    ),
    "back-to-back": (
        "back-to-back: linux-bridge takes a burst of at least 14640 frames (1 search), "
        "limited by the sender.",
    ),
    "docker": ("linux-bridge forwards at least 83.6 kpps (1 trial), limited by the sender.",),
    "vm": ("linux-bridge forwards 4.86 kpps (1 trial), limited by the host.",),
    "refused": ("Nothing was measured: 1 refused.",),
}


@pytest.mark.parametrize("run", ANSWERED)
def test_recorded_runs_are_answered(run: str) -> None:
    assert tuple(answer(RECORDED[run])) == ANSWERED[run]


@pytest.mark.parametrize("run", RECORDED)
def test_the_tables_of_recorded_runs_fit_100_columns_and_have_a_row_for_each(run: str) -> None:
    for section in sections(RECORDED[run]):
        lines = table_lines(section, 100)
        assert max(map(len, lines)) <= 100
        assert len(section.columns[0].cells) >= 1
        rule = next(number for number, line in enumerate(lines) if line.startswith("─"))
        starts = [line for line in lines[rule + 1 :] if line.startswith(section.columns[0].cells)]
        assert len(starts) == len(section.columns[0].cells)
