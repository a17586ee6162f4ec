"""These tests hold what a run is expected to take against runs that were timed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.campaign.duration import expected_s
from switchmark.campaign.load import from_options
from switchmark.campaign.run import LONGEST_REFERENCE_S, saturated
from switchmark.model.test import Test
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import LoadBounds
from synthetic import SyntheticSwitch

TIMED = [
    ({"switch": "linux-bridge,ovs,direct", "search": "max", "duration": "0.5"}, 34.6),
    ({"frame_size": "64,128,256,512", "duration": "1"}, 32.8),
    ({"search": "mlr", "duration": "0.3"}, 66.3),
    ({"search": "ndr", "duration": "0.3"}, 21.1),
    ({"search": "latency-at-load", "duration": "0.3"}, 10.9),
    ({"search": "back-to-back", "duration": "0.3"}, 25.7),
    ({"environment": "docker", "duration": "0.5"}, 17.3),
    ({"environment": "lxc", "duration": "0.5"}, 9.5),
    ({"environment": "podman", "duration": "0.5"}, 20.8),
    ({"environment": "vm", "engine": "xdp", "duration": "0.5"}, 25.3),
    ({"switch": "ovs-dpdk", "engine": "dpdk", "duration": "0.5"}, 11.2),
]
"""Axes, and the seconds that `run` took on two busy cores, without a calibration of before."""


def parsed_tests(**axes: str) -> tuple[Test, ...]:
    return from_options(axes, lambda test: []).tests


@pytest.mark.parametrize(("axes", "took_s"), TIMED)
def test_runs_that_were_timed_are_expected_to_take_as_long(
    axes: dict[str, str], took_s: float
) -> None:
    assert took_s / 1.5 < expected_s(parsed_tests(**axes)) < took_s * 1.5


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({}, (18.85, 13.65)),
        ({"switch": "ovs", "warmup": "0.5", "residual": "2", "settle": "3"}, (27.45, 19.85)),
        ({"dimension": "latency", "rate": "1k", "repeat": "4"}, (48.4, 45.6)),
        ({"dimension": "latency", "rate": "1k", "switch": "direct"}, (16.45, 13.65)),
        ({"scenario": "loopback", "chain": "3", "environment": "docker"}, (31.75, 17.95)),
        (
            {"scenario": "loopback", "chain": "2", "chains": "2", "function": "pcap-bridge"},
            (19.45, 13.85),
        ),
        ({"copies": "2", "frame_size": "64,1518"}, (36.2, 25.4)),
        ({"switch": "linux-bridge,macvlan", "repeat": "3"}, (74.1, 68.9)),
        ({"vlan": "none,100", "frame_size": "128", "repeat": "3"}, (87.3, 76.9)),
        ({"environment": "vm", "engine": "xdp", "pairs": "2"}, (45.45, 45.45)),
        (
            {"switch": "ovs", "switch_environment": "lxc", "search": "ndr", "finals": "2"},
            (192.85, 185.25),
        ),
        ({"search": "mlr"}, (448.75, 443.55)),
        ({"search": "mlr", "duration_sum": "90"}, (1268.8, 1263.6)),
        ({"search": "mlr:csit", "precision": "1%"}, (163.3, 158.1)),
        ({"search": "latency-at-load", "loads": "10%,20%,30%,40%"}, (61.45, 56.25)),
        ({"search": "pdr", "loss_ratio": "0.1%", "repeat": "2"}, (349.0, 343.8)),
        ({"rate": "10%,50%"}, (42.15, 36.95)),
        ({"dimension": "outage", "event": "kill", "duration": "8"}, (27.5, 22.3)),
        ({"until_certain": "5%"}, (285.1, 279.9)),
    ],
)
def test_each_part_of_a_run_is_counted(axes: dict[str, str], expected: tuple[float, float]) -> None:
    tests = parsed_tests(**axes)
    found = expected_s(tests), expected_s(tests, calibrated=False)
    assert found == pytest.approx(expected, abs=0.005)


def test_no_test_takes_no_time() -> None:
    assert expected_s(()) == 0


def test_a_test_that_is_asked_for_twice_is_run_once() -> None:
    (test,) = parsed_tests()
    assert expected_s((test, test)) == expected_s((test,))


def test_r_plus_is_found_once_for_all_its_shares() -> None:
    axes = {"duration": "10", "warmup": "0"}
    one, three = (expected_s(parsed_tests(rate=rate, **axes)) for rate in ("10%", "10%,50%,90%"))
    assert one > 2 * 10
    assert 2 * 10 < three - one < 3 * 10


def test_r_plus_of_a_long_run_is_found_in_seconds() -> None:
    (test,) = parsed_tests(rate="90%", duration="24h", interval="5min")
    reference = saturated(test)
    assert reference is not None
    assert (reference.duration, reference.interval) == (LONGEST_REFERENCE_S, None)
    assert expected_s((test,)) < 24 * 3600 + 60


def test_repeats_in_turn_with_others_need_their_path_each_time() -> None:
    machines = {"environment": "vm", "engine": "xdp", "repeat": "3", "duration": "1"}
    one = expected_s(parsed_tests(**machines))
    two = expected_s(parsed_tests(**machines, vlan="none,100"))
    assert two > 4 * one


def test_the_paths_of_tests_in_turn_are_set_up_once() -> None:
    machines = {"environment": "vm", "engine": "xdp", "repeat": "3", "duration": "1"}
    one = expected_s(parsed_tests(**machines))
    assert expected_s(parsed_tests(**machines, switch="linux-bridge,ip-forward")) < 2.5 * one


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(SEARCHES)),
    st.integers(1, 5),
    st.floats(0.1, 60),
    st.sampled_from(["throughput", "latency"]),
)
def test_it_takes_its_trials_at_least_and_longer_ones_longer(
    search: str, repeat: int, duration: float, dimension: str
) -> None:
    axes = {"search": search, "repeat": repeat, "dimension": dimension}
    test = Test(duration=duration, **axes)
    longer = Test(duration=duration * 2, **axes)
    if search == "mlr:csit":  # all of its trials take a second
        assert repeat * (1 + test.warmup) < expected_s((test,)) == expected_s((longer,))
        return
    assert repeat * (duration + test.warmup) < expected_s((test,)) < expected_s((longer,))


@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("noise", [{}, {"noise": 0.02}, {"rare": 5}])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_expects_about_the_trials_that_it_takes(
    name: str, noise: dict[str, Any], repeat: int
) -> None:
    """Within a factor of five: a switch of arithmetic wants 11 trials of mlr, a real one 65."""
    bounds = LoadBounds(rate_pps=None, duration_s=1.0, warmup_s=0.1, repeat=repeat)
    switch = SyntheticSwitch(**noise)
    SEARCHES[name].find(switch, bounds)
    taken, expected = len(switch.asked), len(SEARCHES[name].usual_durations(bounds))
    assert expected / 5 <= taken <= expected * 5
