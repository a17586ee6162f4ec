"""Reference lines of charts: the rate of the traffic program on a bare cable, and the line rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from switchmark.model.cable import Calibration
from switchmark.model.record import Record
from switchmark.model.units import gbps_l1, mean_frame_bytes
from switchmark.plots.chart import Reference

CABLE, LINE = "bare cable", "line rate"

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

_Line = dict[float | str | None, tuple[float, float, float]]


def references(
    records: Sequence[Record], metric: str, placed: Callable[[Record], Place], greatest: float
) -> tuple[Reference, ...]:
    """Return the reference lines for some records in the unit of a metric. There are none if the
    metric is not a rate, and no line far above the `greatest` figure.

    The baseline is omitted if the cable is a switch of the records and so has its own series.
    """
    scaled = _UNITS.get(metric)
    if scaled is None or greatest <= 0:
        return ()
    cables = {r.calibration.switch for r in records if isinstance(r.calibration, Calibration)}
    drawn = [] if cables & {record.test.switch for record in records} else [(CABLE, _cable)]
    made: list[Reference] = []
    for name, of in (*drawn, (LINE, _line_rate)):
        made += _lines(name, _lines_of(records, of, scaled, placed), greatest)
    return tuple(made)


def _cable(record: Record) -> tuple[float, float, float] | None:
    calibration = record.calibration
    if not isinstance(calibration, Calibration):
        return None
    low, mean, high = calibration.rate_pps
    return mean, low, high


def _line_rate(record: Record) -> tuple[float, float, float] | None:
    test = record.test
    if test.line_pps is None:
        return None
    pps = test.line_pps * test.pairs * (2 if test.direction == "bi" else 1)
    return pps, pps, pps


def _lines_of(
    records: Sequence[Record],
    of: Callable[[Record], tuple[float, float, float] | None],
    scaled: Callable[[float, Record], float],
    placed: Callable[[Record], Place],
) -> dict[tuple[str, str], _Line]:
    """Return the reference line of each series and panel. The line is empty if it has two values at
    a position, or if a record has no value."""
    lines: dict[tuple[str, str], _Line] = {}
    spoiled = set()
    for record in records:
        rates = of(record)
        x, series, panel = placed(record)
        if rates is None:
            spoiled.add((panel, series))
            continue
        value = tuple(scaled(rate, record) for rate in rates)
        line = lines.setdefault((panel, series), {})
        if x in line and not _alike(line[x][0], value[0]):
            spoiled.add((panel, series))
        line[x] = (value[0], value[1], value[2])
    return {key: line for key, line in lines.items() if key not in spoiled} | {
        key: {} for key in spoiled
    }


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * max(one, other)


def _lines(name: str, lines: dict[tuple[str, str], _Line], greatest: float) -> Iterator[Reference]:
    """Yield the points of the lines of each panel. Series with the same line share it."""
    for panel in dict.fromkeys(panel for panel, _ in lines):
        kept: list[tuple[_Line, list[str]]] = []
        for (of, series), line in lines.items():
            if of != panel or not line:
                continue
            same = next((entry for entry in kept if _fits(entry[0], line)), None)
            if same is None:
                kept.append((dict(line), [series]))
            else:
                same[0].update(line)
                same[1].append(series)
        near = [entry for entry in kept if max(y for y, _, _ in entry[0].values())
                <= _BEYOND * greatest]  # fmt: skip
        if len(near) > _MOST:
            continue
        for line, of_series in near:
            every = len(of_series) == sum(of == panel for of, _ in lines)
            of_some = "" if every else f" ({', '.join(filter(None, of_series))})"
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
