"""These tests ask everybody who compares results about one folder of records: the sentences and the
table of `run`, `compare`, the page of `report`, the lines of `tune`, claims of papers, and labs.
They say the same of each two results as `Results` does, or nothing."""

from __future__ import annotations

import html
import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorded import fresh, latency_trial, stored_run
from switchmark.campaign.store import read_records
from switchmark.cli import main
from switchmark.cli.running import print_report
from switchmark.cluster.comparison import groups, rate_of
from switchmark.metrics.family import Results
from switchmark.metrics.repeats import main_figure, repeats_of
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.search import Goal, OneSearch, SearchResult
from switchmark.model.test import Test
from switchmark.papers.orders import Order
from switchmark.papers.points import Point
from switchmark.report.figures import BOUND_MARK
from switchmark.report.judged import measured
from switchmark.report.sections import sections
from switchmark.report.tuning import tuning_lines
from synthetic import SyntheticSwitch

pytestmark = pytest.mark.usefixtures("undrawn")

Said = dict[tuple[str, str], str]
"""What is said of one result against another: `better`, `worse`, `same` or `undecided`."""

SPEC = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
NAMES = ("linux-bridge", "ovs", "vpp", "testpmd", "snabb")


class Case(NamedTuple):
    """A folder of records, and whether cables of a lab could have such."""

    records: tuple[Record, ...]
    of_cables: bool = True


def trial(pps: float, *, round_: int | None = None, taken: float = 0.0) -> TrialResult:
    """Return a trial in which so much was received, while others took a share of its CPU."""
    one = SyntheticSwitch(capacity_pps=pps)(SPEC)
    evidence = one.evidence.model_copy(update={"taken": {"0": taken} if taken else {}})
    found = {"rx_frames": round(pps), "intervals": (), "evidence": evidence, "round": round_}
    return one.model_copy(update=found)


def result(number: int, rates: Sequence[float], *, taken: float = 0.0, **found: Any) -> Record:
    """Return the record of a switch whose trials received at these rates."""
    axes = {"switch": NAMES[number - 1], "repeat": len(rates), **found.pop("axes", {})}
    trials = tuple(trial(rate, taken=taken) for rate in rates)
    members = {"verdict": "switch", "search": None, "trials": trials, **found}
    return fresh(number, test=Test(**axes), **members)


def samples(middle: float, noise: float, seed: int, count: int = 5) -> list[float]:
    draw = random.Random(seed)
    return [middle * (1 + draw.gauss(0, noise)) for _ in range(count)]


def searched(number: int, rates: Sequence[float]) -> Record:
    """Return a record of as many searches, each of which found a rate."""
    goals = [
        Goal(goal="ndr", loss_ratio=0, rate_pps=rate, low_pps=rate, high_pps=1.005 * rate)
        for rate in rates
    ]
    goals = [goal.model_copy(update={"verdict": "switch"}) for goal in goals]
    found = tuple(OneSearch(trials=15, goals=(goal,)) for goal in goals)
    middle = sorted(goals, key=lambda goal: goal.rate_pps or 0)[len(goals) // 2]
    many = SearchResult(name="ndr", trials=15 * len(rates), goals=(middle,), results=found)
    record = result(number, rates, search=many, axes={"search": "ndr"})
    trials = tuple(
        one.model_copy(update={"spec": SPEC.model_copy(update={"repeat": index})})
        for index, one in enumerate(record.trials, 1)
    )
    return record.model_copy(update={"trials": trials})


def of_delays(number: int, medians_ns: Sequence[int]) -> Record:
    trials = tuple(latency_trial(1e5, [median_ns] * 1000) for median_ns in medians_ns)
    axes = {"dimension": "latency", "rate": "1000"}
    return result(number, [1.0] * len(trials), trials=trials, axes=axes)


OFFERED: dict[str, Any] = {"verdict": "offered-load", "axes": {"rate": "50%"}}
CASES = {
    "noise": Case(tuple(result(n, samples(1e6, 0.05, n)) for n in range(1, 6))),
    "noise of three": Case(tuple(result(n, samples(1e6, 0.01, 20 + n, 3)) for n in range(1, 6))),
    "calm among noisy": Case(
        (
            result(1, (1e6, 1.001e6, 0.999e6)),
            result(2, (0.85e6, 0.851e6, 0.849e6)),  # alone these two would be told apart
            *(result(n, samples(9e5, 0.1, 30 + n, 3)) for n in (3, 4, 5)),
        )
    ),
    "apart": Case(
        (
            result(1, samples(1e6, 0.01, 1)),
            result(2, samples(5e5, 0.01, 2)),
            result(3, samples(99e4, 0.01, 9)),
        )
    ),
    "same": Case((result(1, samples(1e6, 3e-4, 1)), result(2, samples(1.001e6, 3e-4, 2)))),
    "few": Case((result(1, [1e6, 1.01e6]), result(2, [5e5, 5.1e5]))),
    "bounds": Case(
        (
            result(1, samples(1e6, 0.01, 1)),
            result(2, samples(5e5, 0.01, 2), verdict="sender"),
            result(3, samples(2e6, 0.01, 3), verdict="receiver"),
        ),
        of_cables=False,
    ),
    "host": Case(
        (
            result(1, samples(1e6, 0.01, 1)),
            result(2, samples(5e5, 0.01, 2), verdict="host", taken=0.6),
            result(3, samples(4e5, 0.01, 3), verdict="host", taken=0.1),
        )
    ),
    "shares": Case(
        tuple(result(n, samples(5e5 / n, 0.01, n), r_plus_pps=1e6 / n, **OFFERED) for n in (1, 2)),
        of_cables=False,
    ),
    "searches": Case(
        tuple(searched(n, samples(1e6 / n, 0.01, n)) for n in (1, 2)), of_cables=False
    ),
    "searched once": Case((searched(1, [1e6]), searched(2, [5e5])), of_cables=False),
    "delays": Case(
        (
            of_delays(1, (800, 810, 790)),
            of_delays(2, (400, 405, 396)),
            of_delays(3, (403, 398, 410)),
        ),
        of_cables=False,
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def folder(case: Case, tmp_path: Path) -> Path:
    return stored_run(tmp_path, case.records)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["switchmark", *arguments])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    return call


def truth_of(records: Sequence[Record]) -> Said:
    """Return the outcome of the rule for every pair of results of a run."""
    results = Results.of(records)
    words = {}
    for one, other in permutations(records, 2):
        difference = results.difference(one, other)
        decided = "better" if difference.better is difference.before else "worse"
        word = decided if difference.word in ("faster", "slower") else difference.word
        words[one.test.switch, other.test.switch] = word
    return words


_UNDECIDED = (
    "is not significant",
    "cannot be ranked",
    "are not compared",
    "no order",
    "not ranked",
)


def said_by(sentences: Sequence[str]) -> Said:
    """Return what sentences say of the first result that they name against the others."""
    words: Said = {}
    for clause in (part for sentence in sentences[:1] for part in sentence.split("; ")):
        names = sorted((n for n in NAMES if n in clause), key=clause.index)
        if "times as much as" in clause or "median" in clause:
            leader = names[0]
            others, word = re.findall(r"times as much as ([\w-]+)", clause), "better"
        elif "as long" in clause:
            others, word = names, "better"
        elif "the same within" in clause:
            leader, others, word = names[0], names[1:], "same"
        elif re.search(r"(is|are) within", clause):
            leader, others, word = names[-1], names[:-1], "same"
        elif any(phrase in clause.lower() for phrase in _UNDECIDED):
            if not clause.startswith("the difference from") and "not ranked" not in clause:
                leader, names = names[0], names[1:]
            others, word = names, "undecided"
        else:
            raise AssertionError(f"not understood: {clause}")
        words |= {(leader, other): word for other in others}
    return words


def assert_told(words: Said, records: Sequence[Record], *, whole: bool) -> None:
    """Check that the words agree with the rule, for every pair, or for one result and all
    others."""
    truth = truth_of(records)
    assert {pair: truth[pair] for pair in words} == words
    names = {record.test.switch for record in records}
    if whole:
        assert {frozenset(pair) for pair in words} == {frozenset(pair) for pair in truth}
    else:
        (leader,) = {one for one, _ in words}
        assert {other for _, other in words} == names - {leader}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("noise", {"undecided"}),
        ("noise of three", {"undecided"}),
        ("calm among noisy", {"undecided"}),
        ("apart", {"better", "worse", "undecided"}),
        ("same", {"same"}),
        ("few", {"undecided"}),
        ("bounds", {"better", "worse", "undecided"}),
        ("host", {"better", "worse", "undecided"}),
        ("shares", {"undecided"}),
        ("searches", {"better", "worse"}),
        ("searched once", {"undecided"}),
        ("delays", {"better", "worse", "undecided"}),
    ],
)
def test_the_rule_says_of_a_case_what_it_is_for(name: str, expected: set[str]) -> None:
    assert set(truth_of(CASES[name].records).values()) == expected


def test_what_is_said_of_two_depends_on_all_results_of_their_run() -> None:
    calm = CASES["calm among noisy"].records[:2]
    assert set(truth_of(calm).values()) == {"better", "worse"}


@pytest.mark.parametrize("explain", [False, True])
def test_run_says_it(folder: Path, explain: bool, capsys: pytest.CaptureFixture[str]) -> None:
    records = read_records(folder)
    print_report(records, explain=explain)
    first = capsys.readouterr().out.split("\n\n")[0]
    sentences = re.split(r"\.\n(?=\S)", first.rstrip(".\n"))
    assert_told(
        said_by([" ".join(sentence.split()) for sentence in sentences]), records, whole=False
    )


def test_the_page_says_it(folder: Path, tmp_path: Path, command: Callable[..., str]) -> None:
    path = tmp_path / "x.html"
    command("report", str(folder), "-o", str(path))
    found = re.findall(r"<p class='answer'>(.*?)</p>", path.read_text())
    sentences = [html.unescape(re.sub("<[^>]*>", "", paragraph)).rstrip(".") for paragraph in found]
    assert_told(said_by(sentences), read_records(folder), whole=False)


def test_compare_says_it(folder: Path, command: Callable[..., str]) -> None:
    ranks = {"faster": "worse", "slower": "better"}  # of the one before
    relations = {}
    for line in command("compare", str(folder), "--json").splitlines():
        pair = json.loads(line)
        sides = (pair[when]["test"]["switch"] for when in ("before", "after"))
        relations[tuple(sides)] = ranks.get(pair["difference"], pair["difference"])
    assert_told(relations, read_records(folder), whole=True)


def test_tune_says_it(folder: Path) -> None:
    """Whichever is the default."""
    records = read_records(folder)
    results = Results.of(records)
    ranks = {"faster": "worse", "slower": "better"}
    relations = {}
    for one, other in permutations(records, 2):
        line = tuning_lines(one, other, 3, (), results)[0]
        (word,) = re.findall(r"(faster|slower|same|undecided)", line)
        relations[one.test.switch, other.test.switch] = ranks.get(word, word)
    assert_told(relations, records, whole=True)


def test_a_claim_of_a_paper_says_it(folder: Path) -> None:
    records = read_records(folder)
    results = Results.of(records)
    for one, other in permutations(records, 2):
        by = "latency.p50_us" if main_figure(one).unit == "ns" else "rx.mpps"
        names = one.test.switch, other.test.switch
        points = [
            measured(Point({"switch": record.test.switch}), record, [by], results)
            for record in (one, other)
        ]
        above, below = ({"switch": name} for name in names)
        claim = Order(id="c", says="", kind="order", metric=by, greater=above, less=below)
        truth = truth_of(records)[names]
        if by == "latency.p50_us":
            truth = {"better": "worse", "worse": "better"}.get(truth, truth)
        expected = {"better": "holds", "worse": "does not hold", "same": "does not hold"}
        assert claim.judge(points).verdict == expected.get(truth, "cannot be told")


def test_a_lab_says_it(case: Case, folder: Path) -> None:
    """Of testbeds that measured these on a cable: two that are alike by way of a third are."""
    records = read_records(folder)
    if not case.of_cables:
        return
    for one, other in permutations(records, 2):
        names = one.test.switch, other.test.switch
        rates = {record.test.switch: rate for record in records if (rate := rate_of(record))}
        truth = truth_of(records)[names]
        apart = len(groups(names, {"raw": rates})) == 2
        assert apart == (truth in ("better", "worse"))


def test_the_table_marks_what_the_rule_knows(folder: Path) -> None:
    """A bound is marked in both, and an interval is printed if there is one."""
    records = read_records(folder)
    (section,) = sections(records)
    heads = "p50" if main_figure(records[0]).unit == "ns" else "received|found"
    (column,) = (column for column in section.columns if re.match(heads, column.heading))
    for record, cell in zip(records, column.cells, strict=True):
        repeats = repeats_of([record], main_figure(record))
        assert (BOUND_MARK in cell) == repeats.bound
        assert ("[" in cell) == (repeats.interval is not None)
        assert ("95 %" in column.heading) >= ("[" in cell)
