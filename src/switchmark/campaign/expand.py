"""From axes to tests, and the order they are run in. Pure; reads no file and no table.

The written order numbers the tests; the order of a run is drawn from it with the seed.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from switchmark.model.spec import Test
from switchmark.model.units import mtu_for

__all__ = [
    "RX_BURST",
    "count",
    "grouped",
    "label",
    "path_key",
    "product",
    "run_order",
    "shares_path",
    "telling",
    "varying",
]

RX_BURST = 64
"""Frames that a receiver takes at once: every port has buffers for so many."""

_OF_A_TRIAL = frozenset(
    {
        *("frame_size", "rate", "burst", "touch"),
        *("search", "loss_ratio", "precision", "loads", "noise"),
        *("duration", "warmup", "repeat", "until_certain", "seed"),
    }
)
"""Axes that only a test's trials depend on: what the traffic program is told for each of them,
and who makes noise beside them."""


def path_key(test: Test) -> Hashable:
    """What a path depends on: tests of one key can be measured on one, one after the other.

    Every axis but those that only a trial needs. Interfaces have the MTU of a longer frame, and
    DPDK's ports the buffers for a longer burst: no figure depends on which other tests there are.
    """
    fixed = tuple(getattr(test, axis) for axis in Test.model_fields if axis not in _OF_A_TRIAL)
    return (*fixed, mtu_for(test.frame_size), max(test.burst, RX_BURST))


def shares_path(a: Test, b: Test | None) -> bool:
    """Whether what is up for `a` serves `b` too."""
    return b is not None and path_key(a) == path_key(b)


def count(axes: Mapping[str, Sequence[Any]]) -> int:
    """How many tests the product of these axes has."""
    return math.prod(len(values) for values in axes.values())


def product(axes: Mapping[str, Sequence[Any]]) -> Iterator[Test]:
    """Every combination of the axes' values, in the order of Test's fields, the last fastest."""
    names = [name for name in Test.model_fields if name in axes]
    for values in itertools.product(*(axes[name] for name in names)):
        yield Test.model_validate(dict(zip(names, values, strict=True)))


def grouped(tests: Iterable[Test]) -> tuple[Test, ...]:
    """The tests without repetition, those of one block side by side, otherwise in order."""
    blocks: dict[Hashable, list[Test]] = {}
    for test in dict.fromkeys(tests):
        blocks.setdefault(path_key(test), []).append(test)
    return tuple(itertools.chain.from_iterable(blocks.values()))


def run_order(tests: Sequence[Test], seed: int) -> list[int]:
    """Indices into `tests` in the order to run them: blocks shuffled, and the tests within a
    block shuffled; as written when `seed` is 0."""
    indices = range(len(tests))
    blocks = [list(run) for _, run in itertools.groupby(indices, lambda i: path_key(tests[i]))]
    if seed:
        draw = random.Random(seed)
        draw.shuffle(blocks)
        for block in blocks:
            draw.shuffle(block)
    return list(itertools.chain.from_iterable(blocks))


def varying(tests: Sequence[Test]) -> tuple[str, ...]:
    """The axes in which these tests differ, in the order of Test's fields."""
    return tuple(
        name for name in Test.model_fields if len({getattr(test, name) for test in tests}) > 1
    )


def telling(tests: Sequence[Test]) -> tuple[str, ...]:
    """The varying axes that a reader needs to tell these tests apart: how a test is measured is
    left out where the other axes tell it."""
    axes = list(varying(tests))
    for axis in ("seed", "warmup", "repeat", "until_certain", "duration", "search", "burst"):
        fewer = [other for other in axes if other != axis]
        if len({tuple(getattr(test, name) for name in fewer) for test in tests}) == len(tests):
            axes = fewer
    return tuple(axes)


def label(test: Test, axes: Sequence[str]) -> str:
    """A test in a few words: its switch, and its values on `axes`."""
    words = [test.switch]
    for axis in axes:
        value = getattr(test, axis)
        if axis == "frame_size":
            words.append(f"{value} B" if isinstance(value, int) else value)
        elif axis != "switch" and value is not None:
            words.append(f"{axis.replace('_', ' ')} {value}" if _is_bare(value) else str(value))
    return " ".join(words)


def _is_bare(value: object) -> bool:
    """Whether a value needs the axis beside it to be understood."""
    return not isinstance(value, str) or value == "max" or value[:1].isdigit()
