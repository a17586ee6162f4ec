"""These tests choose combinations of axes: every fact is covered, by few."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from combinations import BUILT_BY_USERS, covering, measured

AXES = (("a", "b", "c", "d"), ("x", "y", "z"), ("1", "2", "3"))
ALL = [*itertools.product(*AXES)]


def pairs(candidate: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {*itertools.combinations(candidate, 2)}


def test_every_pair_is_covered_by_few() -> None:
    chosen = covering(ALL, pairs)
    assert {pair for candidate in chosen for pair in pairs(candidate)} == {
        pair for candidate in ALL for pair in pairs(candidate)
    }
    assert 12 <= len(chosen) <= 15 < len(ALL)  # two axes alone have twelve pairs


@given(st.sets(st.sampled_from(ALL), min_size=1))
def test_what_cannot_be_combined_is_no_fact(some: set[tuple[str, ...]]) -> None:
    chosen = covering(sorted(some), pairs)
    assert {*chosen} <= some
    assert {p for candidate in chosen for p in pairs(candidate)} == {
        p for candidate in some for p in pairs(candidate)
    }


def test_what_is_not_chosen_is_marked_and_what_found_a_fault_is_chosen() -> None:
    several = [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y"), (BUILT_BY_USERS[0], "x")]
    found = measured(several, lambda candidate: [*candidate], always=[("a", "y")])
    assert [parameters.values for parameters in found] == several
    further = [parameters.values for parameters in found if parameters.marks]
    assert further == [("b", "x")]
