"""Tests side by side, of two runs or of one: how much faster, and how sure that is.

The figure of a test is the received rate (`pps`), or the median latency (`ns`) of a test of
latency. A difference is said to be one where two things agree: a permutation test of the repeats,
and the 95 % interval of the ratio of their medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from switchmark.campaign.expand import label, telling
from switchmark.metrics.statistics import difference_p, ratio_interval
from switchmark.metrics.throughput import rates_pps
from switchmark.model.record import Record
from switchmark.model.spec import Test
from switchmark.model.units import format_pps
from switchmark.report.json import to_object
from switchmark.report.table import BOUND_MARK, BOUND_NOTE, format_ns

__all__ = ["MIN_REPEATS", "Pair", "as_object", "pairs", "print_pairs", "within"]

MIN_REPEATS = 4
"""Of each side: with fewer, chance alone can part them by more than one time in twenty."""

_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tests: `before` is what `after` is compared with. `ratio_low` and `ratio_high` are the
    95 % interval of the ratio, `p` the odds that chance alone parts the repeats so far; None
    where there are too few of them. `bounds` says of each figure whether it is a rate that the
    traffic program limits, so that the switch may be faster."""

    test: Test
    base: Test
    unit: str
    before: float | None
    after: float | None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p: float | None = None
    semantics: tuple[str | None, str | None] = (None, None)
    bounds: tuple[bool, bool] = (False, False)

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def verdict(self) -> str | None:
        """`faster by 12..15 %`, `slower by 3..4 %`, or `no difference shown`; None where there
        are too few repeats to tell. Less latency is faster."""
        if self.p is None or self.ratio_low is None or self.ratio_high is None:
            return None
        if self.p > _ALPHA or self.ratio_low <= 1 <= self.ratio_high:
            return "no difference shown"
        more = self.ratio_low > 1
        faster = more if self.unit == "pps" else not more
        ends = sorted(abs(ratio - 1) * 100 for ratio in (self.ratio_low, self.ratio_high))
        return f"{'faster' if faster else 'slower'} by {ends[0]:.2g}..{ends[1]:.2g} %"


def pairs(before: Sequence[Record], after: Sequence[Record]) -> list[Pair]:
    """The tests of `before` that `after` has too, whatever their seed, in order."""
    others = {_identity(record.test): record for record in after}
    return [
        _pair(record, others[_identity(record.test)])
        for record in before
        if _identity(record.test) in others
    ]


def within(records: Sequence[Record]) -> list[Pair]:
    """The tests of one run that differ in the first of its telling axes only, such as the
    switch: each is compared with the first of its kind."""
    axes = telling([record.test for record in records])
    if not axes:
        return []
    axis = "switch" if "switch" in axes else axes[0]
    first: dict[Test, Record] = {}
    found = []
    for record in records:
        alike = _identity(record.test).model_copy(update={axis: None})
        if alike in first:
            found.append(_pair(first[alike], record))
        first.setdefault(alike, record)
    return found


def as_object(pair: Pair) -> dict[str, Any]:
    """The pair as JSON can hold it."""
    return {
        "test": pair.test.model_dump(mode="json"),
        "base": pair.base.model_dump(mode="json"),
        "unit": pair.unit,
        "before": pair.before,
        "after": pair.after,
        "ratio": pair.ratio,
        "ratio95": None if pair.ratio_low is None else [pair.ratio_low, pair.ratio_high],
        "p": pair.p,
        "verdict": pair.verdict,
        "lower_bounds": list(pair.bounds),
    }


def print_pairs(found: Sequence[Pair], stream: IO[str]) -> None:
    """A line for each pair: both figures, their ratio, and what it says."""
    axes = telling([test for pair in found for test in (pair.test, pair.base)])
    names = [_name(pair, axes) for pair in found]
    width = max(map(len, names))
    print(f"{'':{width}}  {'before':>12}  {'after':>12}  ratio", file=stream)
    for name, pair in zip(names, found, strict=True):
        before, after = _figures(pair)
        ratio = "-" if pair.ratio is None else f"{pair.ratio:.3f}"
        print(f"{name:{width}}  {before:>12}  {after:>12}  {ratio}{_note(pair)}", file=stream)
    if any(any(pair.bounds) for pair in found):
        print(BOUND_NOTE, file=stream)
    kinds = sorted(
        {f"{one}, {other}" for one, other in (pair.semantics for pair in found) if one != other}
    )
    for both in kinds:
        print(f"{both}: different work; do not rank across them", file=stream)
    if any(pair.verdict is None for pair in found):
        print(f"without --repeat {MIN_REPEATS} or more, chance is not ruled out", file=stream)


def _figures(pair: Pair) -> tuple[str, str]:
    form = format_ns if pair.unit == "ns" else format_pps
    before, after = (
        f"{BOUND_MARK * bound}{form(figure) or '-'}"
        for figure, bound in zip((pair.before, pair.after), pair.bounds, strict=True)
    )
    return before, after


def _note(pair: Pair) -> str:
    return "" if pair.verdict is None else f"  {pair.verdict} (p {pair.p:.2g})"


def _name(pair: Pair, axes: Sequence[str]) -> str:
    name = label(pair.test, axes)
    return name if pair.test == pair.base else f"{name} against {label(pair.base, axes)}"


def _identity(test: Test) -> Test:
    return test.model_copy(update={"seed": 0})


def _pair(before: Record, after: Record) -> Pair:
    first, second = to_object(before), to_object(after)
    unit = "ns" if before.test.dimension == "latency" else "pps"
    base = before.test if _identity(before.test) != _identity(after.test) else after.test
    figures = (after.test, base, unit, _figure(first, unit), _figure(second, unit))
    kinds = (before.semantics, after.semantics)
    rates = unit == "pps"
    bounds = (rates and first["lower_bound"], rates and second["lower_bound"])
    one, other = _repeats(before, unit), _repeats(after, unit)
    if min(len(one), len(other)) < MIN_REPEATS:
        return Pair(*figures, semantics=kinds, bounds=bounds)
    interval = ratio_interval(one, other)
    if interval is None:
        return Pair(*figures, semantics=kinds, bounds=bounds)
    return Pair(*figures, *interval, difference_p(one, other), kinds, bounds)


def _figure(content: dict[str, Any], unit: str) -> float | None:
    found = (content["latency_ns"] or {}).get("p50") if unit == "ns" else content["rx"]
    return found["pps"] if isinstance(found, dict) else found


def _repeats(record: Record, unit: str) -> list[float]:
    if unit == "pps":
        return rates_pps(record)
    medians = [trial.latency.p50 for trial in record.trials if trial.latency]
    return [float(one) for one in medians if one is not None]
