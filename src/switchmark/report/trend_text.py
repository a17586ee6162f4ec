"""A trend as lines for the terminal, as Markdown and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from xml.etree.ElementTree import Element, SubElement

from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.trend import FEWEST
from switchmark.model.labels import label, telling
from switchmark.model.units import format_pps
from switchmark.report.cells import in_markdown
from switchmark.report.compare_markdown import table_lines
from switchmark.report.figures import format_ns
from switchmark.report.junit import document
from switchmark.report.table import columns_of, drawn
from switchmark.report.trend import Series, Trend

HEAD = ("test", "by", "runs", "level", "last good", "changes")


def trend_lines(trend: Trend) -> Iterator[str]:
    """Yield the lines of a trend: a row for each series, the changes, notes, and the outcome."""
    rows = [row(series, trend) for series in trend.series]
    yield from drawn(columns_of(HEAD, rows, left=2), rule=False)
    yield ""
    for series in trend.series:
        for line in change_lines(series):
            yield f"{name_of(series, trend)}: {line}"
    yield from notes_of(trend)
    if trend.conditions:
        yield result_line(trend)
        for failure in trend.failures:
            yield f"  {name_of(failure.series, trend)}: {failure.condition}: {failure.reason}"


def trend_markdown(trend: Trend) -> str:
    """Return a trend as Markdown, for the summary of a CI job."""
    lines = ["## switchmark trend", ""]
    if trend.conditions:
        lines += [f"**{in_markdown(result_line(trend))}**", ""]
    lines += table_lines(
        (*HEAD, "result"), [(*row(s, trend), state(s, trend)) for s in trend.series]
    )
    changes = [
        f"{name_of(series, trend)}: {line}"
        for series in trend.series
        for line in change_lines(series)
    ]
    lines += ["", *(f"- {in_markdown(line)}" for line in (*changes, *notes_of(trend)))]
    return "\n".join(lines) + "\n"


def trend_junit(trend: Trend) -> str:
    """Return a test suite with a case for each series: a `failure` if a condition holds, `skipped`
    if the series is too short to show a change."""
    failed = {id(failure.series) for failure in trend.failures}
    short = [series for series in trend.series if is_short(series) and id(series) not in failed]
    counts = {"tests": len(trend.series), "failures": len(failed), "skipped": len(short)}
    attributes = {name: str(count) for name, count in counts.items()}
    root = Element("testsuites", attributes)
    suite = SubElement(root, "testsuite", {"name": "switchmark trend", **attributes})
    for series in trend.series:
        group = f"switchmark.{series.figure.name}"
        case = SubElement(suite, "testcase", classname=group, name=name_of(series, trend))
        text = "\n".join(change_lines(series)) or "no change"
        failures = [failure for failure in trend.failures if failure.series is series]
        if failures:
            reasons = "; ".join(f"{one.condition}: {one.reason}" for one in failures)
            conditions = ", ".join(failure.condition for failure in failures)
            SubElement(case, "failure", type=conditions, message=reasons).text = text
        elif is_short(series):
            SubElement(case, "skipped", message=_short(series))
        SubElement(case, "system-out").text = text
    return document(root)


def row(series: Series, trend: Trend) -> tuple[str, ...]:
    """Return the cells of a series under `HEAD`."""
    return (
        name_of(series, trend),
        series.figure.name,
        str(len(series.nights)),
        figure_text(series, series.level(series.states[-1])),
        figure_text(series, series.level(series.states[series.good])) if series.is_worse else "",
        str(len(series.changes)),
    )


def state(series: Series, trend: Trend) -> str:
    """Return the outcome of the conditions for a series."""
    reasons = [f"{one.condition}: {one.reason}" for one in trend.failures if one.series is series]
    if reasons:
        return f"failed: {'; '.join(reasons)}"
    if series.is_cable:
        return "host"
    return "too short" if is_short(series) else "passed" if trend.conditions else ""


def change_lines(series: Series) -> list[str]:
    """Return a line for each change: the run, the amount, the levels, the probability, and what
    else changed with that run."""
    lines = []
    for change, (before, after) in zip(series.changes, pairwise(series.states), strict=True):
        share = series.figure.unit == "share"
        amount = f"{100 * series.amount(before, after):+.2g} {'pp' if share else '%'}"
        levels = " to ".join(figure_text(series, series.level(one)) for one in (before, after))
        what = "drift" if change.kind == "drift" else "change"
        sense = "host" if series.is_cable else "worse" if series.is_for_worse(change) else "better"
        start, found = series.nights[change.start].run, series.nights[change.found].run
        together = "".join(
            f"; {one.what}: {' to '.join(one.values)}" for one in series.differences(change)
        )
        lines.append(
            f"{what} of {amount} ({sense}) since run {start}: {levels}, p {change.p:.2g},"
            f" shown by run {found}{together}"
        )
    return lines


def notes_of(trend: Trend) -> list[str]:
    """Return the notes on how the series were judged."""
    notes = []
    others = [series for series in trend.series if not series.is_cable]
    plain = [series for series in others if not series.uses_cable]
    if len(plain) < len(others):
        notes.append("levels do not contain the changes of each night's baseline")
    if plain:
        count = "" if len(plain) == len(others) else f"{len(plain)} of {len(others)} tests: "
        notes.append(f"{count}without a baseline, changes of the host count as changes")
    if any(series.is_cable and series.changes for series in trend.series):
        notes.append("changes of direct are changes of the host, not of a switch")
    notes += [
        f"{name_of(series, trend)}: {series.left_out} of"
        f" {series.left_out + len(series.nights)} runs left out (no baseline, or no figure)"
        for series in trend.series
        if series.left_out
    ]
    notes += [_doubtful(series, trend) for series in trend.series if _doubts(series)]
    notes += list(dict.fromkeys(_short(series) for series in trend.series if is_short(series)))
    return notes


def _doubts(series: Series) -> list[tuple[str, ...]]:
    """Return the doubts of each run whose figure may be wrong."""
    found = [night.record.doubts for night in series.nights]
    return [doubts for doubts in found if is_doubtful(doubts)]


def _doubtful(series: Series, trend: Trend) -> str:
    runs = _doubts(series)
    counts = Counter(doubt for doubts in runs for doubt in doubts if is_doubtful([doubt]))
    names = ", ".join(f"{doubt} {count}" for doubt, count in counts.most_common(3))
    return (
        f"{name_of(series, trend)}: the figures of {len(runs)} of {len(series.nights)} runs may be"
        f" wrong ({names})"
    )


def result_line(trend: Trend) -> str:
    """Return a line that counts the outcomes and lists the conditions."""
    failed = len({id(failure.series) for failure in trend.failures})
    judged = [series for series in trend.series if not series.is_cable]
    short = sum(is_short(series) for series in judged)
    parts = [f"passed: {len(judged) - failed - short}", f"failed: {failed}"]
    parts += [f"too short: {short}"] if short else []
    conditions = ", ".join(condition.text for condition in trend.conditions)
    return f"{', '.join(parts)}; conditions: {conditions}"


def is_short(series: Series) -> bool:
    """Return whether a series is too short to show any change."""
    return len(series.nights) < FEWEST


def _short(series: Series) -> str:
    return f"too few runs to show any change: {len(series.nights)} of at least {FEWEST}"


def name_of(series: Series, trend: Trend) -> str:
    """Return the name of a series among the others."""
    return label(series.test, telling([one.test for one in trend.series]))


def figure_text(series: Series, value: float) -> str:
    """Return a value of a series with its unit."""
    if series.figure.unit == "share":
        return f"{value:.3%}"
    if series.figure.unit == "frames":
        return f"{value:.0f} frames"
    return format_ns(value) if series.figure.unit == "ns" else format_pps(value)
