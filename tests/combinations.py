"""This module chooses which combinations of axes `make test` measures of all that can be: few ones
that have every fact among them which a test names, such as each pair of two axes' values. The
others are marked `further`; `make test-all` measures them too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T", bound=tuple[str, ...])

BUILT_BY_USERS = ("vpp", "fastclick", "bess", "snabb", "t4p4s")
"""Switches that no package has. Where they are, all of their combinations are measured."""

OF_OTHER_KERNELS = ("ipvlan", "netkit", "nft-flowtable", "vale", "sriov")
"""Switches that not every kernel or NIC has: the same."""


def covering(candidates: Sequence[T], facts: Callable[[T], Collection[Hashable]]) -> list[T]:
    """Return few candidates that have all facts of all of them: always the next one with the most
    facts that are still missing, and of equals the first."""
    missing = {fact for candidate in candidates for fact in facts(candidate)}
    chosen: list[T] = []
    while missing:
        best = max(candidates, key=lambda candidate: len(missing & {*facts(candidate)}))
        chosen.append(best)
        missing -= {*facts(best)}
    return [candidate for candidate in candidates if candidate in chosen]


def measured(
    candidates: Sequence[T],
    facts: Callable[[T], Collection[Hashable]],
    *,
    always: Collection[T] = (),
) -> list[ParameterSet]:
    """Return the parameters of a test: those that do not cover a fact are marked `further`.

    `always` are measured although others cover their facts, because every one of them has found a
    fault. Combinations of a switch that may be missing are measured too, because a skipped test
    covers nothing.
    """
    may_be_missing = {*BUILT_BY_USERS, *OF_OTHER_KERNELS}
    here = [candidate for candidate in candidates if not may_be_missing & {*candidate}]
    chosen = {
        *covering(here, facts),
        *always,
        *(candidate for candidate in candidates if candidate not in here),
    }
    return [
        pytest.param(*candidate, marks=() if candidate in chosen else (pytest.mark.further,))
        for candidate in candidates
    ]
