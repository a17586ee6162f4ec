"""A standard as data: its clauses, and the campaigns that measure what the clauses ask for.

A standard is a file `NAME.yaml` in this folder. It paraphrases each clause. A clause whose text was
not at hand says so (`source: second-hand`). This module runs no campaign and reads no record.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from switchmark.errors import UsageError
from switchmark.model.axis import field_name, key_of
from switchmark.model.test import AXES, Test
from switchmark.papers.library import content_of
from switchmark.papers.points import Scalar
from switchmark.standards.predicates import CONDITIONS, PREDICATES

_FOLDER = Path(__file__).parent
_FORM = ConfigDict(frozen=True, extra="forbid", alias_generator=key_of)

Obligation = Literal["MUST", "SHOULD", "MAY", "PROCEDURE"]
"""The weight of a clause. `PROCEDURE` is a step or a definition that the text gives without one of
these words. It counts as a MUST: what is measured otherwise is not that benchmark."""

BINDING = ("MUST", "PROCEDURE")
"""The obligations that conformance needs."""


class ClauseCheck(BaseModel):
    """A predicate over the records of a clause, with its parameters."""

    model_config = _FORM

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Exempt(BaseModel):
    """Why a clause does not apply, unless the records meet a condition."""

    model_config = _FORM

    why: str
    unless: str = ""
    """The name of the condition under which the clause applies after all; empty for none."""


class Clause(BaseModel):
    """One requirement of a standard.

    It has checks, or a reason why switchmark does not test it. A clause that does not apply needs
    neither, unless there is a condition under which it applies.
    """

    model_config = _FORM

    id: str
    """The number of its section, with a letter if the section has several requirements."""

    obligation: Obligation
    asks: str
    """What it asks for, in our words."""

    source: Literal["read", "second-hand"]
    """Whether the text of the clause was read, or is known from other documents."""

    search: tuple[str, ...] = ()
    """The searches whose tests it is about; all if empty."""

    measured_by: tuple[str, ...] = ()
    """The campaigns that measure it; all campaigns if empty."""

    where: dict[str, Scalar | None] = Field(default_factory=dict)
    """The axes, with their values, of the tests that it is about; all tests if empty."""

    checks: tuple[ClauseCheck, ...] = ()
    not_applicable: Exempt | None = None
    untested: str = ""
    """Why no campaign measures it."""

    @field_validator("checks", mode="before")
    @classmethod
    def _named(cls, written: Any) -> Any:
        """Read `{predicate: parameters}`."""
        if not isinstance(written, dict):
            return written
        return [{"name": name, "parameters": given or {}} for name, given in written.items()]

    @model_validator(mode="after")
    def _is_answered(self) -> Clause:
        always_exempt = self.not_applicable is not None and not self.not_applicable.unless
        if [bool(self.checks), bool(self.untested), always_exempt].count(True) != 1:
            raise ValueError(f"{self.id}: one of checks, untested, not-applicable without unless")
        if unknown := {check.name for check in self.checks} - set(PREDICATES):
            raise ValueError(f"{self.id}: there is no predicate named {', '.join(unknown)}")
        condition = self.not_applicable.unless if self.not_applicable else ""
        if lost := [axis for axis in self.where if field_name(axis) not in AXES]:
            raise ValueError(f"{self.id}: there is no axis named {', '.join(lost)}")
        if condition and condition not in CONDITIONS:
            raise ValueError(f"{self.id}: there is no condition named {condition}")
        return self

    @property
    def is_binding(self) -> bool:
        return self.obligation in BINDING

    def is_about(self, test: Test) -> bool:
        """Return whether a test is one of those that the clause is about."""
        return (not self.search or test.search in self.search) and all(
            getattr(test, field_name(axis)) == value for axis, value in self.where.items()
        )

    @property
    def section(self) -> str:
        """Return the number of its section, without the letter."""
        return self.id.rstrip("abcdefghijklmnopqrstuvwxyz")


class Standard(BaseModel):
    """A standard, its clauses in the order of the text, and its campaigns."""

    model_config = _FORM

    name: str
    title: str
    document: str
    """The document: its number or draft name, with the version that the clauses are from."""

    sections: tuple[str, str]
    """The first and the last section whose requirements are listed, all between included."""

    skipped: tuple[str, ...] = ()
    """The numbers of sections between them that the text does not have."""

    unlisted: str = ""
    """The clauses that are not listed, and why; empty if all are listed."""

    campaigns: dict[str, dict[str, Any]]
    """The content of campaign files, by name."""

    quick: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """The axes of a quick run, in every campaign."""

    clauses: tuple[Clause, ...]

    @model_validator(mode="after")
    def _fits(self) -> Standard:
        ids = [clause.id for clause in self.clauses]
        if len(set(ids)) < len(ids):
            raise ValueError("two clauses have one number")
        for axis in {*self.quick, *(axis for each in self.campaigns.values() for axis in each)}:
            if field_name(axis) not in AXES:
                raise ValueError(f"there is no axis named '{axis}'")
        named = {name for clause in self.clauses for name in clause.measured_by}
        if unknown := named - set(self.campaigns):
            raise ValueError(f"there is no campaign named {', '.join(unknown)}")
        return self

    @property
    def is_read(self) -> bool:
        """Say whether all clauses are listed, and whether all their texts were read."""
        return not self.unlisted and all(clause.source == "read" for clause in self.clauses)

    def campaigns_of(self, clauses: list[Clause]) -> list[str]:
        """Return the names of the campaigns that measure some clauses, in the standard's order."""
        tested = [clause for clause in clauses if clause.checks]
        every = any(not clause.measured_by for clause in tested)
        wanted = {name for clause in tested for name in clause.measured_by}
        return [name for name in self.campaigns if every or name in wanted]


@cache
def names() -> tuple[str, ...]:
    """Return the names of all standards."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


@cache
def read(name: str) -> Standard:
    """Return the standard of that name. Raise UsageError with the closest name if there is none."""
    if name not in names():
        near = get_close_matches(name, names(), n=1)
        raise UsageError(
            f"there is no standard named '{name}'\n  known: {', '.join(names())}",
            hint=f"switchmark conform {near[0] if near else names()[0]}",
        )
    content = content_of((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return Standard.model_validate({"name": name, **content})
