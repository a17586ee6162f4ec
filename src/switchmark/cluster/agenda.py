"""This module says which test a free testbed measures next. It is pure: it knows no workers and no
clock.

Repeats go in rounds as in a run of one host. A test stays at the testbed that began it, so that its
figure is of one host, unless its repeats are to be spread.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from switchmark.model.test import Test
from switchmark.path.sharing import path_key


@dataclass(slots=True, eq=False)
class Item:
    """An item is a test that is to be measured. `apart`: its repeats may be made one by one, each a
    visit. `needs` is the one that finds the R+ which its rate is a share of. `repeats` counts those
    that there are, trials or whole searches, by testbed."""

    index: int
    test: Test
    key: str
    versions: Mapping[str, str]
    position: float
    apart: bool = False
    needs: Item | None = None
    is_reference: bool = False
    repeats: Counter[str] = field(default_factory=Counter)
    round: int = 0
    at: str | None = None
    done: bool = False
    r_plus_pps: float | None = None
    lost: int = 0

    @property
    def path(self) -> Hashable:
        return path_key(self.test)

    def home(self, testbeds: Collection[str]) -> str | None:
        """Return the testbed, of these, that has made the most repeats of it."""
        return next((name for name, _ in self.repeats.most_common() if name in testbeds), None)


class Agenda:
    """An agenda has the items of a run; an item is at one testbed at a time."""

    def __init__(self, items: Sequence[Item], *, seed: int = 0, spread: bool = False) -> None:
        self.items = list(items)
        self._spread = spread
        self._draw = random.Random(seed) if seed else None
        self._paths: dict[str, Hashable] = {}

    @property
    def left(self) -> list[Item]:
        """Return what is not done yet."""
        return [item for item in self.items if not item.done]

    def next(self, testbed: str, testbeds: Collection[str]) -> Item | None:
        """Give a free testbed its next item, of all `testbeds` that there are; None where nothing
        can be measured there now."""
        item = self._first(self.left, testbed, testbeds)
        if item is not None:
            item.at = testbed
            self._paths[testbed] = item.path
        return item

    def then(self, item: Item, testbeds: Collection[str]) -> Test | None:
        """Return the test that would come next where an item is measured now."""
        assert item.at is not None
        others = [each for each in self.left if each is not item]
        following = self._first(others, item.at, testbeds)
        if following is None and item.apart and not self._spread:
            following = item if item.repeats.total() + 1 < item.test.repeat else None
        return following.test if following else None

    def landed(self, item: Item, *, done: bool) -> None:
        """Note that a visit has ended: with a record, or with more to be measured."""
        item.at, item.done = None, done
        item.round += 1
        if self._draw is not None:
            item.position = self._draw.random()

    def lost(self, item: Item) -> None:
        """Note that a visit came to nothing, because its testbed is gone."""
        item.at = None

    def _first(self, items: Iterable[Item], testbed: str, testbeds: Collection[str]) -> Item | None:
        """Return the item of the earliest round that fits: first one that shares the path which is
        up there, then one whose path is up nowhere."""
        fitting = [item for item in items if self._fits(item, testbed, testbeds)]
        here = self._paths.get(testbed)
        elsewhere = {path for name, path in self._paths.items() if name != testbed}

        def rank(item: Item) -> tuple[int, bool, bool, float]:
            path = item.path
            return item.round, path != here, path in elsewhere, item.position

        return min(fitting, key=rank, default=None)

    def _fits(self, item: Item, testbed: str, testbeds: Collection[str]) -> bool:
        if item.at is not None or (item.needs is not None and not item.needs.done):
            return False
        if self._spread and item.apart:
            return item.repeats[testbed] <= min(item.repeats[name] for name in testbeds)
        return item.home(testbeds) in (None, testbed)
