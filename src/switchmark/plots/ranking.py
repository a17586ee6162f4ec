"""Plots that compare tests: bars with intervals, box plots over the trials, and a heat map over two
axes."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.metrics.named import metric
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.plots.base import (
    figure_of,
    mark_of,
    measured,
    place,
    scale_of_axis,
    scale_of_metric,
    split,
    words_of,
)
from switchmark.plots.chart import Chart, Mark, Scale
from switchmark.plots.references import references

_MOST_BARS, _MOST_NAMES, _MOST_PANELS = 60, 30, 12
"""The largest readable number of bars, of bars with long names, and of panels of bars."""

_FEWEST_TRIALS = 3


class _Bars:
    name = "figures"
    summary = "The figure of each test"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Draw the largest figures if there are too many tests for readable bars."""
        chosen = _of_one_metric(records)
        if not chosen:
            return None
        name = figure_of(chosen[0])
        axes, panels = split(chosen)
        first, *rest = axes or ("switch",)
        placed = [first]
        if len({words_of(record.test, panels) for record in chosen}) > _MOST_PANELS:
            placed, rest, panels = [*axes, *panels], [], ()
        marks = []
        for record in chosen:
            x, series = words_of(record.test, placed), words_of(record.test, rest)
            mark = mark_of(record, name, x, series, words_of(record.test, panels))
            marks += [mark] if mark else []
        if not marks:
            return None
        marks.sort(key=lambda mark: -mark.y)
        highest = marks[0].y
        del marks[_MOST_BARS if len(placed) == 1 else _MOST_NAMES :]
        kept = {mark.key for mark in marks}
        counted = _in_order(placed, chosen)
        if counted:
            marks.sort(key=lambda mark: counted.index(str(mark.x)))
        scale = scale_of_metric(name)
        order = tuple(dict.fromkeys(str(mark.x) for mark in marks))
        return Chart(
            self.name,
            "Median latency of each test" if name.startswith("latency") else "Rate of each test",
            f"{scale.title[:1].upper()}{scale.title[1:]} of {_count(marks, chosen)}"
            f"{'' if counted else ', the greatest first'}.",
            "bars",
            Scale(", ".join(AXES[axis].label for axis in placed), categories=order),
            scale,
            tuple(marks),
            series=", ".join(AXES[axis].label for axis in rest),
            references=references(
                [record for record in chosen if record.key[:16] in kept],
                name,
                lambda r: (words_of(r.test, placed), "", words_of(r.test, panels)),
                highest,
            ),
        )


class _Boxes:
    name = "trials"
    summary = "How the trials of each test scatter"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        chosen = [r for r in _of_one_metric(records) if len(r.trials) >= _FEWEST_TRIALS]
        if not chosen:
            return None
        name = figure_of(chosen[0])
        axes, panels = split(chosen)
        marks = [
            Mark(words_of(record.test, axes or ("switch",)), value, "",
                 words_of(record.test, panels))
            for record in chosen[:_MOST_BARS]
            for value in metric(name).samples(record)
        ]  # fmt: skip
        scale = scale_of_metric(name)
        order = tuple(dict.fromkeys(str(mark.x) for mark in marks))
        says = f"{scale.title}: boxes over the trials of {len(order)} tests."
        x = Scale(", ".join(AXES[name].label for name in axes) or "switch", categories=order)
        return Chart(self.name, self.summary, says, "boxes", x, scale, tuple(marks))


class _Heat:
    name = "two-axes"
    summary = "The figure at each pair of values"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Draw tests of a switch that differ on two axes, with several values on both."""
        chosen = _of_one_metric(records)
        series, panels = split(chosen)
        axes = [axis for axis in (*series, *panels) if axis != "switch"]
        if len(axes) != 2 or any(len({place(r.test, a) for r in chosen}) < 3 for a in axes):
            return None
        name = figure_of(chosen[0])
        across, up = axes
        marks = []
        for record in chosen:
            x, y = _value_of(record, across), _value_of(record, up)
            panel = record.test.switch if "switch" in (*series, *panels) else ""
            mark = mark_of(record, name, x, y, panel)
            marks += [mark] if mark else []
        order = tuple(dict.fromkeys(str(mark.x) for mark in marks))
        says = f"{scale_of_metric(name).title} over {AXES[across].label} and {AXES[up].label}."
        x_scale = Scale(scale_of_axis(across, chosen).title, categories=order)
        return Chart(
            self.name,
            self.summary,
            says,
            "heat",
            x_scale,
            scale_of_metric(name),
            tuple(marks),
            series=AXES[up].label,
        )


def _in_order(placed: Sequence[str], records: Sequence[Record]) -> list[str]:
    """Return the labels of a numeric axis in ascending order, or an empty list for other axes,
    which are sorted by the measured value."""
    places = {words_of(record.test, placed): place(record.test, placed[0]) for record in records}
    if len(placed) > 1 or any(isinstance(place_, str) for place_ in places.values()):
        return []
    return sorted(places, key=lambda name: places[name])


def _count(marks: Sequence[Mark], chosen: Sequence[Record]) -> str:
    of_all = "" if len(marks) == len(chosen) else f" of {len(chosen)}"
    return f"{len(marks)}{of_all} tests"


def _value_of(record: Record, axis: str) -> str:
    value = place(record.test, axis)
    return value if isinstance(value, str) else f"{value:g}"


def _of_one_metric(records: Sequence[Record]) -> list[Record]:
    """Return the measured records with the same main metric as the first record."""
    chosen = measured(records)
    return [record for record in chosen if figure_of(record) == figure_of(chosen[0])]


BARS, BOXES, HEAT = _Bars(), _Boxes(), _Heat()
