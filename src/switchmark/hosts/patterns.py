"""This module finds the files of this host whose paths match a shell's patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import glob

_UP_TO_LAST_STAR = re.compile(r"(.*\*[^/]*)(.*)")


def matching(patterns: Iterable[str]) -> Iterator[str]:
    """Yield paths in the order of their patterns. What follows the last star of one is not looked
    for, which is half of the time where there are many: who opens it sees whether it is there."""
    for pattern in patterns:
        if stem := _UP_TO_LAST_STAR.fullmatch(pattern):
            # Path.glob takes longer, and this is asked around each trial.
            yield from (f"{path}{stem[2]}" for path in sorted(glob(stem[1])))  # noqa: PTH207
        else:
            yield pattern
