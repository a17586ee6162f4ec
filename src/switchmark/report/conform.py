"""The answers to a standard as lines, as Markdown, as an object for `--json`, and as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from statistics import mean
from typing import Any

from switchmark.metrics.outage import outages
from switchmark.model.printable import printable
from switchmark.model.record import Record
from switchmark.model.search import Goal
from switchmark.model.units import format_pps, mean_frame_bytes, parse_line_rate
from switchmark.plots.chart import Chart, Mark, Reference, Scale
from switchmark.report.cells import in_markdown
from switchmark.report.figures import format_ns
from switchmark.report.page import figure_of_page, html_table, page_of
from switchmark.standards.judging import ClauseAnswer, Judgement
from switchmark.standards.standard import BINDING, Clause, ClauseCheck, Standard

_WIDTH = 100
_MARKS = {"met": "✓", "deviates": "✗", "not tested": "?", "not applicable": "-"}
_WEIGHED = (("MUST", BINDING), ("SHOULD", ("SHOULD",)), ("MAY", ("MAY",)))
_LATENCY = (
    "Latency counts from the time at which a frame should have left the sender to its arrival in "
    "the receiving program. Of the definitions of RFC 1242, that for store-and-forward devices is "
    "the nearest; the time that a frame waits in the sender is added."
)
_CAUTION = (
    "This is a laboratory test (RFC 6815). It says how a benchmark was run, not how good a switch "
    "is."
)

# --- words -------------------------------------------------------------------------------------


def verdict(judgement: Judgement) -> str:
    """Return the last line: FULL or PARTIAL, with the counts of clauses by weight and answer."""
    counts = []
    for name, obligations in _WEIGHED:
        each = [
            f"{number} {word}"
            for word in _MARKS
            if (number := judgement.count(word, obligations))  # type: ignore[arg-type]
        ]
        if each:
            counts.append(f"{name}: {', '.join(each)}")
    standard = judgement.standard
    second_hand = any(clause.source != "read" for clause in standard.clauses)
    reasons = ["clauses second-hand"] if second_hand else []
    reasons += ["clauses not listed"] if standard.unlisted else []
    reasons += ["quick run"] if judgement.quick else []
    word = "FULL" if judgement.is_full else "PARTIAL"
    if word == "PARTIAL" and reasons:
        word += f" ({', '.join(reasons)})"
    return f"{word}: {judgement.standard.document}: {'; '.join(counts)}"


def lines_of(judgement: Judgement) -> Iterator[str]:
    """Yield the lines about a switch: each clause with its answer, then the open clauses, and the
    verdict last."""
    about = f", {printable(judgement.switch)}" if judgement.switch else ""
    yield f"{judgement.standard.document}: {judgement.standard.title}{about}"
    width = max(len(answer.clause.id) for answer in judgement.answers) + 1
    for answer in judgement.answers:
        clause = answer.clause
        source = "" if clause.source == "read" else " [second-hand]"
        yield from _wrapped(
            f"{_MARKS[answer.word]} {clause.id:<{width}}{clause.obligation:<10}{answer.word:<15}",
            f"{clause.asks}{source}" + (f": {printable(answer.why)}" if answer.why else ""),
        )
    for name, obligations in _WEIGHED[:2]:
        ids = [
            answer.clause.id
            for answer in judgement.answers
            if answer.is_open and answer.clause.obligation in obligations
        ]
        yield from _wrapped(f"open {name}: ", ", ".join(ids) or "none")
    if unlisted := judgement.standard.unlisted:
        yield from _wrapped("not listed: ", unlisted)
    yield verdict(judgement)


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=" " * min(len(head), 12)
    ) or [head.rstrip()]


def markdown_of(judgements: Sequence[Judgement], records: Sequence[Record]) -> str:
    """Return the answers as Markdown, with the tables that the standard asks for."""
    lines = []
    for judgement in judgements:
        lines += [f"# {in_markdown(judgement.standard.document)}", "", verdict(judgement), ""]
        if unlisted := judgement.standard.unlisted:
            lines += [f"Not listed: {in_markdown(unlisted)}.", ""]
        lines += ["| clause | obligation | answer | asks | why |", "|---|---|---|---|---|"]
        lines += [
            "| " + " | ".join(map(in_markdown, _cells(answer))) + " |"
            for answer in judgement.answers
        ]
        for caption, head, rows in _tables(_of(judgement, records)):
            lines += ["", f"**{in_markdown(caption)}**", "", f"| {' | '.join(head)} |"]
            lines += ["|" + "---|" * len(head)]
            lines += ["| " + " | ".join(map(in_markdown, row)) + " |" for row in rows]
        lines += ["", _LATENCY, "", _CAUTION, ""]
    return "\n".join(lines)


def object_of(judgement: Judgement) -> dict[str, Any]:
    """Return the answers of a switch as an object for `--json`."""
    return {
        "schema": 1,
        "standard": judgement.standard.name,
        "document": judgement.standard.document,
        "switch": judgement.switch,
        "quick": judgement.quick,
        "word": "FULL" if judgement.is_full else "PARTIAL",
        "musts_met": judgement.is_met,
        "second_hand": any(c.source != "read" for c in judgement.standard.clauses),
        "unlisted": judgement.standard.unlisted or None,
        "counts": {
            name.lower(): {
                word.replace(" ", "_"): judgement.count(word, obligations)  # type: ignore[arg-type]
                for word in _MARKS
            }
            for name, obligations in _WEIGHED
        },
        "clauses": [
            {
                "id": answer.clause.id,
                "obligation": answer.clause.obligation,
                "asks": answer.clause.asks,
                "source": answer.clause.source,
                "answer": answer.word,
                "why": answer.why or None,
            }
            for answer in judgement.answers
        ],
    }


def _cells(answer: ClauseAnswer) -> tuple[str, ...]:
    clause = answer.clause
    source = "" if clause.source == "read" else " (second-hand)"
    return (clause.id, clause.obligation, answer.word, clause.asks + source, answer.why)


def _of(judgement: Judgement, records: Sequence[Record]) -> list[Record]:
    return [
        record
        for record in records
        if record.test.switch == judgement.switch
        and record.status == "ok"
        and (record.search or outages(record))
    ]


# --- the tables and graphs of the standards ----------------------------------------------------

_Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def _tables(records: Sequence[Record]) -> Iterator[_Table]:
    """Yield the tables of throughput and latency, of loss, of bursts, and of outages."""
    found = _found(records, "ndr")
    if found:
        yield (
            "Throughput and latency at it (RFC 2544, 26.1 and 26.2)",
            ("size", "throughput", "limit of the medium", "mean latency", "trials"),
            [
                (
                    _where(record),
                    _rate(goal.rate_pps),
                    _rate(_medium_pps(record)),
                    _time(goal.latency_ns.mean if goal.latency_ns else None),
                    str(len(record.trials)),
                )
                for record, goal in found
            ],
        )
    losses = [record for record in records if record.search and record.search.name == "frame-loss"]
    if losses:
        yield (
            "Frame loss (RFC 2544, 26.3)",
            ("size", "load", "rate", "lost", "forwarding rate (RFC 2889)"),
            [
                (
                    _where(record),
                    goal.goal,
                    _rate(goal.rate_pps),
                    f"{goal.loss_ratio:.3%}",
                    _rate(_forwarded_pps(goal)),
                )
                for record in losses
                for goal in (record.search.goals if record.search else ())
            ],
        )
        yield (
            "Highest forwarding rate (RFC 2889, 5.1.4.2 and 5.6.5)",
            ("size", "highest forwarding rate", "at load", "forwarding rate at the highest load"),
            [
                (
                    _where(record),
                    _rate(_forwarded_pps(best)),
                    f"{best.goal}, {_rate(best.rate_pps)}",
                    _rate(_forwarded_pps(goals[0])),
                )
                for record in losses
                for goals in [record.search.goals if record.search else ()]
                if goals
                for best in [max(goals, key=lambda goal: _forwarded_pps(goal) or 0.0)]
            ],
        )
    both = [*_found(records, "mlr"), *_found(records, "mlr:csit")]
    if both:
        yield (
            "Goals of MLRsearch (draft-ietf-bmwg-mlrsearch, 4.6 and 4.8)",
            (
                *("size", "goal", "result", "relevant lower bound", "relevant upper bound"),
                *("conditional throughput", "exceed ratio", "width", "trials: first, final, sum"),
            ),
            [(_where(record), *_mlr_cells(goal)) for record, goal in both],
        )
    bursts = _found(records, "back-to-back")
    if bursts:
        yield (
            "Back-to-back frames (RFC 2544, 26.4; RFC 9004, 7)",
            ("size", "mean", "min, max, stdev", "N", "buffer", "corrected buffer", "step, limit"),
            [(_where(record), *_burst_cells(goal)) for record, goal in bursts],
        )
    resets = [record for record in records if outages(record)]
    if resets:
        yield (
            "Reset time, the means of trials (RFC 6201, 1.4)",
            (
                *("size", "event", "rate", "lost frames", "reset time by lost frames"),
                *("reset time by times of arrival", "trials"),
            ),
            [(_where(record), *_reset_cells(record)) for record in resets],
        )


def _forwarded_pps(goal: Goal) -> float | None:
    """Return the forwarding rate at a load: the share of its frames that arrived."""
    return None if goal.rate_pps is None else goal.rate_pps * (1 - goal.loss_ratio)


def _mlr_cells(goal: Goal) -> tuple[str, ...]:
    durations = (goal.initial_trial_s, goal.final_trial_s, goal.duration_sum_s)
    result = {True: "regular", False: "IRREGULAR", None: "unknown"}[goal.regular]
    return (
        f"{goal.goal}, loss {goal.loss_ratio:.3%}",
        result,
        *map(_rate, (goal.low_pps, goal.high_pps, goal.conditional_pps)),
        *("unknown" if one is None else f"{one:g}" for one in (goal.exceed_ratio, goal.width)),
        ", ".join("unknown" if one is None else f"{one:g} s" for one in durations),
    )


def _burst_cells(goal: Goal) -> tuple[str, ...]:
    spread = (goal.burst_low, goal.burst_max, goal.burst_stdev)
    return (
        "none" if goal.burst_frames is None else f"{goal.burst_frames:g}",
        ", ".join("unknown" if value is None else f"{value:.6g}" for value in spread),
        str(goal.bursts or "unknown"),
        _time(_ns(goal.buffer_s)),
        _time(_ns(goal.corrected_buffer_s)),
        f"{goal.burst_step or 'unknown'}, {goal.burst_limit or 'unknown'}",
    )


def _reset_cells(record: Record) -> tuple[str, ...]:
    found = outages(record)
    over = "" if all(one.is_over for one in found) else " or longer"
    return (
        record.test.event or "none",
        _rate(record.trials[0].spec.rate_pps or None),
        f"{mean(one.lost for one in found):g}",
        _time(_ns(mean(one.by_loss_s for one in found))) + over,
        _time(_ns(mean(one.by_time_s for one in found))) + over,
        str(len(found)),
    )


def _charts(records: Sequence[Record]) -> Iterator[Chart]:
    """Yield the graph of the throughput by frame size (26.1), and that of the loss (26.3)."""
    rates = [
        (record, goal.rate_pps)
        for record, goal in _found(records, "ndr")
        if goal.rate_pps and isinstance(record.test.frame_size, int)
    ]
    if len({record.test.frame_size for record, _ in rates}) > 1:
        yield Chart(
            "throughput-by-size",
            "Throughput by frame size (RFC 2544, 26.1)",
            "The highest rate without loss by frame size, and the theoretical rate of the link "
            "where one is given.",
            "lines",
            Scale("frame size (bytes)"),
            Scale("throughput of a sender (Mpps)"),
            tuple(
                Mark(_size(record), rate / 1e6, _series(record), switch=record.test.switch)
                for record, rate in sorted(rates, key=lambda pair: _size(pair[0]))
            ),
            references=tuple(
                Reference(medium / 1e6, "theoretical rate", x=_size(record), unit="Mpps")
                for record, _ in sorted(rates, key=lambda pair: _size(pair[0]))
                if (medium := _medium_pps(record))
            ),
        )
    losses = [record for record in records if record.search and record.search.name == "frame-loss"]
    marks = [
        Mark(goal.rate_pps / first * 100, goal.loss_ratio * 100, _series(record, size=True))
        for record in losses
        for goals in [record.search.goals if record.search else ()]
        for first in [goals[0].rate_pps or 1.0 if goals else 1.0]
        for goal in goals
        if goal.rate_pps
    ]
    if marks:
        yield Chart(
            "frame-loss",
            "Frame loss by load (RFC 2544, 26.3)",
            "Lost frames in percent of the frames sent, by load in percent of the maximum rate.",
            "lines",
            Scale("load (% of the maximum rate)"),
            Scale("frame loss (%)"),
            tuple(sorted(marks, key=lambda mark: (mark.series, mark.x))),
            references=(Reference(100, "all frames lost", unit="%"),),
        )


def page_of_conform(judgements: Sequence[Judgement], records: Sequence[Record]) -> str:
    """Return the answers of some switches to a standard as an HTML page."""
    parts, charts = ["<main id='main'>"], list[Chart]()
    for number, judgement in enumerate(judgements):
        own = _of(judgement, records)
        label = f"clauses-{number}"
        parts.append(
            f"<section aria-labelledby='{label}'><h2 id='{label}'>"
            f"{escape(judgement.switch or judgement.standard.name)}</h2>"
            f"<p class='answer'>{escape(verdict(judgement))}</p>"
        )
        if unlisted := judgement.standard.unlisted:
            parts.append(f"<p>Not listed: {escape(unlisted)}.</p>")
        for chart in _charts(own):
            parts.append(figure_of_page(chart, len(charts), caption=True))
            charts.append(chart)
        parts += [html_table(*table) for table in _tables(own)]
        rows = [_cells(answer) for answer in judgement.answers]
        head = ("clause", "obligation", "answer", "asks", "why")
        parts.append(html_table(judgement.standard.title, head, rows, words=("asks", "why")))
        parts.append("</section>")
    parts += [f"<p>{escape(_LATENCY)}</p>", f"<p>{escape(_CAUTION)}</p>", "</main>"]
    document = judgements[0].standard.document if judgements else ""
    return page_of(f"switchmark: {document}", parts, charts)


def _found(records: Sequence[Record], search: str) -> list[tuple[Record, Goal]]:
    """Return the goals of a search with their records."""
    return [
        (record, goal)
        for record in records
        if record.search is not None and record.search.name == search
        for goal in record.search.goals
    ]


def _series(record: Record, *, size: bool = False) -> str:
    test = record.test
    words = [f"{test.frame_size} bytes"] if size else []
    words += ["bi"] if test.direction == "bi" else []
    return ", ".join([*words, f"bursts of {test.burst}"] if not size else words)


def _where(record: Record) -> str:
    test = record.test
    both = ", both directions" if test.direction == "bi" else ""
    return f"{test.frame_size}{both}, bursts of {test.burst}"


def _size(record: Record) -> float:
    return mean_frame_bytes(record.test.frame_size)


def _medium_pps(record: Record) -> float | None:
    if record.test.line_rate is None:
        return None
    return parse_line_rate(record.test.line_rate).per_second(_size(record))


def _rate(pps: float | None) -> str:
    return "none" if pps is None else format_pps(pps)


def _ns(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e9


def _time(nanoseconds: float | None) -> str:
    return "unknown" if nanoseconds is None else format_ns(nanoseconds)


# --- the reference -----------------------------------------------------------------------------


def _check_words(check: ClauseCheck) -> str:
    """Return a predicate with its parameters: `axis-at-least (axis residual, least 2)`."""
    words = ", ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in check.parameters.items()
    )
    return f"{check.name} ({words})" if words else check.name


def _campaigns(clause: Clause) -> str:
    """Return the campaigns that measure a clause, with the axes of its tests."""
    axes = ", ".join(f"{axis} {value or 'none'}" for axis, value in clause.where.items())
    return ", ".join(clause.measured_by) + (f" ({axes})" if axes else "")


def reference_of(
    standards: Sequence[Standard],
) -> Iterator[tuple[str, str, list[Mapping[str, str]]]]:
    """Yield each standard's heading, the clauses that it does not list, and the rows of those that
    it does, for docs/reference."""
    for standard in standards:
        rows: list[Mapping[str, str]] = []
        for _, clauses in groupby(standard.clauses, key=lambda clause: clause.section):
            for clause in clauses:
                tested = ", ".join(map(_check_words, clause.checks))
                exempt = clause.not_applicable
                reason = f"not tested: {clause.untested}" if clause.untested else tested
                if exempt is not None:
                    unless = f" (unless {exempt.unless}: {reason})" if exempt.unless else ""
                    reason = f"not applicable: {exempt.why}{unless}"
                rows.append(
                    {
                        "clause": clause.id,
                        "obligation": clause.obligation,
                        "asks": clause.asks,
                        "source": clause.source,
                        "measured by": _campaigns(clause),
                        "judged by": reason,
                    }
                )
        unlisted = f"Not listed: {standard.unlisted}." if standard.unlisted else ""
        yield f"{standard.name}: {standard.title}, {standard.document}", unlisted, rows
