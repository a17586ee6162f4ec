"""The order of measurements, on this host or on the free testbeds of a lab. This module is pure: it
knows no workers and no clock.

Repeats go in rounds, so that a host's drift affects all tests alike. Tests that differ only in the
switch are compared: each group is measured as a whole before the next group, with one repeat of
each test per round. Each pair of rounds has a new random order, and its second round is the reverse
of its first: ABC CBA, BAC CAB. So a linear drift cancels in the sum of a pair, and no test always
comes first. All other tests share one sequence of rounds.

The testbeds of a lab share one sequence of rounds. A test stays at the testbed that began it, so
that its figure comes from one host, unless its repeats are spread.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark.campaign.expand import run_order
from switchmark.model.test import AXES, Test
from switchmark.path.hosts import hosts_of
from switchmark.path.path import path_key

_FOLLOWS = ("engine",)
"""The axes that may follow the switch: each switch may have the value that suits it."""


def is_independent(test: Test) -> bool:
    """Return whether other tests may run between the repeats of a test, which are trials or, for a
    search of a rate, whole searches."""
    return test.repeat > 1 or test.until_certain is not None


def groups(tests: Sequence[Test]) -> list[tuple[int, ...]]:
    """Return the groups of tests that are compared in turn, by index, in order."""
    return sorted(
        tuple(indices)
        for indices in _compared(tests)
        if not any(_why_not(tests[index]) for index in indices)
    )


def not_in_turn(tests: Sequence[Test], why: str | None = None) -> Mapping[Test, str]:
    """Return the tests that are compared but not in turn, with the reason. `why` is the reason for
    all of them, if it is set."""
    compared = [[tests[index] for index in indices] for indices in _compared(tests)]
    reasons = [(group, [why or _why_not(test) for test in group]) for group in compared]
    return {
        test: next(filter(None, whys)) for group, whys in reasons if any(whys) for test in group
    }


def _compared(tests: Sequence[Test]) -> list[list[int]]:
    """Return the indices of tests that differ only in the switch, and in axes that follow the
    switch if each switch has one test. Groups have two tests or more."""
    together: list[list[int]] = []
    for indices in _alike(tests, *_FOLLOWS).values():
        if len({tests[index].switch for index in indices}) == len(indices):
            together.append(indices)
        else:
            by_path = _alike([tests[index] for index in indices]).values()
            together += [[indices[position] for position in alike] for alike in by_path]
    return [indices for indices in together if len(indices) > 1]


def compared_with(tests: Sequence[Test]) -> Mapping[int, tuple[int, ...]]:
    """Return for the index of each compared test the indices of the tests that it is compared with,
    including itself."""
    together = [tuple(indices) for indices in _compared(tests)]
    return {index: indices for indices in together for index in indices}


def _why_not(test: Test) -> str | None:
    """Return the reason why a test cannot be measured in turn with others; None if it can."""
    if hosts_of(test):
        return "its switch is on another host"
    if test.events:
        return "its events change the switch, so each trial begins with a new one"
    if not is_independent(test):
        return "it is measured once"
    return None


def order_of_round(count: int, round_: int, seed: int, group: int = 0) -> list[int]:
    """Return the order of `count` tests in a round; rounds count from 1. The seed determines the
    order; with seed 0 the first round is in written order."""
    pair, second = divmod(round_ - 1, 2)
    order = list(range(count))
    if seed or pair:
        random.Random(f"{seed} {group} {pair}").shuffle(order)
    return order[::-1] if second else order


def _alike(tests: Sequence[Test], *but: str) -> Mapping[Hashable, list[int]]:
    """Return the indices of tests that differ only in the switch and in the axes `but`."""
    axes = [name for name in AXES if name not in ("switch", *but)]
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for index, test in enumerate(tests):
        alike[tuple(getattr(test, axis) for axis in axes)].append(index)
    return alike


HERE = ""
"""The name of this host as a place; testbeds of a lab have longer names."""


@dataclass(slots=True, eq=False)
class Item:
    """A test to measure, or a reference of tests: the test that finds the R+ for rates that are
    shares of it."""

    index: int
    """The test's index in the campaign; for a reference, the index of the test that needs it."""

    test: Test
    key: str
    versions: Mapping[str, str]

    needs: tuple[Item, ...] = ()
    """The references of its rate, a share of the smallest R+ among them. Its own is the first."""

    is_reference: bool = False
    wanted_by: Item | None = None
    """The test that needs this reference."""

    r_plus_pps: float | None = None
    """The result of a reference."""

    passed_over: bool = False
    """Whether the search of a reference failed for a compared test, which continues without it."""

    set_up: dict[str, Any] = field(default_factory=dict)
    """The set-up times in the reference's record, for the visit after it."""

    looks: int | None = None
    """The number of evaluations of the run, this one included, if the test has more repeats than
    requested."""

    repeats: Counter[str] = field(default_factory=Counter)
    """The number of repeats, trials or whole searches, by testbed."""

    apart: bool = False
    """Whether each of its repeats is a visit, so that other tests may run between them."""

    among: tuple[Test, ...] = ()
    """The tests that it is compared with in turn, including itself."""

    section: int = 0
    round: int = 0
    first_round: int = 0
    """The first round of a test in turn, in the numbering of its trials. The round before sets up
    the path and measures nothing."""

    testbed: str | None = None
    """The testbed that measures it now."""

    done: bool = False
    lost: int = 0
    """The number of testbeds that were lost while they measured it."""

    path: Hashable = field(init=False)

    def __post_init__(self) -> None:
        self.path = path_key(self.test)

    @property
    def missing(self) -> Item | None:
        """Return the first reference that is still to be measured; None if there is none. Its own
        is never passed over."""
        return next(
            (
                reference
                for number, reference in enumerate(self.needs)
                if not (reference.done or (number and reference.passed_over))
            ),
            None,
        )

    @property
    def reference_pps(self) -> float | None:
        """Return the R+ of which its rate is a share; None without one."""
        found = [one.r_plus_pps for one in self.needs if one.r_plus_pps is not None]
        return min(found, default=None)

    @property
    def limit(self) -> int | None:
        """Return the number of new repeats that the next visit may add; None for no limit."""
        if not self.apart:
            return None
        return 0 if self.round < self.first_round else 1

    @property
    def visits(self) -> list[Test]:
        """Return the tests of its remaining visits, as far as they are known."""
        if not self.apart:
            return [self.test]
        once = self.test.model_copy(update={"repeat": 1})
        return [once] * max(1, self.test.repeat - self.repeats.total())

    def home(self, places: Collection[str]) -> str | None:
        """Return the place that has measured the most repeats of it."""
        return next((name for name, _ in self.repeats.most_common() if name in places), None)


class Agenda:
    """The items of a run, in the order of the first round; an item is at one place at a time.

    An agenda that is `shared` by the testbeds of a lab has no tests in turn, and paths stay up
    between rounds. The initial `round` of an item is that of its last trial.
    """

    def __init__(
        self, items: Sequence[Item], *, seed: int = 0, shared: bool = False, spread: bool = False
    ) -> None:
        self.items = list(items)
        self._seed, self._shared, self._spread = seed, shared, spread
        self._up: dict[str, Hashable] = {}
        self._orders: dict[tuple[int, int], dict[Item, int]] = {}
        self._sections: list[list[Item]] = []
        for in_turn, section in [(False, self.items)] if shared else _sections(self.items):
            self._arrange(section, in_turn)
            self._sections.append(section)

    @property
    def left(self) -> list[Item]:
        """Return the unfinished items."""
        return [item for item in self.items if not item.done]

    def next(self, place: str, places: Collection[str] = (HERE,)) -> Item | None:
        """Return the next item for a free place among all current `places`; None if nothing can be
        measured there now. A reference comes directly before the first test that needs it."""
        item = self._first(self.left, place, places)
        if item is None:
            return None
        if (needs := item.missing) is not None:
            needs.index, needs.among, needs.wanted_by = item.index, item.among, item
            item = needs
        item.testbed = place
        if self._shared:
            self._up[place] = item.path
        return item

    def then(self, item: Item, places: Collection[str] = (HERE,)) -> Test | None:
        """Return the test that follows an item at its place, if the path may stay up for it."""
        assert item.testbed is not None
        if item.wanted_by is not None:
            return item.wanted_by.test
        if item.among:  # its own path stays up until its last round
            later = (
                candidate
                for candidate in self.left
                if candidate.section == item.section + 1 and candidate.among
            )
            return next(
                (candidate.test for candidate in later if candidate.path == item.path), None
            )
        others = [other for other in self.left if other is not item]
        following = self._first(others, item.testbed, places)
        if self._shared:
            returns = item.apart and not self._spread and len(item.visits) > 1
            following = following or (item if returns else None)
        elif following and (following.section, following.round) != (item.section, item.round):
            return None
        return following.test if following else None

    def landed(self, item: Item, *, is_done: bool) -> None:
        """Record the end of a visit: the item is done, or more repeats remain."""
        item.testbed, item.done = None, is_done
        item.round += 1

    def lost(self, item: Item) -> None:
        """Record that a visit failed because its testbed is gone."""
        item.testbed = None

    def goes_on_with(self, item: Item, testbed: str) -> bool:
        """Return whether an item continues with stored trials of a testbed."""
        return testbed == item.testbed or bool(self._spread and item.apart and testbed)

    def _arrange(self, section: Sequence[Item], in_turn: bool) -> None:
        """Set the section, the rounds and the comparison partners of items."""
        among = tuple(item.test for item in sorted(section, key=_index)) if in_turn else ()
        before = max(item.round for item in section) if in_turn else 0
        for item in section:
            several = len(section) > 1 or self._spread
            item.section, item.among = len(self._sections), among
            # Each trial with an event of the switch begins with a new path, so it is a visit.
            item.apart = (several or bool(item.test.events)) and is_independent(item.test)
            item.round, item.first_round = before, before + 1 if in_turn else 0

    def _first(self, items: Iterable[Item], place: str, places: Collection[str]) -> Item | None:
        """Return the item of the earliest round that fits. On a lab, prefer an item that shares the
        path which is up at this place, then an item whose path is up nowhere."""
        fitting = [item for item in items if self._fits(item, place, places)]
        here = self._up.get(place)
        elsewhere = {path for name, path in self._up.items() if name != place}

        def rank(item: Item) -> tuple[int, int, bool, bool, int]:
            away = item.path != here, item.path in elsewhere
            return item.section, item.round, *away, self._position(item)

        return min(fitting, key=rank, default=None)

    def _fits(self, item: Item, place: str, places: Collection[str]) -> bool:
        if item.testbed is not None:
            return False
        if (needs := item.missing) is not None and needs.testbed is not None:
            return False
        if self._spread and item.apart:
            return item.repeats[place] <= min(item.repeats[name] for name in places)
        return item.home(places) in (None, place)

    def _position(self, item: Item) -> int:
        """Return the position of an item in its round: from the seed, or as written in the round
        that sets up paths."""
        of_round = item.section, item.round
        if of_round not in self._orders:
            section = self._sections[item.section]
            if item.among or item.round:
                section = sorted(section, key=_index)
            order: Sequence[int] = range(len(section))
            if item.among and item.round >= item.first_round:
                order = order_of_round(len(section), item.round, self._seed, section[0].index)
            elif not item.among and item.round:
                drawn = random.Random(f"{self._seed} {item.round}").getrandbits(32) | 1
                order = run_order([item.test for item in section], drawn)
            self._orders[of_round] = {section[index]: place for place, index in enumerate(order)}
        return self._orders[of_round][item]


def _sections(items: Sequence[Item]) -> list[tuple[bool, list[Item]]]:
    """Return the sections: each group that is compared in turn, and all other items at the position
    of the first of them. The flag marks a group."""
    of_group = {index: group for group in groups([item.test for item in items]) for index in group}
    sections: dict[tuple[int, ...], list[Item]] = {}
    for index, item in enumerate(items):
        sections.setdefault(of_group.get(index, ()), []).append(item)
    return [(bool(group), section) for group, section in sections.items()]


def _index(item: Item) -> int:
    return item.index
