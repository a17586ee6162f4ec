"""These tests check the files of the literature: what they say can be planned, and the papers'
claims are held against the papers' own values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from checked import check
from switchmark.campaign.experiments import blocks_of, planned
from switchmark.campaign.values import read_words
from switchmark.cli.experiment_checks import check_experiment, mistakes_of
from switchmark.errors import UsageError
from switchmark.model.axis import field_name
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.observe.facts import FIGURE_OPTIONS
from switchmark.papers.experiment import Experiment
from switchmark.papers.library import names, read
from switchmark.papers.points import IMPOSSIBLE, UNABLE, WAITING, Point
from switchmark.papers.published import published_points

FIGURES = {
    "ara-2021": 16,
    "bonafiglia-2015": 6,
    "dissertation-2017": 6,
    "emmerich-2014": 10,
    "zhang-2021": 7,
}
"""The results of each paper that are figures and tables."""

TEXTS = {"ara-2021": 4, "bonafiglia-2015": 4, "emmerich-2014": 4, "zhang-2021": 1}
"""Those that are sentences only."""

every = pytest.mark.parametrize("name", names())


def anything(test: Test) -> Sequence[Refusal]:
    """Return no refusal: points are the same whether or not this build can measure them."""
    del test
    return ()


@cache
def points(name: str, *, as_published: bool = False) -> list[Point]:
    """Return the points of an experiment, whatever can measure them."""
    found = planned(read(name), anything, {}, as_published=as_published)
    return [each.point for each in found]


def words(axis: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for each in values for word in read_words(field_name(axis), str(each))]


def test_every_result_of_every_paper_is_there() -> None:
    split = [name.split("/") for name in names()]
    texts = Counter(paper for paper, stem in split if stem.startswith("text-"))
    figures = Counter(paper for paper, stem in split if not stem.startswith("text-"))
    assert figures == Counter(FIGURES)
    assert texts == Counter(TEXTS)


@every
def test_a_file_says_what_it_measures_and_of_whom(name: str) -> None:
    experiment = read(name)
    assert experiment.place
    assert experiment.summary
    assert experiment.figures
    assert experiment.source.authors


@every
def test_each_value_of_an_axis_makes_a_point_of_its_own(name: str) -> None:
    owner = read(name).owner
    made = sum(
        math.prod(len(words(axis, value)) for axis, value in block.items())
        for block in blocks_of(owner.campaign)
    )
    assert not owner.shows
    assert len(points(owner.name, as_published=True)) == made


@every
def test_an_experiment_has_points_and_fewer_in_a_quick_run(name: str) -> None:
    experiment = read(name)
    quick = [each.point.axes for each in planned(experiment, anything, {}, quick=True)]
    assert quick
    assert len(quick) <= len(points(name))


@every
def test_a_file_agrees_with_itself(name: str) -> None:
    check_experiment(read(name))


def changed(name: str, **members: Any) -> Experiment:
    """Return an experiment with other members."""
    base = read(name)
    content = base.model_dump(by_alias=True, exclude_unset=True)
    made = Experiment.model_validate({**content, **members})
    return made.with_own(base.source, None, base.file)


ROW = {"at": {"engine": "udp"}, "metric": "rx.kpps", "value": 338}
CLAIM = {"id": "c", "says": "", "kind": "order", "metric": "rx.kpps"}
SIDES = {"greater": {"engine": "raw"}, "less": {"engine": "udp"}}
FIGURE = {"kind": "table", "x": "engine", "y": "rx.kpps"}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"published": [{**ROW, "at": {"engine": "xdp"}}]}, "published: no point is at"),
        ({"published": [{**ROW, "at": {"engine": ["udp", "xdp"]}}]}, "no point is at engine: xdp"),
        ({"published": [{**ROW, "relative-to": {"engine": "xdp"}}]}, "published: no point is at"),
        ({"claims": [{**CLAIM, **SIDES, "less": {"engine": "xdp"}}]}, "claim c: no point is at"),
        ({"claims": [{**CLAIM, **SIDES, "among": {"engine": "xdp"}}]}, "claim c: no point is at"),
        ({"claims": [{**CLAIM, **SIDES, "metric": "rx.bit"}]}, "no metric named 'rx.bit'"),
        (
            {"claims": [{**CLAIM, "greater": SIDES["less"], "less": SIDES["greater"]}]},
            "claim c: the published values contradict it",
        ),
        (
            {"claims": [{**CLAIM, **SIDES, "contradicted": "so"}]},
            "claim c: the published values do not contradict it",
        ),
        ({"figures": [{**FIGURE, "y": "rx.bit"}]}, "figure: there is no metric named 'rx.bit'"),
        ({"figures": [{**FIGURE, "among": {"engine": "xdp"}}]}, "figure: no point is at"),
        ({"figures": [{**FIGURE, "by": ["switch"]}]}, "figure: 'switch' is none of its axes"),
        ({"quick": {"axes": {"repeat": 1}}}, "claims need 3 trials"),
        ({"quick": {"axes": {"environment": "netns"}}}, "quick: it changes environment"),
        ({"scale": {"pairs": 2}}, "scale: pairs is not in the campaign"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(members: dict[str, Any], words: str) -> None:
    made = changed("ara-2021/table2", **members)
    assert words in " ".join(mistakes_of(made))
    with pytest.raises(UsageError, match="table2.yaml contradicts itself"):
        check_experiment(made)


def test_published_values_decide_so_many_claims() -> None:
    """The guide has these numbers."""
    counts: Counter[str] = Counter()
    for name in names():
        told = published_points(read(name), points(name, as_published=True))
        counts.update(claim.judge(told).verdict for claim in read(name).claims)
    assert counts == {"holds": 70, "does not hold": 6, "cannot be told": 122}


def test_the_options_of_the_kernel_that_claims_need_are_in_the_facts_of_a_host() -> None:
    needs = [claim.needs for name in names() for claim in read(name).claims]
    options = {each.kernel_option for each in needs} | {
        each.without_kernel_option for each in needs
    }
    assert {None} < options <= {None, *FIGURE_OPTIONS}


def test_what_no_build_can_measure_is_said_first() -> None:
    """Each point that this build refuses wherever it runs is one of which its file says so."""
    told: Counter[str] = Counter()
    for name in names():
        for entry in planned(read(name), check, {"hosts": "a,b"}):
            if entry.test is None:
                assert not entry.point.untold.startswith((UNABLE, WAITING)), entry.point
                assert entry.point.untold.startswith(IMPOSSIBLE), entry.point
                told[name.partition("/")[0]] += 1
    assert told == {"emmerich-2014": 16, "zhang-2021": 61}


@every
def test_what_is_said_to_be_impossible_is_refused(name: str) -> None:
    """But for a parameter that no axis sets, and versions that a host file may name."""
    impossible = read(name).owner.impossible
    without = changed_owner(name) if impossible else None
    for entry in planned(without, check, {"hosts": "a,b"}) if without else ():
        if any(entry.point.is_at(row.at) for row in impossible if row.at):
            assert entry.test is None, entry.point


def changed_owner(name: str) -> Experiment:
    return changed(read(name).owner.name, impossible=[])


def test_values_by_cpus_are_added_where_a_host_has_more() -> None:
    experiment = read("bonafiglia-2015/fig7")

    def chains(cores: int | None) -> list[int]:
        found = planned(experiment, anything, {}, cores=cores)
        return sorted({entry.point.axes["chain"] for entry in found})

    assert chains(None) == chains(8) == chains(2) == [*range(1, 9)]
    assert chains(16) == [*range(1, 9), 10, 12, 14, 16, 18, 20]
    assert max(chains(48)) == 60


@pytest.mark.parametrize("case", ["case1", "case2", "case3"])
def test_the_dissertations_cases_run_in_its_balanced_configuration(case: str) -> None:
    blocks = [
        block
        for block in blocks_of(read(f"dissertation-2017/{case}").campaign)
        if block["switch"] == "ovs-dpdk"
    ]
    assert blocks
    for block in blocks:
        assert (block["queues"], block["descriptors"], block["rx-affinity"]) == (2, 128, "fixed")


def test_the_table_of_sockets_is_of_section_4_2() -> None:
    table = read("ara-2021/table2")
    assert table.place.endswith("section 4.2")
    assert {claim.place for claim in table.claims if claim.said} <= {"section 4.2", "table 2"}
