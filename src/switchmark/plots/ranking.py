"""Plots that compare tests: bars with intervals, box plots over the trials, and a heat map over two
axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.metrics.named import metric
from switchmark.model.cable import CABLE
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
    without_baseline,
    words_of,
)
from switchmark.plots.chart import Chart, Kind, Mark, Scale
from switchmark.plots.references import Place, references

_MOST_BARS, _MOST_NAMES, _MOST_PANELS = 60, 30, 12
"""The largest readable number of bars, of bars with long names, and of panels of bars."""

_FEWEST_TRIALS = 3

_FEWEST_IN_A_BOX = 10
"""The number of trials below which a box would show less than the trials themselves."""


class _Bars:
    name = "figures"
    summary = "Received rate, median latency or outage"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        """Draw the best figures if there are too many tests for readable bars."""
        chosen, cables = without_baseline(_of_one_metric(records))
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
        is_latency, is_outage = name.startswith("latency"), name.startswith("outage")
        marks.sort(key=lambda mark: mark.y if is_latency or is_outage else -mark.y)
        highest = max(mark.y for mark in marks)
        del marks[_MOST_BARS if len(placed) == 1 else _MOST_NAMES :]
        keys = {mark.key for mark in marks}
        counted = _in_order(placed, chosen)
        if counted:
            marks.sort(key=lambda mark: counted.index(str(mark.x)))
        scale = scale_of_metric(name)
        order = tuple(dict.fromkeys(str(mark.x) for mark in marks))

        def placed_at(record: Record) -> Place:
            is_cable = record.test.switch == CABLE and "switch" in placed
            x = None if is_cable else words_of(record.test, placed)
            return x, "", words_of(record.test, panels)

        return Chart(
            self.name,
            "Outage" if is_outage else "Median latency" if is_latency else "Received rate",
            f"{scale.title[:1].upper()}{scale.title[1:]} of {_count(marks, chosen)}"
            f"{'' if counted else ', the best first'}.",
            "bars",
            Scale(", ".join(AXES[axis].label for axis in placed), categories=order),
            scale,
            tuple(marks),
            series=", ".join(AXES[axis].label for axis in rest),
            references=references(
                [record for record in chosen if record.key[:16] in keys],
                name,
                placed_at,
                highest,
                cables,
            ),
        )


class _Boxes:
    name = "trials"
    summary = "Spread of the trials"

    def draw(self, records: Sequence[Record]) -> Chart | None:
        chosen = [r for r in _of_one_metric(records) if len(r.trials) >= _FEWEST_TRIALS]
        if not chosen:
            return None
        name = figure_of(chosen[0])
        axes, panels = split(chosen)
        few = min(len(record.trials) for record in chosen) < _FEWEST_IN_A_BOX
        marks = [
            Mark(words_of(record.test, axes or ("switch",)), value, "",
                 words_of(record.test, panels), switch=record.test.switch)
            for record in chosen[:_MOST_BARS]
            for value in metric(name).samples(record)
        ]  # fmt: skip
        scale = replace(scale_of_metric(name), zero=False)
        order = tuple(dict.fromkeys(str(mark.x) for mark in marks))
        shapes = "points for the" if few else "boxes over the"
        says = f"{scale.title}: {shapes} trials of {len(order)} tests."
        x = Scale(", ".join(AXES[name].label for name in axes) or "switch", categories=order)
        kind: Kind = "points" if few else "boxes"
        note = "each point is a trial" if few else "box: quartiles and median; line: all trials"
        return Chart(self.name, self.summary, says, kind, x, scale, tuple(marks), note=note)


class _Heat:
    name = "two-axes"
    summary = "Received rate or median latency over two axes"

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
