"""A comparison is a name, a sentence, and a function from a session to rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.bed import Bed
from bench.report import Row


@dataclass(frozen=True, slots=True)
class Session:
    """A session says how much to measure, and where. `seconds` is the length of one measurement."""

    bed: Bed
    pairs: int
    seconds: float
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison measures switchmark and a peer in turn: `run` raises MissingPeer or Unavailable
    where this host cannot do it. All that it brings up is undone after it."""

    name: str
    summary: str
    run: Callable[[Session], list[Row]]
