"""The HTML page of all experiments from the literature: their figures with measured values, and the
outcome of the papers' claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.papers.experiment import Drawn, Published
from switchmark.papers.points import Point
from switchmark.papers.published import published_points
from switchmark.plots.base import scale_of_metric
from switchmark.plots.chart import Chart
from switchmark.report.drawn import assumptions, axis_title, experiment_charts, experiment_id, odds
from switchmark.report.files import write_file
from switchmark.report.page import figure_of_page, page_of
from switchmark.report.paper import Judged

_STILL_MARKS = 2500
"""The number of marks up to which charts have static pictures for readers without scripts. The
page's script draws later charts."""


def check_gallery(output: Path) -> None:
    """Raise UsageError for a file without the suffix of a page."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"the gallery is an HTML page, and '{output.name}' has another suffix",
            hint=f"-o {output.stem or 'gallery'}.html; one experiment as a picture: "
            "switchmark paper NAME -o FILE.svg",
        )


def write_gallery(
    output: Path,
    results: Sequence[Judged],
    paper_points: Mapping[str, Sequence[Point]],
    runs: Sequence[str],
) -> None:
    """Write the page of these experiments, with the arguments of `gallery_page`."""
    write_file(output, gallery_page(results, paper_points, runs))


def gallery_page(
    results: Sequence[Judged],
    paper_points: Mapping[str, Sequence[Point]],
    runs: Sequence[str] = (),
    *,
    still_marks: int = _STILL_MARKS,
) -> str:
    """Return the page of experiments, sorted by paper.

    `paper_points` are the points of the experiments at the paper's values, by which the claims are
    judged too. `runs` are the names of the measured runs. Charts have static pictures up to a total
    of `still_marks` marks.
    """
    drawn: list[Chart] = []
    parts = ["<main id='main'>", *_lead(results, runs), _contents(results)]
    marks = 0
    for paper, group in groupby(results, lambda result: result.experiment.paper):
        of_paper = list(group)
        publication = of_paper[0].experiment.source
        name, of_what = (
            escape(paper),
            f"{publication.title}. {publication.venue}, {publication.year}.",
        )
        parts.append(
            f"<section aria-labelledby='{name}'><h2 id='{name}'>{name}</h2>"
            f"<p>{escape(publication.authors)}: {escape(of_what)}</p>"
            f"<p>Their testbed: {escape(publication.bed)}.</p>"
        )
        for result in of_paper:
            parts.append(_head(result))
            charts = experiment_charts(result)
            for chart in charts:
                marks += len(chart.marks)
                still = marks <= still_marks
                parts.append(figure_of_page(chart, len(drawn), still=still))
                drawn.append(chart)
            parts += ["" if charts else _undrawn(result)]
            parts += [_claims(result, paper_points[result.experiment.name]), "</section>"]
        parts.append("</section>")
    return page_of("switchmark: experiments of the literature", [*parts, "</main>"], drawn)


def _lead(results: Sequence[Judged], runs: Sequence[str]) -> list[str]:
    """Return the first sentences of the page."""
    papers = len({result.experiment.paper for result in results})
    values = sum(len(result.experiment.published) for result in results)
    claims = sum(len(result.answers) for result in results)
    sentences = [f"{_number(len(results), 'result')} of {_number(papers, 'paper')}, with "
            f"{_number(values, 'published value')} and {_number(claims, 'claim')}."]  # fmt: skip
    begun = [result for result in results if _is_measured(result)]
    if begun:
        counts = ", ".join(
            f"{sum(result.count(verdict) for result in begun)} {label}"
            for verdict, label in (
                ("holds", "hold"),
                ("does not hold", "do not hold"),
                ("cannot be told", "cannot be told"),
            )
        )
        some = _number(len(begun), "result")
        sentences.append(f"Measured here, at least in part: {some}. Of their claims {counts}.")
    else:
        sentences.append(
            "None of them was measured for this page. The charts show published values only."
        )
    lead = [f"<p class='answer'>{escape(sentence)}</p>" for sentence in sentences]
    return [*lead, f"<p>Runs: {escape(', '.join(runs))}.</p>" if runs else ""]


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _is_measured(result: Judged) -> bool:
    return any(record is not None for record in result.records)


def _contents(results: Sequence[Judged]) -> str:
    """Return links to all experiments, in a collapsible list for each paper."""
    lists = []
    for paper, of_paper in groupby(results, lambda result: result.experiment.paper):
        chosen = list(of_paper)
        rows = "".join(
            f"<li><a href='#{escape(experiment_id(result))}'>{escape(result.experiment.name)}</a>: "
            f"{escape(result.experiment.summary)}{escape(_counts(result))}</li>"
            for result in chosen
        )
        begun = sum(map(_is_measured, chosen))
        summary = f"{paper}: {_number(len(chosen), 'result')}" + (
            f", {begun} measured here" if begun else ""
        )
        lists.append(f"<details><summary>{escape(summary)}</summary><ul>{rows}</ul></details>")
    return f"<nav aria-label='experiments'>{''.join(lists)}</nav>"


def _counts(result: Judged) -> str:
    if not _is_measured(result) or not result.answers:
        return ""
    held, against = result.count("holds"), result.count("does not hold")
    return f" ({len(result.answers)} claims: {held} hold here, {against} do not)"


def _head(result: Judged) -> str:
    experiment, name = result.experiment, escape(experiment_id(result))
    measured = sum(bool(point.figures) for point in result.points)
    place = f"{experiment.place}."
    place += f" {measured} of {len(result.points)} points measured here." if measured else ""
    place += f" It shares the runs of {experiment.same_runs_as}." if experiment.same_runs_as else ""
    return (
        f"<section aria-labelledby='{name}'><h3 id='{name}'>{escape(experiment.name)}: "
        f"{escape(experiment.summary)}</h3><p>{escape(place)} "
        f"<code>switchmark paper {escape(experiment.name)}</code></p>{assumptions(experiment)}"
    )


def _undrawn(result: Judged) -> str:
    """Return the published values as text for an experiment without a chart, or the quantities that
    the paper shows."""
    rows = "".join(
        f"<li>{escape(_published_text(row))}</li>" for row in result.experiment.published
    )
    if rows:
        return f"<p>Published:</p><ul>{rows}</ul>"
    drawn = ", ".join(dict.fromkeys(map(_axes_of, result.experiment.figures)))
    return f"<p>The paper gives no numeric values. It shows {escape(drawn)}.</p>"


def _axes_of(figure: Drawn) -> str:
    return f"{scale_of_metric(figure.y).title} against {axis_title(figure.x)}"


def _published_text(row: Published) -> str:
    place = ", ".join(f"{axis} {value}" for axis, value in row.at.items())
    return f"{row.metric}{' at ' if place else ''}{place}: {row}"


def _claims(result: Judged, points: Sequence[Point]) -> str:
    """Return the claims with their answers by the paper's values and by measured values."""
    if not result.answers:
        return ""
    published = published_points(result.experiment, points)
    begun = _is_measured(result)
    rows = []
    for claim, answer in result.answers:
        says = escape(claim.says) + ("" if claim.said else " (deduced from its values)")
        by_paper = claim.judge(published).verdict
        in_paper = {"cannot be told": "too few values"}.get(by_paper, by_paper)
        in_paper += f": {claim.contradicted}" if claim.contradicted else ""
        here = (
            f"<td>{answer.verdict}</td><td class='words'>{escape(answer.why)}</td>" if begun else ""
        )
        rows.append(
            f"<tr><td class='words'>{says}</td><td class='words'>{escape(in_paper)}</td>{here}</tr>"
        )
    names = ("claim", "in the paper's values", *(("here", "why") if begun else ()))
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    label = f"claims of {escape(result.experiment.name)}"
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{label}'>"
        f"<table><caption>The paper's claims</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{odds(result)}"
    )
