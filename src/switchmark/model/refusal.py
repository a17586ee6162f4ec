"""Why a test can never work: a reason, with the axes that it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a test can never work."""

    axes: tuple[str, ...]
    """The fields of `Test` that it is about; a change of the first would help first."""
    why: str
    """The reason, in the user's words."""
    hint: str | None = None
    """An option that would do instead."""
    changes: tuple[tuple[str, str], ...] = ()
    """Values of single axes: with any one of them the test is accepted."""

    def __str__(self) -> str:
        return self.why if self.hint is None else f"{self.why}\n\nhint: {self.hint}"


def unknown_name(what: str, name: str, known: Iterable[str], axes: tuple[str, ...] = ()) -> Refusal:
    """Return the refusal of a name that is in no table, with the nearest one."""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    why = f"there is no {what} named '{name}'\n  known: {', '.join(names)}"
    return Refusal(axes, why, f"did you mean {near[0]}?" if near else None)
