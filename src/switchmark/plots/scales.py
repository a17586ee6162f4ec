"""The choice of units for a chart, so that its axes show short numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from switchmark.plots.chart import Chart, Mark, Reference, Scale

_SMALLER = {"Mpps": "kpps", "Gbps L1": "Mbps L1", "Gbps L2": "Mbps L2"}
"""The unit for values below 1: a thousandth of the original unit."""

_LARGER = {"ns": "us", "us": "ms"}
"""The unit for values of some thousands: a thousand times the original unit."""

_MANY = 2_000


def in_handy_units(chart: Chart) -> Chart:
    """Return the chart in units that suit its values. Axes with the same unit stay equal, so that a
    diagonal remains valid."""
    factors: dict[str, tuple[float, str]] = {}
    for unit, values in _values(chart):
        greatest = max((abs(value) for value in values), default=0.0)
        if unit in _SMALLER and 0 < greatest < 1:
            factors.setdefault(unit, (1e3, _SMALLER[unit]))
        elif unit in _LARGER and greatest >= _MANY:
            factors[unit] = (1e-3, _LARGER[unit])
        else:
            factors[unit] = (1.0, unit)
    says = chart.says
    for unit, (factor, other) in factors.items():
        says = says if factor == 1 else says.replace(f"({unit})", f"({other})")
    x_factor, x = _scaled(chart.x, factors)
    y_factor, y = _scaled(chart.y, factors)
    if x_factor == y_factor == 1:
        return chart
    marks = tuple(_mark(mark, x_factor, y_factor) for mark in chart.marks)
    held = tuple(
        replace(_reference(reference, x_factor, y_factor), unit=y.unit)
        for reference in chart.references
    )
    return replace(chart, marks=marks, references=held, x=x, y=y, says=says)


def _values(chart: Chart) -> Iterator[tuple[str, list[float]]]:
    """Yield the units of both axes with their values. Curves keep their unit."""
    if chart.kind == "curves":
        return
    if not chart.x.categories:
        yield chart.x.unit, [mark.x for mark in chart.marks if not isinstance(mark.x, str)]
    stacked: dict[tuple[object, str], float] = {}
    for mark in chart.marks:
        key = (mark.x if chart.kind == "stacks" else len(stacked), mark.panel)
        stacked[key] = stacked.get(key, 0.0) + mark.y
    yield chart.y.unit, list(stacked.values())


def _scaled(scale: Scale, factors: dict[str, tuple[float, str]]) -> tuple[float, Scale]:
    unit = scale.unit
    factor, other = factors.get(unit, (1.0, unit))
    if factor == 1:
        return 1.0, scale
    return factor, replace(scale, title=scale.title.replace(f"({unit})", f"({other})"))


def _mark(mark: Mark, x: float, y: float) -> Mark:
    return replace(
        mark,
        x=mark.x if isinstance(mark.x, str) else mark.x * x,
        y=mark.y * y,
        low=None if mark.low is None else mark.low * y,
        high=None if mark.high is None else mark.high * y,
    )


def _reference(reference: Reference, x: float, y: float) -> Reference:
    placed = reference.x if reference.x is None or isinstance(reference.x, str) else reference.x * x
    low = None if reference.low is None else reference.low * y
    high = None if reference.high is None else reference.high * y
    return replace(reference, x=placed, y=reference.y * y, low=low, high=high)
