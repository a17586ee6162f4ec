"""These tests make numbered tests of axes in a stable order; a seed shuffles blocks, and tests
within them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.campaign.expand import grouped, product, run_order
from switchmark.model.labels import label, telling, varying
from switchmark.model.test import Test
from switchmark.path.path import shares_path

TESTS = grouped(
    product({"switch": ["a", "b", "c"], "frame_size": [64, 128, 256], "burst": [1, 32]})
)


def test_the_last_axis_runs_fastest() -> None:
    found = [(test.switch, test.frame_size, test.burst) for test in TESTS[:4]]
    assert found == [("a", 64, 1), ("a", 64, 32), ("a", 128, 1), ("a", 128, 32)]


def test_tests_of_a_block_stand_side_by_side() -> None:
    scattered = [Test(switch=switch, burst=n) for n in (1, 2) for switch in ("a", "b")]
    found = [(test.switch, test.burst) for test in grouped(scattered)]
    assert found == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_test_named_twice_is_one_test() -> None:
    assert grouped([Test(), Test(burst=1), Test()]) == (Test(), Test(burst=1))


def test_seed_zero_runs_as_written() -> None:
    assert run_order(TESTS, 0) == list(range(len(TESTS)))


@given(st.integers(0, 1 << 40))
def test_a_seed_keeps_blocks_whole_and_loses_no_test(seed: int) -> None:
    order = run_order(TESTS, seed)
    assert sorted(order) == list(range(len(TESTS)))
    switches = [TESTS[index].switch for index in order]
    assert sum(one != two for one, two in pairwise(switches)) == 2
    assert order == run_order(TESTS, seed)


def test_some_seed_shuffles_both_blocks_and_tests() -> None:
    assert len({tuple(run_order(TESTS, seed)) for seed in range(20)}) > 10


def test_only_what_tells_tests_apart_is_named() -> None:
    tests = [
        Test(dimension="throughput", search="max", duration=2, burst=32),
        Test(dimension="latency", rate="1000", duration=1, burst=1),
    ]
    assert varying(tests) == ("dimension", "rate", "burst", "search", "duration")
    assert telling(tests) == ("dimension", "rate")
    assert label(tests[1], telling(tests)) == "linux-bridge latency rate 1000"


def test_what_alone_tells_tests_apart_is_kept() -> None:
    assert telling([Test(duration=1), Test(duration=2)]) == ("duration",)
    assert telling([Test()]) == ()


def test_tests_that_differ_in_what_a_trial_needs_share_a_path() -> None:
    trial = {
        "frame_size": 1518,
        "rate": "1k",
        "burst": 1,
        "touch": "full",
        "search": "max",
        "duration": 1,
        "warmup": 0,
        "repeat": 9,
        "seed": 7,
        "noise": "cpu",
    }
    assert shares_path(Test(), Test(**trial))
    assert shares_path(Test(), Test(frame_size="imix"))
    assert not shares_path(Test(), None)


@pytest.mark.parametrize(
    "axes",
    [
        *({"switch": "ovs"}, {"pairs": 2}, {"engine": "mmap"}, {"dimension": "latency"}),
        *({"flows": 2}, {"placement": "unpinned"}, {"cpu_limit": "50"}, {"copies": 2}),
        *({"frame_size": 1519}, {"burst": 65}, {"scenario": "p2v"}),
    ],
    ids=str,
)
def test_what_is_set_up_otherwise_is_another_path(axes: dict[str, Any]) -> None:
    assert not shares_path(Test(), Test(**axes))


def test_those_that_share_a_path_stand_side_by_side() -> None:
    scattered = [Test(rate=rate, flows=flows) for rate in ("1k", "2k") for flows in (1, 2)]
    found = [(test.flows, test.rate) for test in grouped(scattered)]
    assert found == [(1, "1k"), (1, "2k"), (2, "1k"), (2, "2k")]
