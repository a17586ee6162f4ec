"""These tests compare the rule for differences with published tables, and with its promised error
rate."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

import pytest

from switchmark.metrics.difference import LEVEL, Family, _change, differences
from switchmark.metrics.repeats import FIGURES, Figure, Repeats
from switchmark.metrics.statistics import median_interval
from switchmark.metrics.studentized import range_odds, range_quantile, t_quantile

RATE, LATENCY, LOSS = FIGURES["rate"], FIGURES["latency"], FIGURES["loss"]
STEADY = (1.000, 1.020, 1.010, 0.990, 1.005)


def result(values: Sequence[float], **options: object) -> Repeats:
    return Repeats(tuple(values), tuple(range(len(values))), **options)  # type: ignore[arg-type]


def times(factor: float) -> tuple[float, ...]:
    return tuple(factor * value for value in (1.004, 1.013, 1.016, 0.985, 1.001))


# Of Pearson and Hartley's tables of the studentized range, and Student's.
@pytest.mark.parametrize(
    ("odds", "means", "freedom", "value"),
    [
        (0.05, 2, 4, 3.93),
        (0.05, 3, 2, 8.33),
        (0.05, 5, 4, 6.29),
        (0.05, 10, 9, 5.74),
        (0.05, 10, 2, 13.99),
        (0.01, 3, 5, 6.98),
        (0.01, 5, 10, 6.14),
    ],
)
def test_the_studentized_range_is_that_of_the_tables(
    odds: float, means: int, freedom: float, value: float
) -> None:
    assert range_quantile(odds, means, freedom) == pytest.approx(value, abs=0.006)
    assert range_odds(value, means, freedom) == pytest.approx(odds, rel=0.02)


def test_students_t_is_that_of_the_tables() -> None:
    assert t_quantile(0.05, 1) == pytest.approx(12.706, rel=1e-3)
    assert t_quantile(0.05, 10) == pytest.approx(2.228, rel=1e-3)
    assert t_quantile(0.05, 4) == pytest.approx(2.776, rel=1e-3)


def test_a_pair_is_compared_round_by_round() -> None:
    """A disturbance of both in one round takes nothing from what sets them apart."""
    disturbed = [1.0, 0.5, 1.5, 0.7, 1.2]
    before = result([1e6 * d * s for d, s in zip(disturbed, STEADY, strict=True)])
    after = result([1e6 * d * s for d, s in zip(disturbed, times(0.9), strict=True)])
    paired = Family(RATE, (before, after)).difference(0, 1)
    assert paired.word == "slower"
    assert paired.change == pytest.approx(0.9, rel=0.01)
    apart = Repeats(before.values), Repeats(after.values)
    assert Family(RATE, apart).difference(0, 1).word == "undecided"


def test_a_trimmed_mean_leaves_out_a_tenth_at_each_end() -> None:
    """The interval is computed here from its definition: the mean of the values that are left, and
    the variance of all with the extreme ones drawn in (Yuen 1974)."""
    changes = [0.30, 0.20, -0.90, -0.50, *(0.01 * number for number in range(16))]
    before = result([1e6] * 20)
    after = result([1e6 * math.exp(change) for change in changes])
    found = Family(RATE, (before, after)).difference(0, 1)
    # Left are 0.00 to 0.15. The squares around their mean add up to 0.034, and those of the four
    # values that are drawn in to 0.00 and 0.15 to 4 * 0.075 ** 2.
    mean, winsorized = 0.075, (0.034 + 4 * 0.075**2) / 19
    error = math.sqrt(winsorized / 20) / 0.8
    width = t_quantile(LEVEL, 15) * error
    assert found.change == pytest.approx(math.exp(mean))
    assert found.interval == pytest.approx((math.exp(mean - width), math.exp(mean + width)))
    few = Family(RATE, (result([1e6] * 19), result(after.values[:19]))).difference(0, 1)
    assert few.change == pytest.approx(math.exp(math.fsum(changes[:19]) / 19)), "all of 19 count"


def test_a_state_that_changes_within_a_round_hides_no_difference() -> None:
    """In a tenth of the rounds the host falls to 0.4 of its rate while one side is measured."""
    draw = random.Random(1)
    one = [1e6 * math.exp(draw.gauss(0, 0.01)) for _ in range(60)]
    other = [0.95e6 * math.exp(draw.gauss(0, 0.01)) for _ in range(60)]
    for number in (5, 25, 45):
        one[number] *= 0.4
        other[number + 8] *= 0.4
    found = Family(RATE, (result(one), result(other))).difference(0, 1)
    assert found.word == "slower"
    assert found.change == pytest.approx(0.95, abs=0.01)


def test_more_rounds_can_decide_beyond_what_background_load_took() -> None:
    """The slower side gets back the CPU time that was taken from it. What is left over decides, if
    it is larger than the interval."""

    def disturbed(rounds: int, taken: float) -> Family:
        values = [0.9e6 * factor for factor in times(1)] * (rounds // 5)
        best = tuple(value / (1 - taken) for value in values)
        steady = [1e6 * factor for factor in reversed(STEADY)] * (rounds // 5)
        return Family(RATE, (result(steady), result(values, lowered=True, best=best)))

    few = disturbed(5, 0.08).difference(0, 1)
    assert (few.word, few.reason) == ("undecided", "spoiled")
    assert few.needed is not None
    enough = 5 * math.ceil(few.needed / 5)
    assert disturbed(enough, 0.08).difference(0, 1).word == "slower"
    assert disturbed(5, 0.12).difference(0, 1).needed is None, "the load may be all of it"


def test_more_results_make_an_interval_wider() -> None:
    """The change and its spread are the same: with more results chance has more tries."""
    pair = (result(STEADY), result(times(0.97)))
    alone = Family(RATE, pair).difference(0, 1)
    others = tuple(result((pair[0].values, pair[1].values)[number % 2]) for number in range(28))
    among = Family(RATE, (*pair, *others)).difference(0, 1)
    assert (alone.word, among.of) == ("slower", 30)
    assert alone.interval is not None
    assert among.interval is not None
    assert among.interval[1] - among.interval[0] > alone.interval[1] - alone.interval[0]


def test_a_noisy_family_makes_a_calm_pair_less_sure() -> None:
    """Three equal values by chance look calm: what the others vary by counts too."""
    calm = (result((1.0, 1.001, 0.999)), result((0.85, 0.851, 0.849)))
    draw = random.Random(1)
    noisy = tuple(result([draw.choice((1.0, 0.85)) for _ in range(3)]) for _ in range(4))
    assert Family(RATE, (*calm, *noisy)).difference(0, 1).word == "undecided"
    quiet = tuple(result([1 + draw.gauss(0, 0.001) for _ in range(3)]) for _ in range(4))
    assert Family(RATE, (*calm, *quiet)).difference(0, 1).word == "slower"


@pytest.mark.parametrize(
    "rounds",
    [
        [(0, 1, 2)] * 2,
        [(0, 1, 2, 3, 4), (4, 2, 3, 0, 1), (0, 1, 2, 3, 4), (1, 0, 2, 3, 4)],
        [tuple(range(19))] * 3,
        [tuple(range(20))] * 3,
        [(0, 1, 2), (0, 1, 3), (0, 1, 2)],
        [(0, 1, 2, 3), (0, 1, 2), (0, 1, 2, 3)],
        [(0, 1, 2), (0, 1, 2, 3), (0, 1, 2)],
        [(None, 0, 1, 2)] * 3,
        [(None,) * 3, (None,) * 25, (None,) * 4],
        [(None,) * 3, (0, 1, 2), (None, None, None)],
        [(None,) * 3, (0, 1, 2), (0, 1, 2)],
        [(0, 1, 2)],
        [],
        [(0, 0, 1, 2)] * 3,
        [(0, 1, 2), (0, 0, 1), (0, 1, 2)],
        [(0, 1), (0, 1, 2), (0, 1, 2), (0,), (0, 1, 2)],
        [(0, 1, 2), (0,)],
    ],
    ids=str,
)
@pytest.mark.parametrize("figure", [RATE, LOSS], ids=["rate", "loss"])
def test_the_variance_of_a_family_is_the_mean_of_its_pairs(
    figure: Figure, rounds: Sequence[tuple[int | None, ...]]
) -> None:
    """It is computed without the pairs where all results are of the same rounds."""
    draw = random.Random(5)
    results = [Repeats(tuple(draw.uniform(1, 2) for _ in each), each) for each in rounds]
    pairs = combinations([each for each in results if len(each.values) >= 3], 2)
    variances = [_change(figure, *pair, False).variance for pair in pairs]
    mean = fmean(variances) if variances else 0.0
    assert Family(figure, tuple(results))._variance == pytest.approx(mean, rel=1e-9)


def test_fewer_than_three_repeats_decide_nothing() -> None:
    found = Family(RATE, (result((1.0, 1.0)), result((2.0, 2.0)))).difference(0, 1)
    assert (found.word, found.reason, found.needed) == ("undecided", "few", 3)
    assert found.change == 2.0


def test_the_limit_of_the_traffic_program_is_a_bound() -> None:
    """A better one that is a bound is better by at least so much; a worse one may be better."""
    fast, slow = result(STEADY), result(times(0.5))
    bounded = Repeats(fast.values, fast.rounds, bound=True)
    least = Family(RATE, (bounded, slow)).difference(0, 1)
    assert least.word == "slower"
    assert least.times is not None
    assert least.times[0] == pytest.approx(1.96, abs=0.05)
    assert least.times[1] is None
    most = Family(RATE, (fast, Repeats(slow.values, slow.rounds, bound=True))).difference(0, 1)
    assert (most.word, most.reason) == ("undecided", "bound")
    assert most.is_shown


def test_doubts_spoil_on_their_side_alone() -> None:
    fast, slow = result(STEADY), result(times(0.5))
    lowered = Repeats(slow.values, slow.rounds, lowered=True)
    assert Family(RATE, (fast, lowered)).difference(0, 1).reason == "spoiled"
    given_back = Repeats(slow.values, slow.rounds, times(0.6), lowered=True)
    assert Family(RATE, (fast, given_back)).difference(0, 1).word == "slower"
    too_much = Repeats(slow.values, slow.rounds, times(1.1), lowered=True)
    assert Family(RATE, (fast, too_much)).difference(0, 1).reason == "spoiled"
    both = result(STEADY, best=tuple(value / 0.5 for value in STEADY))
    alike = Repeats(slow.values, slow.rounds, times(1.0), lowered=True)
    assert Family(RATE, (both, alike)).difference(0, 1).word == "slower", "half of each was taken"
    assert Family(RATE, (fast, alike)).difference(0, 1).reason == "spoiled", "of one alone"
    assert Family(RATE, (result(STEADY, lowered=True), slow)).difference(0, 1).word == "slower"
    raised = Family(RATE, (result(STEADY, raised=True), slow)).difference(0, 1)
    assert (raised.word, raised.reason) == ("undecided", "spoiled")
    assert Family(RATE, (fast, result(slow.values, raised=True))).difference(0, 1).word == "slower"


def test_rates_at_other_loads_are_no_race() -> None:
    half, other = result(STEADY, offered=1e6), result(times(0.5), offered=5e5)
    found = Family(RATE, (half, other)).difference(0, 1)
    assert (found.word, found.reason) == ("undecided", "load")
    alike = result(times(0.5), offered=1.001e6)
    assert Family(RATE, (half, alike)).difference(0, 1).word == "slower"


def test_latencies_within_the_error_of_their_clocks_are_not_told_apart() -> None:
    before = result([1e4 * value for value in STEADY], error=100)
    after = result([1e4 * value for value in times(1.1)], error=100)
    assert Family(LATENCY, (before, after)).difference(0, 1).word == "slower"
    unsure = result(after.values, error=2000)
    assert Family(LATENCY, (before, unsure)).difference(0, 1).reason == "error"


def test_what_lies_within_the_margin_is_the_same() -> None:
    steady, close = result((1.0, 1.001, 0.999, 1.0, 1.002)), result((1.001, 1.0, 1.0, 0.999, 1.001))
    assert Family(RATE, (steady, close)).difference(0, 1).word == "same"
    bound = Repeats(close.values, close.rounds, bound=True)
    assert Family(RATE, (steady, bound)).difference(0, 1).word == "undecided"


def test_shares_differ_by_points() -> None:
    found = Family(LOSS, (result((0.0,) * 5), result((0.01, 0.011, 0.009, 0.01, 0.0105))))
    difference = found.difference(0, 1)
    assert difference.word == "slower"
    assert difference.change == pytest.approx(0.0101, abs=1e-4)
    assert found.difference(1, 0).word == "faster"


def test_planned_pairs_are_judged_by_holms_steps() -> None:
    clear, weak = (result(STEADY), result(times(0.9))), (result(STEADY), result(times(0.9915)))
    alone = differences(RATE, [weak])[0]
    assert alone.p is not None
    many = differences(RATE, [clear, *[weak] * 9])
    assert many[0].word == "slower"
    assert many[1].p == pytest.approx(min(1.0, 9 * alone.p), rel=1e-6)
    assert (alone.word, many[1].word) == ("slower", "undecided")


def test_two_runs_are_two_draws() -> None:
    sides = [(result(STEADY), result(times(0.97)))]
    assert differences(RATE, sides)[0].word == "slower"
    apart = differences(RATE, sides, two_runs=[True])[0]
    assert (apart.word, apart.reason, apart.needed) == ("undecided", "chance", None)
    assert differences(RATE, [(result(STEADY), result(times(0.84)))], two_runs=[True])[0].word == (
        "slower"
    )


def test_the_rounds_that_would_decide_do() -> None:
    """With as many rounds as `needed` says, nine in ten runs decide."""
    draw = random.Random(4)

    def family(rounds: int) -> Family:
        def one(middle: float) -> Repeats:
            return result([middle * math.exp(draw.gauss(0, 0.05)) for _ in range(rounds)])

        return Family(RATE, (one(1.0), one(0.95)))

    first = next(
        found
        for found in (family(5).difference(0, 1) for _ in range(100))
        if found.reason == "chance" and found.change and abs(found.change - 0.95) < 0.005
    )
    assert first.needed is not None
    assert 10 < first.needed < 60
    assert sum(family(first.needed).difference(0, 1).is_decided for _ in range(50)) >= 30


def test_equal_results_are_told_apart_as_seldom_as_promised() -> None:
    """Ten alike with three repeats, the worst case of the rule before: 49 % of runs claimed."""
    draw, runs, claimed = random.Random(2), 200, 0
    for _ in range(runs):
        family = Family(
            RATE,
            tuple(result([math.exp(draw.gauss(0, 0.02)) for _ in range(3)]) for _ in range(10)),
        )
        claimed += any(family.difference(i, j).is_shown for i in range(10) for j in range(i))
    assert claimed <= 0.05 * runs


def test_the_interval_of_a_median_is_that_of_the_sign_test() -> None:
    assert median_interval(list(range(12))) is None
    # Without neighbours that are alike: 1, 13, 2, 14, ...
    low, high = median_interval([index // 2 + 1 + 12 * (index % 2) for index in range(24)]) or (
        0,
        0,
    )
    # Between the 7th and the 8th, where 97.7 % and 93.6 % of intervals cover.
    assert low == pytest.approx(25 - high)
    assert 7.5 < low < 7.9
    draw, covered = random.Random(3), 0
    for _ in range(2000):
        low, high = median_interval([draw.expovariate(1) for _ in range(13)]) or (0, 0)
        covered += low <= math.log(2) <= high
    assert 0.93 <= covered / 2000 <= 0.975


def test_values_that_are_like_their_neighbours_have_a_wider_interval() -> None:
    """A host stays in either of two states for about four trials, with a random length each
    time."""
    draw, covered, wider = random.Random(4), 0, 0
    for _ in range(1000):
        states: list[float] = []
        while len(states) < 20:
            states += [draw.choice((1.0, 2.0))] * draw.randint(3, 5)
        values = [state + draw.gauss(0, 0.01) for state in states[:20]]
        low, high = median_interval(values) or (0, 0)
        covered += low <= 1.5 <= high
        draw.shuffle(values)
        again = median_interval(values) or (0, 0)
        wider += high - low > again[1] - again[0] + 1e-9
    assert covered / 1000 >= 0.85
    assert wider / 1000 >= 0.2


@pytest.mark.parametrize("bound", [math.inf, -math.inf])
def test_an_interval_may_end_at_infinity(bound: float) -> None:
    values = [bound] * 6 + [float(index) for index in range(14)]
    assert bound in (median_interval(values) or ())
    assert not any(map(math.isnan, median_interval([bound] * 13) or (math.nan,)))


def test_the_level_leaves_room_for_states_and_unequal_noise() -> None:
    assert LEVEL <= 0.03


def test_a_trial_that_got_nothing_through_counts() -> None:
    fast = result((2.0e6, 2.1e6, 2.0e6, 2.05e6))
    found = Family(RATE, (fast, result((2.0e3, 0.0, 2.1e3, 2.0e3)))).difference(0, 1)
    assert found.word == "slower"
    never = Family(RATE, (fast, result((0.0,) * 4))).difference(0, 1)
    assert (never.word, never.reason) == ("undecided", "zero")
