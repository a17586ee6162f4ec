"""The expansion of axes to tests, and the order of a run. This module is pure: it reads no file and
no table.

The written order numbers the tests; the seed determines the order of the run.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from switchmark.model.test import AXES, Test
from switchmark.path.path import path_key


def count(axes: Mapping[str, Sequence[Any]]) -> int:
    """Return the number of tests in the product of these axes."""
    return math.prod(len(values) for values in axes.values())


def product(axes: Mapping[str, Sequence[Any]]) -> Iterator[Test]:
    """Yield every combination of the axes' values, in the order of Test's fields; the last field
    varies fastest."""
    names = [name for name in AXES if name in axes]
    for values in itertools.product(*(axes[name] for name in names)):
        yield Test.model_validate(dict(zip(names, values, strict=True)))


def grouped(tests: Iterable[Test]) -> tuple[Test, ...]:
    """Return the tests without duplicates; tests of the same block are adjacent, otherwise in
    order."""
    blocks: dict[Hashable, list[Test]] = {}
    for test in dict.fromkeys(tests):
        blocks.setdefault(path_key(test), []).append(test)
    return tuple(itertools.chain.from_iterable(blocks.values()))


def run_order(tests: Sequence[Test], seed: int) -> list[int]:
    """Return indices into `tests` in the order of the run: blocks shuffled, and the tests within a
    block shuffled; for `seed` 0, the written order."""
    indices = range(len(tests))
    blocks = [list(run) for _, run in itertools.groupby(indices, lambda i: path_key(tests[i]))]
    if seed:
        draw = random.Random(seed)
        draw.shuffle(blocks)
        for block in blocks:
            draw.shuffle(block)
    return list(itertools.chain.from_iterable(blocks))
