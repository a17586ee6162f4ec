"""Comparisons of tests: the differences of their figures, and the tests that fail a condition.

`report.pairing` selects the pairs, and `metrics.difference` tests for a difference.
`report.compare_table`, `compare_markdown` and `junit` write the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from switchmark.errors import UsageError
from switchmark.metrics.difference import Difference, differences
from switchmark.metrics.family import Results
from switchmark.metrics.repeats import FIGURES, Figure, main_figure, repeats_of
from switchmark.model.objects import Printed
from switchmark.model.record import SCHEMA, Record
from switchmark.model.test import Test
from switchmark.report.conditions import Condition
from switchmark.report.json import origin, plain, to_object
from switchmark.report.pairing import Sides
from switchmark.report.undecided import in_the_way, why_undecided

State = Literal["passed", "failed", "cannot tell", ""]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tests, and the difference of a figure."""

    base: tuple[Record, ...]
    """The records of the first test; empty if its run lacks the test."""
    other: tuple[Record, ...]
    """The records of the second test; empty if its run lacks the test."""
    difference: Difference
    """The difference."""

    @property
    def sides(self) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        return self.base, self.other

    @property
    def test(self) -> Test:
        """Return the test of `other`, or of `base` if there is no other."""
        return (self.other or self.base)[0].test

    @property
    def figure(self) -> Figure:
        return self.difference.figure

    @property
    def is_whole(self) -> bool:
        """Return whether both tests were measured."""
        return all(
            bool(records) and all(record.status == "ok" for record in records)
            for records in self.sides
        )

    @property
    def is_lacking(self) -> bool:
        """Return whether a test is missing from the comparison: it failed, it was refused, or the
        later run lacks it. A measured test that only the later run has is not missing."""
        if self.base:
            return not self.is_whole
        return any(record.status != "ok" for record in self.other)

    @property
    def is_undecided(self) -> bool:
        """Return whether both tests were measured without a decision."""
        return self.is_whole and not self.difference.is_decided


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a comparison fails: the pair, the condition as written (None if a test was not
    measured), and the finding."""

    pair: Pair
    condition: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A pair for which a condition can be neither confirmed nor excluded."""

    pair: Pair
    condition: str

    @property
    def reason(self) -> str:
        """Return the reason, with the number of rounds that would decide."""
        return why_undecided(self.pair.difference, in_the_way(self.pair.difference))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a comparison."""

    pairs: tuple[Pair, ...]
    """The pairs, main figures first."""
    conditions: tuple[Condition, ...] = ()
    """The conditions that the user gave."""
    failures: tuple[Failure, ...] = field(default=())
    """The pairs that violate a condition."""
    unknown: tuple[Unknown, ...] = field(default=())
    """The pairs for which a condition cannot be decided."""

    def failures_of(self, pair: Pair) -> list[Failure]:
        return [failure for failure in self.failures if failure.pair is pair]

    def unknown_of(self, pair: Pair) -> list[Unknown]:
        return [case for case in self.unknown if case.pair is pair]

    def state(self, pair: Pair) -> State:
        """Return the state of a pair. It is empty if no condition applies to a measured pair, or if
        there is nothing to compare with."""
        if self.failures_of(pair):
            return "failed"
        if self.unknown_of(pair):
            return "cannot tell"
        if pair.is_whole and any(_applies(condition, pair) for condition in self.conditions):
            return "passed"
        return ""


def compared(
    sides: Sequence[Sides],
    conditions: Sequence[Condition] = (),
    margin: float | None = None,
    results: Results | None = None,
    *,
    unknown_fails: bool = False,
) -> Comparison:
    """Compare the tests of these sides by their main figures and by the figures in the conditions.

    `margin` is the difference that counts as the same; the default is the smallest amount in the
    conditions on that figure, or 1 %. `results` are all results that may be compared with each
    other and include the sides; without them, the sides are planned pairs. With `unknown_fails`, an
    undecided condition fails too. Raise UsageError for a figure that no test has.
    """
    mains = [main_figure((side.other or side.base)[0]) for side in sides]
    by_side: dict[int, Pair] = {}
    for figure in dict.fromkeys(mains):
        chosen = [index for index, main in enumerate(mains) if main is figure]
        relevant = [
            condition for condition in conditions if condition.figure in (None, figure.name)
        ]
        pairs = _pairs([sides[index] for index in chosen], figure, relevant, margin, results)
        by_side |= dict(zip(chosen, pairs, strict=True))
    all_records = [by_side[index] for index in range(len(sides))]
    for name in dict.fromkeys(condition.figure for condition in conditions if condition.figure):
        figure = FIGURES[name]
        further = [side for side, main in zip(sides, mains, strict=True) if main is not figure]
        relevant = [condition for condition in conditions if condition.figure == name]
        pairs = _pairs(further, figure, relevant, margin, results)
        comparable = [pair for pair in pairs if pair.is_whole and _has_figure(pair)]
        measured = [pair for pair in all_records if pair.is_whole]
        if measured and not comparable and figure not in mains:
            raise UsageError(f"--fail-on {name}: no test measured it")
        all_records += comparable
    failures = [failure for pair in all_records for failure in _failures(pair, conditions)]
    unknown = [
        Unknown(pair, condition.text)
        for pair in all_records
        for condition in conditions
        if pair.is_whole
        and _applies(condition, pair)
        and condition.holds(pair.difference) == "cannot tell"
    ]
    if unknown_fails:
        failures += [
            Failure(case.pair, case.condition, f"cannot tell: {case.reason}") for case in unknown
        ]
        unknown = []
    return Comparison(tuple(all_records), tuple(conditions), tuple(failures), tuple(unknown))


def _has_figure(pair: Pair) -> bool:
    return bool(pair.difference.before.values and pair.difference.after.values)


def _pairs(
    sides: Sequence[Sides],
    figure: Figure,
    conditions: Sequence[Condition],
    margin: float | None,
    results: Results | None,
) -> list[Pair]:
    """Return the pairs by a figure, for the conditions on it."""
    if margin is None:
        margin = min(
            (condition.amount for condition in conditions if condition.amount), default=None
        )
    values = []
    for pair in sides:
        by_run = max(map(len, pair.both)) > 1
        before, after = (repeats_of(side, figure, by_run=by_run) for side in pair.both)
        values.append((before, after))
    found = differences(figure, values, margin, [side.are_two_runs for side in sides])
    if results is not None:
        found = [
            results.difference(side.base[0], side.other[0], figure, margin)
            if all(side.both)
            else planned
            for side, planned in zip(sides, found, strict=True)
        ]
    return [
        Pair(side.base, side.other, difference)
        for side, difference in zip(sides, found, strict=True)
    ]


def _applies(condition: Condition, pair: Pair) -> bool:
    """Return whether a condition applies to the figure of a pair."""
    if condition.is_undecided:
        return True
    if condition.figure is None:
        return pair.figure is main_figure((pair.other or pair.base)[0])
    return condition.figure == pair.figure.name


def _failures(pair: Pair, conditions: Sequence[Condition]) -> list[Failure]:
    if pair.is_lacking:
        return [Failure(pair, None, _why_lacking(pair))]
    if not pair.is_whole:
        return []
    return [
        Failure(pair, condition.text, reason)
        for condition in conditions
        if (reason := _why(pair, condition))
    ]


def _why(pair: Pair, condition: Condition) -> str | None:
    """Return why a measured pair fails a condition; None if it does not fail."""
    difference = pair.difference
    if not _applies(condition, pair) or condition.holds(difference) != "yes":
        return None
    if condition.is_undecided:
        return "undecided"
    change = "more frames lost" if pair.figure.unit == "share" else "worse"
    percent = difference.amount * 100
    least = "at least " * difference.is_at_least
    return f"{least}{percent:{'.2g' if percent < 99.5 else '.0f'}} % {change}"


def _why_lacking(pair: Pair) -> str:
    if not pair.other:
        return "it is only in the run before"
    for when, records in zip(("before", "after"), pair.sides, strict=True):
        for record in records:
            if record.status != "ok":
                why = (record.error or "unknown reason").partition("\n")[0]
                return f"{record.status} {when}: {why}"
    raise AssertionError("both were measured")


def as_object(
    pair: Pair, failures: Sequence[Failure] = (), unknown: Sequence[Unknown] = ()
) -> Printed:
    """Return the pair as the JSON object of `--json`, with the names of `report.json`."""
    difference = pair.difference
    share = pair.figure.unit == "share"
    return {
        "schema": SCHEMA,
        "by": pair.figure.name,
        "unit": pair.figure.unit,
        "before": _side(pair.base, difference, 0),
        "after": _side(pair.other, difference, 1),
        "ratio": plain(None if share else difference.change),
        "ratio95": plain(None if share else difference.interval),
        "change": plain(difference.change if share else None),
        "change95": plain(difference.interval if share else None),
        "p": plain(difference.p),
        "reason": difference.reason or None,
        "rounds_needed": difference.needed,
        "comparisons": difference.of,
        "margin": plain(difference.margin),
        "difference": difference.word if pair.is_whole else None,
        "failures": [
            {"condition": failure.condition, "reason": failure.reason} for failure in failures
        ],
        "cannot_tell": [{"condition": case.condition, "reason": case.reason} for case in unknown],
    }


def _side(records: Sequence[Record], difference: Difference, side: int) -> Printed | None:
    if not records:
        return None
    content = to_object(records[0])
    members = (
        "status",
        "error",
        "test",
        "semantics",
        "verdict",
        "lower_bound",
        "doubts",
        "repeats",
    )
    repeats = (difference.before, difference.after)[side]
    return {
        **origin(records[0]),
        **{name: content[name] for name in members},
        "runs": [record.origin and record.origin.run for record in records],
        "figure": plain(repeats.middle),
        "ci95": plain(repeats.interval),
    }
