"""These tests compare figures as text with stored ones: rates, times, shares and intervals at the
values where their form changes, and the outcome of every recorded run in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from golden.test_figures import all_records, drawn
from golden_cases import counted, text_of_cases
from switchmark.errors import UsageError
from switchmark.metrics.doubts import SPOILS, severity_of
from switchmark.metrics.doubts import TABLE as DOUBTS
from switchmark.metrics.named import METRICS, PATTERNS, figure_of, metric, scale_of
from switchmark.metrics.repeats import FIGURES
from switchmark.metrics.searched import SearchValue
from switchmark.model.record import Record
from switchmark.model.search import Goal, SearchResult
from switchmark.report import figures
from switchmark.report.json import to_object

Golden = Callable[[str, str], None]

NS = (None, 0, 0.4, 0.5, 1, 849.6, 999.4, 999.5, 1e3, 1234.5, 9.994e5, 1e6, 3.21e8, 1e9, 7.2e12)

MEDIANS: tuple[tuple[int | None, int | None, int], ...] = (
    *((None, 5, 0), (44_321, None, 0), (44_321, 9, 0), (44_321, 99, 5), (44_321, 123, 0)),
    *((44_321, 1234, 30), (44_321, 44_320, 0), (44_321, 44_321, 0), (44_321, 60_000, 20_000)),
    *((999, 5, 0), (999_950, 5_000, 0), (1_949_999, 12_345, 0), (0, 0, 0)),
)

SHARES = (0.0, 1e-9, 0.0000999, 0.0001, 0.000126, 0.01249, 0.5, 0.99994, 1.0, 1.25, -0.0001)

GOALS = ("ndr", "pdr", "r+", "R+", "0.1", "10", "1.5", "back-to-back", "90 %", "abc", "abcd")


def of_goal(goal: str, **changes: Any) -> Goal:
    return Goal(goal=goal, **{"loss_ratio": 0.005, "rate_pps": 1e6, "low_pps": 1e6, **changes})


def test_figures_in_words(golden: Golden) -> None:
    lines = [f"{ns} ns: {figures.format_ns(ns)}" for ns in NS]
    for median, wrong, stamps in MEDIANS:
        error = None if wrong is None else {"median_ns": wrong, "stamps_ns": stamps}
        text = figures.format_median({"p50": median, "error": error})
        lines.append(f"median {median}, wrong by {wrong} of which stamps {stamps}: {text}")
    lines += [f"share {share}: {figures.percent(share)}" for share in SHARES]
    lines += [f"{n} of {of}: {figures.share(n, of)}" for n, of in ((0, 0), (0, 3), (1, 3), (5, 0))]
    for r_plus_pps in (None, 2e6):
        search = SearchResult(name="x", trials=1, goals=(), r_plus_pps=r_plus_pps)
        names = [figures.goal_name(of_goal(goal), search) for goal in GOALS]
        lines.append(f"goals with an R+ of {r_plus_pps}: {names}")
    for high_pps in (None, 1e6, 1.004e6, 1.1e6):
        lines.append(
            f"precision up to {high_pps}: {figures.precision(of_goal('x', high_pps=high_pps))}"
        )
    for doubts in ((), ("short",), ("cpu-stolen",), ("foreign-frames", "short"), ("gate",)):
        lines.append(f"mark of {doubts}: '{figures.doubt_mark(doubts)}'")
    lines.append(f"note: {figures.BOUND_NOTE}")
    golden("words/figures.txt", "\n".join([*lines, ""]))


def test_doubts_and_metrics_in_words(golden: Golden) -> None:
    told = {"what they spoil": [f"{name}: {text}" for name, text in SPOILS.items()]}
    for name, doubt in DOUBTS.items():
        said = [f"  {field.name}: {getattr(doubt, field.name)}" for field in fields(doubt)]
        told[name] = [*said[1:], f"  cure: {doubt.cure}", f"  severity: {doubt.severity}"]
    golden("words/doubts.txt", text_of_cases(told))
    lines = [f"{name} [{one.unit}]: {one.description}" for name, one in METRICS.items()]
    lines += [f"pattern {pattern}: {meaning}" for pattern, meaning in PATTERNS.items()]
    for name in (*METRICS, "latency.p99.9_us", "latency.p33_us", "profile.symbol.x"):
        ways = figure_of(name), figure_of(name, less=True)
        shown = [f"{one.name} [{one.unit}] {one.either_way}" for one in ways]
        lines.append(f"compared by {name}: {', '.join(shown)}, times {scale_of(name)}")
    for name in ("latency.p0_us", "latency.p100_us", "latency.p99us", "profile.symbol.", "xyz"):
        with pytest.raises(UsageError) as refused:
            metric(name)
        lines.append(f"{refused.value.message}; {refused.value.hint}")
    lines += [f"{one.name} [{one.unit}] {one.more_is_better}" for one in FIGURES.values()]
    golden("words/metrics.txt", "\n".join([*lines, ""]))


def test_repeats_in_words(golden: Golden) -> None:
    lines = []
    for unit in ("pps", "ns", "frames"):
        for scale in (1e-3, 1.0, 12_345.0):
            few = [scale * value for value in drawn(1, 3, 0.05)]
            many = [scale * value for value in drawn(2, 14, 0.05)]
            value = 100 * scale
            lines += [
                f"{value:g} {unit}: {figures.scaled_figure(value, unit)}",
                *(
                    f"  {figures.repeated_figure(value, some, unit, count)}"
                    for some in (few[:0], few[:1], few[:2], few, many)
                    for count in (True, False)
                ),
                *(
                    f"  {figures.with_interval(value, low, high, unit)}"
                    for low in (None, 0.9 * value)
                    for high in (None, 1.2 * value)
                ),
                *(
                    f"  {figures.with_repeats(value, some, interval, unit, *word)}"
                    for some in (few[:0], few[:1], few[:2], few)
                    for interval in (None, (0.9 * value, None))
                    for word in ((), ("searches",), ("runs",))
                ),
            ]
            for found in ([*few], [*few, None], [None], [*many], [*many, None]):
                values = [SearchValue(one, one, None, False, None) for one in found]
                lines.append(f"  searched {figures.searched_figure(value, values, unit)}")
    golden("words/repeats.txt", "\n".join([*counted(lines), ""]))


def kind_of(record: Record) -> tuple[object, ...]:
    """Return what the words about a record depend on. One record of a kind is shown."""
    latency = any(trial.latency for trial in record.trials)
    named = record.test.dimension, record.status, record.verdict, record.test.search
    return *named, latency, len(record.trials), severity_of(record.doubts)


def test_outcomes_in_words(golden: Golden) -> None:
    lines = []
    kinds = {kind_of(record): record for record in all_records()}
    for record in kinds.values():
        content = to_object(record)
        text = [figures.outcome(record), f"cable {figures.cable_latency(content)}"]
        text.append(figures.rate(content))
        if content["rx"] is not None:
            for count in (True, False):
                text.append(figures.sure_rate(record, content, count=count))
                text.append(figures.sure_latency(record, content, count=count))
        lines.append(" | ".join(text))
    golden("words/outcomes.txt", "\n".join([*lines, ""]))
