"""The HTML page of experiments from papers: a section for each, which says how it was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from switchmark.plots.chart import Chart
from switchmark.report.drawn import PaperChart, Side, paper_charts
from switchmark.report.figures import doubt_mark
from switchmark.report.headline import bibtex
from switchmark.report.judged import Judged
from switchmark.report.page import figure_of_page, page_of
from switchmark.report.paper import ODDS, claim_mark
from switchmark.report.paper_method import departures, paper_method
from switchmark.report.paper_values import ValueRow, published_words, value_rows
from switchmark.report.paper_words import axis_title, bibtex_of, value_text

_FEW_ROWS = 40
"""The number of values up to which a table is open at first."""


class Figures:
    """The charts of a page, which its script draws by their numbers."""

    def __init__(self, charts: list[Chart] | None = None) -> None:
        self.charts = [] if charts is None else charts

    def add(self, figure: PaperChart, *, still: bool = True) -> str:
        """Return a figure as HTML: the chart in its preferred mode, the other mode for the script,
        and the sentences about missing metrics; empty for a figure without anything to show."""
        chart = figure.chart()
        if chart is None:
            return "".join(f"<p>{escape(sentence)}</p>" for sentence in figure.missing)
        number = len(self.charts)
        self.charts.append(chart)
        other = None
        if figure.other is not None:
            other = len(self.charts)
            self.charts.append(figure.other)
        words = "absolute values" if figure.prefers_relative else "relative values"
        return figure_of_page(
            chart, number, still=still, caption=True, other=other, other_words=words
        )


def paper_page(results: Sequence[Judged]) -> str:
    """Return an HTML page of experiments, with their figures and the answers to their claims."""
    figures = Figures()
    parts = ["<main id='main'>", _contents(results)]
    parts += [section_of(result, figures) for result in results]
    names = ", ".join(result.experiment.name for result in results[:3])
    more = f" and {len(results) - 3} more" if len(results) > 3 else ""
    page = [*parts, "</main>"]
    return page_of(f"switchmark: {names}{more}", page, figures.charts)


def sections_of(results: Sequence[Judged], charts: list[Chart]) -> str:
    """Return the sections of experiments for another page, and append their charts to those of the
    page."""
    figures = Figures(charts)
    return "".join(section_of(result, figures) for result in results)


def section_of(result: Judged, figures: Figures) -> str:
    """Return the section of an experiment."""
    charts = [figures.add(figure) for figure in paper_charts([Side("", result)])]
    return "\n".join(
        filter(
            None,
            [
                _head(result),
                *charts,
                claims_table(result),
                values_table(result),
                method_of(result),
                citation(result),
                "</section>",
            ],
        )
    )


def _contents(results: Sequence[Judged]) -> str:
    if len(results) < 2:
        return ""
    rows = "".join(
        f"<li><a href='#{escape(experiment_id(result))}'>{escape(result.experiment.name)}</a>: "
        f"{escape(result.experiment.summary)}; {result.count('holds')} claims hold, "
        f"{result.count('does not hold')} do not, {result.count('cannot be told')} "
        "cannot be told</li>"
        for result in results
    )
    return f"<nav aria-label='experiments'><ul>{rows}</ul></nav>"


def experiment_id(result: Judged) -> str:
    """Return the id of an experiment in links of a page."""
    return result.experiment.name.replace("/", "-")


def _head(result: Judged) -> str:
    experiment, paper = result.experiment, result.experiment.source
    measured = sum(bool(point.figures) for point in result.points)
    return (
        f"<section aria-labelledby='{experiment_id(result)}'><h2 id='{experiment_id(result)}'>"
        f"{escape(experiment.name)}: {escape(experiment.summary)}</h2>"
        f"<p>{escape(paper.authors)}: {escape(paper.title)}, {paper.year}, "
        f"{escape(experiment.place)}. {measured} of {len(result.points)} points measured here.</p>"
    )


def assumptions(result: Judged) -> str:
    """Return the assumptions where the paper is silent."""
    entries = [f"{axis}: {why}" for axis, why in result.experiment.assumptions.items()]
    return _list("Assumptions where the paper is silent", entries)


def method_of(result: Judged, *, testbed: bool = True) -> str:
    """Return how an experiment was measured, what differs from the paper, what the paper leaves
    open, and what was not measured. Without a measurement, return the assumptions only. `testbed`
    adds that of the paper."""
    method = paper_method(result)
    if not method:
        return assumptions(result)
    waiting = Counter(point.untold for point in result.points if point.untold)
    missing = [f"{count} of {len(result.points)} points: {why}" for why, count in waiting.items()]
    bed = f"<p>The paper's testbed: {escape(result.experiment.source.bed)}.</p>" * testbed
    return (
        f"<h3>How it was measured</h3><p>{escape(method)}</p>"
        f"{_list('What differs from the paper', departures(result), opened=True)}"
        f"{assumptions(result)}{_list('What was not measured', missing)}{bed}"
    )


def _list(summary: str, items: Sequence[str], *, opened: bool = False) -> str:
    rows = "".join(f"<li>{escape(item)}</li>" for item in items)
    state = " open" * opened
    return f"<details{state}><summary>{summary}</summary><ul>{rows}</ul></details>" if rows else ""


def citation(result: Judged) -> str:
    """Return the BibTeX entries of the paper and of switchmark."""
    entries = [bibtex_of(result.experiment.source, result.experiment.paper)]
    entries += [bibtex(result.measured)] if result.measured else []
    text = escape("\n\n".join(entries))
    return f"<details><summary>BibTeX</summary><pre tabindex='0'>{text}</pre></details>"


def odds(result: Judged) -> str:
    """Return the error rate of the answers as HTML, if points were measured."""
    return f"<p>{escape(ODDS)}</p>" if result.measured else ""


def claims_table(result: Judged) -> str:
    """Return the claims with their answers and the doubts about them."""
    if not result.answers:
        return ""
    rows = []
    for claim, answer in result.answers:
        says = escape(claim.says) + ("" if claim.said else " (deduced from its values)")
        against = (
            f"<br>contradicted by the paper's own values: {escape(claim.contradicted)}"
            if claim.contradicted
            else ""
        )
        doubts = result.doubts_of(claim)
        doubted = f"<br>doubts: {escape(', '.join(doubts))}" if doubts else ""
        mark = claim_mark(doubts)
        rows.append(
            f"<tr><td class='words'>{says}{against}</td><td>{mark}{answer.verdict}</td>"
            f"<td class='words'>{escape(answer.why)}{doubted}</td></tr>"
        )
    head = "<tr><th scope='col'>claim</th><th scope='col'>here</th><th scope='col'>why</th></tr>"
    return (
        "<div class='scroll' tabindex='0' role='region' aria-label='claims of "
        f"{escape(result.experiment.name)}'>"
        f"<table><caption>The paper's claims</caption><thead>{head}</thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{odds(result)}"
    )


def values_table(result: Judged) -> str:
    """Return the table of measured and published values with their ratios and doubts."""
    rows = value_rows(result)
    if not rows:
        return ""
    has_here = any(row.here for row in rows)
    has_published = any(row.published for row in rows)
    heads = [*map(axis_title, result.experiment.axes), "metric"]
    heads += ["published"] * has_published
    heads += ["here", "here ÷ published", "doubts, or why it is missing"] if has_here else []
    if not has_published and has_here:
        heads.remove("here ÷ published")
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr>{_cells(row, has_published=has_published, has_here=has_here)}</tr>" for row in rows
    )
    uncertain = dict.fromkeys(
        f"{value}: {value.uncertain}" for row in rows for value in row.published if value.uncertain
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in uncertain)
    below = f"<p>?: uncertain</p><ul>{notes}</ul>" if notes else ""
    label = f"values of {escape(result.experiment.name)}"
    opened = " open" * (len(rows) <= _FEW_ROWS)
    return (
        f"<details{opened}><summary>Values</summary>"
        f"<div class='scroll' tabindex='0' role='region' aria-label='{label}'>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{below}</details>"
    )


def _cells(row: ValueRow, *, has_published: bool, has_here: bool) -> str:
    cells = [escape(value_text(axis, value)) for axis, value in row.point.axes.items()]
    cells_of_row = [f"<td>{cell}</td>" for cell in cells]
    cells_of_row.append(f"<td class='metric'>{escape(axis_title(row.metric))}</td>")
    numbers = [published_words(row.published)] * has_published
    if has_here:
        mark = doubt_mark(row.doubts)
        numbers.append(f"{mark}{row.here}" if row.here else row.status.replace("ok", "") or "-")
        numbers += ["-" if row.ratio is None else f"{row.ratio:.3g}"] * has_published
    cells_of_row += [f"<td class='number'>{escape(number)}</td>" for number in numbers]
    notes = ", ".join(row.doubts) or row.why
    cells_of_row += [f"<td class='words'>{escape(notes)}</td>"] * has_here
    return "".join(cells_of_row)
