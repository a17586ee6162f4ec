"""Why a test can never work: a reason, and the axes at fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a test can never work."""

    axes: tuple[str, ...]
    """The fields of `Test` at fault, with the best one to change first."""
    why: str
    """The reason, in the user's terms."""
    hint: str | None = None
    """An option that would work instead."""
    changes: tuple[tuple[str, str], ...] = ()
    """Pairs of an axis and a value; any one of these changes makes the test valid."""

    def __str__(self) -> str:
        return self.why if self.hint is None else f"{self.why}\n\nhint: {self.hint}"


def unknown_name(
    noun: str, name: str, choices: Iterable[str], axes: tuple[str, ...] = ()
) -> Refusal:
    """Return the refusal of an unknown name, with the nearest known name as a hint."""
    names = list(choices)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    why = f"there is no {noun} named '{name}'\n  known: {', '.join(names)}"
    return Refusal(axes, why, f"did you mean {near[0]}?" if near else None)
