"""This module says which tests of a campaign are compared in turn, and in which order those of a
round are. Pure.

Tests that are alike but for the switch make a group. Each round has one repeat of each; the
order is drawn anew for each pair of rounds, and the second round of a pair has it the other way
round: ABC CBA, BAC CAB. So what drifts by the same amount from trial to trial adds nothing to the
sum of a pair, and nobody always comes first.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from switchmark.model.test import AXES, Test
from switchmark.path.hosts import hosts_of

_FOLLOWS = ("engine",)
"""Axes that may differ with the switch: each switch may have the one that suits it."""


def is_independent(test: Test) -> bool:
    """Say whether other tests may come between the repeats of this one: its trials, or where it is
    searched its searches."""
    return test.repeat > 1 or test.until_certain is not None


def groups(tests: Sequence[Test]) -> list[tuple[int, ...]]:
    """Return the tests that are compared in turn, group by group, by their indices, in order."""
    return sorted(
        tuple(indices)
        for indices in _compared(tests)
        if not any(_why_not(tests[index]) for index in indices)
    )


def not_in_turn(tests: Sequence[Test], why: str | None = None) -> Mapping[Test, str]:
    """Return the tests that are compared but not in turn, each with the reason: `why`, if that is
    so of all of them."""
    compared = [[tests[index] for index in indices] for indices in _compared(tests)]
    reasons = [(group, [why or _why_not(test) for test in group]) for group in compared]
    return {
        test: next(filter(None, whys)) for group, whys in reasons if any(whys) for test in group
    }


def _compared(tests: Sequence[Test]) -> list[list[int]]:
    """Return the indices of tests that are alike but for the switch, and for what follows it where
    each switch has one: of two or more."""
    together: list[list[int]] = []
    for indices in _alike(tests, *_FOLLOWS).values():
        if len({tests[index].switch for index in indices}) == len(indices):
            together.append(indices)
        else:
            each = _alike([tests[index] for index in indices]).values()
            together += [[indices[position] for position in alike] for alike in each]
    return [indices for indices in together if len(indices) > 1]


def _why_not(test: Test) -> str | None:
    """Say why a test is not measured in turn with others; None if it can be."""
    if hosts_of(test):
        return "its switch is on another host"
    if not is_independent(test):
        return "it is measured once"
    return None


def order_of_round(count: int, round_: int, seed: int, group: int = 0) -> list[int]:
    """Return the order in which `count` tests are measured in a round, the first of which is 1. It
    is drawn from the seed; with seed 0 the first round is as written."""
    pair, second = divmod(round_ - 1, 2)
    order = list(range(count))
    if seed or pair:
        random.Random(f"{seed} {group} {pair}").shuffle(order)
    return order[::-1] if second else order


def _alike(tests: Sequence[Test], *but: str) -> Mapping[Hashable, list[int]]:
    """Return the indices of the tests that are alike but for the switch, and some axes."""
    axes = [name for name in AXES if name not in ("switch", *but)]
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for index, test in enumerate(tests):
        alike[tuple(getattr(test, axis) for axis in axes)].append(index)
    return alike
