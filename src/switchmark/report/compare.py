"""This module puts tests side by side, of two runs or of one: how much faster, and how sure that
is.

The figure of a test is the received rate (`pps`), or the median latency (`ns`) of a test of
latency. A difference is said to be one where two things agree: a permutation test of the repeats,
and the 95 % interval of the ratio of their medians.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from switchmark.metrics.latency import latency_ns
from switchmark.metrics.statistics import difference_p, ratio_interval
from switchmark.metrics.throughput import is_lower_bound, rates_pps, received
from switchmark.model.labels import label, telling
from switchmark.model.objects import Printed
from switchmark.model.record import SCHEMA, Record
from switchmark.model.spec import AXES, Test
from switchmark.model.units import format_pps
from switchmark.report.figures import BOUND_MARK, BOUND_NOTE, format_ns
from switchmark.report.json import origin, plain, to_object
from switchmark.report.notes import version_told

__all__ = ["MIN_REPEATS", "Pair", "as_object", "pairs", "print_pairs", "within"]

MIN_REPEATS = 4
"""Of each side: with fewer, chance alone can part them by more than one time in twenty."""

_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair is two records: `base` is what `other` is compared with; None where one run has no
    such test.

    `before` and `after` are their figures, None of a test that failed or was refused. `ratio_low`
    and `ratio_high` are the 95 % interval of the ratio, `p` the odds that chance alone parts the
    repeats so far; None where there are too few of them.
    """

    base: Record | None
    other: Record | None
    before: float | None
    after: float | None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p: float | None = None

    @property
    def sides(self) -> tuple[Record | None, Record | None]:
        return self.base, self.other

    @property
    def test(self) -> Test:
        """Return the test that is compared with the base's; that of the base where there is no
        other."""
        record = self.other or self.base
        assert record is not None
        return record.test

    @property
    def unit(self) -> str:
        return "ns" if self.test.dimension == "latency" else "pps"

    @property
    def bounds(self) -> tuple[bool, bool]:
        """Say of each figure whether it is a rate that the traffic program limits, so that the
        switch may be faster."""
        one, other = (
            self.unit == "pps"
            and record is not None
            and record.status == "ok"
            and is_lower_bound(record.verdict)
            for record in self.sides
        )
        return one, other

    @property
    def is_whole(self) -> bool:
        """Say whether both tests were measured."""
        return all(record is not None and record.status == "ok" for record in self.sides)

    @property
    def is_lacking(self) -> bool:
        """Say whether a test that was to be compared was not measured: it failed, it was refused,
        or the later run does not have it. One that only the later run has is none."""
        return self.base is not None and not self.is_whole

    @property
    def is_too_short(self) -> bool:
        """Say whether there are too few repeats to tell a difference from chance."""
        return self.is_whole and any(
            record is not None and len(_repeats(record, self.unit)) < MIN_REPEATS
            for record in self.sides
        )

    @property
    def is_untold(self) -> bool:
        """Say whether nobody can tell if both, which were measured, differ."""
        return self.is_whole and self.difference is None

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def difference(self) -> str | None:
        """Return `faster by 12..15 %`, `slower by 3..4 %`, or `no difference shown`; None where
        there are too few repeats to tell. Less latency is faster."""
        if self.p is None or self.ratio_low is None or self.ratio_high is None:
            return None
        if self.p > _ALPHA or self.ratio_low <= 1 <= self.ratio_high:
            return "no difference shown"
        more = self.ratio_low > 1
        faster = more if self.unit == "pps" else not more
        ends = sorted(abs(ratio - 1) * 100 for ratio in (self.ratio_low, self.ratio_high))
        return f"{'faster' if faster else 'slower'} by {ends[0]:.2g}..{ends[1]:.2g} %"

    def is_slower_by(self, percent: float) -> bool:
        """Say whether a slowdown is shown, of so many percent or more by the ratio of the
        medians."""
        if self.ratio is None or not (self.difference or "").startswith("slower"):
            return False
        return abs(self.ratio - 1) * 100 >= percent


def pairs(before: Sequence[Record], after: Sequence[Record]) -> list[Pair]:
    """Return the tests of `before`, in order, each with that of `after`, whatever their seed; then
    those that only `after` has."""
    others = {_identity(record.test): record for record in after}
    compared = [_pair(record, others.pop(_identity(record.test), None)) for record in before]
    return compared + [_pair(None, record) for record in others.values()]


def within(records: Sequence[Record]) -> list[Pair]:
    """Return the tests of one run that differ in the first of its telling axes only, such as the
    switch: each is compared with the first of its kind."""
    axes = telling([record.test for record in records])
    if not axes:
        return []
    axis = "switch" if "switch" in axes else axes[0]
    first: dict[Test, Record] = {}
    compared = []
    for record in records:
        alike = _identity(record.test).model_copy(update={axis: None})
        if alike in first:
            compared.append(_pair(first[alike], record))
        first.setdefault(alike, record)
    return compared


def as_object(pair: Pair) -> Printed:
    """Return the pair as the JSON object of `--json`, in the words of `report.json`."""
    return {
        "schema": SCHEMA,
        "unit": pair.unit,
        "before": _side(pair.base, pair.before),
        "after": _side(pair.other, pair.after),
        "ratio": plain(pair.ratio),
        "ratio95": plain(None if pair.ratio_low is None else [pair.ratio_low, pair.ratio_high]),
        "p": plain(pair.p),
        "difference": pair.difference,
    }


def _side(record: Record | None, figure: float | None) -> Printed | None:
    if record is None:
        return None
    content = to_object(record)
    kept = ("status", "error", "test", "semantics", "verdict", "lower_bound", "doubts", "repeats")
    return {**origin(record), **{name: content[name] for name in kept}, "figure": plain(figure)}


def print_pairs(compared: Sequence[Pair], stream: IO[str]) -> None:
    """Print a line for each pair: both figures, their ratio, and what it says; then what was not
    compared, and why."""
    axes = telling([record.test for pair in compared for record in pair.sides if record])
    both = [pair for pair in compared if None not in pair.sides]
    names = [_name(pair, axes) for pair in both]
    width = max(map(len, names), default=0)
    print(f"{'':{width}}  {'before':>12}  {'after':>12}  ratio", file=stream)
    for name, pair in zip(names, both, strict=True):
        before, after = _figures(pair)
        ratio = "-" if pair.ratio is None else f"{pair.ratio:.3f}"
        note = "" if pair.difference is None else f"  {pair.difference} (p {pair.p:.2g})"
        print(f"{name:{width}}  {before:>12}  {after:>12}  {ratio}{note}", file=stream)
    for line in _notes(compared, axes):
        print(line, file=stream)


def _notes(compared: Sequence[Pair], axes: Sequence[str]) -> list[str]:
    notes = []
    for pair in compared:
        for when, record in zip(("before", "after"), pair.sides, strict=True):
            if record is None:
                other = "after" if when == "before" else "before"
                notes.append(f"{label(pair.test, axes)}: only in the run {other}")
            elif record.status != "ok":
                why = (record.error or "no reason is known").partition("\n")[0]
                notes.append(f"{label(record.test, axes)}: {record.status} {when}: {why}")
    notes += [note for pair in compared for note in _versions(pair)]
    if any(any(pair.bounds) for pair in compared):
        notes.append(BOUND_NOTE)
    notes += [f"{both}: different work; do not rank across them" for both in _kinds(compared)]
    if any(pair.is_too_short for pair in compared):
        notes.append(f"without --repeat {MIN_REPEATS} or more, chance is not ruled out")
    if any(pair.is_untold and not pair.is_too_short for pair in compared):
        notes.append("a figure of 0, or none, has no ratio")
    return list(dict.fromkeys(notes))


def _versions(pair: Pair) -> Iterator[str]:
    """Say which versions of a switch are compared, or of several, where their names do not tell."""
    if pair.base is None or pair.other is None:
        return
    before, after = version_told(pair.base), version_told(pair.other)
    switches = pair.base.test.switch, pair.other.test.switch
    if before != after and before and after and len({s.partition("@")[0] for s in switches}) == 1:
        yield f"versions: {switches[0]} {before} before, {switches[1]} {after} after"


def _kinds(compared: Sequence[Pair]) -> list[str]:
    """Return the semantics that are compared with other ones, of tests that were measured."""
    kinds = {
        (pair.base.semantics, pair.other.semantics)
        for pair in compared
        if pair.base and pair.other and pair.is_whole
    }
    return sorted(f"{one}, {other}" for one, other in kinds if one and other and one != other)


def _figures(pair: Pair) -> tuple[str, str]:
    form = format_ns if pair.unit == "ns" else format_pps
    before, after = (
        record.status
        if record is not None and record.status != "ok"
        else f"{BOUND_MARK * bound}{form(figure) or '-'}"
        for record, figure, bound in zip(
            pair.sides, (pair.before, pair.after), pair.bounds, strict=True
        )
    )
    return before, after


def _name(pair: Pair, axes: Sequence[str]) -> str:
    name = label(pair.test, axes)
    if pair.base is None or _identity(pair.base.test) == _identity(pair.test):
        return name
    return f"{name} against {label(pair.base.test, axes)}"


def _identity(test: Test) -> Test:
    """Return a test without what its campaign has for all tests, such as the seed."""
    usual = {name: axis.default for name, axis in AXES.items() if axis.of_campaign}
    return test.model_copy(update=usual)


def _pair(before: Record | None, after: Record | None) -> Pair:
    pair = Pair(before, after, _figure(before), _figure(after))
    if before is None or after is None or not pair.is_whole or pair.is_too_short:
        return pair
    one, other = _repeats(before, pair.unit), _repeats(after, pair.unit)
    interval = ratio_interval(one, other)
    if interval is None:
        return pair
    return Pair(before, after, pair.before, pair.after, *interval, difference_p(one, other))


def _figure(record: Record | None) -> float | None:
    """Return the received rate, or the median latency of a test of latency; None if it did not end
    well."""
    if record is None or record.status != "ok":
        return None
    if record.test.dimension == "latency":
        latency = latency_ns(record)
        return latency.p50 if latency else None
    return (received(record) or {}).get("pps")


def _repeats(record: Record, unit: str) -> list[float]:
    if unit == "pps":
        return rates_pps(record)
    medians = [trial.latency.p50 for trial in record.trials if trial.latency]
    return [float(one) for one in medians if one is not None]
