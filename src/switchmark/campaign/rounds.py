"""This module says which test is measured next, on this host or at a free testbed of a lab. It is
pure: it knows no workers and no clock.

Repeats go in rounds: a host that drifts does so for all tests alike. Tests that are compared, which
are alike but for the switch, are measured to their end together, a group after the other, with one
repeat of each in each round. The order is drawn anew for each pair of rounds, and the second round
of a pair has it the other way round: ABC CBA, BAC CAB. So what drifts by the same amount from trial
to trial adds nothing to the sum of a pair, and nobody always comes first. All other tests have
their rounds together.

The testbeds of a lab share one sequence of rounds: there a test stays at the testbed that began it,
so that its figure is of one host, unless its repeats are to be spread.
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


HERE = ""
"""The name of this host as a place where tests are measured; testbeds of a lab have longer ones."""


@dataclass(slots=True, eq=False)
class Item:
    """An item is a test that is to be measured, or the reference of others: the test that finds the
    R+ which their rates are shares of."""

    index: int
    """Its place in the campaign; of a reference that of the test for which it is measured."""

    test: Test
    key: str
    versions: Mapping[str, str]

    needs: Item | None = None
    """The reference of its rate."""

    is_reference: bool = False
    wanted_by: Item | None = None
    """The test for which a reference is measured."""

    r_plus_pps: float | None = None
    """What a reference has found."""

    set_up: dict[str, Any] = field(default_factory=dict)
    """What the record of the reference tells of the set-up, for the visit that comes after it."""

    looks: int | None = None
    """How often the run will have been judged, where the test has more repeats than were asked
    for."""

    repeats: Counter[str] = field(default_factory=Counter)
    """How many repeats there are, trials or whole searches, by testbed."""

    apart: bool = False
    """Whether other tests come between its repeats, each of which is a visit then."""

    among: tuple[Test, ...] = ()
    """The tests that it is compared with in turn, itself too."""

    section: int = 0
    round: int = 0
    first_round: int = 0
    """The first round of a test in turn, by the numbers that trials have. In the round before it
    the path is set up, and nothing is measured."""

    at: str | None = None
    """Where it is measured now."""

    done: bool = False
    lost: int = 0
    """How many testbeds were lost with it."""

    path: Hashable = field(init=False)

    def __post_init__(self) -> None:
        self.path = path_key(self.test)

    @property
    def limit(self) -> int | None:
        """Return how many new repeats its next visit may have; None for all that it wants."""
        if not self.apart:
            return None
        return 0 if self.round < self.first_round else 1

    @property
    def visits(self) -> list[Test]:
        """Return what its further visits ask for, as far as that is known."""
        if not self.apart:
            return [self.test]
        once = self.test.model_copy(update={"repeat": 1})
        return [once] * max(1, self.test.repeat - self.repeats.total())

    def home(self, places: Collection[str]) -> str | None:
        """Return the place, of these, that has made the most repeats of it."""
        return next((name for name, _ in self.repeats.most_common() if name in places), None)


class Agenda:
    """An agenda has the items of a run, in the order of the first round; an item is at one place at
    a time. `shared` by the testbeds of a lab, it has no tests in turn, and paths stay up from round
    to round. The `round` of an item is that of its last trial when it comes."""

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
        """Return what is not done yet."""
        return [item for item in self.items if not item.done]

    def next(self, place: str, places: Collection[str] = (HERE,)) -> Item | None:
        """Give a free place its next item, of all `places` that there are; None where nothing can
        be measured there now. A reference comes right before the first test that needs it."""
        item = self._first(self.left, place, places)
        if item is None:
            return None
        if (needs := item.needs) is not None and not needs.done:
            needs.index, needs.among, needs.wanted_by = item.index, item.among, item
            item = needs
        item.at = place
        if self._shared:
            self._up[place] = item.path
        return item

    def then(self, item: Item, places: Collection[str] = (HERE,)) -> Test | None:
        """Return the test that would come next where an item is measured now, if what is up may
        stay for it."""
        assert item.at is not None
        if item.wanted_by is not None:
            return item.wanted_by.test
        if item.among:  # its own path stays up until its last round
            later = (each for each in self.left if each.section == item.section + 1 and each.among)
            return next((each.test for each in later if each.path == item.path), None)
        others = [each for each in self.left if each is not item]
        following = self._first(others, item.at, places)
        if self._shared:
            more = item.apart and not self._spread and len(item.visits) > 1
            following = following or (item if more else None)
        elif following and (following.section, following.round) != (item.section, item.round):
            return None
        return following.test if following else None

    def landed(self, item: Item, *, done: bool) -> None:
        """Note that a visit has ended: with a record, or with more to be measured."""
        item.at, item.done = None, done
        item.round += 1

    def lost(self, item: Item) -> None:
        """Note that a visit came to nothing, because its testbed is gone."""
        item.at = None

    def goes_on_with(self, item: Item, testbed: str) -> bool:
        """Say whether trials of a testbed are some of those that an item goes on with."""
        return testbed == item.at or bool(self._spread and item.apart and testbed)

    def _arrange(self, section: Sequence[Item], in_turn: bool) -> None:
        """Say of the items of the next section how their repeats are made."""
        among = tuple(item.test for item in sorted(section, key=_index)) if in_turn else ()
        before = max(item.round for item in section) if in_turn else 0
        for item in section:
            several = len(section) > 1 or self._spread
            item.section, item.among = len(self._sections), among
            item.apart = several and is_independent(item.test)
            item.round, item.first_round = before, before + 1 if in_turn else 0

    def _first(self, items: Iterable[Item], place: str, places: Collection[str]) -> Item | None:
        """Return the item of the earliest round that fits: on a lab first one that shares the path
        which is up there, then one whose path is up nowhere."""
        fitting = [item for item in items if self._fits(item, place, places)]
        here = self._up.get(place)
        elsewhere = {path for name, path in self._up.items() if name != place}

        def rank(item: Item) -> tuple[int, int, bool, bool, int]:
            away = item.path != here, item.path in elsewhere
            return item.section, item.round, *away, self._position(item)

        return min(fitting, key=rank, default=None)

    def _fits(self, item: Item, place: str, places: Collection[str]) -> bool:
        if item.at is not None:
            return False
        if (needs := item.needs) is not None and not needs.done and needs.at is not None:
            return False
        if self._spread and item.apart:
            return item.repeats[place] <= min(item.repeats[name] for name in places)
        return item.home(places) in (None, place)

    def _position(self, item: Item) -> int:
        """Return the place of an item in its round: drawn from the seed, as written in the round in
        which paths are set up."""
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
                order = run_order([each.test for each in section], drawn)
            self._orders[of_round] = {section[at]: place for place, at in enumerate(order)}
        return self._orders[of_round][item]


def _sections(items: Sequence[Item]) -> list[tuple[bool, list[Item]]]:
    """Return the items section by section: each group that is compared in turn, and in the place of
    their first one those of no group. Say of each whether it is such a group."""
    of_group = {at: group for group in groups([item.test for item in items]) for at in group}
    sections: dict[tuple[int, ...], list[Item]] = {}
    for at, item in enumerate(items):
        sections.setdefault(of_group.get(at, ()), []).append(item)
    return [(bool(group), section) for group, section in sections.items()]


def _index(item: Item) -> int:
    return item.index
