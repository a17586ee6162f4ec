"""Charts of experiments in the design of their papers: measured values, and published values as
separate marks.

A chart has two modes: absolute values, and values relative to a base that the paper and the run
have in common, in which shapes can be compared although the hardware differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from switchmark.errors import UsageError
from switchmark.metrics.distribution import cdf, percentile_ns
from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.latency import merged
from switchmark.metrics.named import metric
from switchmark.model.record import Record
from switchmark.papers.experiment import Drawn, Experiment
from switchmark.papers.points import At, Point, PointFigure, meaning, number
from switchmark.papers.published import Stated, published_points, stated
from switchmark.plots.base import scale_of_metric
from switchmark.plots.chart import Chart, Kind, Mark, Scale
from switchmark.plots.latency import thinned
from switchmark.plots.scales import in_handy_units
from switchmark.report.judged import Judged
from switchmark.report.paper_method import departures_of_modes, measured_how, missing_metrics
from switchmark.report.paper_words import (
    axis_title,
    cited,
    title_of,
    value_text,
    value_words,
    with_origin,
)

Mode = Literal["absolute", "relative"]

_KINDS: dict[str, Kind] = {
    "bars": "bars",
    "table": "bars",
    "lines": "lines",
    "points": "points",
    "cdf": "curves",
    "percentiles": "curves",
    "box": "boxes",
}

_ABSOLUTE = ("within", "saturates", "differs-by")
"""The kinds of claims about absolute values."""

_OFF_SCALE = 3
"""The ratio to the largest measured value above which published bounds and ranges would flatten the
measured values."""

_PERCENTILE = re.compile(r"latency\.p(\d+(?:\.\d+)?)_us")
_ENDS = {"latency.min_us": 0.0, "latency.max_us": 1.0}
"""The shares of the frames up to the ends of a distribution."""


@dataclass(frozen=True, slots=True)
class Side:
    """The results of an experiment in one run, or in runs that repeat each other. The label
    distinguishes them in a chart of several sides; it is empty for a single side."""

    label: str
    result: Judged


@dataclass(frozen=True, slots=True)
class PaperChart:
    """A figure of a paper in both modes; None for a mode without marks. `missing` says why metrics
    of the figure are not in it."""

    absolute: Chart | None
    relative: Chart | None
    prefers_relative: bool
    missing: tuple[str, ...]

    def chart(self, mode: Mode | None = None) -> Chart | None:
        """Return the chart in this mode, or in the preferred mode; in the other mode if there is no
        such chart."""
        is_relative = self.prefers_relative if mode is None else mode == "relative"
        first, second = (self.absolute, self.relative)[:: -1 if is_relative else 1]
        return first or second

    @property
    def other(self) -> Chart | None:
        """Return the chart in the mode that is not preferred, if there are two."""
        if self.absolute is None or self.relative is None:
            return None
        return self.absolute if self.prefers_relative else self.relative


def paper_charts(sides: Sequence[Side]) -> list[PaperChart]:
    """Return a chart for each figure of an experiment, with the results of all sides."""
    experiment = sides[0].result.experiment
    return [
        _Drawing(sides, figure, index).chart() for index, figure in enumerate(experiment.figures)
    ]


def experiment_charts(result: Judged, mode: Mode | None = None) -> list[Chart]:
    """Return the charts of an experiment that have values, in a mode or in the preferred one."""
    charts = [figure.chart(mode) for figure in paper_charts([Side("", result)])]
    return [chart for chart in charts if chart is not None]


# --- marks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Drawing:
    """The drawing of one figure of an experiment."""

    sides: Sequence[Side]
    figure: Drawn
    index: int

    @property
    def experiment(self) -> Experiment:
        return self.sides[0].result.experiment

    @property
    def is_cdf(self) -> bool:
        return self.figure.kind in ("cdf", "percentiles")

    def chart(self) -> PaperChart:
        """Return the figure in both modes."""
        absolute = self._chart("absolute")
        relative = self._chart("relative") if self._has_relative else None
        return PaperChart(absolute, relative, self._prefers_relative(relative), self.missing)

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Return a sentence for each metric of the figure that no measured point has."""
        return missing_metrics(self.figure, self.measured())

    @property
    def y(self) -> str:
        """Return the metric on the left: that on the right if the former has no values at all."""
        if self.figure.y2 and not self._values(self.figure.y) and self._values(self.figure.y2):
            return self.figure.y2
        return self.figure.y

    @property
    def y2(self) -> str:
        return self.figure.y2 if self.y == self.figure.y else ""

    @property
    def _has_relative(self) -> bool:
        return self.is_cdf or bool(_unit_of(self.y))

    def _prefers_relative(self, relative: Chart | None) -> bool:
        """Return whether only the shape is judged: both sides have values, and no claim about
        absolute values of the metric was decided."""
        ratios = (entry.base and entry.row.metric == self.y for entry in self.published)
        if relative is None or not (self.exact(self.y) or any(ratios)):
            return False
        both = {mark.published for mark in relative.marks}
        decided = (
            claim.kind in _ABSOLUTE
            and claim.metric == self.y
            and answer.verdict != "cannot be told"
            for side in self.sides
            for claim, answer in side.result.answers
        )
        return both == {True, False} and not any(decided)

    def _chart(self, mode: Mode) -> Chart | None:
        figure, experiment = self.figure, self.experiment
        base = self._base(self.y) if mode == "relative" else None
        marks = self._curves(base) if self.is_cdf else self._marks(self.y, base)
        notes = [base.note] if base else []
        if mode == "absolute" and not self.is_cdf:
            marks, off_scale = _on_scale(marks, exact=bool(self.exact(self.y)))
            notes += [self._off_scale_note(off_scale)] if off_scale else []
        if not marks:
            return None
        notes += [note for side in self.sides for note in departures_of_modes(side.result)]
        second = tuple(self._marks(self.y2, None)) if self.y2 else ()
        points = [point for side in self.sides for point in side.result.points]
        chart = Chart(
            f"{experiment.name}-{self.index}" + "-relative" * (mode == "relative"),
            title_of(experiment, figure),
            " ".join(self._caption(base)),
            _KINDS[figure.kind],
            self._x_scale(marks, base),
            self._y_scale(base),
            tuple(marks),
            series=", ".join(map(axis_title, figure.by)),
            panels=", ".join(map(axis_title, figure.panels)),
            diagonal=figure.diagonal,
            second=second,
            y2=scale_of_metric(self.y2) if second else None,
            note="; ".join(dict.fromkeys(notes)),
            order=tuple(dict.fromkeys(
                [self._series(point, side.label) for point in points for side in self.sides]
                + [_words(point, figure.panels) for point in points]
            )),
        )  # fmt: skip
        of_here = all(not mark.published for mark in chart.marks)
        return in_handy_units(chart) if of_here and base is None and not second else chart

    def measured(self) -> list[tuple[Point, Record]]:
        """Return the measured points of the figure on all sides."""
        return [pair for side in self.sides for pair in side.result.measured_at(self.figure.among)]

    def _values(self, name: str) -> bool:
        """Return whether the figure has a measured or published value of a metric."""
        rows = (entry.row.metric == name for entry in self.published)
        return any(rows) or any(name in point.figures for point, _ in self.measured())

    @cached_property
    def _points(self) -> list[Point]:
        """Return the points of all sides, each once."""
        points = {repr(point.axes): point for side in self.sides for point in side.result.points}
        return list(points.values())

    @cached_property
    def published(self) -> list[Stated]:
        """Return the published rows at the points of the figure. A ratio is left out at a point
        that has a value."""
        rows = [
            entry
            for entry in stated(self.experiment, self._points)
            if entry.point.is_at(self.figure.among)
        ]
        valued = {(id(entry.point), entry.row.metric) for entry in rows if entry.base is None}
        order = {id(point): rank for rank, point in enumerate(self._points)}
        return sorted(
            (
                entry
                for entry in rows
                if entry.base is None or (id(entry.point), entry.row.metric) not in valued
            ),
            key=lambda entry: order[id(entry.point)],
        )

    @cached_property
    def _resolved(self) -> dict[int, Mapping[str, PointFigure]]:
        """Return the published figures of each point, with those that follow from ratios."""
        resolved = published_points(self.experiment, self._points)
        return {
            id(point): figures.figures
            for point, figures in zip(self._points, resolved, strict=True)
        }

    def _published_ends(self, entry: Stated, base: _Base | None) -> tuple[float, float] | None:
        """Return the ends of a published row in the unit of the chart; None if it has no place
        there. A ratio has one if its value follows from a published value, or if the chart is
        relative to the point that it refers to."""
        low, high = entry.row.ends
        divisor = base.published(entry.point) if base else 1.0
        if entry.base is not None:
            figure = self._resolved[id(entry.point)][entry.row.metric]
            low, high = figure.low, figure.high
            if figure.of:
                is_base = base is not None and base.name_at(entry.point) == figure.of
                divisor = 1.0 if is_base else None
        return (low / divisor, high / divisor) if divisor else None

    def _follows_from_uncertain(self, entry: Stated) -> bool:
        """Return whether the value of a ratio follows from an uncertain one."""
        of_metric = [other for other in self.published if other.row.metric == entry.row.metric]
        bases: list[Stated] = []
        waiting = [entry]
        while waiting:
            base = waiting.pop().base
            found = [other for other in of_metric if other.point is base and other not in bases]
            bases += found
            waiting += found
        return any(base.row.uncertain for base in bases)

    def exact(self, name: str) -> dict[str, float]:
        """Return the exact published values of a metric, by the axes of their points."""
        return {
            repr(entry.point.axes): entry.row.ends[0]
            for entry in self.published
            if entry.base is None
            and entry.row.metric == name
            and entry.row.ends[0] == entry.row.ends[1]
        }

    def _series(self, point: Point, label: str) -> str:
        words = _words(point, self.figure.by)
        return " · ".join(filter(None, (words, label)))

    def _marks(self, name: str, base: _Base | None) -> list[Mark]:
        """Return the marks of a metric: published values first, then measured values."""
        marks = []
        for entry in self.published:
            if entry.row.metric != name:
                continue
            x, ends = self._place(entry.point, None), self._published_ends(entry, base)
            if x is not None and ends is not None:
                mark = self._published_mark(entry, x, ends)
                if base is None and self._follows_from_uncertain(entry):
                    mark = replace(mark, uncertain=True)
                marks.append(mark)
        marks = list(dict.fromkeys(marks))
        for side in self.sides:
            for point, record in zip(side.result.points, side.result.records, strict=True):
                value, x = point.figures.get(name), self._place(point, base)
                divisor = base.measured(side, point, record) if base else 1.0
                if record is None or value is None or x is None or not divisor:
                    continue
                if point.is_at(self.figure.among):
                    marks.append(self._measured_mark(side, point, record, value, x, divisor))
        if self.figure.kind == "lines":
            marks.sort(key=lambda mark: (mark.series, mark.panel, str(mark.x)
                                         if isinstance(mark.x, str) else mark.x))  # fmt: skip
        return marks

    def _published_mark(self, entry: Stated, x: float | str, ends: tuple[float, float]) -> Mark:
        row, point, (low, high) = entry.row, entry.point, ends
        at_most, bounded = low == float("-inf"), high == float("inf")
        low, high = high if at_most else low, low if bounded else high
        note = f"published: {with_origin(row)}" + (f"; {row.place}" if row.place else "")
        note += f"; uncertain: {row.uncertain}" if row.uncertain else ""
        # On a chart of lines, a row about all series is one mark.
        is_in_common = self.is_cdf or self.figure.kind in ("lines", "points")
        is_of_all = is_in_common and not {*self.figure.by} & {*row.at}
        return Mark(
            x,
            (low + high) / 2,
            "" if is_of_all else self._series(point, ""),
            _words(point, self.figure.panels),
            "",
            low,
            high,
            bounded=bounded,
            published=True,
            at_most=at_most,
            uncertain=bool(row.uncertain),
            switch="" if is_of_all else _switch(point),
            note=note,
        )

    def _measured_mark(
        self,
        side: Side,
        point: Point,
        record: Record,
        value: PointFigure,
        x: float | str,
        divisor: float,
    ) -> Mark:
        doubts = f"; doubts: {', '.join(record.doubts)}" if record.doubts else ""
        return Mark(
            x,
            value.value / divisor,
            self._series(point, side.label),
            _words(point, self.figure.panels),
            "",
            value.low / divisor,
            value.high / divisor,
            doubted=is_doubtful(record.doubts),
            bounded=value.bounded,
            switch=_switch(point),
            note=f"limit: {record.verdict}{doubts}",
        )

    def _place(self, point: Point, base: _Base | None) -> float | str | None:
        """Return the x position of a point, on an axis or by a metric."""
        name = self.figure.x
        if name in point.axes:
            value = point.axes[name]
            if self.figure.kind == "lines" and not isinstance(value, str) and value is not None:
                return number(value)
            return value_text(name, value)
        x = point.figures.get(name)
        if x is None:
            return None
        divisor = base.of_x(point) if base is not None and name.startswith("offered.") else 1.0
        return x.value / divisor if divisor else None

    def _curves(self, base: _Base | None) -> list[Mark]:
        """Return the distributions of the measured points, and the published percentiles, minima
        and maxima."""
        marks = []
        for entry in self.published:
            share = _share_up_to(entry.row.metric)
            ends = self._published_ends(entry, base) if share is not None else None
            if share is not None and ends is not None:
                mark = self._published_mark(entry, 0.0, ends)
                marks.append(replace(mark, x=mark.y, y=share))
        marks = list(dict.fromkeys(marks))
        for side in self.sides:
            for point, record in zip(side.result.points, side.result.records, strict=True):
                if record is None or not point.figures or not point.is_at(self.figure.among):
                    continue
                divisor = base.measured(side, point, record) if base else 1.0
                names = self._series(point, side.label), _words(point, self.figure.panels)
                marks += [
                    Mark(
                        late / divisor,
                        share,
                        *names,
                        doubted=is_doubtful(record.doubts),
                        switch=_switch(point),
                    )
                    for late, share in thinned(cdf(record))
                    if divisor
                ]
        return marks

    # --- scales and words --------------------------------------------------------------------

    def _x_scale(self, marks: Sequence[Mark], base: _Base | None) -> Scale:
        if self.is_cdf:
            log = "x" in self.figure.log
            title = f"latency, {base.words}" if base else "latency (us)"
            return Scale(title, log=log, zero=not log, percent=base is not None)
        if any(isinstance(mark.x, str) for mark in marks):
            points = (point for side in self.sides for point in side.result.points)
            places = (self._place(point, base) for point in points)
            words = tuple(dict.fromkeys(str(place) for place in places if place is not None))
            return Scale(axis_title(self.figure.x), categories=words)
        if base is not None and self.figure.x.startswith("offered."):
            return Scale(f"offered, {base.words}", percent=True, zero=False)
        title = axis_title(self.figure.x)
        if self.figure.x.startswith("offered."):
            title = f"offered by all senders ({scale_of_metric(self.figure.x).unit})"
        return Scale(title, log="x" in self.figure.log, zero=False)

    def _y_scale(self, base: _Base | None) -> Scale:
        if self.is_cdf:
            return Scale("share of the frames", percent=True)
        scale = scale_of_metric(self.y, log="y" in self.figure.log)
        if base is None:
            return scale
        words = scale.title.partition(" (")[0]
        return replace(scale, title=f"{words}, {base.words}", percent=True)

    def _caption(self, base: _Base | None) -> list[str]:
        """Return the sentences of the caption."""
        experiment = self.experiment
        sentences = [
            f"{cited(experiment.source, experiment.paper)}, {experiment.place}: "
            f"{experiment.summary}."
        ]
        sentences += [
            f"{side.label or 'Here'}: {how}."
            for side in self.sides
            if (how := measured_how(side.result, self.figure.among))
        ]
        sentences += [f"{base.note[:1].upper()}{base.note[1:]}."] if base else []
        absent = self._absent()
        sentences += [f"Not measured here: {', '.join(absent)}."] if absent else []
        return [*sentences, *self.missing]

    def _absent(self) -> list[str]:
        """Return the switches of the figure that no side measured, if it measured others."""
        points = [point for side in self.sides for point in side.result.points]
        every = dict.fromkeys(_switch(p) for p in points if p.is_at(self.figure.among))
        found = {_switch(point) for point, _ in self.measured()}
        return [name for name in every if name and name not in found] if found else []

    def _off_scale_note(self, marks: Sequence[Mark]) -> str:
        unit = _unit_of(self.y)
        every = []
        for mark in marks:
            bound = "at least " * mark.bounded + "at most " * mark.at_most
            low, high = mark.low or 0.0, mark.high or 0.0
            value = f"{mark.y:g}" if bound or low == high else f"{low:g} to {high:g}"
            every.append(f"{bound}{value} {unit}" + " (uncertain)" * mark.uncertain)
        return f"published, off the scale: {', '.join(dict.fromkeys(every))}"

    # --- bases of the relative mode ----------------------------------------------------------

    def _base(self, name: str) -> _Base:
        relative = self.figure.relative
        if self.is_cdf:
            return _MedianBase(self)
        measured = self.measured()
        if self.figure.x.startswith("offered.") and relative == "largest":
            relative = "r-plus"
        if relative == "r-plus" and all(record.r_plus_pps for _, record in measured) and measured:
            return _RPlusBase(self)
        if relative == "first":
            switches = dict.fromkeys(_switch(p) for s in self.sides for p in s.result.points)
            relative = {"switch": next(iter(switches))}
        if isinstance(relative, dict):
            return _AtBase(self, name, relative)
        return _LargestBase(self, name)


def _share_up_to(name: str) -> float | None:
    """Return the share of the frames whose latency is at most that of a metric; None for metrics
    that are no percentile."""
    found = _PERCENTILE.fullmatch(name)
    return float(found[1]) / 100 if found else _ENDS.get(name)


def _unit_of(name: str) -> str:
    """Return the unit of a metric; empty for a share, and for an unknown metric."""
    try:
        unit = metric(name).unit
    except UsageError:
        return ""
    return "" if unit == "1" else unit


def _on_scale(marks: Sequence[Mark], *, exact: bool) -> tuple[list[Mark], list[Mark]]:
    """Return the marks to draw, and the published bounds and ranges that would flatten the measured
    values. With `exact` published values, everything is drawn."""
    measured = [mark.y for mark in marks if not mark.published]
    if exact or not measured:
        return [*marks], []
    most = _OFF_SCALE * max(measured)
    off = [mark for mark in marks if mark.published and (mark.low or mark.y) > most]
    return [mark for mark in marks if mark not in off], off


def _words(point: Point, axes: Iterable[str]) -> str:
    return ", ".join(value_words(axis, point.axes.get(axis)) for axis in axes)


def _switch(point: Point) -> str:
    return str(point.axes.get("switch", "")) if "switch" in point.axes else ""


# --- bases -----------------------------------------------------------------------------------


class _Base:
    """The figures that the relative mode shows as 100 %, for measured and for published points.

    `words` follow the quantity in the title of an axis; `note` says what 100 % is.
    """

    words = "relative"
    note = ""

    def measured(self, side: Side, point: Point, record: Record | None) -> float | None:
        """Return the base of a measured point; None if it is unknown."""
        raise NotImplementedError

    def published(self, point: Point) -> float | None:
        """Return the base of a published point; None if it is unknown."""
        raise NotImplementedError

    def of_x(self, point: Point) -> float | None:
        """Return the base of a measured point on the x axis."""
        raise NotImplementedError

    def name_at(self, point: Point) -> str:
        """Return the name of the point that is the base of a point, if the base is one point for
        each position."""
        del point
        return ""


class _LargestBase(_Base):
    """The largest published value that all sides measured, too; else the largest value of each
    side and of the paper."""

    def __init__(self, drawing: _Drawing, name: str) -> None:
        self._exact = drawing.exact(name)
        by_side = [_by_axes(side, drawing.figure.among, name) for side in drawing.sides]
        shared = [key for key in self._exact if all(values.get(key) for values in by_side)]
        key = max(shared, key=lambda candidate: self._exact[candidate], default=None)
        self._paper = self._exact.get(key or "", max(self._exact.values(), default=None))
        self._sides = {
            id(side): values[key] if key else max(values.values(), default=None)
            for side, values in zip(drawing.sides, by_side, strict=True)
        }
        unit = _unit_of(name)
        here = [
            f"{_short(value)} {side.label or 'here'}"
            for side in drawing.sides
            if (value := self._sides[id(side)])
        ]
        here += [f"{_short(self._paper)} in the paper"] if self._paper else []
        place = "the largest value"
        if key:
            points = (p for side in drawing.sides for p in side.result.points)
            place = next(_point_words(point) for point in points if repr(point.axes) == key)
        self.words = "relative"
        self.note = f"100 % is {place}: {', '.join(here)} ({unit})"

    def measured(self, side: Side, point: Point, record: Record | None) -> float | None:
        del point, record
        return self._sides[id(side)]

    def published(self, point: Point) -> float | None:
        del point
        return self._paper

    def of_x(self, point: Point) -> float | None:
        del point
        return next(iter(self._sides.values()))


class _AtBase(_Base):
    """The value at given values of some axes, with the same values of all other axes."""

    def __init__(self, drawing: _Drawing, name: str, at: At) -> None:
        self._at, self._exact = at, drawing.exact(name)
        among = drawing.figure.among
        self._sides = {id(side): _by_axes(side, among, name) for side in drawing.sides}
        words = ", ".join(value_words(axis, value) for axis, value in at.items())
        self.note = f"100 % is the value of {words}, in the paper and here"
        self.words = f"share of that of {words}"

    def _axes(self, point: Point) -> dict[str, Any]:
        axes: dict[str, Any] = dict(point.axes)
        for axis, word in self._at.items():
            axes[axis] = meaning(axis, word if not isinstance(word, list) else word[0])
        return axes

    def _key(self, point: Point) -> str:
        return repr(self._axes(point))

    def name_at(self, point: Point) -> str:
        return Point(self._axes(point)).name

    def measured(self, side: Side, point: Point, record: Record | None) -> float | None:
        del record
        return self._sides[id(side)].get(self._key(point))

    def published(self, point: Point) -> float | None:
        return self._exact.get(self._key(point))


class _RPlusBase(_Base):
    """The R+ of each result: the highest rate that its switch received."""

    words = "share of R+"
    note = "100 % is R+, the highest rate that each switch received at the maximum load"

    def __init__(self, drawing: _Drawing) -> None:
        self._y = drawing.y
        self._records = {id(point): record for point, record in drawing.measured()}

    def measured(self, side: Side, point: Point, record: Record | None) -> float | None:
        del side, record
        return self._of(point, self._y, "rx.pps")

    def published(self, point: Point) -> float | None:
        del point
        return None

    def of_x(self, point: Point) -> float | None:
        return self._of(point, "offered.mpps", "offered.pps")

    def _of(self, point: Point, name: str, in_pps: str) -> float | None:
        """Return R+ in the unit of a metric that is proportional to frames per second."""
        record = self._records.get(id(point))
        value, pps = point.figures.get(name), record and metric(in_pps).of(record)
        if record is None or value is None or not pps or not record.r_plus_pps:
            return None
        return value.value * record.r_plus_pps / pps


class _MedianBase(_Base):
    """The median of a distribution that the paper published and all sides measured, else that of
    the first distribution."""

    words = "relative"

    def __init__(self, drawing: _Drawing) -> None:
        self._exact = drawing.exact("latency.p50_us")
        by_side = [
            {
                repr(point.axes): median
                for point, record in zip(side.result.points, side.result.records, strict=True)
                if record and point.is_at(drawing.figure.among) and (median := _median_us(record))
            }
            for side in drawing.sides
        ]
        key = next((key for key in self._exact if all(key in medians for medians in by_side)), None)
        self._paper = self._exact.get(key or "", next(iter(self._exact.values()), None))
        self._sides: dict[int, float | None] = {
            id(side): medians[key] if key else next(iter(medians.values()), None)
            for side, medians in zip(drawing.sides, by_side, strict=True)
        }
        points = [point for side in drawing.sides for point in side.result.points]
        wanted = key or next((candidate for medians in by_side for candidate in medians), "")
        place = next((_point_words(p) for p in points if repr(p.axes) == wanted), "the first")
        self.note = f"100 % is the median of {place}"

    def measured(self, side: Side, point: Point, record: Record | None) -> float | None:
        del point, record
        return self._sides[id(side)]

    def published(self, point: Point) -> float | None:
        del point
        return self._paper


def _by_axes(side: Side, among: At, name: str) -> dict[str, float]:
    """Return the measured values of a metric by the axes of their points."""
    points: Mapping[str, PointFigure | None] = {
        repr(point.axes): point.figures.get(name)
        for point in side.result.points
        if point.measured and point.is_at(among)
    }
    return {key: figure.value for key, figure in points.items() if figure is not None}


def _median_us(record: Record) -> float | None:
    whole = merged([trial.latency for trial in record.trials if trial.latency])
    ns = None if whole is None else percentile_ns(whole, Fraction(50))
    return None if ns is None else ns / 1e3


def _point_words(point: Point) -> str:
    return ", ".join(value_words(axis, value) for axis, value in point.axes.items())


def _short(value: float) -> str:
    return f"{value:.3g}"
