"""The answer of records to a standard, clause by clause.

It fails closed: a clause is met only by records that were measured for it and deviate nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.model.axis import field_name
from switchmark.model.record import Record
from switchmark.standards.predicates import CONDITIONS, OF_GOALS, PREDICATES
from switchmark.standards.standard import Clause, Standard

Word = Literal["met", "deviates", "not tested", "not applicable"]

_MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class ClauseAnswer:
    """The answer to a clause, and why."""

    clause: Clause
    word: Word
    why: str = ""

    @property
    def is_open(self) -> bool:
        """Say whether the records do not do what the clause asks."""
        return self.word in ("deviates", "not tested")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answers of one switch to a standard."""

    standard: Standard
    switch: str
    answers: tuple[ClauseAnswer, ...]
    quick: bool = False
    """Whether a record was measured by a quick run."""

    @property
    def is_met(self) -> bool:
        """Say whether every MUST is met, or does not apply."""
        return not any(answer.is_open and answer.clause.is_binding for answer in self.answers)

    @property
    def is_full(self) -> bool:
        """Say whether every MUST and SHOULD is met or does not apply, by clauses that were read."""
        weighed = (answer for answer in self.answers if answer.clause.obligation != "MAY")
        return (
            self.standard.is_read
            and not self.quick
            and not any(answer.is_open for answer in weighed)
        )

    def count(self, word: Word, obligations: Sequence[str]) -> int:
        """Return the number of clauses of some obligations with an answer."""
        return sum(
            answer.word == word and answer.clause.obligation in obligations
            for answer in self.answers
        )


def judge(
    standard: Standard,
    records: Sequence[Record],
    reasons: Mapping[str, str] | None = None,
    *,
    quick: bool = False,
) -> list[Judgement]:
    """Return the answers of each switch in some records. `reasons` says why campaigns could not be
    measured, by name."""
    switches = list(dict.fromkeys(record.test.switch for record in records)) or [""]
    return [
        Judgement(
            standard,
            switch,
            tuple(
                _answer(clause, [r for r in records if r.test.switch == switch], reasons or {})
                for clause in standard.clauses
            ),
            quick,
        )
        for switch in switches
    ]


def _answer(clause: Clause, records: Sequence[Record], reasons: Mapping[str, str]) -> ClauseAnswer:
    about = [record for record in records if clause.is_about(record.test)]
    measured = [record for record in about if record.status == "ok" and _is_measured(record)]
    exempt = clause.not_applicable
    if exempt is not None:
        if not exempt.unless:
            return ClauseAnswer(clause, "not applicable", exempt.why)
        measured = [record for record in measured if CONDITIONS[exempt.unless](record)]
        if not measured and any(record.status == "ok" for record in records):
            return ClauseAnswer(clause, "not applicable", exempt.why)
    if clause.untested:
        return ClauseAnswer(clause, "not tested", clause.untested)
    failures = [record.error or record.status for record in about if record.status != "ok"]
    if not measured:
        whys = [reasons[name] for name in clause.measured_by if name in reasons] or failures
        missing = f"no measurement by search {' or '.join(clause.search)}" if clause.search else ""
        return ClauseAnswer(clause, "not tested", _first(whys) or missing or "no measurement")
    if silent := _untold(clause, measured):
        return ClauseAnswer(clause, "not tested", silent)
    found = [
        deviation
        for check in clause.checks
        for deviation in PREDICATES[check.name](measured, **_as_named(check.parameters))
    ]
    if failures:
        found.append(f"{len(failures)} of its tests failed: {_first(failures)}")
    if not found:
        return ClauseAnswer(clause, "met")
    more = f"; and {len(found) - _MAX_REASONS} more" if len(found) > _MAX_REASONS else ""
    return ClauseAnswer(clause, "deviates", "; ".join(found[:_MAX_REASONS]) + more)


def _is_measured(record: Record) -> bool:
    return bool(record.trials) or record.imported is not None


def _untold(clause: Clause, records: Sequence[Record]) -> str:
    """Return why the files of other programs cannot answer a clause; empty if they can."""
    for source in (record.imported for record in records):
        if source is not None:
            for check in clause.checks:
                axis = check.parameters.get("axis")
                if check.name not in OF_GOALS and field_name(axis or "") not in source.axes:
                    return f"the file of {source.tool} does not show it"
    return ""


def _as_named(parameters: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("-", "_"): value for name, value in parameters.items()}


def _first(texts: Sequence[str]) -> str:
    return texts[0].splitlines()[0] if texts else ""
