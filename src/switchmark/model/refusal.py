"""Why a test can never work: a reason with the axes that it is about."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a test can never work.

    `axes` are the fields of `Test` that it is about, the one whose change would help first. `why`
    is the reason in the user's words, `hint` an option that would do instead.
    """

    axes: tuple[str, ...]
    why: str
    hint: str | None = None

    def __str__(self) -> str:
        return self.why if self.hint is None else f"{self.why}\n\nhint: {self.hint}"
