"""These tests judge claims of every kind from points whose answer is known."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from switchmark.papers.claims import Claim
from switchmark.papers.judging import ClaimAnswer, ClaimNeeds, Facts, answer_of
from switchmark.papers.points import (
    IMPOSSIBLE,
    LEFT_OUT,
    OVERLOADED,
    Point,
    PointFigure,
    grouped,
    meaning,
    number,
)
from switchmark.papers.shapes import break_of, slope_weights

CLAIM: TypeAdapter[Any] = TypeAdapter(Claim)
M = "rx.mpps"


def claim(kind: str, **members: object) -> Any:
    content = {"id": "c", "says": "it is so", "kind": kind, "metric": M, **members}
    return CLAIM.validate_python(content)


def figure(value: float, half: float = 0.0) -> PointFigure:
    return PointFigure(value, value - half, value + half)


def point(figure: PointFigure | float | str, **axes: Any) -> Point:
    """Return a point that was published, or that waits."""
    placed = {axis.replace("_", "-"): meaning(axis, word) for axis, word in axes.items()}
    if isinstance(figure, str):
        return Point(placed, untold=figure)
    told = figure if isinstance(figure, PointFigure) else PointFigure(figure, figure, figure)
    return Point(placed, {M: told})


def series(axis: str, *values: tuple[object, float]) -> list[Point]:
    return [
        Point(point(0.0, **{axis: where}).axes, {M: figure(value, value * 0.01)})
        for where, value in values
    ]


def answer(kind: str, points: list[Point], **members: object) -> ClaimAnswer:
    told: ClaimAnswer = claim(kind, **members).judge(points)
    return told


ORDER = {"greater": {"switch": "vpp"}, "less": {"switch": "ovs"}}


@pytest.mark.parametrize(
    ("more", "less", "expected"),
    [
        (figure(10, 1), figure(5, 1), "holds"),
        (figure(5, 1), figure(10, 1), "does not hold"),
        (figure(10, 1), figure(9, 1), "cannot be told"),
        ("waiting for switch vpp", figure(5, 1), "cannot be told"),
    ],
)
def test_an_order_of_published_values_needs_ends_apart(
    more: PointFigure | str, less: PointFigure, expected: str
) -> None:
    told = answer("order", [point(more, switch="vpp"), point(less, switch="ovs")], **ORDER)
    assert told.verdict == expected
    assert "switch vpp" in told.why or "vpp" in told.why


def test_ends_that_meet_are_not_equal_for_or_equal() -> None:
    """The wider the ends, the less is known."""
    points = [point(figure(9, 2), switch="vpp"), point(figure(10, 2), switch="ovs")]
    assert answer("order", points, **ORDER, **{"or-equal": True}).verdict == "cannot be told"
    equal = [point(9.95, switch="vpp"), point(9.95, switch="ovs")]
    assert answer("order", equal, **ORDER).verdict == "cannot be told"
    assert answer("order", equal, **ORDER, **{"or-equal": True}).verdict == "holds"
    apart = [point(figure(5, 1), switch="vpp"), point(figure(10, 1), switch="ovs")]
    assert answer("order", apart, **ORDER, **{"or-equal": True}).verdict == "does not hold"


def test_points_that_differ_otherwise_are_judged_apart() -> None:
    points = [
        point(10, switch="vpp", frame_size=64),
        point(5, switch="ovs", frame_size=64),
        point(3, switch="vpp", frame_size=1500),
        point(5, switch="ovs", frame_size=1500),
    ]
    told = answer("order", points, **ORDER)
    assert told.verdict == "does not hold"
    assert told.why.startswith(
        "1 of 2 comparisons hold (vpp 64 against ovs 64); vpp 1500 3 against ovs 1500 5"
    )
    assert answer("order", points, **ORDER, among={"frame-size": 64}).verdict == "holds"


@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 10)), min_size=2, max_size=2))
def test_two_opposite_orders_never_both_hold(ends: list[tuple[float, float]]) -> None:
    made = [figure(value, half) for value, half in ends]
    points = [point(each, switch=name) for each, name in zip(made, ("vpp", "ovs"), strict=True)]
    there = answer("order", points, **ORDER).verdict
    back = answer("order", points, greater=ORDER["less"], less=ORDER["greater"]).verdict
    assert {there, back} in ({"holds", "does not hold"}, {"cannot be told"})


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (figure(7, 0.1), "holds"),
        (figure(9, 0.1), "does not hold"),
        (figure(7, 2), "cannot be told"),
    ],
)
def test_a_factor_lies_in_its_band(second: PointFigure, expected: str) -> None:
    points = [point(10, copies=1), point(second, copies=2)]
    band = {"from": {"copies": 1}, "to": {"copies": 2}, "between": [0.6, 0.8]}
    assert answer("factor", points, **band).verdict == expected


@pytest.mark.parametrize(
    ("kind", "members", "values", "expected"),
    [
        ("flat", {}, (10, 10.5, 9.8), "holds"),
        ("flat", {}, (10, 20, 30), "does not hold"),
        ("flat", {"spread": 0.07}, (10, 10.5, 10), "cannot be told"),
        ("monotone", {"sense": "falls"}, (30, 20, 10), "holds"),
        ("monotone", {"sense": "rises"}, (30, 20, 10), "does not hold"),
        ("monotone", {"sense": "falls"}, (30, 30.2, 29.9), "cannot be told"),
        ("monotone", {"sense": "falls"}, (30, 10, 20), "does not hold"),
        ("scales", {"exponent": [0.85, 1.1]}, (10, 20, 40), "holds"),
        ("scales", {"exponent": [-1.2, -0.8]}, (40, 20, 10), "holds"),
        ("scales", {"exponent": [-0.15, 0.15]}, (10, 20, 40), "does not hold"),
    ],
)
def test_a_series_has_its_shape(
    kind: str, members: dict[str, object], values: tuple[float, ...], expected: str
) -> None:
    points = series("pairs", *zip((1, 2, 4), values, strict=True))
    assert answer(kind, points[::-1], along="pairs", **members).verdict == expected


def test_a_series_without_one_of_its_points_says_which() -> None:
    points = [*series("pairs", (1, 10), (2, 10)), point("waiting for 9 cores", pairs=4)]
    assert answer("flat", points, along="pairs").why == "waiting for 9 cores"


@pytest.mark.parametrize(
    ("half", "quarter", "expected"), [(5.2, 2.4, "holds"), (8.0, 2.5, "does not hold")]
)
def test_figures_follow_shares(half: float, quarter: float, expected: str) -> None:
    points = series("cpu_limit", (100, 10), (50, half), (25, quarter))
    shares = {"100": 1, "50": 0.5, "25": 0.25}
    assert answer("follows", points, along="cpu-limit", shares=shares).verdict == expected


def bent(at: float) -> list[tuple[object, float]]:
    return [(f"{load}%", float(min(load, at))) for load in range(10, 210, 10)]


def test_a_knee_is_found_where_two_lines_meet() -> None:
    points = series("rate", *bent(100))
    assert answer("knee", points, along="rate", at=1.0, within=0.1).verdict == "holds"
    assert answer("knee", points, along="rate", at=0.5, within=0.1).verdict == "does not hold"
    straight = series("rate", *bent(1000))
    assert answer("knee", straight, along="rate", at=1.0, within=0.1).verdict == "cannot be told"


def test_a_knee_may_be_where_cpus_end() -> None:
    values = [(1, 10.0), (2, 9.0), (3, 8.0), (4, 7.0), (5, 3.5), (6, 0.1)]
    points = [
        Point({**each.axes, "switch-cores": 4}, {**each.figures, "host.cores": figure(8)})
        for each in series("chain", *values)
    ]
    where = {"along": "chain", "at": "cores - switch-cores", "within": 0.5}
    assert answer("knee", points, **where).verdict == "holds"
    assert answer("knee", series("chain", *values), **where).verdict == "cannot be told"


def test_two_series_cross() -> None:
    points = [
        *(
            point(rate, switch="vpp", frame_size=size)
            for size, rate in ((64, 5), (256, 9), (1024, 9))
        ),
        *(
            point(rate, switch="ovs", frame_size=size)
            for size, rate in ((64, 9), (256, 5), (1024, 2))
        ),
    ]
    ends = {"of": {"switch": "vpp"}, "over": {"switch": "ovs"}, "along": "frame-size"}
    assert answer("crossover", points, **ends, below=64, above=256).verdict == "holds"
    assert answer("crossover", points, **ends, below=256, above=1024).verdict == "does not hold"


def test_a_gap_closes() -> None:
    points = [
        point(figure(rate, 0.1), switch=switch, frame_size=size)
        for size, rates in ((64, (10, 2, 1)), (1024, (3, 2.9, 2.8)))
        for switch, rate in zip(("vpp", "ovs", "snabb"), rates, strict=True)
    ]
    ends = {"over": "switch", "from": {"frame-size": 64}, "to": {"frame-size": 1024}}
    assert answer("gap", points, **ends).verdict == "holds"
    back = {"over": "switch", "from": {"frame-size": 1024}, "to": {"frame-size": 64}}
    assert answer("gap", points, **back).verdict == "does not hold"


def test_one_slope_is_above_another() -> None:
    points = [
        *(point(10.0 * burst, switch="vpp", burst=burst) for burst in (4, 8, 16)),
        *(point(10.0, switch="ovs", burst=burst) for burst in (4, 8, 16)),
    ]
    assert answer("slopes", points, along="burst", **ORDER).verdict == "holds"
    back = {"greater": ORDER["less"], "less": ORDER["greater"]}
    assert answer("slopes", points, along="burst", **back).verdict == "does not hold"


def test_a_slope_needs_more_than_one_point() -> None:
    alone = [point(10.0, switch="vpp", burst=4), point(10.0, switch="ovs", burst=4)]
    told = answer("slopes", alone, along="burst", **ORDER)
    assert (told.verdict, told.why) == ("cannot be told", "vpp 4 stands alone")


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (figure(0.5, 0.1), "holds"),
        (figure(0.9, 0.1), "cannot be told"),
        (figure(1.5, 0.1), "does not hold"),
        (None, "cannot be told"),
    ],
)
def test_one_metric_exceeds_another_at_every_point(
    other: PointFigure | None, expected: str
) -> None:
    more = {M: figure(1.0, 0.1)}
    points = [Point({"rate": "1M"}, more if other is None else {**more, "tx.mpps": other})]
    assert answer("exceeds", points, other="tx.mpps").verdict == expected


def test_a_rate_saturates_its_line() -> None:
    line = {"metric": "rx.gbps_l1", "at": 10}

    def told(value: float, low: float, high: float, **others: PointFigure) -> str:
        figures = {"rx.gbps_l1": PointFigure(value, low, high), **others}
        return answer("saturates", [Point({"switch": "vpp"}, figures)], **line).verdict

    assert told(9.95, 9.95, 9.95) == "holds"
    assert told(8, 8, 8) == "does not hold"
    assert told(5, 1, 9.95) == "cannot be told"
    assert told(10, float("-inf"), 10) == "cannot be told"
    assert told(0.99, 0.99, 0.99, **{"line.gbps_l1": figure(1)}) == "holds"


def test_a_figure_is_within_a_band() -> None:
    points = [point(figure(1.0, 0.02), switch="vpp"), point(figure(0.98, 0.02), switch="ovs")]
    assert answer("within", points, between=(0.95, 1.05)).verdict == "holds"
    assert answer("within", points, between=(0.97, 1.05)).verdict == "cannot be told"
    assert answer("within", points, between=(1.01, 1.05)).verdict == "does not hold"


def test_winners_differ_where_nobody_leads_everywhere() -> None:
    points = [
        point(10, switch="vpp", scenario="p2v"),
        point(5, switch="ovs", scenario="p2v"),
        point(3, switch="vpp", scenario="v2v"),
        point(4, switch="ovs", scenario="v2v"),
    ]
    assert answer("winners-differ", points, over="switch").verdict == "holds"
    assert answer("winners-differ", [*points[:2], *points[:2]], over="switch").verdict == (
        "cannot be told"
    )
    again = [point(9, switch="vpp", scenario="v2v"), point(4, switch="ovs", scenario="v2v")]
    told = answer("winners-differ", [*points[:2], *again], over="switch")
    assert (told.verdict, told.why) == ("does not hold", "vpp is first at all 2 places")


def test_a_difference_has_an_amount() -> None:
    points = [point(figure(3, 0.05), switch="vpp"), point(figure(2, 0.05), switch="ovs")]
    assert answer("differs-by", points, amount=1, within=0.2, **ORDER).verdict == "holds"
    assert answer("differs-by", points, amount=2, within=0.2, **ORDER).verdict == "does not hold"


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"cores": 9}, "needs 9 cores"),
        ({"cores": 2}, ""),
        ({"line-rate": True}, "needs a line rate (--line-rate 10Gbps)"),
        ({"switch-mode": "kernel"}, "needs a switch in mode kernel"),
        ({"kernel-option": "CONFIG_B"}, "needs a kernel with CONFIG_B"),
        ({"kernel-option": "CONFIG_A"}, ""),
        ({"without-kernel-option": "CONFIG_A"}, "needs a kernel without CONFIG_A"),
        ({"without-kernel-option": "CONFIG_B"}, ""),
        ({"switch-mode": "userspace"}, ""),
    ],
)
def test_needs_that_are_not_met_are_told(needs: dict[str, object], words: str) -> None:
    modes = frozenset({"userspace", None})  # a switch without modes beside one that has them
    facts = Facts(4, False, modes, frozenset({"CONFIG_A"}))
    assert ClaimNeeds.model_validate(needs).unmet(facts) == words


def test_a_claim_that_compares_nothing_cannot_be_told() -> None:
    assert answer("order", [], **ORDER).verdict == "cannot be told"


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError):
        claim("argmax")


def test_slope_and_break_of_lines_that_are_known() -> None:
    weights = slope_weights([1, 2, 4])
    assert sum(weights) == pytest.approx(0)
    assert sum(w * math.log(y) for w, y in zip(weights, (1, 4, 16), strict=True)) == (
        pytest.approx(2)
    )
    exact = break_of([0, 1, 2, 3, 4, 5, 6], [[each] for each in (0, 1, 2, 3, 3, 3, 3)])
    assert exact == pytest.approx((3, 3, 3), abs=0.1)
    assert break_of([1, 2, 3], [[1], [2], [2]]) is None
    assert break_of([0, 1, 2, 3, 4, 5], [[5]] * 6) is None


def test_the_ends_of_a_break_hold_it_as_often_as_they_say() -> None:
    draw, held, wide = random.Random(5), 0, 0.0
    xs = [float(x) for x in range(11)]
    for _ in range(100):
        values = [[min(x, 6.0) + draw.gauss(0, 0.05) for _ in range(3)] for x in xs]
        found = break_of(xs, values)
        assert found is not None
        held += found[1] <= 6 <= found[2]
        wide += (found[2] - found[1]) / 100
    assert held >= 95
    assert 0.1 < wide < 2.5


@pytest.mark.parametrize(
    ("axis", "word", "expected"),
    [("rate", "10%", 0.1), ("rate", "1M", 1e6), ("cpu-limit", 12.5, 12.5), ("noise", "none", 0.0)],
)
def test_a_value_has_a_number_on_its_axis(axis: str, word: Any, expected: float) -> None:
    assert number(meaning(axis, word)) == expected


def test_groups_differ_only_along() -> None:
    points = [point(1, switch=s, pairs=p) for s in ("vpp", "ovs") for p in (1, 2)]
    groups = list(grouped(points, {}, {"pairs"}))
    assert [[each.axes["pairs"] for each in group] for group in groups] == [[1, 2], [1, 2]]


# --- parts, and the order of reasons -------------------------------------------------------------


def test_a_claim_that_holds_in_part_names_the_part() -> None:
    points = [
        point(10, switch="vpp"),
        point(5, switch="ovs"),
        point("waiting: snabb is not installed", switch="snabb"),
    ]
    told = answer("order", points, greater={"switch": "vpp"}, less={"switch": ["ovs", "snabb"]})
    assert told.verdict == "cannot be told"
    assert told.why == (
        "1 of 2 comparisons hold (vpp against ovs); waiting: snabb is not installed"
    )
    assert [(part.about, part.verdict) for part in told.parts] == [
        ("vpp against ovs", "holds"),
        ("vpp against snabb", "cannot be told"),
    ]


def test_many_parts_are_counted() -> None:
    points = [point(10, switch="vpp"), point("waiting: x", switch="snabb")]
    points += [point(5, switch=f"ovs@{at}") for at in range(5)]
    told = answer("order", points, greater={"switch": "vpp"}, less={
        "switch": ["snabb", *(f"ovs@{at}" for at in range(5))]})  # fmt: skip
    assert "(vpp against ovs@0; vpp against ovs@1; vpp against ovs@2 and 2 more)" in told.why


def test_what_no_build_can_measure_is_the_first_reason() -> None:
    why = f"{IMPOSSIBLE}it has no driver"
    points = [
        point(10, switch="vpp"),
        point("waiting: snabb is not installed", switch="snabb"),
        point(why, switch="vale"),
    ]
    told = answer("order", points, greater={"switch": "vpp"}, less={"switch": ["snabb", "vale"]})
    assert told.why == why


SLOW_CLAIM = claim("order", needs={"cores": 9}, **ORDER)
FEW, MANY = Facts(2, False, frozenset()), Facts(9, False, frozenset())
BOTH = [point(10, switch="vpp"), point(5, switch="ovs")]
WAITING = [point("waiting: vpp is not installed", switch="vpp"), BOTH[1]]
LEFT = [point(LEFT_OUT, switch="vpp"), point(LEFT_OUT, switch="ovs")]
NEVER = [point(f"{IMPOSSIBLE}it has no driver", switch=name) for name in ("vpp", "ovs")]


@pytest.mark.parametrize(
    ("points", "left_out", "facts", "why"),
    [
        (BOTH, [], FEW, "needs 9 cores"),
        (BOTH, [], MANY, "vpp 10 against ovs 5"),
        ([], LEFT, FEW, "left out by --quick: all 2 of its points"),
        ([], NEVER, FEW, f"{IMPOSSIBLE}it has no driver"),
        ([WAITING[0]], [LEFT[1]], FEW, "waiting: vpp is not installed"),
        (WAITING, [], MANY, "waiting: vpp is not installed"),
        ([BOTH[0]], [LEFT[1]], MANY, "--quick left out 1 of its 2 points"),
        ([], [], FEW, "no points that it compares were measured"),
    ],
)
def test_the_reason_is_what_would_have_to_change_first(
    points: list[Point], left_out: list[Point], facts: Facts, why: str
) -> None:
    told = answer_of(SLOW_CLAIM, points, facts, left_out)
    assert told.why == why
    assert told.left_out == len(left_out)


def test_a_claim_says_how_much_of_it_a_quick_run_left_out() -> None:
    sizes = [Point({**p.axes, "frame-size": 64}, p.figures) for p in BOTH]
    left_out = [Point({**p.axes, "frame-size": 1500}, untold=LEFT_OUT) for p in BOTH]
    told = answer_of(SLOW_CLAIM, sizes, MANY, left_out)
    assert told.verdict == "holds"
    assert told.why.endswith("; --quick left out 2 of its 4 points")


def test_a_load_that_this_host_does_not_carry_is_no_point_of_a_claim() -> None:
    def at(rate: str, made: list[Point]) -> list[Point]:
        return [Point({**p.axes, "rate": rate}, p.figures, p.untold) for p in made]

    why = f"{OVERLOADED}: 40 % was lost"
    over = [point(why, switch="vpp"), point(why, switch="ovs")]
    told = answer_of(SLOW_CLAIM, [*at("1G", over), *at("10%", BOTH)], MANY)
    assert (told.verdict, len(told.parts)) == ("holds", 1)
    assert answer_of(SLOW_CLAIM, at("1G", over), MANY).why == why


def test_scarce_cpus_are_a_need() -> None:
    needs = ClaimNeeds.model_validate({"cores-at-most": 8})
    assert needs.unmet(Facts(8, False, frozenset())) == ""
    for cores in (9, None):
        told = needs.unmet(Facts(cores, False, frozenset()))
        assert told == "needs 8 cores at most, as it is about scarce ones"


# --- shapes that were judged wrongly --------------------------------------------------------------


@pytest.mark.parametrize("top", [0.9, 1.0, 1.2, 1.5])
def test_a_curve_of_three_pieces_has_its_first_knee(top: float) -> None:
    """That of Emmerich's figure 9: all arrives up to 0.5 Mpps, then a share, up to 0.85 Mpps."""

    def received(offered: float) -> float:
        share = (0.85 - 0.5) / (top - 0.5)
        return min(offered, 0.5 + max(offered - 0.5, 0.0) * share, 0.85)

    xs = [0.1 * at for at in range(1, 21)]
    draw = random.Random(2)
    values = [[received(x) * (1 + draw.gauss(0, 0.003)) for _ in range(3)] for x in xs]
    found = break_of(xs, values)
    assert found is not None
    assert 0.49 - 0.05 < found[1] <= found[0] <= found[2] < 0.59


def test_one_point_alone_is_no_line() -> None:
    """Of 10, 10, 8, 6, 4 the knee is at the second, and not anywhere before."""
    values = [[10.0], [10.0], [8.0], [6.0], [4.0]]
    found = break_of([1, 2, 3, 4, 5], values)
    assert found == pytest.approx((2, 2, 2), abs=0.05)


def test_series_that_are_tested_together_have_wider_ends() -> None:
    draw = random.Random(4)
    xs = [float(x) for x in range(11)]
    values = [[min(x, 6.0) + draw.gauss(0, 0.05) for _ in range(3)] for x in xs]
    alone, among = break_of(xs, values), break_of(xs, values, 20)
    assert alone is not None
    assert among is not None
    assert among[2] - among[1] > alone[2] - alone[1]


def chains(cores: int, broken: float) -> list[Point]:
    """Return the points of chains whose throughput is inverse to their passes through the switch,
    and breaks down beyond a length."""
    lengths = [*range(1, 9), *(round(cores * share / 8) for share in range(5, 11))]
    made = []
    for length in sorted({*lengths}):
        rate = 1 / (length + 1) / max(length / broken, 1.0) ** 6
        axes = {"chain": length, "switch-cores": 2}
        made.append(Point(axes, {M: figure(rate), "host.cores": figure(cores)}))
    return made


@pytest.mark.parametrize("cores", [16, 64])
def test_a_chain_breaks_down_where_cpus_end(cores: int) -> None:
    where = {"along": "chain", "at": "cores - 2 - switch-cores", "within": "12.5% of cores"}
    members = {**where, "log": True, "bends": 0.5}
    assert answer("knee", chains(cores, cores - 4), **members).verdict == "holds"
    assert answer("knee", chains(cores, cores / 2), **members).verdict == "does not hold"
    # Longer chains than there are CPUs that are as fast as ever refute it; short ones do not.
    whole = chains(cores, 1e9)
    assert answer("knee", whole, **members).verdict == "does not hold"
    short = [each for each in whole if each.axes["chain"] <= 8]
    told = answer("knee", short, **members)
    assert (told.verdict, told.why) == (
        "cannot be told",
        f"no point lies beyond {cores - 4}, where it may be",
    )


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"at": "cpus - 1", "within": 1}, "a place by CPUs is such as"),
        ({"at": 1, "within": "a tenth"}, "a width by CPUs is such as"),
    ],
)
def test_a_knee_by_cpus_is_written_in_one_way(members: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        claim("knee", along="chain", **members)


def test_a_share_that_is_dropped_is_above_nothing() -> None:
    members = {"along": "rate", "metric": "loss_ratio", "spread": 0.3, "above": 0.01}

    def lost(*shares: float) -> list[Point]:
        return [
            Point({"rate": f"{at}0%"}, {"loss_ratio": figure(share, 0.001)})
            for at, share in enumerate(shares, 7)
        ]

    assert answer("flat", lost(0.2, 0.21, 0.2), **members).verdict == "holds"
    assert answer("flat", lost(0.2, 0.4, 0.2), **members).verdict == "does not hold"
    nothing = answer("flat", lost(0.0, 0.0, 0.0), **members)
    assert nothing.verdict == "does not hold"
    assert "is not above 0.01" in nothing.why
    assert answer("flat", lost(0.0105, 0.011, 0.0105), **members).verdict == "cannot be told"


def winners(**rates: dict[str, float | str]) -> ClaimAnswer:
    points = [
        point(rate, switch=switch, scenario=scenario)
        for scenario, each in rates.items()
        for switch, rate in each.items()
    ]
    return answer("winners-differ", points, over="switch")


def test_one_that_was_not_measured_may_be_first_everywhere() -> None:
    waits = "waiting: vale is not installed"
    apart = winners(
        p2v={"vpp": 9, "ovs": 5, "vale": waits}, v2v={"vpp": 3, "ovs": 5, "vale": waits}
    )
    assert apart.verdict == "cannot be told"
    assert apart.why == f"ovs is below vpp p2v; vpp is below ovs v2v; vale: {waits}"
    leads = winners(
        p2v={"vpp": 9, "ovs": 5, "vale": waits}, v2v={"vpp": 9, "ovs": 5, "vale": waits}
    )
    assert leads.verdict == "cannot be told"
    assert "vpp: was not shown to be below another" in leads.why


def test_one_that_is_first_everywhere_refutes_that_winners_differ() -> None:
    told = winners(p2v={"vpp": 9, "ovs": 5, "vale": 1}, v2v={"vpp": 9, "ovs": 5, "vale": 6})
    assert (told.verdict, told.why) == ("does not hold", "vpp is first at all 2 places")


def test_a_gap_between_a_part_of_them_is_told_as_such() -> None:
    ends = {"over": "switch", "from": {"frame-size": 64}, "to": {"frame-size": 1024}}
    waits = "waiting: snabb is not installed"

    def sized(*rates: tuple[int, float, float]) -> list[Point]:
        known = [
            point(figure(rate, 0.01), switch=switch, frame_size=size)
            for size, vpp, ovs in rates
            for switch, rate in (("vpp", vpp), ("ovs", ovs))
        ]
        return [*known, *(point(waits, switch="snabb", frame_size=size) for size, _, _ in rates)]

    told = answer("gap", sized((64, 10, 2), (1024, 3, 2.9)), **ends)
    assert told.verdict == "cannot be told"
    assert told.why == f"1 of 3 comparisons hold (ovs, vpp); {waits}"
    grows = answer("gap", sized((64, 3, 2.9), (1024, 10, 2)), **ends)
    assert grows.verdict == "cannot be told"
