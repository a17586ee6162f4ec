"""These tests hold each rule of a verdict on both sides of its threshold, with its sentence in the
record, and the evidence to the frame."""

from __future__ import annotations

import math
from typing import Any

import pytest

from recorded import fresh
from switchmark.metrics.difference import Difference
from switchmark.metrics.latency import stamps_of
from switchmark.metrics.profile import merged
from switchmark.metrics.repeats import FIGURES, Repeats, figure_of_goal
from switchmark.metrics.searched import SearchValue, values_interval
from switchmark.metrics.verdict import judge, own_ns, rate_interval
from switchmark.model.cable import CableRate, Calibration
from switchmark.model.cost import Profile, Shares
from switchmark.model.record import PartReport, Record, TrialResult, TrialSpec
from switchmark.model.search import Goal, SearchResult

SECOND = 10**9
FULL = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
PACED = TrialSpec(rate_pps=1_000_000, duration_s=1, warmup_s=0)
BURST = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0, frames=1000)

SENDER: dict[str, Any] = {
    "part": "f0",
    "roles": ("sender",),
    "cpu": 0,
    "cores": 1.0,
    "user_cores": 0.1,
    "polls": 1000,
    "blocked": 0,
}
RECEIVER: dict[str, Any] = {
    "part": "f1",
    "roles": ("receiver",),
    "cpu": 1,
    "cores": 1.0,
    "user_cores": 0.1,
    "polls": 1000,
    "empty_polls": 500,
    "idle": 0.5,
}
FORWARDER: dict[str, Any] = {"part": "f2", "roles": ("forwarder",), "cpu": 2, "cores": 1.0}

ON_CABLE = Calibration(
    switch="direct",
    rate_pps=(980_000, 1_000_000, 1_020_000),
    sent_pps=1_100_000,
    sender_ns=(100, 1000),
    receiver_ns=(100, 500),
)


def trial(
    sent: int,
    *,
    sender: dict[str, Any] | None = None,
    receiver: dict[str, Any] | None = None,
    extra_parts: tuple[dict[str, Any], ...] = (),
    **changes: Any,
) -> TrialResult:
    """Return a trial of a second of which all but `lost` arrives evenly."""
    received = sent * changes.get("copies", 1) - changes.get("lost", 0)
    parts = ({**SENDER, **(sender or {})}, {**RECEIVER, **(receiver or {})}, *extra_parts)
    return TrialResult.model_validate(
        {
            "spec": FULL,
            "elapsed_ns": SECOND,
            "tx_frames": sent,
            "tx_unsent": 0,
            "rx_frames": received,
            "rx_bytes": 0,
            "lost": 0,
            "lost_at": {},
            "interval_ns": SECOND // 10,
            "intervals": tuple(received // 10 + number % 2 for number in range(10)),
            "parts": tuple(PartReport(**part) for part in parts),
            **changes,
        }
    )


def judged(
    result: TrialResult, calibration: Calibration | None = ON_CABLE, **path: bool
) -> tuple[str, str]:
    blamed, evidence = judge(result, calibration, **{"dedicated_core": False, **path})
    return blamed, evidence.rule


CARRIED = ("offered-load", "what was offered was carried")
SWITCH = ("switch", "below 0.9 of direct, with intervals apart")
AS_FAST = ("sender", "as fast as on direct")
NOWHERE = ("unknown", "most of the lost frames are nowhere accounted for")


@pytest.mark.parametrize(
    ("unsent", "lost", "expected"),
    [
        (0, 0, CARRIED),
        (500, 500, CARRIED),
        (501, 500, AS_FAST),
        (0, 1001, AS_FAST),
    ],
)
def test_what_is_carried_may_lack_a_thousandth(
    unsent: int, lost: int, expected: tuple[str, str]
) -> None:
    result = trial(1_000_000 - unsent, tx_unsent=unsent, lost=lost, spec=PACED)
    assert judged(result) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"doubts": ("host-busy",)}, ("host", "something else ran on a core of the test")),
        (
            {"evidence": {"window": {"stolen": 0.051}}},
            ("host", "the hypervisor kept more than 5% of the CPU time"),
        ),
        ({"evidence": {"window": {"stolen": 0.05}}}, SWITCH),
        ({"spec": BURST}, ("unknown", "a burst has no rate to hold against direct")),
    ],
)
def test_the_host_comes_before_the_baseline(
    changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    lost: dict[str, Any] = {"tx_unsent": 2000} if "spec" in changes else {}
    assert judged(trial(800_000, **lost, **changes)) == expected


@pytest.mark.parametrize(
    ("spec", "lost", "place", "expected"),
    [
        (FULL, 50_001, 25_001, ("switch", "most of the lost frames were lost there")),
        (FULL, 50_002, 25_000, NOWHERE),  # less than half of them
        (FULL, 50_000, 50_000, AS_FAST),  # a twentieth
        (PACED, 1001, 501, ("switch", "most of the lost frames were lost there")),
        (PACED, 1001, 500, AS_FAST),
    ],
)
def test_losses_decide_where_they_matter(
    spec: TrialSpec, lost: int, place: int, expected: tuple[str, str]
) -> None:
    result = trial(1_000_000, lost=lost, lost_at={"inside switch": place}, spec=spec)
    assert judged(result) == expected


@pytest.mark.parametrize(
    ("empty", "doubts", "expected"),
    [
        (
            501,
            ("cores-shared",),
            ("host", "the receiver had time, but on a shared core not its turn"),
        ),
        (500, ("cores-shared",), ("receiver", "most of the lost frames were lost there")),
        (501, (), ("receiver", "most of the lost frames were lost there")),
    ],
)
def test_a_receiver_that_had_time_waited_for_its_turn(
    empty: int, doubts: tuple[str, ...], expected: tuple[str, str]
) -> None:
    result = trial(
        900_000,
        lost=700_000,
        lost_at={"ring f1": 700_000},
        doubts=doubts,
        receiver={"empty_polls": empty},
    )
    assert judged(result, dedicated_core=True) == expected


def test_a_trial_without_a_baseline_or_whose_losses_have_no_place_blames_nobody() -> None:
    assert judged(trial(800_000), None) == ("unknown", "no calibration on direct")
    assert judged(trial(800_000, lost=80_000, lost_at={"late": 39_999})) == NOWHERE
    assert judged(trial(800_000, lost=80_000, lost_at={"late": 40_000})) == SWITCH
    assert judged(trial(800_000, lost=20_001)) == NOWHERE
    assert judged(trial(800_000, lost=20_000)) == SWITCH


@pytest.mark.parametrize(
    ("sent", "blocked", "empty", "expected"),
    [
        (950_000, 201, 500, ("switch", "the sender found no room in the switch's port")),
        (950_000, 200, 500, ("sender", "the switch took all that the sender could send")),
        (450_000, 21, 500, ("switch", "no room at times, and below 0.5 of direct")),
        (450_000, 20, 500, ("sender", "the switch took all that the sender could send")),
        (510_000, 200, 500, ("sender", "the switch took all that the sender could send")),
        (950_000, 0, 49, ("receiver", "the receiver had no time left")),
        (950_000, 0, 50, ("sender", "the switch took all that the sender could send")),
    ],
)
def test_a_switch_on_its_own_core_shows_by_the_room_it_leaves(
    sent: int, blocked: int, empty: int, expected: tuple[str, str]
) -> None:
    result = trial(sent, sender={"blocked": blocked}, receiver={"empty_polls": empty})
    assert judged(result, dedicated_core=True) == expected


@pytest.mark.parametrize(
    ("sent", "empty", "expected"),
    [
        (899_980, 500, SWITCH),
        (900_020, 500, AS_FAST),
        (950_000, 49, ("receiver", "as fast as on direct, and the receiver had no time left")),
        (800_000, 49, SWITCH),
    ],
)
def test_a_switch_in_the_context_of_the_sender_is_held_against_the_cable(
    sent: int, empty: int, expected: tuple[str, str]
) -> None:
    assert judged(trial(sent, receiver={"empty_polls": empty})) == expected


def test_a_slow_rate_whose_interval_reaches_that_of_the_cable_blames_no_switch() -> None:
    wide = ON_CABLE.model_copy(update={"rate_pps": (799_999, 1_000_000, 1_200_000)})
    assert judged(trial(800_000), wide) == AS_FAST
    narrow = ON_CABLE.model_copy(update={"rate_pps": (801_000, 1_000_000, 1_200_000)})
    assert judged(trial(800_000), narrow) == SWITCH


@pytest.mark.parametrize(
    ("sent", "parts", "expected"),
    [
        (950_000, (FORWARDER,), ("sender", "there is no switch on a cable")),
        (
            800_000,
            (FORWARDER,),
            ("function", "below 0.9 of the ends alone, and there is no switch"),
        ),
        (
            800_000,
            ({**FORWARDER, "roles": ("function",)},),
            ("function", "below 0.9 of the ends alone, and there is no switch"),
        ),
        (800_000, (), ("sender", "there is no switch on a cable")),
    ],
)
def test_on_a_cable_only_functions_are_slow(
    sent: int, parts: tuple[dict[str, Any], ...], expected: tuple[str, str]
) -> None:
    assert judged(trial(sent, extra_parts=parts), cable=True) == expected
    busy = trial(950_000, receiver={"empty_polls": 0})
    assert judged(busy, cable=True) == ("receiver", "there is no switch on a cable")


@pytest.mark.parametrize(
    ("sent", "functions", "expected"),
    [
        (500_000, None, ("unknown", "slower than its ends, and no cable joins its functions")),
        (500_000, 600_000, ("switch", "below 0.9 of the same functions on cables")),
        (
            560_000,
            600_000,
            ("function", "as fast as the functions on cables, which are slower than the ends"),
        ),
    ],
)
def test_a_chain_is_held_against_its_functions_on_cables(
    sent: int, functions: int | None, expected: tuple[str, str]
) -> None:
    rate = functions and CableRate(rate_pps=(functions - 9, functions, functions + 9))
    calibration = ON_CABLE.model_copy(update={"functions": rate})
    for dedicated_core in (False, True):
        result = trial(sent, extra_parts=(FORWARDER,))
        assert judged(result, calibration, dedicated_core=dedicated_core) == expected


@pytest.mark.parametrize(
    ("sent", "doubts", "apart", "expected"),
    [
        (440_000, (), None, SWITCH),
        (
            440_000,
            ("cores-shared",),
            None,
            ("unknown", "slower than the ends of one copy, not than a sender for each"),
        ),
        (
            440_000,
            ("cores-shared",),
            1_000_000,
            ("switch", "below 0.9 of a sender and a cable for each copy"),
        ),
        (
            460_000,
            ("cores-shared",),
            1_000_000,
            ("unknown", "slower than the ends of one copy, not than a sender for each"),
        ),
    ],
)
def test_copies_are_held_against_a_sender_for_each(
    sent: int, doubts: tuple[str, ...], apart: int | None, expected: tuple[str, str]
) -> None:
    """Two cables carry a million frames in all."""
    rate = apart and CableRate(rate_pps=(apart - 9, apart, apart + 9))
    calibration = ON_CABLE.model_copy(update={"apart": rate})
    assert judged(trial(sent, copies=2, doubts=doubts), calibration) == expected


OWN = "the sender's own work on a frame takes far longer than on direct"


@pytest.mark.parametrize(
    ("sender", "lost", "expected"),
    [
        # 5000 ns a frame, of which 4000 more than on the cable; twice 2001 of them are its own.
        ({"user_cores": 0.4202}, 0, ("sender", OWN)),
        ({"user_cores": 0.4198}, 0, SWITCH),
        ({"user_cores": 0.9, "blocked": 199}, 0, ("sender", OWN)),
        ({"user_cores": 0.9, "blocked": 200}, 0, SWITCH),
        ({"user_cores": 0.9}, 10_000, ("sender", OWN)),
        (
            {"user_cores": 0.9},
            10_001,
            ("unknown", "most of the lost frames are nowhere accounted for"),
        ),
        ({"user_cores": None}, 0, SWITCH),
        ({"polls": 0, "user_cores": 0.9}, 0, SWITCH),
    ],
)
def test_a_sender_whose_own_work_takes_long(
    sender: dict[str, Any], lost: int, expected: tuple[str, str]
) -> None:
    assert judged(trial(200_000, sender=sender, lost=lost)) == expected


@pytest.mark.parametrize(
    ("late", "idle", "spec", "expected"),
    [
        (10_001, 0.19, FULL, "receiver"),
        (10_000, 0.19, FULL, "switch"),
        (10_001, 0.2, FULL, "switch"),
        (10_001, None, FULL, "switch"),
        (10_001, 0.19, PACED, "switch"),
    ],
)
def test_a_receiver_whose_own_work_takes_long(
    late: int, idle: float | None, spec: TrialSpec, expected: str
) -> None:
    result = trial(
        200_000,
        late=late,
        spec=spec,
        tx_unsent=0 if spec is FULL else 800_000,
        receiver={"user_cores": 0.9, "idle": idle},
    )
    blamed, rule = judged(result)
    assert blamed == expected
    if expected == "receiver":
        assert rule == "the receiver's own work on a frame takes far longer than on direct"


def test_the_evidence_of_a_verdict() -> None:
    result = trial(
        900_000,
        tx_unsent=100_000,
        lost=90_000,
        late=10_000,
        lost_at={"ring f1": 50_000, "function f2": 20_000, "stray": 5000, "inside switch": 10_000},
        spec=PACED,
        sender={"blocked": 250},
        receiver={"empty_polls": 100},
        extra_parts=(FORWARDER, {**RECEIVER, "part": "f3", "empty_polls": 300, "idle": 0.7}),
        counters={"switch": {"busy_cycles": 3, "idle_cycles": 1}},
        evidence={"window": {"stolen": 0.01}},
    )
    functions = CableRate(rate_pps=(1, 2, 3))
    calibration = ON_CABLE.model_copy(update={"functions": functions})
    _, evidence = judge(result, calibration, dedicated_core=True)
    members = evidence.model_dump(exclude={"rule", "rate_pps"})
    assert members == {
        "unsent_share": 0.1,
        "lost_share": 0.1,
        "lost_by": {"receiver": 50_000, "function": 20_000, "switch": 15_000},
        "sender_blocked": 0.25,
        "sender_ns": (pytest.approx(0.1e9 / 9e5), pytest.approx(1e9 / 9e5)),
        "receiver_ns": (pytest.approx(0.2e9 / 8e5), pytest.approx(2e9 / 8e5)),
        "receiver_empty_polls": 0.2,
        "receiver_idle": 0.7,
        "switch_busy": 0.75,
        "stolen": 0.01,
        "sent_pps": 900_000,
        "direct_pps": ON_CABLE.rate_pps,
        "direct_sent_pps": 1_100_000,
        "functions_pps": (1, 2, 3),
    }
    _, without = judge(trial(0), None, dedicated_core=True)
    assert (without.unsent_share, without.direct_pps, without.stolen) == (0, None, None)


def test_a_rate_has_two_standard_errors_each_way() -> None:
    """Of nine whole intervals the first and last are left out: 100, 110, ... in 0.1 s each."""
    result = trial(1000, intervals=(7, 100, 110, 120, 100, 110, 120, 110, 9))
    middle, error = 1100.0, 2 * 10 * (400 / 600) ** 0.5 * 10 / 7**0.5
    whole = trial(1000, intervals=(7, 100, 110, 120, 9), elapsed_ns=SECOND // 2)
    assert rate_interval(whole) == pytest.approx((1100 - 200 / 3**0.5, 1100, 1100 + 200 / 3**0.5))
    low, mean, high = rate_interval(result)
    assert mean == pytest.approx(middle)
    assert (mean - low, high - mean) == pytest.approx((error, error))
    short = trial(1000, lost=100, intervals=(1, 2, 3, 4), elapsed_ns=SECOND // 2)
    assert rate_interval(short) == (1800, 1800, 1800)


@pytest.mark.parametrize(
    ("role", "changes", "found"),
    [
        ("sender", {"cores": 0.04, "user_cores": 0.01}, (10, 40)),
        ("sender", {"cores": 0.0399, "user_cores": 0.01}, None),
        ("sender", {"user_cores": None}, None),
        ("sender", {"cores": None}, None),
        ("client", {}, None),
    ],
)
def test_the_time_of_a_frame_is_known_from_forty_milliseconds_on(
    role: str, changes: dict[str, Any], found: tuple[float, float] | None
) -> None:
    result = trial(1_000_000, sender=changes)
    assert own_ns(result, role) == (found and pytest.approx(found))


def test_late_frames_do_not_make_a_receiver_quick() -> None:
    assert own_ns(trial(1_000_000, late=500_000), "receiver") == pytest.approx((200, 2000))
    assert own_ns(trial(1_000_000, late=1_000_000), "receiver") == pytest.approx((1e8, 1e9))
    assert own_ns(trial(0), "sender") is None


# --- other figures ---------------------------------------------------------------------------


RATE, LOSS = FIGURES["rate"], FIGURES["loss"]


def difference(**changes: Any) -> Difference:
    """Return a rate that is 10 % lower, by 8 to 12 %."""
    content: dict[str, Any] = {
        "figure": RATE,
        "before": Repeats((100.0,) * 3),
        "after": Repeats((90.0,) * 3),
        "margin": 0.01,
        "change": 0.9,
        "interval": (0.88, 0.92),
        "p": 0.001,
    }
    return Difference(**{**content, **changes})


@pytest.mark.parametrize(
    ("changes", "amount", "excluded"),
    [
        ({}, 0.121, True),
        ({}, 0.12, False),
        ({"reason": "load"}, 0.5, False),
        ({"reason": "chance"}, 0.121, True),
        ({"interval": None, "change": None, "p": None}, 0.5, False),
        ({"before": Repeats((100.0,) * 3, bound=True)}, 0.5, False),
        ({"before": Repeats((100.0,) * 3, lowered=True)}, 0.5, False),
        ({"before": Repeats((100.0,) * 3, raised=True)}, 0.121, True),
        ({"after": Repeats((90.0,) * 3, raised=True)}, 0.5, False),
        ({"after": Repeats((90.0,) * 3, lowered=True)}, 0.121, True),
        ({"change": 1.1, "after": Repeats((110.0,) * 3), "interval": (1.08, 1.12)}, 0.001, True),
        ({"change": 1.0, "after": Repeats((100.0,) * 3), "interval": (0.995, 1.005)}, 0.001, True),
    ],
)
def test_what_the_data_exclude(changes: dict[str, Any], amount: float, excluded: bool) -> None:
    assert difference(**changes).excludes(amount) is excluded


def test_the_clock_of_both_sides_makes_an_exclusion_less_sure() -> None:
    sides = Repeats((100.0,) * 3, error=3.0), Repeats((105.0,) * 3, error=4.2)
    slower = difference(
        figure=FIGURES["latency"],
        before=sides[0],
        after=sides[1],
        change=1.05,
        interval=(1.04, 1.06),
    )
    change = math.hypot(math.log1p(0.03), math.log1p(0.04))
    assert slower.excludes(0.06 + change + 1e-6)
    assert not slower.excludes(0.06 + change - 1e-6)


def test_the_widths_of_stamps_are_in_the_record() -> None:
    width = {"count": 1000, "min": 10, "max": 900, "sum": 10_890}
    width["counts"] = [[10, 989], [500, 10], [900, 1]]  # type: ignore[assignment]
    received = {
        "f0>f1": {"stamps": {"by": "device", "noted": 1000, "width": width}},
        "f1>f0": {},
        "f2>f3": {"stamps": {"by": "device", "noted": 0, "width": {**width, "count": 0}}},
    }
    stamps = stamps_of(received)
    assert list(stamps) == ["f0>f1"]
    one = stamps["f0>f1"]
    assert (one.by, one.noted, one.p50, one.p99, one.max) == ("device", 1000, 10, 500, 900)


def test_shares_of_profiles_are_weighed_by_their_samples() -> None:
    def profile(samples: int, **groups: float) -> Profile:
        shares = Shares(samples=samples, groups=groups, symbols={"a": groups.get("user", 0.0)})
        return Profile(event="cycles", hz=99, whole=shares)

    whole = merged([profile(300, user=1.0), profile(100, other=1.0, user=0.0)]).whole  # type: ignore[union-attr]
    assert whole is not None
    assert whole.samples == 400
    assert whole.groups == {"user": 0.75, "other": 0.25}
    assert whole.symbols == {"a": 0.75}
    none = merged([profile(0)]).whole  # type: ignore[union-attr]
    assert none is not None
    assert (none.samples, none.symbols) == (0, {"a": 0.0})


def value(rate: float | None, at_least: bool = False) -> SearchValue:
    return SearchValue(rate, None, None, at_least, None)


def test_lower_bounds_leave_an_interval_open_only_where_they_can_move_it() -> None:
    rates = (106, 100, 112, 103, 109, 101, 111, 104, 108, 102, 110, 105, 107)
    closed = values_interval([value(rate) for rate in rates])
    assert closed is not None
    assert 100 < closed[0] < 106 < (closed[1] or 0) < 112
    # One that may be higher than all is the highest either way.
    assert values_interval([value(rate, rate == 112) for rate in rates]) == closed
    open_ = values_interval([value(rate, True) for rate in rates])
    assert open_ is not None
    assert open_ == (closed[0], None)
    assert values_interval([value(rate) for rate in rates[:-1]]) is None
    assert values_interval([*map(value, rates[:-1]), value(None)]) is None
    assert values_interval([value(0.0) for _ in rates]) == (0.0, 0.0)


def test_a_search_without_a_met_goal_is_compared_by_its_main_figure() -> None:
    def found(*rates_pps: float | None) -> Record:
        goals = tuple(
            Goal(goal=name, loss_ratio=0.0, rate_pps=rate, latency_ns=None, verdict=None)
            for name, rate in zip(("ndr", "pdr"), rates_pps, strict=True)
        )
        return fresh(search=SearchResult(name="mlr", trials=3, goals=goals))

    for goal, rates, name in (
        ("ndr", (1e6, 2e6), "rate"),
        ("pdr", (1e6, 2e6), "pdr"),
        ("ndr", (None, 2e6), "ndr"),
        ("pdr", (None, 2e6), "rate"),
        ("ndr", (None, None), "rate"),
        ("pdr", (None, None), "rate"),
    ):
        assert figure_of_goal(found(*rates), goal).name == name
