"""These tests check the files of the literature: what they say can be planned, and the papers'
claims are held against the papers' own values."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from switchmark.campaign.experiments import planned
from switchmark.campaign.values import read_words
from switchmark.metrics.named import metric
from switchmark.model.axis import field_name
from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.observe.facts import FIGURE_OPTIONS
from switchmark.papers.claims import Claim
from switchmark.papers.experiment import Experiment
from switchmark.papers.library import names, read
from switchmark.papers.points import At, Point
from switchmark.papers.published import published_points

FIGURES = {
    "ara-2021": 16,
    "bonafiglia-2015": 6,
    "dissertation-2017": 6,
    "emmerich-2014": 10,
    "zhang-2021": 7,
}
"""The results of each paper that are figures and tables."""

TEXTS = {"ara-2021": 2, "bonafiglia-2015": 4, "emmerich-2014": 2, "zhang-2021": 1}
"""Those that are sentences only."""

_NO_METRICS = {"share", "line.gbps_l1", "host.cores"}
"""Names that figures and claims have for what no record has by itself."""

_LATER = {"profile.context_switch", "profile.user_copy", "profile.virtual_queues"}
"""Metrics that no build has yet: figures and claims wait for them."""

_SIDES = ("greater", "less", "from_", "to", "of", "over")

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


@cache
def all_points(name: str) -> list[Point]:
    """Return the points with the paper's own rates and with those relative to the host."""
    scaled = points(name)
    own = points(name, as_published=True) if read(name).owner.scale else []
    return [*scaled, *own]


def blocks(experiment: Experiment) -> list[dict[str, Any]]:
    """Return the axes of each block of a campaign."""
    top = {axis: value for axis, value in experiment.campaign.items() if axis != "tests"}
    return [{**top, **own} for own in experiment.campaign.get("tests", [{}])]


def words(axis: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for each in values for word in read_words(field_name(axis), str(each))]


def unmatched(at: At, found: list[Point]) -> Iterator[str]:
    """Yield the values of an `at` at which there is no point that is at its other axes."""
    if not any(point.is_at(at) for point in found):
        yield str(at)
    for axis, value in at.items():
        for word in value if isinstance(value, list) else [value]:
            if not any(point.is_at({**at, axis: word}) for point in found):
                yield f"{axis}: {word}"


def sides(claim: Claim) -> Iterator[At]:
    """Yield each set of points that a claim is about."""
    yield claim.among
    for side in _SIDES:
        at = getattr(claim, side, None)
        if isinstance(at, dict):
            yield {**claim.among, **at}


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
        for block in blocks(owner)
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
def test_every_published_value_is_of_a_point(name: str) -> None:
    for row in read(name).published:
        assert not list(unmatched(row.at, all_points(name))), row


@every
def test_every_claim_is_about_points(name: str) -> None:
    for claim in read(name).claims:
        for at in sides(claim):
            assert not list(unmatched(at, all_points(name))), claim.id


@every
def test_every_figure_is_of_points_and_of_axes_or_metrics(name: str) -> None:
    experiment = read(name)
    for drawn in experiment.figures:
        assert any(point.is_at(drawn.among) for point in all_points(name)), drawn
        assert {*drawn.by, *drawn.panels} <= {*experiment.axes}
        for shown in {drawn.x, drawn.y, drawn.y2} - {"", *experiment.axes} - _NO_METRICS - _LATER:
            assert metric(shown).unit is not None


@every
def test_every_metric_is_known(name: str) -> None:
    experiment = read(name)
    for named in {*experiment.metrics, *(claim.metric for claim in experiment.claims)}:
        assert named in _NO_METRICS | _LATER or metric(named).name == named


@every
def test_three_trials_or_more_make_an_interval(name: str) -> None:
    owner = read(name).owner
    repeats = [block["repeat"] for block in blocks(owner)] + [owner.quick.axes.get("repeat", 3)]
    assert min(repeats) >= 3


@every
def test_a_quick_run_keeps_the_environments(name: str) -> None:
    changed = read(name).owner.quick.axes
    assert not {"environment", "switch-environment"} & {*changed}


@every
def test_only_axes_of_the_campaign_are_scaled(name: str) -> None:
    experiment = read(name)
    given = set(itertools.chain.from_iterable(blocks(experiment.owner)))
    assert {*experiment.owner.scale} <= given


@every
def test_claims_hold_for_the_published_values_unless_the_paper_contradicts_itself(
    name: str,
) -> None:
    experiment = read(name)
    told = published_points(experiment, points(name, as_published=True))
    for claim in experiment.claims:
        answer = claim.judge(told)
        if answer.verdict == "does not hold":
            assert claim.contradicted, (claim.id, answer.why)
        if claim.contradicted:
            assert answer.verdict != "holds", (claim.id, answer.why)


def test_the_options_of_the_kernel_that_claims_need_are_in_the_facts_of_a_host() -> None:
    needs = [claim.needs for name in names() for claim in read(name).claims]
    options = {each.kernel_option for each in needs} | {
        each.without_kernel_option for each in needs
    }
    assert {None} < options <= {None, *FIGURE_OPTIONS}
