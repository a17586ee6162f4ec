"""Results of an experiment next to the published values, and the answers to the paper's claims.

Hardware differs, so values are only shown, and claims are about orders, ratios and shapes.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import IO

from switchmark.metrics.difference import MIN_REPEATS
from switchmark.metrics.doubts import is_doubtful
from switchmark.model.objects import Printed
from switchmark.papers.claims import Claim
from switchmark.report.cells import in_markdown
from switchmark.report.figures import MARKS, doubt_mark
from switchmark.report.judged import Judged
from switchmark.report.paper_method import departures, missing_metrics
from switchmark.report.paper_values import (
    ValueRow,
    figure_object,
    published_words,
    value_rows,
    values_as_objects,
)
from switchmark.report.paper_words import value_text
from switchmark.report.table import columns_of, drawn

_WIDTH = 100
_BESIDE = " " * 18

ODDS = (
    f"All results of a run are tested together: with {MIN_REPEATS} or more repeats per result, "
    "chance shows a difference between equal results in at most one run of 20."
)
"""The error rate of the answers."""


def as_object(result: Judged) -> Printed:
    """Return the outcome of an experiment as JSON, with all values that the answers are about."""
    records = result.measured
    return {
        "experiment": result.experiment.name,
        "runs": list(dict.fromkeys(r.origin.run for r in records if r.origin)),
        "options": result.asked
        and {
            "quick": result.asked.quick,
            "as_published": result.asked.as_published,
            "axes": dict(result.asked.axes),
        },
        "points": len(result.points),
        "measured": sum(bool(point.figures) for point in result.points),
        "waiting": dict(Counter(point.untold for point in result.points if point.untold)),
        "assumed": result.experiment.assumptions,
        "departures": departures(result),
        "doubts": sorted({doubt for record in records for doubt in record.doubts}),
        "values": values_as_objects(result),
        "claims": [
            {
                "id": claim.id,
                "kind": claim.kind,
                "metric": claim.metric,
                "says": claim.says,
                "said": claim.said,
                "place": claim.place or None,
                "answer": answer.verdict,
                "why": answer.why,
                "rounds_needed": answer.needed,
                "contradicted": claim.contradicted or None,
                "doubts": result.doubts_of(claim),
                "compared": _compared(claim, result),
            }
            for claim, answer in result.answers
        ],
    }


def _compared(claim: Claim, result: Judged) -> list[Printed]:
    """Return the measured figures that a claim compares, by point and metric."""
    metrics = [claim.metric, *([claim.other] if claim.kind == "exceeds" else [])]
    metrics += [claim.x] if claim.kind == "knee" else []
    by_point = {id(p): r for p, r in zip(result.points, result.records, strict=True)}
    return [
        {
            "point": point.name,
            "metric": name,
            **figure_object(point.figures.get(name)),
            "repeats": len(record.trials) if (record := by_point[id(point)]) else 0,
            "verdict": record.verdict if record else None,
            "doubts": list(record.doubts) if record else [],
        }
        for point in claim.members(result.points)
        for name in metrics
        if name in point.figures
    ]


def claims_in_markdown(results: Sequence[Judged]) -> list[str]:
    """Return what differs from the papers and the answers to their claims, as lines of Markdown."""
    lines = []
    for result in results:
        title = f"{result.experiment.name}: {result.experiment.summary}"
        lines += [f"## {in_markdown(title)}", ""]
        lines += [f"- {in_markdown(text)}" for text in departures(result)]
        lines += ["", "| claim | here | why |", "|---|---|---|"]
        for claim, answer in result.answers:
            mark = doubt_mark(result.doubts_of(claim))
            cells = (claim.says, f"{mark}{answer.verdict}", answer.why)
            lines.append(f"| {' | '.join(map(in_markdown, cells))} |")
        lines.append("")
    return lines


def print_judged(result: Judged, stream: IO[str]) -> None:
    """Print what differs from the paper, measured and published values, then the answers to the
    claims."""
    experiment, paper = result.experiment, result.experiment.source
    head = [f"{experiment.name}: {experiment.summary}"]
    head += [f"{paper.authors}, {paper.year}, {experiment.place}"]
    head += [f"assumed: {axis}: {why}" for axis, why in experiment.assumptions.items()]
    head += [f"differs from the paper: {what}" for what in departures(result)]
    for text in head:
        print(*_folded(text, ""), sep="\n", file=stream)
    print(file=stream)
    for line in _tables(result):
        print(line, file=stream)
    waiting = Counter(point.untold for point in result.points if point.untold)
    reasons = [f"{n} of {len(result.points)} points: {why}" for why, n in waiting.most_common()]
    for figure in experiment.figures:
        reasons += missing_metrics(figure, result.measured_at(figure.among))
    for reason in dict.fromkeys(reasons):
        print(*_folded(reason, "  "), sep="\n", file=stream)
    print_claims(result, stream)


def claim_mark(doubts: Collection[str]) -> str:
    """Return the mark before an answer that is based on figures with these doubts; empty if they
    falsify none. It is never a cross, which would look like a refutation."""
    return f"{MARKS['caution']} " if is_doubtful(doubts) else ""


def print_claims(result: Judged, stream: IO[str]) -> None:
    """Print the claims of the paper with their answers."""
    if result.answers:
        print("\nthe paper's claims, here:", file=stream)
    for claim, answer in result.answers:
        doubted = claim_mark(result.doubts_of(claim)).strip() or " "
        deduced = "" if claim.said else " (deduced from its values)"
        lines = [*_folded(claim.says + deduced, _BESIDE), *_folded(answer.why, _BESIDE + "  ")]
        if claim.contradicted:
            note = f"contradicted by the paper's own values: {claim.contradicted}"
            lines += _folded(note, _BESIDE + "  ")
        lines[0] = f"{doubted} {answer.verdict:14}  {lines[0].lstrip()}"
        print(*lines, sep="\n", file=stream)
    if result.answers and result.measured:
        print("", *_folded(ODDS, ""), sep="\n", file=stream)
    if any(is_doubtful(result.doubts_of(claim)) for claim, _ in result.answers):
        print(f"\n{MARKS['caution']} based on figures that may be wrong", file=stream)


def print_summary(results: Sequence[Judged], stream: IO[str]) -> None:
    """Print a line for each experiment."""
    verdicts = ("holds", "does not hold", "cannot be told")
    rows = [
        (
            result.experiment.name,
            f"{sum(bool(point.figures) for point in result.points)} of {len(result.points)}",
            *(str(result.count(verdict)) for verdict in verdicts),
        )
        for result in results
    ]
    headings = ("", "measured", "hold", "do not hold", "cannot be told")
    print(*drawn(columns_of(headings, rows, left=1), rule=False), sep="\n", file=stream)


def _tables(result: Judged) -> list[str]:
    """Return the lines of one table of all metrics, or of a table for each metric if that is too
    wide."""
    rows = value_rows(result)
    metrics = list(dict.fromkeys(row.metric for row in rows))
    together = _table(result, rows)
    if len(metrics) < 2 or max(map(len, together), default=0) <= _WIDTH:
        return together
    groups = groupby(rows, key=lambda row: row.metric)
    return [line for _, of_metric in groups for line in _table(result, [*of_metric])]


def _table(result: Judged, rows: Sequence[ValueRow]) -> list[str]:
    """Return a line for each point with a measured or published metric: its position, then the
    published value, the measured value and their ratio for each metric."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    published = {name for name in metrics if any(r.published for r in rows if r.metric == name)}
    ratios = {name for name in metrics if any(r.ratio for r in rows if r.metric == name)}
    heads = [*result.experiment.axes]
    for name in metrics:
        heads += [f"published {name}"] if name in published else []
        heads += [f"here {name}"] + (["ratio"] if name in ratios else [])
    by_point: dict[int, dict[str, ValueRow]] = {}
    for row in rows:
        by_point.setdefault(id(row.point), {})[row.metric] = row
    lines = []
    for of_point in (by_point[id(p)] for p in result.points if id(p) in by_point):
        point = next(iter(of_point.values())).point
        cells = [value_text(axis, value) for axis, value in point.axes.items()]
        for name in metrics:
            found = of_point.get(name)
            cells += [published_words(found.published if found else ())] * (name in published)
            cells += [_here(found)]
            ratio = found.ratio if found else None
            cells += ["-" if ratio is None else f"{ratio:.3g}"] * (name in ratios)
        lines.append(cells)
    return [*drawn(columns_of(heads, lines), rule=False), ""] if lines else []


def _here(row: ValueRow | None) -> str:
    if row is None or row.here is None:
        return "-" if row is None or row.status in ("", "ok") else row.status
    return f"{doubt_mark(row.doubts)}{row.here}"


def _folded(text: str, indent: str) -> list[str]:
    wrapped = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False)
    return [indent + line for line in wrapped]
