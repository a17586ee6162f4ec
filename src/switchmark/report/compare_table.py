"""Comparisons as text: differences of the hosts, a line for each pair, undecided pairs with
reasons, and the outcome."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from switchmark.metrics.difference import Difference
from switchmark.metrics.repeats import Repeats
from switchmark.model.labels import label, telling
from switchmark.model.record import Record
from switchmark.model.version import plain_name
from switchmark.report.compare import Comparison, Pair
from switchmark.report.figures import BOUND_MARK, BOUND_NOTE, doubt_mark, repeated_figure
from switchmark.report.host_differences import HostDifference
from switchmark.report.notes import version_text
from switchmark.report.pairing import identity
from switchmark.report.remarks import semantics
from switchmark.report.table import columns_of, drawn
from switchmark.report.undecided import WHY, in_the_way, rounds_that_decide, unit_of_repeats

Names = Sequence[str]
"""The axes that distinguish the tests of a comparison."""


def compare_lines(
    comparison: Comparison,
    hosts: Sequence[HostDifference],
    runs: Sequence[str],
    columns: int | None = None,
) -> Iterator[str]:
    """Yield the lines of a comparison. `runs` are the names of the runs in `hosts`. Words beyond
    `columns` go to the line below their row."""
    yield from host_lines(hosts, runs)
    axes = names_of(comparison)
    whole = [pair for pair in comparison.pairs if pair.base and pair.other]
    heads = ("before", "after") if any(map(_is_one_test, whole)) else ("base", "test")
    for figure, pairs in groupby(whole, key=lambda pair: pair.figure.name):
        rows = [_row(pair, axes) for pair in pairs]
        headings = (figure, *heads, "change" if figure == "loss" else "ratio")
        lines = drawn(columns_of(headings, rows, left=1), rule=False)
        for line, outcome in zip(lines, ("", *(row[-1] for row in rows)), strict=True):
            if columns is None or len(line) + 2 + len(outcome) <= columns:
                yield f"{line}  {outcome}".rstrip()
            else:
                yield from (line, f"    {outcome}")
        yield ""
    for note in notes_of(comparison, runs):
        yield note if columns is None else textwrap.fill(note, columns, subsequent_indent="  ")
    if comparison.conditions or comparison.failures:
        yield result_line(comparison)
        for failure in comparison.failures:
            condition = f"{failure.condition}: " if failure.condition else ""
            yield f"  {name_of(failure.pair, axes)}: {condition}{failure.reason}"
        for case in comparison.unknown:
            yield f"  {name_of(case.pair, axes)}: {case.condition}: cannot tell: {case.reason}"


def host_lines(hosts: Sequence[HostDifference], runs: Sequence[str]) -> list[str]:
    """Return a table of the differences between the runs, or a line if there are no differences.
    Empty for a single run."""
    if len(runs) < 2:
        return []
    if not hosts:
        return ["hosts and versions: the same in all runs", ""]
    rows = [(fact.what, *fact.values) for fact in hosts]
    lines = drawn(columns_of(("", *runs), rows, left=1 + len(runs)), rule=False)
    return ["differences between the runs", *(f"  {line}" for line in lines), ""]


def names_of(comparison: Comparison) -> tuple[str, ...]:
    return telling(
        [record.test for pair in comparison.pairs for side in pair.sides for record in side]
    )


def name_of(pair: Pair, axes: Names) -> str:
    """Return the name of a pair: its test, and the test that it is compared with if they differ."""
    name = label(pair.test, axes)
    if not pair.base or _is_one_test(pair):
        return name
    return f"{name} against {label(pair.base[0].test, axes)}"


def _is_one_test(pair: Pair) -> bool:
    """Return whether the same test was measured in two runs."""
    return bool(pair.base) and identity(pair.base[0].test) == identity(pair.test)


def figure_text(pair: Pair, side: int) -> str:
    """Return a side as text: its figure with its interval and marks for doubts and bounds, or the
    status of a test without results."""
    records = pair.sides[side]
    repeats = (pair.difference.before, pair.difference.after)[side]
    if ended := [record.status for record in records if record.status != "ok"]:
        return ended[0]
    doubts = [doubt for record in records for doubt in record.doubts]
    return doubt_mark(doubts) + BOUND_MARK * repeats.bound + (_figure(pair, repeats) or "-")


def relation_text(difference: Difference) -> str:
    """Return a difference as text: `slower by 3..4 % (p 0.01)`, `faster: at least 2.1 times (p
    0.01)`, `same: -0.3..+0.2 % (within 1 %)`, `undecided: -3..+5 %, needs about 24 rounds`."""
    word = difference.word
    if difference.figure.unit == "share" and word in ("faster", "slower"):
        outcome = "more loss" if word == "slower" else "less loss"
    else:
        outcome = word
    if word == "undecided":
        return f"{word}{_between(difference)}{_obstacle(difference)}"
    if difference.ends is None:
        return outcome
    unit = _unit(difference)
    if word == "same":
        return f"{word}{_between(difference)} (within {_percent(difference.margin)} {unit})"
    if difference.is_at_least and difference.times is not None:
        much = f": at least {_times(difference.times[0])} times"
    else:
        least, most = sorted(map(abs, difference.ends))
        much = f" by {_percent(least)}..{_percent(most)} {unit}"
    return f"{outcome}{much} (p {difference.p:.2g})"


def _between(difference: Difference) -> str:
    """Return the interval of a change as text: `: -3..+5 %`."""
    if difference.ends is None:
        return ""
    low, high = difference.ends
    return f": {_percent(low, '+')}..{_percent(high, '+')} {_unit(difference)}"


def _obstacle(difference: Difference) -> str:
    """Return why a difference is undecided, in a few words."""
    if difference.needed is not None:
        least = "at least" if difference.reason == "few" else "about"
        return f", needs {least} {difference.needed} {unit_of_repeats(difference)}"
    reason = {
        "load": "the offered loads differ",
        "bound": "the traffic generator was the limit",
        "spoiled": "doubted",
        "error": "within the error of the clocks",
    }.get(difference.reason)
    return f" ({reason})" if reason else ""


def _unit(difference: Difference) -> str:
    """Return the unit of a change: percentage points for shares, else percent."""
    return "pp" if difference.figure.unit == "share" else "%"


def _times(factor: float) -> str:
    """Return a ratio as text, rounded down because it is a lower bound."""
    digits = 1 if factor >= 2 else 2
    return f"{math.floor(factor * 10**digits) / 10**digits:.{digits}f}"


def _percent(share: float, sign: str = "") -> str:
    """Return a share in percent with at least two digits."""
    percent = share * 100
    return f"{percent:{sign}.0f}" if abs(percent) >= 10 else f"{percent:{sign}.2g}"


def result_line(comparison: Comparison) -> str:
    """Return a line that counts the outcomes and lists the conditions: `passed: 3, failed: 1,
    cannot tell: 2 (about 24 rounds would); conditions: slower:3%`."""
    count = Counter(map(comparison.state, comparison.pairs))
    parts = [f"passed: {count['passed']}"] if comparison.conditions else []
    if count["failed"]:
        parts.append(f"failed: {count['failed']}")
    if count["cannot tell"]:
        unknown = [
            pair.difference for pair in comparison.pairs if comparison.state(pair) == "cannot tell"
        ]
        rounds = rounds_that_decide(
            [(difference, in_the_way(difference)) for difference in unknown]
        )
        parts.append(f"cannot tell: {count['cannot tell']}{f' ({rounds})' if rounds else ''}")
    conditions = ", ".join(condition.text for condition in comparison.conditions)
    return ", ".join(parts) + (f"; conditions: {conditions}" if conditions else "")


def notes_of(comparison: Comparison, runs: Sequence[str]) -> list[str]:
    """Return the notes below the table: tests that were not compared, and explanations. `runs` are
    the names of the runs."""
    pairs, axes = comparison.pairs, names_of(comparison)
    notes = [note for pair in pairs for note in _of_pair(pair, axes)]
    if any(
        repeats.bound
        for pair in pairs
        for repeats in (pair.difference.before, pair.difference.after)
    ):
        notes.append(BOUND_NOTE)
    notes += semantics(_of_different_work(pairs))
    in_one_run = len(runs) == 1 or all(pair.difference.are_run_by_run for pair in pairs)
    notes += _why_undecided(pairs, in_one_run=in_one_run)
    outcomes = Counter(pair.difference.word for pair in pairs if pair.is_whole)
    if len(pairs) > 1 and outcomes:
        notes.append(", ".join(f"{count} {word}" for word, count in sorted(outcomes.items())))
    return list(dict.fromkeys(notes))


def _why_undecided(pairs: Sequence[Pair], *, in_one_run: bool) -> Iterator[str]:
    """Yield why pairs are undecided, and what would decide more of them."""
    undecided = [pair.difference for pair in pairs if pair.is_undecided]
    for reason in dict.fromkeys(difference.reason for difference in undecided if difference.reason):
        alike = [
            (difference, difference.reason)
            for difference in undecided
            if difference.reason == reason
        ]
        rounds = rounds_that_decide(alike)
        hint = f": {rounds}{'' if rounds.endswith('them') else ' decide'}" if rounds else ""
        two_runs = reason == "chance" and not in_one_run
        one_run = "; measure both in one run" if two_runs else ""
        yield f"undecided: {WHY[reason]}{hint}{one_run}"


def _of_pair(pair: Pair, axes: Names) -> Iterator[str]:
    """Yield tests that were not measured, and the versions of a switch if its name does not show
    them."""
    for when, records in zip(("before", "after"), pair.sides, strict=True):
        if not records:
            other = "later" if when == "before" else "earlier"
            yield f"{label(pair.test, axes)}: only in the {other} run"
        for record in records:
            if record.status != "ok":
                why = (record.error or "unknown reason").partition("\n")[0]
                yield f"{label(record.test, axes)}: {record.status} {when}: {why}"
    if pair.base and pair.other:
        before, after = (version_text(records[0]) for records in pair.sides)
        switches = pair.base[0].test.switch, pair.other[0].test.switch
        alike = len({plain_name(switch) for switch in switches}) == 1
        if before != after and before and after and alike:
            yield f"versions: {switches[0]} {before} before, {switches[1]} {after} after"


def _of_different_work(pairs: Sequence[Pair]) -> list[Record]:
    """Return the measured records that are compared with a record of other semantics."""
    return [
        side[0]
        for pair in pairs
        if pair.is_whole and pair.base[0].semantics != pair.other[0].semantics
        for side in pair.sides
    ]


def _row(pair: Pair, axes: Names) -> tuple[str, str, str, str, str]:
    difference, share = pair.difference, pair.figure.unit == "share"
    change = "-"
    if difference.change is not None:
        change = f"{100 * difference.change:+.2f} pp" if share else f"{difference.change:.3f}"
    name = name_of(pair, axes)
    if pair.figure.name not in ("rate", "latency"):
        name = f"{name}: {pair.figure.name}"
    outcome = relation_text(difference) if pair.is_whole else ""
    return name, figure_text(pair, 0), figure_text(pair, 1), change, outcome


def _figure(pair: Pair, repeats: Repeats) -> str:
    unit, middle = pair.figure.unit, repeats.middle
    if middle is None:
        return ""
    if unit == "share":
        ends, values = repeats.interval, repeats.values
        if ends is not None:
            return f"{middle:.2%} [{ends[0]:.2%}, {ends[1]:.2%}]"
        few = f" ({min(values):.2%}..{max(values):.2%} of {len(values)})" * (len(values) > 1)
        return f"{middle:.2%}{few}"
    return repeated_figure(middle, repeats.values, "ns" if unit == "amount" else unit)
