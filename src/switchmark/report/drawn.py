"""Charts of experiments in the design of their papers: measured values, and published values as
separate marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.metrics.distribution import cdf
from switchmark.metrics.doubts import is_doubtful
from switchmark.model.axis import field_name
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.papers.experiment import Drawn, Experiment
from switchmark.papers.points import Point, number
from switchmark.papers.published import published_points
from switchmark.plots.base import scale_of_metric
from switchmark.plots.chart import Chart, Kind, Mark, Scale
from switchmark.plots.latency import thinned
from switchmark.report.files import picture_of, write_file
from switchmark.report.page import figure_of_page, page_of
from switchmark.report.paper import ODDS, Judged

_SUFFIXES = (".html", ".htm", ".svg", ".pdf", ".png")

_KINDS: dict[str, Kind] = {
    "bars": "bars",
    "table": "bars",
    "lines": "lines",
    "points": "points",
    "cdf": "curves",
    "percentiles": "curves",
    "box": "boxes",
}


def experiment_charts(result: Judged) -> list[Chart]:
    """Return a chart for each figure of an experiment that has values."""
    drawn = [
        _chart(result, figure, index) for index, figure in enumerate(result.experiment.figures)
    ]
    return [chart for chart in drawn if chart.marks]


def paper_page(results: Sequence[Judged]) -> str:
    """Return an HTML page of experiments, with their figures and the answers to their claims."""
    drawn: list[Chart] = []
    parts = ["<main id='main'>", _contents(results)]
    for result in results:
        parts.append(_head(result))
        charts = experiment_charts(result)
        parts += [figure_of_page(chart, len(drawn) + index) for index, chart in enumerate(charts)]
        drawn += charts
        parts += [_claims(result), "</section>"]
    names = ", ".join(result.experiment.name for result in results[:3])
    more = f" and {len(results) - 3} more" if len(results) > 3 else ""
    return page_of(f"switchmark: {names}{more}", [*parts, "</main>"], drawn)


def check_drawing(output: Path | None) -> None:
    """Raise UsageError for a file with an unknown suffix, before anything is measured."""
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"'{output.name}' has no suffix of a page or a picture",
            hint=f"-o {output.stem or 'paper'}.html, .svg, .pdf or .png",
        )


def write_papers(output: Path, results: Sequence[Judged]) -> None:
    """Write experiments to an HTML page, or their figures to one picture."""
    if output.suffix.lower() in (".html", ".htm"):
        write_file(output, paper_page(results))
        return
    drawn = [chart for result in results for chart in experiment_charts(result)]
    write_file(output, picture_of(output, drawn))


def _chart(result: Judged, figure: Drawn, index: int) -> Chart:
    experiment = result.experiment
    marks = _curves(result, figure) if figure.kind in ("cdf", "percentiles") else []
    if not marks:
        marks = _marks(result, figure, figure.y)
    scales = _x_scale(result, figure, marks), scale_of_metric(figure.y, log="y" in figure.log)
    if figure.kind == "cdf":
        scales = Scale("latency (us)", log="x" in figure.log), Scale("share", percent=True)
    paper = experiment.source
    return Chart(
        f"{experiment.name}-{index}",
        f"{experiment.name}: {experiment.summary}",
        f"{experiment.summary}, as drawn by {paper.authors} ({paper.year}), {experiment.place}: "
        f"{len(marks)} marks.",
        _KINDS[figure.kind],
        *scales,
        tuple(marks),
        series=", ".join(map(axis_title, figure.by)),
        panels=", ".join(map(axis_title, figure.panels)),
        diagonal=figure.diagonal,
        second=tuple(_marks(result, figure, figure.y2)) if figure.y2 else (),
        y2=scale_of_metric(figure.y2) if figure.y2 else None,
    )


def axis_title(axis: str) -> str:
    """Return the title of an axis or a metric."""
    name = field_name(axis)
    return AXES[name].label if name in AXES else scale_of_metric(axis).title


def _marks(result: Judged, figure: Drawn, metric: str) -> list[Mark]:
    """Return the marks of a metric: published values first, then measured values."""
    marks = []
    published = published_points(result.experiment, result.points)
    for point in published:
        marks += _mark(point, None, figure, metric, published=True)
    for point, record in zip(result.points, result.records, strict=True):
        marks += _mark(point, record, figure, metric, published=False)
    if figure.kind == "lines":
        marks.sort(key=lambda mark: (mark.series, mark.panel, str(mark.x)
                                     if isinstance(mark.x, str) else mark.x))  # fmt: skip
    return marks


def _mark(
    point: Point, record: Record | None, figure: Drawn, metric: str, *, published: bool
) -> list[Mark]:
    value = point.figures.get(metric)
    x = _place(point, figure)
    if value is None or x is None or not point.is_at(figure.among):
        return []
    ends = [end for end in (value.low, value.high) if abs(end) < float("inf")]
    if not ends:
        return []
    if len(ends) == 1:  # published as a lower or an upper bound
        value = replace(value, value=ends[0], low=ends[0], high=ends[0],
                        bounded=ends[0] == value.low)  # fmt: skip
    doubted = record is not None and is_doubtful(record.doubts)
    tooltip = "published" if published else f"limit: {record.verdict}" if record else ""
    return [
        Mark(
            x,
            value.value,
            _label_of(point, figure.by),
            _label_of(point, figure.panels),
            "",
            value.low,
            value.high,
            doubted=doubted,
            bounded=value.bounded,
            published=published,
            note=tooltip,
        )
    ]


def _place(point: Point, figure: Drawn) -> float | str | None:
    """Return the x position of a point, on an axis or by a metric."""
    if figure.x in point.axes:
        value = point.axes[figure.x]
        if figure.kind == "lines" and _is_number(value):
            return number(value)
        return "none" if value is None else str(value)
    x = point.figures.get(figure.x)
    return None if x is None else x.value


def _is_number(value: object) -> bool:
    return not isinstance(value, str) and value is not None


def _label_of(point: Point, axes: Sequence[str]) -> str:
    return ", ".join(str(point.axes.get(axis)) for axis in axes)


def _x_scale(result: Judged, figure: Drawn, marks: Sequence[Mark]) -> Scale:
    title = axis_title(figure.x) if figure.x in result.experiment.axes else figure.x
    if any(isinstance(mark.x, str) for mark in marks):
        positions = (_place(point, figure) for point in result.points)
        places = tuple(dict.fromkeys(str(place) for place in positions if place is not None))
        return Scale(title, categories=places)
    metric = scale_of_metric(figure.x).title if figure.x not in result.experiment.axes else title
    return Scale(metric, log="x" in figure.log, zero=False)


def _curves(result: Judged, figure: Drawn) -> list[Mark]:
    """Return the CDFs of the measured points."""
    marks = []
    for point, record in zip(result.points, result.records, strict=True):
        if record is None or not point.is_at(figure.among) or not point.figures:
            continue
        names = _label_of(point, figure.by), _label_of(point, figure.panels)
        for late, share in thinned(cdf(record)):
            marks.append(Mark(late, share, *names, doubted=is_doubtful(record.doubts)))
    return marks


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
        f"{assumptions(experiment)}"
    )


def assumptions(experiment: Experiment) -> str:
    """Return the assumptions where the paper is silent, as HTML."""
    rows = "".join(
        f"<li>{escape(axis)}: {escape(why)}</li>" for axis, why in experiment.assumptions.items()
    )
    return f"<details><summary>Assumptions</summary><ul>{rows}</ul></details>" if rows else ""


def odds(result: Judged) -> str:
    """Return the error rate of the answers as HTML, if points were measured."""
    return f"<p>{escape(ODDS)}</p>" if any(point.measured for point in result.points) else ""


def _claims(result: Judged) -> str:
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
        rows.append(
            f"<tr><td>{says}{against}</td><td>{answer.verdict}</td>"
            f"<td class='words'>{escape(answer.why)}</td></tr>"
        )
    head = "<tr><th scope='col'>claim</th><th scope='col'>here</th><th scope='col'>why</th></tr>"
    return (
        "<div class='scroll' tabindex='0' role='region' aria-label='claims'>"
        f"<table><caption>The paper's claims</caption><thead>{head}</thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{odds(result)}"
    )
