"""The values of an experiment: measured and published, by point and metric.

Text, pages, LaTeX, CSV, JSON and SQL show these rows.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from switchmark.errors import UsageError
from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.named import metric
from switchmark.model.objects import Printed
from switchmark.papers.experiment import Published
from switchmark.papers.overlay import VALUES
from switchmark.papers.points import Point, PointFigure
from switchmark.papers.published import stated
from switchmark.report.cells import in_csv
from switchmark.report.judged import Judged
from switchmark.report.latex import escape as in_latex
from switchmark.report.paper_words import axis_title, cited, value_text, with_origin

_DOUBTED = r"$^{\circ}$"


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A metric of a point: the measured figure, and the published rows about the point."""

    point: Point
    metric: str
    published: tuple[Published, ...]
    here: PointFigure | None
    doubts: tuple[str, ...]
    status: str
    """The status of the test; empty if it was not run."""
    base: PointFigure | None = None
    """The measured figure at the point that a published ratio refers to."""

    @property
    def why(self) -> str:
        """Return why there is no measured figure; empty if there is one."""
        return "" if self.here is not None else self.point.untold or f"no {self.metric} here"

    @property
    def ratio(self) -> float | None:
        """Return the measured value as a multiple of the published one, if that is exact. For a
        published ratio, return the measured ratio as a multiple of it."""
        if self.here is None:
            return None
        if exact := self.exact:
            return self.here.value / exact
        ratios = [row.ends for row in self.published if row.is_ratio and row.origin != "own"]
        if len(ratios) != 1 or ratios[0][0] != ratios[0][1] or not (self.base and self.base.value):
            return None
        return self.here.value / self.base.value / ratios[0][0]

    @property
    def exact(self) -> float | None:
        """Return the published value if there is a single exact one."""
        of_paper = [row for row in self.published if row.origin != "own" and not row.is_ratio]
        ends = [row.ends for row in of_paper]
        return ends[0][0] if len(ends) == 1 and ends[0][0] == ends[0][1] else None


def value_rows(result: Judged) -> list[ValueRow]:
    """Return the rows of an experiment by metric, in the order of its figures and points.

    A point has a row for a metric that a figure draws there or that was published for it. Points
    that were not run have a row only if a value was published for exactly that point. A metric
    that was neither measured nor published at any point has no rows.
    """
    experiment = result.experiment
    drawn = [name for figure in experiment.figures for name in (figure.y, figure.y2)]
    every = [*drawn, *(row.metric for row in experiment.published)]
    bases = {
        (id(entry.point), entry.row.metric): entry.base.figures.get(entry.row.metric)
        for entry in stated(experiment, result.points)
        if entry.base is not None
    }
    rows = []
    for name in dict.fromkeys(entry for entry in every if _is_metric(entry)):
        for point, record in zip(result.points, result.records, strict=True):
            near = tuple(
                row for row in experiment.published if row.metric == name and point.is_at(row.at)
            )
            here = point.figures.get(name)
            is_drawn = any(
                name in (figure.y, figure.y2) and point.is_at(figure.among)
                for figure in experiment.figures
            )
            is_open = record is None and all(set(row.at) < set(experiment.axes) for row in near)
            if is_open or not (near or is_drawn):
                continue
            doubts, status = (record.doubts, record.status) if record else ((), "")
            base = bases.get((id(point), name))
            rows.append(ValueRow(point, name, near, here, doubts, status, base))
    known = {row.metric for row in rows if row.here or row.published or row.status != "ok"}
    return [row for row in rows if row.metric in known]


def _is_metric(name: str) -> bool:
    try:
        return bool(metric(name))
    except UsageError:
        return False


def published_words(rows: Sequence[Published]) -> str:
    """Return published values as text; `?` marks uncertain ones."""
    return "; ".join(f"{with_origin(row)}{' ?' if row.uncertain else ''}" for row in rows) or "-"


def values_as_objects(result: Judged) -> list[Printed]:
    """Return the rows as JSON objects."""
    return [
        {
            "at": dict(_axes(row.point)),
            "metric": row.metric,
            "unit": metric(row.metric).unit,
            "published": [_published_object(entry) for entry in row.published],
            **figure_object(row.here),
            "doubts": list(row.doubts),
            "ratio": row.ratio,
        }
        for row in value_rows(result)
    ]


def figure_object(figure: PointFigure | None) -> Printed:
    """Return a figure as members of a JSON object: null for a missing figure or an open end."""
    ends = (figure.low, figure.high) if figure else (None, None)
    low, high = (None if end is None or math.isinf(end) else end for end in ends)
    return {
        "value": figure and figure.value,
        "low": low,
        "high": high,
        "lower_bound": bool(figure and figure.bounded),
    }


def _published_object(row: Published) -> Printed:
    low, high = (None if math.isinf(end) else end for end in row.ends)
    return {
        "text": with_origin(row),
        "low": low,
        "high": high,
        "relative_to": dict(row.relative_to) or None,
        "place": row.place or None,
        "uncertain": row.uncertain or None,
    }


def _axes(point: Point) -> Mapping[str, Any]:
    """Return the position of a point, as in campaign files."""
    plain = (str, int, float, bool, type(None))
    return {
        axis: value if isinstance(value, plain) else str(value)
        for axis, value in point.axes.items()
    }


def values_as_csv(results: Sequence[Judged]) -> str:
    """Return the rows of some experiments as CSV (RFC 4180), with the same columns for all."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(VALUES)
    for result in results:
        for row in value_rows(result):
            figure = figure_object(row.here)
            cells = [
                result.experiment.name,
                " ".join(f"{axis}={value}" for axis, value in _axes(row.point).items()),
                row.metric,
                metric(row.metric).unit,
                "; ".join(map(with_origin, row.published)),
                "; ".join(entry.uncertain for entry in row.published if entry.uncertain),
                *(figure[name] for name in ("value", "low", "high")),
                str(figure["lower_bound"]).lower(),
                row.ratio,
                ", ".join(row.doubts),
            ]
            writer.writerow([in_csv(cell) if isinstance(cell, str) else cell for cell in cells])
    return stream.getvalue()


def values_as_latex(results: Sequence[Judged]) -> str:
    """Return a table of LaTeX for each experiment: published values, measured ones and their
    ratio. It needs booktabs and adjustbox."""
    tables = [_latex_table(result) for result in results if value_rows(result)]
    head = "% made by switchmark paper; needs \\usepackage{booktabs,adjustbox}\n"
    return head + "\n".join(tables)


def _latex_table(result: Judged) -> str:
    experiment = result.experiment
    rows = value_rows(result)
    names = list(dict.fromkeys(row.metric for row in rows))
    by_point = {
        key: {row.metric: row for row in of_point}
        for key, of_point in groupby(
            sorted(rows, key=lambda row: _rank(result, row.point)),
            key=lambda row: _rank(result, row.point),
        )
    }
    heads = [in_latex(axis_title(axis)) for axis in experiment.axes]
    published = [any(row.published for row in rows if row.metric == name) for name in names]
    for name, has in zip(names, published, strict=True):
        title = in_latex(axis_title(name))
        heads += [f"{title}, published"] * has + [f"{title}, here"] + ["ratio"] * has
    body = []
    for rank, of_point in by_point.items():
        point = result.points[rank]
        cells = [in_latex(value_text(axis, value)) for axis, value in point.axes.items()]
        for name, has in zip(names, published, strict=True):
            row = of_point.get(name)
            values = row.published if row else ()
            text = published_words(values) if values else "--"
            cells += [in_latex(text)] * has + [_in_latex(row)]
            cells += ["--" if row is None or row.ratio is None else f"{row.ratio:.3g}"] * has
        body.append(f"    {' & '.join(cells)} \\\\")
    caption = f"{cited(experiment.source, experiment.paper)}, {experiment.place}: "
    caption += f"{experiment.summary}."
    label = experiment.name.replace("/", "-")
    marks = []
    if any(value.uncertain for row in rows for value in row.published):
        marks.append(r"{\footnotesize ?: it is uncertain what the published value is about}")
    if any(is_doubtful(row.doubts) for row in rows):
        marks.append(rf"{{\footnotesize {_DOUBTED}: a result that may be wrong}}")
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{in_latex(caption)}}}",
            f"  \\label{{tab:{label}}}",
            r"  \begin{adjustbox}{max width=\linewidth}",
            f"  \\begin{{tabular}}{{{'l' * len(experiment.axes)}"
            f"{'r' * (len(heads) - len(experiment.axes))}}}",
            r"    \toprule",
            f"    {' & '.join(heads)} \\\\",
            r"    \midrule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"  \end{adjustbox}",
            *(f"  \\par {mark}" for mark in marks),
            r"\end{table}",
            "",
        ]
    )


def _rank(result: Judged, point: Point) -> int:
    return next(rank for rank, entry in enumerate(result.points) if entry is point)


def _in_latex(row: ValueRow | None) -> str:
    if row is None or row.here is None:
        return in_latex(row.status) if row and row.status not in ("", "ok") else "--"
    bound = r"$\geq$" if row.here.bounded else ""
    return f"{bound}{row.here.value:.4g}{_DOUBTED if is_doubtful(row.doubts) else ''}"
