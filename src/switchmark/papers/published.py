"""Published values by point: absolute values, bounds, ranges, and ratios between two points.

`published_points` makes points of them, so that the code that judges measured points judges the
paper's own values too. `stated` has the rows themselves, for drawing and for tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from switchmark.papers.experiment import Experiment, Published
from switchmark.papers.points import At, Point, PointFigure, meaning


@dataclass(frozen=True, slots=True)
class Stated:
    """A published row at one point. `base` is the point that a ratio refers to; None for an
    absolute value."""

    point: Point
    row: Published
    base: Point | None = None


def stated(experiment: Experiment, points: Sequence[Point]) -> Iterator[Stated]:
    """Yield the published rows of an experiment at each of these points. A ratio is left out if the
    point that it refers to is not among them, or is the point itself."""
    by_place = {_place(point.axes): point for point in points}
    for row in experiment.published:
        for point in points:
            if not point.is_at(row.at):
                continue
            if not row.is_ratio:
                yield Stated(point, row)
                continue
            base = by_place.get(_place({**point.axes, **_values(row.relative_to)}))
            if base is not None and base is not point:
                yield Stated(point, row, base)


def published_points(experiment: Experiment, points: Sequence[Point]) -> list[Point]:
    """Return the points with the published values as their figures, for the same tests of claims.

    If several rows are about one figure, the certain ones decide, and the figure extends over all
    of them. A ratio to a point with a published value has a value too. Other ratios are figures
    relative to their point, whose own figure is 1 (`PointFigure.of`).
    """
    rows = list(stated(experiment, points))
    figures: dict[int, dict[str, PointFigure]] = {id(point): {} for point in points}
    for metric in dict.fromkeys(entry.row.metric for entry in rows):
        of_metric = [entry for entry in rows if entry.row.metric == metric]
        for place, figure in _figures(of_metric).items():
            figures[place][metric] = figure
    return [
        Point(point.axes, of_point, "" if of_point else "no value was published")
        for point in points
        for of_point in (figures[id(point)],)
    ]


def _figures(rows: Sequence[Stated]) -> dict[int, PointFigure]:
    """Return the figures of one metric, by the identity of their point."""
    absolute = {id(entry.point): entry.point for entry in rows if entry.base is None}
    figures = {
        place: _hull(entry.row for entry in rows if entry.point is point and entry.base is None)
        for place, point in absolute.items()
    }
    ratios = [entry for entry in rows if entry.base and id(entry.point) not in absolute]
    while ratios:
        resolved = [entry for entry in ratios if id(entry.base) in figures]
        if not resolved:
            targets = {id(entry.point) for entry in ratios}
            roots = [entry.base for entry in ratios if entry.base and id(entry.base) not in targets]
            root = roots[0] if roots else ratios[0].base
            assert root is not None
            figures[id(root)] = PointFigure(1.0, 1.0, 1.0, of=root.name)
            continue
        for place in dict.fromkeys(id(entry.point) for entry in resolved):
            of_point = [entry for entry in resolved if id(entry.point) == place]
            base = figures[id(of_point[0].base)]
            same = (entry.row for entry in of_point if entry.base is of_point[0].base)
            figures.setdefault(place, _times(_hull(same), base))
        ratios = [entry for entry in ratios if id(entry.point) not in figures]
    return figures


def _hull(rows: Iterable[Published]) -> PointFigure:
    """Return the figure of rows about one point: those that are certain, if there are any."""
    every = list(rows)
    chosen = [row for row in every if not row.uncertain] or every
    low, high = min(row.ends[0] for row in chosen), max(row.ends[1] for row in chosen)
    ends = [end for end in (low, high) if not math.isinf(end)]
    return PointFigure(sum(ends) / len(ends) if ends else math.nan, low, high)


def _times(ratio: PointFigure, base: PointFigure) -> PointFigure:
    low = ratio.low * base.low if ratio.low > 0 else -math.inf
    return PointFigure(ratio.value * base.value, low, ratio.high * base.high, of=base.of)


def _place(axes: Mapping[str, object]) -> str:
    return repr(sorted(axes.items(), key=lambda item: item[0]))


def _values(at: At) -> dict[str, object]:
    return {
        axis: meaning(axis, word[0] if isinstance(word, list) else word)
        for axis, word in at.items()
    }
