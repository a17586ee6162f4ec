"""These tests compare the clock of another kernel with this host's clock."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from switchmark.lab.clocks import FarClock, Moment, moment_of

HZ = 2_000_000_000


def test_the_exchange_that_came_back_soonest_tells() -> None:
    exchanges = [(1000, 70, 9000), (20_000, 80, 20_400), (30_000, 90, 31_000)]
    assert moment_of(exchanges) == Moment(80, 20_200, 200)


@given(
    offset_s=st.integers(-1000, 1000),
    drift_ppm=st.floats(-80, 80),
    round_trips_ns=st.lists(st.integers(1000, 400_000), min_size=3, max_size=20),
    seed=st.integers(0, 1000),
)
def test_the_truth_is_within_what_is_told(
    offset_s: int, drift_ppm: float, round_trips_ns: list[int], seed: int
) -> None:
    """For any offset, drift and delay in each direction."""
    draw = random.Random(seed)

    def ticks_at(ns: int) -> int:
        return round((ns + (2000 + offset_s) * 1e9) * (1 + drift_ppm / 1e6) * HZ / 1e9)

    def exchanged(time_ns: int) -> Moment:
        exchanges = []
        for round_trip in round_trips_ns:
            start = time_ns + draw.randrange(10**6)
            exchanges.append(
                (start, ticks_at(start + draw.randrange(round_trip)), start + round_trip)
            )
        return moment_of(exchanges)

    clock = FarClock(HZ)
    for trial in range(4):
        begin = (trial + 1) * 10**10
        armed = clock.arm(exchanged(begin))
        end = begin + 10**9
        unsure = clock.unsure_ns(exchanged(end))
        for ns in (begin, begin + 5 * 10**8, end):
            reading = armed["ns"] + (ticks_at(ns) - armed["ticks"]) * 10**9 / armed["hz"]
            assert (
                abs(reading - ns) <= unsure + 2000
            )  # an exchange is up to 1 ms later than `begin`


def test_drift_is_measured_where_the_moments_are_far_enough_apart() -> None:
    fast = 1 + 50e-6
    clock = FarClock(HZ)
    clock.arm(Moment(0, 0, 10_000))
    near = clock.arm(Moment(round(HZ * fast / 10), 10**8, 10_000))
    assert near["hz"] == HZ
    assert clock.drift == 0
    far = clock.arm(Moment(round(HZ * fast * 10), 10**10, 10_000))
    assert abs(far["hz"] / HZ - fast) < 1e-9
    assert abs(clock.drift - 50e-6) < 1e-9


def test_drift_is_measured_only_from_moments_apart() -> None:
    """At the bound, the error of both moments is a ten-thousandth of the time between them."""
    for ns, unsure_ns, measured in (
        (0, 0, False),
        (-1, 0, False),
        (1, 0, True),
        (10**8, 5_000, True),
        (10**8, 5_001, False),
    ):
        clock = FarClock(HZ)
        clock.arm(Moment(0, 0, unsure_ns))
        armed = clock.arm(Moment(7, ns, unsure_ns))
        assert armed == {"ticks": 7, "ns": ns, "hz": round(7 * 10**9 / ns) if measured else HZ}


def test_a_clock_that_was_set_meanwhile_shows_in_what_is_told() -> None:
    clock = FarClock(HZ)
    clock.arm(Moment(0, 0, 1000))
    assert clock.unsure_ns(Moment(HZ, 10**9 + 5_000_000, 1000)) == 5_001_000
