"""The selection of pairs to compare: tests of two sides, or tests of the same runs along an axis.

A side is one run or several runs. This module does not use figures or statistics.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from switchmark.errors import UsageError
from switchmark.model.axis import key_of
from switchmark.model.labels import following, telling, varying
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test

Runs = Sequence[Sequence[Record]]
"""The records of one run, or of several runs that repeat each other."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Two sides of a comparison: the records of one test, with one record for each run, and those
    of another test or of the same test. A side is empty if its run lacks the test."""

    base: tuple[Record, ...]
    other: tuple[Record, ...]
    are_two_runs: bool = False
    """Whether the sides come from two runs, which did not take turns."""

    @property
    def both(self) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        return self.base, self.other


def between(before: Runs, after: Runs, ignore: Collection[str] = ()) -> list[Sides]:
    """Return the tests of `before` in order with their counterparts in `after`, regardless of the
    seed and the axes to ignore; then the tests that only `after` has."""
    bases, others = by_test(before, ignore), by_test(after, ignore)
    paired = [_sides(records, others.pop(test, ()), True) for test, records in bases.items()]
    return paired + [Sides((), records) for records in others.values()]


def within(runs: Runs, ignore: Collection[str] = ()) -> list[Sides]:
    """Return all pairs of tests that differ on one axis only: the switch if it varies, else the
    first axis that distinguishes the tests."""
    records = by_test(runs, ignore)
    axes = [axis for axis in telling(list(records)) if axis not in ignore]
    if not axes:
        return []
    axis = "switch" if "switch" in axes else axes[0]
    return [
        _sides(one, other, len(runs) > 1)
        for group in _alike(records, axis)
        for one, other in itertools.combinations(group.values(), 2)
    ]


def against(runs: Runs, base: str, ignore: Collection[str] = ()) -> list[Sides]:
    """Return the tests with the base test that differs on one axis only, where it has the value
    `base`: VALUE, or AXIS=VALUE. Raise UsageError if no axis has the value."""
    records = by_test(runs, ignore)
    axis, value = _axis_of(base, list(records), ignore)
    return [
        _sides(group.get(value, ()), other, len(runs) > 1)
        for group in _alike(records, axis)
        for name, other in group.items()
        if name != value
    ]


def identity(test: Test, ignore: Collection[str] = ()) -> Test:
    """Return a test without the values that its campaign sets for all tests, such as the seed, and
    without the axes to ignore."""
    usual = {
        name: axis.default for name, axis in AXES.items() if axis.of_campaign or name in ignore
    }
    return test.model_copy(update=usual)


def parted_by(before: Runs, after: Runs) -> list[str]:
    """Return the keys of the axes on which the most similar tests of two sides differ."""
    pairs = itertools.product(by_test(before, ()), by_test(after, ()))
    apart = (tuple(varying(pair)) for pair in pairs)
    return [key_of(axis) for axis in min(apart, key=len, default=())]


def by_test(runs: Runs, ignore: Collection[str]) -> dict[Test, tuple[Record, ...]]:
    """Return the records by test, with one record for each run. Raise UsageError if tests of one
    run differ only on axes to ignore."""
    by_test: dict[Test, tuple[Record, ...]] = {}
    for records in runs:
        tests = [identity(record.test, ignore) for record in records]
        for record, test in zip(records, tests, strict=True):
            if ignore and Counter(tests)[test] > 1:
                keys = ", ".join(map(key_of, ignore))
                raise UsageError(
                    f"tests of one run differ only in {keys}, for example test {record.number},"
                    " so their counterparts are ambiguous",
                    hint="--ignore only axes with one value per run",
                )
            by_test[test] = (*by_test.get(test, ()), record)
    return by_test


def defined_alike(sides: Sequence[Sides]) -> tuple[list[Sides], list[str]]:
    """Return the sides whose figures have one definition, and why the others cannot be compared.
    Raise UsageError if no side is left."""
    alike, reasons = [], dict[str, None]()
    for side in sides:
        reason = _other_definition(side)
        if reason is None:
            alike.append(side)
        else:
            reasons[reason] = None
    if sides and not alike:
        raise UsageError("no figures can be compared\n  " + "\n  ".join(reasons))
    return alike, list(reasons)


def _other_definition(side: Sides) -> str | None:
    """Return why the figures of two sides are defined differently; None if they are not. Two files
    of one program have the same definitions."""
    records = [*side.base, *side.other]
    tools = {record.imported.tool if record.imported else None for record in records}
    if len(tools) < 2:
        return None
    test = records[0].test
    about = f"{test.switch}, {test.frame_size} bytes"
    for record in records:
        if record.imported is not None and record.imported.differs:
            goal, reason = next(iter(record.imported.differs.items()))
            return f"{about}, {goal}: {reason}"
    sizes = {record.test.frame_size for record in records}
    if len(sizes) > 1 and any(isinstance(size, str) for size in sizes):
        return f"{about}: the mixes of frame sizes differ: {', '.join(sorted(map(str, sizes)))}"
    return None


def _sides(base: tuple[Record, ...], other: tuple[Record, ...], several: bool) -> Sides:
    """Return two sides. They count as two runs if there are several runs, and each side has one
    record from a different run."""
    two_runs = several and len(base) == len(other) == 1
    if two_runs and base[0].origin and other[0].origin:
        two_runs = base[0].origin != other[0].origin or base[0].test == other[0].test
    return Sides(base, other, two_runs)


def _alike(
    records: dict[Test, tuple[Record, ...]], axis: str
) -> list[dict[str, tuple[Record, ...]]]:
    """Return groups of tests that are equal except for an axis and the axes that follow it, by the
    value of that axis."""
    freed = dict.fromkeys((axis, *following(list(records), axis)))
    groups: dict[Test, dict[str, tuple[Record, ...]]] = {}
    for test, of_test in records.items():
        alike = groups.setdefault(test.model_copy(update=freed), {})
        alike[str(getattr(test, axis))] = of_test
    return list(groups.values())


def _axis_of(base: str, tests: Sequence[Test], ignore: Collection[str]) -> tuple[str, str]:
    """Return the axis that has the base as a value, and the value."""
    values = {
        axis: list(dict.fromkeys(str(getattr(test, axis)) for test in tests))
        for axis in sorted(varying(tests), key=lambda axis: axis != "switch")
        if axis not in ignore
    }
    for axis, axis_values in values.items():
        for value in axis_values:
            if base in (value, f"{key_of(axis)}={value}"):
                return axis, value
    choices = [f"{key_of(axis)} {', '.join(axis_values)}" for axis, axis_values in values.items()]
    raise UsageError(
        f"--base: no axis that varies has the value '{base}'"
        f"\n  {'; '.join(choices) or 'no axis varies'}",
    )
