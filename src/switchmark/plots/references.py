"""Reference lines of charts: the rate of the traffic program on a bare cable, and the line rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from switchmark.metrics.named import Metric, metric
from switchmark.model.cable import CABLE, Calibration
from switchmark.model.record import Record
from switchmark.model.units import gbps_l1, mean_frame_bytes
from switchmark.plots.chart import Reference

BASELINE, LINE = "baseline", "line rate"

Place = tuple[float | str | None, str, str]
"""The position of a record in a chart: x value, series and panel."""

_BEYOND = 3
"""The ratio to the largest figure above which a reference line would compress the figures too
much."""

_MOST = 3
"""The largest number of distinguishable reference lines of a kind."""

_ALIKE = 0.001

_UNITS: dict[str, Callable[[float, Record], float]] = {
    "rx.mpps": lambda pps, record: pps / 1e6,
    "rx.gbps_l1": lambda pps, record: gbps_l1(pps, mean_frame_bytes(record.test.frame_size)),
}

_Ends = tuple[float, float, float]
"""A figure with the ends of its interval."""

_Line = dict[float | str | None, _Ends]


def references(
    records: Sequence[Record],
    metric_name: str,
    placed: Callable[[Record], Place],
    greatest: float,
    cables: Sequence[Record] = (),
) -> tuple[Reference, ...]:
    """Return the reference lines for some records in the unit of a metric: the baseline and the
    line rate. No line is far above the `greatest` figure.

    `cables` are tests of the baseline in the same run. Without them, the baseline of a rate is the
    calibration of each record. It is omitted if the cable is a switch of the records.
    """
    if greatest <= 0:
        return ()
    references: list[Reference] = []
    panels = {placed(record)[2] for record in records}
    cables = [record for record in cables if placed(record)[2] in panels]
    if cables:
        figures = partial(_figure, metric(metric_name))
        references += _lines(BASELINE, _lines_of(cables, figures, placed), greatest)
    scaled = _UNITS.get(metric_name)
    if scaled is None:
        return _in_units(references, metric_name)
    measured = cables or [record for record in records if record.test.switch == CABLE]
    drawn = [] if measured else [(BASELINE, _calibrated)]
    for name, rates in (*drawn, (LINE, _line_rate)):
        references += _lines(
            name, _lines_of(records, partial(_in_unit, rates, scaled), placed), greatest
        )
    return _in_units(references, metric_name)


def _in_units(lines: Sequence[Reference], metric_name: str) -> tuple[Reference, ...]:
    unit = metric(metric_name).unit
    return tuple(replace(reference, unit=unit) for reference in lines)


def _figure(chosen: Metric, record: Record) -> _Ends | None:
    """Return the figure of a test of the cable, with its interval."""
    value = chosen.of(record)
    if value is None:
        return None
    low, high = chosen.interval(record) or (value, value)
    return value, low, high


def _in_unit(
    rates: Callable[[Record], _Ends | None],
    scaled: Callable[[float, Record], float],
    record: Record,
) -> _Ends | None:
    ends = rates(record)
    if ends is None:
        return None
    mean, low, high = (scaled(rate, record) for rate in ends)
    return mean, low, high


def _calibrated(record: Record) -> _Ends | None:
    calibration = record.calibration
    if not isinstance(calibration, Calibration):
        return None
    low, mean, high = calibration.rate_pps
    return mean, low, high


def _line_rate(record: Record) -> _Ends | None:
    test = record.test
    if test.line_pps is None:
        return None
    pps = test.line_pps * test.pairs * (2 if test.direction == "bi" else 1)
    return pps, pps, pps


def _lines_of(
    records: Sequence[Record],
    figures: Callable[[Record], _Ends | None],
    placed: Callable[[Record], Place],
) -> dict[tuple[str, str], _Line]:
    """Return the reference line of each series and panel. The line is empty if it has two values at
    a position, or if a record has no value."""
    lines: dict[tuple[str, str], _Line] = {}
    spoiled = set()
    for record in records:
        value = figures(record)
        x, series, panel = placed(record)
        if value is None:
            spoiled.add((panel, series))
            continue
        line = lines.setdefault((panel, series), {})
        if x in line and not _alike(line[x][0], value[0]):
            spoiled.add((panel, series))
        line[x] = value
    return {key: line for key, line in lines.items() if key not in spoiled} | {
        key: {} for key in spoiled
    }


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * max(one, other)


def _lines(name: str, lines: dict[tuple[str, str], _Line], greatest: float) -> Iterator[Reference]:
    """Yield the points of the lines of each panel. Series with the same line share it."""
    for panel in dict.fromkeys(panel for panel, _ in lines):
        named_lines: list[tuple[_Line, list[str]]] = []
        for (of, series), line in lines.items():
            if of != panel or not line:
                continue
            same = next((entry for entry in named_lines if _fits(entry[0], line)), None)
            if same is None:
                named_lines.append((dict(line), [series]))
            else:
                same[0].update(line)
                same[1].append(series)
        near = [entry for entry in named_lines if max(y for y, _, _ in entry[0].values())
                <= _BEYOND * greatest]  # fmt: skip
        if len(near) > _MOST:
            continue
        for line, of_series in near:
            in_all = len(of_series) == sum(of == panel for of, _ in lines)
            of_some = "" if in_all else f" ({', '.join(filter(None, of_series))})"
            yield from _points(name + of_some, panel, line)


def _fits(line: _Line, other: _Line) -> bool:
    shared = line.keys() & other.keys()
    return bool(shared) and all(_alike(line[x][0], other[x][0]) for x in shared)


def _points(name: str, panel: str, line: _Line) -> Iterator[Reference]:
    values = list(line.values())
    if all(_alike(values[0][0], y) for y, _, _ in values):
        y, low, high = values[0]
        yield Reference(y, name, panel, None, low, high)
        return
    for x, (y, low, high) in sorted(line.items(), key=lambda point: _number(point[0])):
        yield Reference(y, name, panel, x, low, high)


def _number(x: float | str | None) -> float:
    """Return the sort key of an x value: words keep their order."""
    return x if isinstance(x, float) else 0.0
