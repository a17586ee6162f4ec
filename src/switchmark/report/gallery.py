"""The HTML page of all experiments from the literature: their figures with measured values, and the
outcome of the papers' claims by run.

Each figure has the results of all sides: of each run, or of runs that repeat each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.papers.experiment import Drawn, Experiment, Published
from switchmark.papers.points import Point
from switchmark.papers.published import published_points
from switchmark.plots.base import scale_of_metric
from switchmark.report.drawn import Side, paper_charts
from switchmark.report.files import write_file
from switchmark.report.judged import Judged
from switchmark.report.matrix import RunSide, matrix
from switchmark.report.page import page_of
from switchmark.report.paper import claim_mark
from switchmark.report.paper_page import (
    Figures,
    assumptions,
    citation,
    experiment_id,
    method_of,
    odds,
    values_table,
)
from switchmark.report.paper_words import axis_title

_STILL_MARKS = 2500
"""The number of marks up to which charts have static pictures for readers without scripts. The
page's script draws later charts."""


@dataclass(frozen=True, slots=True)
class GalleryEntry:
    """An experiment of the gallery: its results by label of the side, and the points of the paper's
    values, by which the claims are judged, too. An experiment that no run measured has the results
    of an empty run."""

    results: Mapping[str, Judged]
    paper_points: Sequence[Point]

    @property
    def first(self) -> Judged:
        return next(iter(self.results.values()))

    @property
    def experiment(self) -> Experiment:
        return self.first.experiment

    @property
    def is_measured(self) -> bool:
        return any(result.measured for result in self.results.values())

    def count(self, verdict: str) -> int:
        """Return the number of claims with this answer on all sides that measured any point."""
        every = [result for result in self.results.values() if result.measured]
        answers = [{c.id: a.verdict for c, a in result.answers} for result in every]
        ids = [claim.id for claim in self.experiment.claims]
        return sum(bool(answers) and all(a[name] == verdict for a in answers) for name in ids)


def check_gallery(output: Path) -> None:
    """Raise UsageError for a file without the suffix of a page."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"the gallery is an HTML page, and '{output.name}' has another suffix",
            hint=f"-o {output.stem or 'gallery'}.html; one experiment as a picture: "
            "switchmark paper --from RUN -o FILE.svg",
        )


def write_gallery(
    output: Path, experiments: Sequence[GalleryEntry], sides: Sequence[RunSide]
) -> None:
    """Write the page of these experiments, with the arguments of `gallery_page`."""
    write_file(output, gallery_page(experiments, sides))


def gallery_page(
    experiments: Sequence[GalleryEntry],
    sides: Sequence[RunSide] = (),
    *,
    still_marks: int = _STILL_MARKS,
) -> str:
    """Return the page of experiments, sorted by paper.

    `sides` are the runs, or groups of runs that repeat each other, in the order of time. Charts
    have static pictures up to a total of `still_marks` marks.
    """
    figures = Figures()
    parts = ["<main id='main'>", *_lead(experiments), _contents(experiments)]
    parts.append(matrix(sides, [shown.results for shown in experiments]))
    marks = 0
    for paper, of_paper in groupby(experiments, lambda shown: shown.experiment.paper):
        chosen = list(of_paper)
        publication, name = chosen[0].experiment.source, escape(paper)
        of_what = f"{publication.title}. {publication.venue}, {publication.year}."
        parts.append(
            f"<section aria-labelledby='{name}'><h2 id='{name}'>{name}</h2>"
            f"<p>{escape(publication.authors)}: {escape(of_what)}</p>"
            f"<p>Their testbed: {escape(publication.bed)}.</p>{citation(chosen[0].first)}"
        )
        for shown in chosen:
            parts.append(_head(shown))
            measured = {name: result for name, result in shown.results.items() if result.measured}
            results = measured or shown.results
            labels = results if len(results) > 1 else [""]
            drawn = paper_charts([*map(Side, labels, results.values())])
            for figure in drawn:
                chart = figure.chart()
                marks += len(chart.marks) if chart else 0
                parts.append(figures.add(figure, still=marks <= still_marks))
            parts += [] if any(figure.chart() for figure in drawn) else [_undrawn(shown)]
            parts.append(_claims(shown, measured))
            for label, result in measured.items():
                parts += [f"<h4>{escape(label)}</h4>"] * (len(measured) > 1)
                parts += [values_table(result), method_of(result, testbed=False)]
            parts.append("</section>")
        parts.append("</section>")
    title = "switchmark: experiments of the literature"
    return page_of(title, [*parts, "</main>"], figures.charts)


def _lead(experiments: Sequence[GalleryEntry]) -> list[str]:
    """Return the first sentences of the page."""
    papers = len({shown.experiment.paper for shown in experiments})
    values = sum(len(shown.experiment.published) for shown in experiments)
    claims = sum(len(shown.experiment.claims) for shown in experiments)
    sentences = [f"{_number(len(experiments), 'result')} of {_number(papers, 'paper')}, with "
            f"{_number(values, 'published value')} and {_number(claims, 'claim')}."]  # fmt: skip
    begun = [shown for shown in experiments if shown.is_measured]
    if begun:
        counts = ", ".join(
            f"{sum(shown.count(verdict) for shown in begun)} {label}"
            for verdict, label in (
                ("holds", "hold"),
                ("does not hold", "do not hold"),
                ("cannot be told", "cannot be told"),
            )
        )
        some = _number(len(begun), "result")
        several = any(len(shown.results) > 1 for shown in begun)
        where = " in all runs" if several else ""
        sentences.append(
            f"Measured here, at least in part: {some}. Of their claims {counts}{where}."
        )
    else:
        sentences.append(
            "None of them was measured for this page. The charts show published values only."
        )
    return [f"<p class='answer'>{escape(sentence)}</p>" for sentence in sentences]


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _contents(experiments: Sequence[GalleryEntry]) -> str:
    """Return links to all experiments, in a collapsible list for each paper."""
    lists = []
    for paper, of_paper in groupby(experiments, lambda shown: shown.experiment.paper):
        chosen = list(of_paper)
        rows = "".join(
            f"<li><a href='#{escape(experiment_id(shown.first))}'>"
            f"{escape(shown.experiment.name)}</a>: "
            f"{escape(shown.experiment.summary)}{escape(_counts(shown))}</li>"
            for shown in chosen
        )
        begun = sum(shown.is_measured for shown in chosen)
        summary = f"{paper}: {_number(len(chosen), 'result')}" + (
            f", {begun} measured here" if begun else ""
        )
        lists.append(f"<details><summary>{escape(summary)}</summary><ul>{rows}</ul></details>")
    return f"<nav aria-label='experiments'>{''.join(lists)}</nav>"


def _counts(shown: GalleryEntry) -> str:
    if not shown.is_measured or not shown.experiment.claims:
        return ""
    held, against = shown.count("holds"), shown.count("does not hold")
    return f" ({len(shown.experiment.claims)} claims: {held} hold here, {against} do not)"


def _head(shown: GalleryEntry) -> str:
    experiment, name = shown.experiment, escape(experiment_id(shown.first))
    place = f"{experiment.place}."
    for label, result in shown.results.items():
        measured = sum(bool(point.figures) for point in result.points)
        where = f" in {label}" if len(shown.results) > 1 else " here"
        place += f" {measured} of {len(result.points)} points measured{where}." * bool(measured)
    place += f" It shares the runs of {experiment.same_runs_as}." if experiment.same_runs_as else ""
    return (
        f"<section aria-labelledby='{name}'><h3 id='{name}'>{escape(experiment.name)}: "
        f"{escape(experiment.summary)}</h3><p>{escape(place)} "
        f"<code>switchmark paper {escape(experiment.name)}</code></p>"
        + ("" if shown.is_measured else assumptions(shown.first))
    )


def _undrawn(shown: GalleryEntry) -> str:
    """Return the published values as text for an experiment without a chart, or the quantities that
    the paper shows."""
    rows = "".join(f"<li>{escape(_published_text(row))}</li>" for row in shown.experiment.published)
    if rows:
        return f"<p>Published:</p><ul>{rows}</ul>"
    drawn = ", ".join(dict.fromkeys(map(_axes_of, shown.experiment.figures)))
    return f"<p>The paper gives no numeric values. It shows {escape(drawn)}.</p>"


def _axes_of(figure: Drawn) -> str:
    return f"{scale_of_metric(figure.y).title} against {axis_title(figure.x)}"


def _published_text(row: Published) -> str:
    place = ", ".join(f"{axis} {value}" for axis, value in row.at.items())
    return f"{row.metric}{' at ' if place else ''}{place}: {row}"


def _claims(shown: GalleryEntry, measured: Mapping[str, Judged]) -> str:
    """Return the claims with their answers by the paper's values and by measured values."""
    if not shown.experiment.claims:
        return ""
    published = published_points(shown.experiment, shown.paper_points)
    rows = []
    for number, claim in enumerate(shown.experiment.claims):
        says = escape(claim.says) + ("" if claim.said else " (deduced from its values)")
        by_paper = claim.judge(published).verdict
        in_paper = {"cannot be told": "too few values"}.get(by_paper, by_paper)
        in_paper += f": {claim.contradicted}" if claim.contradicted else ""
        here = ""
        for result in measured.values():
            answer, mark = result.answers[number][1], claim_mark(result.doubts_of(claim))
            here += f"<td>{mark}{answer.verdict}</td><td class='words'>{escape(answer.why)}</td>"
        rows.append(
            f"<tr><td class='words'>{says}</td><td class='words'>{escape(in_paper)}</td>{here}</tr>"
        )
    names = ["claim", "in the paper's values"]
    for label in measured:
        names += [f"{label}" if len(measured) > 1 else "here", "why"]
    head = "".join(f"<th scope='col'>{escape(name, quote=False)}</th>" for name in names)
    label = f"claims of {escape(shown.experiment.name)}"
    below = odds(next(iter(measured.values()))) if measured else ""
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{label}'>"
        f"<table><caption>The paper's claims</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{below}"
    )
