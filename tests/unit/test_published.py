"""These tests check published values: bounds, ranges, errors and ratios, as figures of points."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from switchmark.papers.claims import Claim
from switchmark.papers.experiment import Experiment, Published
from switchmark.papers.points import Point, meaning
from switchmark.papers.published import published_points, stated

M = "rx.mpps"
CLAIM: TypeAdapter[Any] = TypeAdapter(Claim)


def experiment(*rows: dict[str, Any], axes: tuple[str, ...] = ("copies",)) -> Experiment:
    content = {"name": "p/e", "place": "figure 1", "summary": "s", "axes": list(axes)}
    published = [{"metric": M, **row} for row in rows]
    return Experiment.model_validate({**content, "campaign": {"copies": 1}, "published": published})


def at(**axes: object) -> Point:
    placed = {axis.replace("_", "-"): word for axis, word in axes.items()}
    return Point({axis: meaning(axis, str(word)) for axis, word in placed.items()})


COPIES = [at(copies=1), at(copies=2), at(copies=3)]
TWICE = {"at": {"copies": 2}, "relative-to": {"copies": 1}, "value": 0.7}
THRICE = {"at": {"copies": 3}, "relative-to": {"copies": 2}, "about": 0.75}


def figures(*rows: dict[str, Any]) -> list[Any]:
    return [each.figures.get(M) for each in published_points(experiment(*rows), COPIES)]


@pytest.mark.parametrize(
    ("row", "ends", "text"),
    [
        ({"value": 5}, (5, 5), "5"),
        ({"value": 5, "error": 0.5}, (4.5, 5.5), "5 ± 0.5"),
        ({"about": 5}, (5, 5), "about 5"),
        ({"min": 5}, (5, math.inf), ">= 5"),
        ({"max": 5}, (-math.inf, 5), "<= 5"),
        ({"between": [4, 7]}, (4, 7), "4 to 7"),
        ({"value": 0.7, "relative-to": {"copies": 1}}, (0.7, 0.7), "0.7 times that at copies 1"),
    ],
)
def test_a_row_has_its_ends(row: dict[str, Any], ends: tuple[float, float], text: str) -> None:
    made = Published.model_validate({"at": {"copies": 2}, "metric": M, **row})
    assert (made.ends, str(made)) == (ends, text)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "one of value"),
        ({"value": 1, "max": 2}, "one of value"),
        ({"max": 1, "error": 2}, "an error belongs"),
        ({"value": -1, "relative-to": {"copies": 1}}, "a ratio is above 0"),
    ],
)
def test_a_row_says_one_thing(row: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Published.model_validate({"at": {"copies": 2}, "metric": M, **row})


def test_a_bound_is_no_value_in_the_middle() -> None:
    (least, most, range_) = figures(
        {"at": {"copies": 1}, "min": 2},
        {"at": {"copies": 2}, "max": 10},
        {"at": {"copies": 3}, "between": [10, 20]},
    )
    assert (least.value, least.low, least.high) == (2, 2, math.inf)
    assert (most.value, most.low, most.high) == (10, -math.inf, 10)
    assert (range_.low, range_.high) == (10, 20)


def test_of_several_rows_the_certain_ones_decide_and_their_ends_hold_all() -> None:
    doubtful = {"at": {"copies": 1}, "value": 9, "uncertain": "of another figure"}
    assert figures(doubtful)[0].value == 9
    two = ({"at": {"copies": 1}, "value": 20}, {"at": {"copies": 1}, "value": 21})
    told = figures(doubtful, *two)[0]
    assert (told.low, told.value, told.high) == (20, 20.5, 21)


def test_ratios_have_values_where_their_point_has_one() -> None:
    (one, two, three) = figures({"at": {"copies": 1}, "value": 2}, TWICE, THRICE)
    assert [one.value, two.value, three.value] == pytest.approx([2, 1.4, 1.05])
    assert one.of == two.of == ""


def test_ratios_alone_are_figures_of_their_point() -> None:
    told = figures(THRICE, TWICE)
    assert [each.value for each in told] == pytest.approx([1, 0.7, 0.525])
    assert {each.of for each in told} == {"1"}
    assert str(told[1]) == "0.7 of 1"


def test_a_ratio_is_stated_with_its_point() -> None:
    rows = list(stated(experiment(TWICE, {"at": {"copies": 1}, "value": 2}), COPIES))
    assert [(each.point, each.base) for each in rows] == [
        (COPIES[1], COPIES[0]),
        (COPIES[0], None),
    ]
    assert not list(stated(experiment(TWICE), COPIES[1:]))


def test_ratios_are_judged_within_what_they_are_relative_to() -> None:
    made = experiment(
        {"at": {"copies": 2}, "relative-to": {"copies": 1}, "value": 0.7},
        axes=("copies", "frame-size"),
    )
    points = [at(copies=c, frame_size=size) for size in (64, 128) for c in (1, 2)]
    told = published_points(made, points)
    common = {"id": "c", "says": "", "metric": M}
    ends = {"kind": "factor", "from": {"copies": 1}, "to": {"copies": 2}}
    ends = {**common, **ends}
    assert CLAIM.validate_python({**ends, "between": [0.6, 0.8]}).judge(told).verdict == "holds"
    assert CLAIM.validate_python({**ends, "between": [0.8, 0.9]}).judge(told).verdict == (
        "does not hold"
    )
    across = {**common, "kind": "order", "greater": {"frame-size": 64}, "less": {"frame-size": 128}}
    answer = CLAIM.validate_python({**across, "among": {"copies": 1}}).judge(told)
    assert answer.verdict == "cannot be told"
    assert "relative to different points" in answer.why
    line = CLAIM.validate_python({**common, "kind": "within", "between": [0.5, 0.8]}).judge(told)
    assert line.verdict == "cannot be told"
    assert "relative to" in line.why
