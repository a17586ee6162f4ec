"""Comparisons as Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from switchmark.report.cells import in_markdown
from switchmark.report.compare import Comparison
from switchmark.report.compare_table import (
    figure_text,
    name_of,
    names_of,
    notes_of,
    relation_text,
    result_line,
)
from switchmark.report.host_differences import HostDifference


def compare_markdown(
    comparison: Comparison, hosts: Sequence[HostDifference], runs: Sequence[str]
) -> str:
    """Return the page: differences of the hosts, the outcome with reasons, a row for each pair, and
    notes."""
    return "\n".join(_lines(comparison, hosts, runs)) + "\n"


def _lines(
    comparison: Comparison, hosts: Sequence[HostDifference], runs: Sequence[str]
) -> Iterator[str]:
    yield "## switchmark compare"
    yield ""
    if len(runs) > 1:
        if hosts:
            yield from table_lines(
                ("what differs", *runs), [(fact.what, *fact.values) for fact in hosts]
            )
        else:
            yield "Hosts and versions: the same in all runs."
        yield ""
    if comparison.conditions or comparison.failures:
        yield f"**{in_markdown(result_line(comparison))}**"
        yield ""
    axes = names_of(comparison)
    rows = []
    for pair in comparison.pairs:
        failures = comparison.failures_of(pair)
        reasons = "; ".join(
            ": ".join(filter(None, (failure.condition, failure.reason))) for failure in failures
        )
        figures = (figure_text(pair, side) if pair.sides[side] else "" for side in (0, 1))
        outcome = relation_text(pair.difference) if pair.is_whole else ""
        state: str = comparison.state(pair)
        if failures:
            state = f"failed: {reasons}"
        elif unknown := comparison.unknown_of(pair):
            state = (
                f"cannot tell: {'; '.join(f'{case.condition}: {case.reason}' for case in unknown)}"
            )
        rows.append((name_of(pair, axes), pair.figure.name, *figures, outcome, state))
    yield from table_lines(("test", "by", "before", "after", "difference", "result"), rows)
    yield ""
    yield from (f"- {in_markdown(note)}" for note in notes_of(comparison, runs))


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    for cells in (head, ["---"] * len(head), *rows):
        yield (
            "| " + " | ".join(cell if cell == "---" else in_markdown(cell) for cell in cells) + " |"
        )
