"""This module makes tables of tests: what they have in common stands above, what tells them apart
and what was measured in columns.

A section is text and serves every report; `table_lines` alone knows a width.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.model.labels import telling
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.spec import AXES, Test
from switchmark.report.figures import bound, cable_latency, doubt, format_ns, interval, rate, share
from switchmark.report.json import to_object
from switchmark.report.notes import SHOWN_CORES

__all__ = ["Column", "Section", "sections", "table_lines"]

_GAP = "  "
_NO_WIDTH = 10_000
_IN_COLUMNS = tuple(name for name, axis in AXES.items() if axis.own_column)

_SAID = frozenset(
    {
        *("dimension", "locality", "scenario", "direction", "switch", "environment", "engine"),
        *("frame_size", "rate", "search", "port", "semantics", "duration", "repeat"),
        *("warmup", "seed"),
    }
)
"""Axes that a caption says in words of its own, or that no reader asks for."""

_LAST_ROLES = ("switch",)
"""Those who send and receive stand before the switch between them."""

_SEMANTICS, _CORES, _SPREAD, _DETAIL, _LAST = 2, 5, 4, 3, 1


@dataclass(frozen=True, slots=True)
class Column:
    """A column has a heading, what stands above it, and a cell for each row. Where there is no room
    for all columns, those of the greatest `expendable` are left out first, and those of 0 never."""

    heading: str
    cells: tuple[str, ...]
    above: str = ""
    numeric: bool = False
    expendable: int = 0

    @property
    def name(self) -> str:
        return f"{self.above} {self.heading}".strip()

    @property
    def width(self) -> int:
        return max(map(len, (self.above, self.heading, *self.cells)))


@dataclass(frozen=True, slots=True)
class Section:
    """A section shows the tests of one dimension: what all of them have in common, and a table of
    the rest."""

    caption: str
    columns: tuple[Column, ...]


def sections(records: Sequence[Record], *, timed: bool = False) -> list[Section]:
    """Return a section for each dimension, with a row for each record in their order; `timed` with
    what it took to set up and to take down. A column that is empty in all rows is left out."""
    by_dimension: dict[str, list[Record]] = {}
    for record in records:
        by_dimension.setdefault(record.test.dimension, []).append(record)
    return [_section(each, timed) for each in by_dimension.values()]


def table_lines(section: Section, width: int | None = None) -> list[str]:
    """Return a section as lines no wider than `width`, or as wide as they need to be: columns for
    which there is no room are left out, and named."""
    shown = _fitted(section.columns, width)
    gone = [column.name for column in section.columns if column not in shown]
    lines = textwrap.wrap(section.caption, width or _NO_WIDTH, subsequent_indent=_GAP)
    if any(column.above for column in shown):
        lines.append(_line(shown, [column.above for column in shown]))
    lines += [_line(shown, [column.heading for column in shown]), "─" * _width(shown)]
    lines += [_line(shown, row) for row in zip(*(column.cells for column in shown), strict=True)]
    if gone:
        note = f"no room for: {', '.join(gone)} (--wide shows all)"
        lines += textwrap.wrap(note, width or _NO_WIDTH, subsequent_indent=_GAP)
    return lines


def _fitted(columns: Sequence[Column], width: int | None) -> list[Column]:
    """Return the columns that there is room for. Those of the cores go together; of others that
    matter alike the last one goes first."""
    shown = list(columns)
    while width is not None and _width(shown) > width:
        most = max(column.expendable for column in shown)
        if not most:
            break
        of_most = [column for column in shown if column.expendable == most]
        gone = of_most if most == _CORES else of_most[-1:]
        shown = [column for column in shown if column not in gone]
    return shown


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _line(columns: Sequence[Column], texts: Sequence[str]) -> str:
    cells = (
        text.rjust(column.width) if column.numeric else text.ljust(column.width)
        for column, text in zip(columns, texts, strict=True)
    )
    return _GAP.join(cells).rstrip()


def _section(records: Sequence[Record], timed: bool) -> Section:
    tests = [record.test for record in records]
    told = telling(tests)
    # A table without the name of its switch would need a look at the caption for every row.
    axes = [
        axis
        for axis in dict.fromkeys((*_IN_COLUMNS, *told))
        if axis == "switch" or len({getattr(test, axis) for test in tests}) > 1
    ]
    columns = [
        Column(
            AXES[axis].heading or AXES[axis].words,
            tuple(_axis(getattr(test, axis)) for test in tests),
            numeric=axis == "frame_size",
        )
        for axis in axes
        if axis != "dimension"
    ]
    objects = [to_object(record) for record in records]
    figures = _of_latency(objects) if tests[0].dimension == "latency" else _of_rate(objects)
    figures += _times(objects) if timed else []
    kept = tuple(column for column in (*columns, *figures) if any(column.cells))
    return Section(_caption(records), kept)


def _caption(records: Sequence[Record]) -> str:
    """Return what all tests of a section have in common: the usual only where a reader looks for
    it."""
    first = records[0].test
    shared = {
        axis: value
        for axis, value in first.model_dump().items()
        if all(getattr(record.test, axis) == value for record in records)
    }
    words = [str(shared[axis]) for axis in ("scenario",) if axis in shared]
    words += ["both ways"] * (shared.get("direction") == "bi")
    ports = {record.port for record in records if record.port}
    words += [f"ports {ports.pop()}"] if len(ports) == 1 else []
    words += [f"in {shared['environment']}"] if "environment" in shared else []
    words += [f"engine {shared['engine']}"] if "engine" in shared else []
    if "frame_size" in shared:
        size = shared["frame_size"]
        words.append(f"{size} B" if isinstance(size, int) else size)
    if shared.get("search") != "fixed" and "search" in shared:
        words.append(f"search {shared['search']}")
    if "rate" in shared and (shared["rate"] != "max" or shared.get("search") == "fixed"):
        words.append(f"rate {shared['rate']}")
    kinds = {record.semantics for record in records if record.semantics}
    words += list(kinds) if len(kinds) == 1 else []
    words += [
        f"{AXES[axis].words} {_axis(value)}"
        for axis, value in shared.items()
        if axis not in _SAID and value not in (None, _usual(first, axis))
    ]
    if "duration" in shared and "repeat" in shared:
        trials = "a trial" if shared["repeat"] == 1 else f"{shared['repeat']} trials"
        words.append(f"{trials} of {shared['duration']:g} s")
    return f"{first.dimension}: {', '.join(words)}"


def _usual(test: Test, axis: str) -> object:
    """Return the usual value of an axis, for tests of this one's dimension."""
    record = AXES[axis]
    if record.field.default_factory is None:
        return record.default
    return getattr(Test(dimension=test.dimension), axis)


_Objects = Sequence[Printed]


def _of_rate(objects: _Objects) -> list[Column]:
    """Return the columns of what tests of throughput measured."""
    return [
        *_semantics(objects),
        Column("received", _cells(objects, rate, failed=True), numeric=True),
        Column("95 %", _cells(objects, _rate_interval), numeric=True, expendable=_LAST),
        Column(
            "Gbps L1",
            _cells(objects, lambda o: f"{bound(o)}{o['rx']['gbps_l1']:.3g}"),
            numeric=True,
            expendable=_SPREAD,
        ),
        *_losses(objects),
        _latency_column(objects, "p50", _DETAIL),
        _latency_column(objects, "p99", _SPREAD),
        *_cores(objects),
        _verdicts(objects),
    ]


def _of_latency(objects: _Objects) -> list[Column]:
    """Return the columns of what tests of latency measured."""
    return [
        *_semantics(objects),
        Column("p50", _cells(objects, _median, failed=True), numeric=True),
        Column("95 %", _cells(objects, _latency_interval), numeric=True, expendable=_LAST),
        Column(
            "floor p50",
            _cells(objects, cable_latency),
            numeric=True,
            expendable=_DETAIL,
        ),
        _latency_column(objects, "p99", _DETAIL),
        Column("received", _cells(objects, rate), numeric=True, expendable=_SPREAD),
        *_losses(objects),
        *_cores(objects),
        _verdicts(objects),
    ]


def _cells(
    objects: _Objects, text: Callable[[Printed], str], *, failed: bool = False
) -> tuple[str, ...]:
    """Return a cell for each test, empty for one without trials; what `failed` names says why."""
    return tuple(text(o) if o["rx"] else o["status"] if failed else "" for o in objects)


def _semantics(objects: _Objects) -> list[Column]:
    """Return a column where the switches do different work; else the caption says what they do."""
    kinds = tuple(o["semantics"] or "" for o in objects)
    if len(set(filter(None, kinds))) < 2:
        return []
    return [Column("semantics", kinds, expendable=_SEMANTICS)]


def _verdicts(objects: _Objects) -> Column:
    cells = tuple(
        o["verdict"] if o["status"] == "ok" else o["status"] if o["rx"] else "" for o in objects
    )
    return Column("verdict", cells, expendable=_LAST)


def _losses(objects: _Objects) -> list[Column]:
    """Return the lost frames of those sent, and where there are any, unsent ones of those to be
    sent."""

    def unsent(o: Printed) -> str:
        return share(o["tx"]["unsent"], o["tx"]["frames"] + o["tx"]["unsent"])

    lost = _cells(objects, lambda o: share(o["lost"], o["tx"]["frames"] * o["test"]["copies"]))
    columns = [Column("lost", lost, numeric=True, expendable=_SEMANTICS)]
    if any(o["tx"] and o["tx"]["unsent"] for o in objects):
        columns.append(
            Column("unsent", _cells(objects, unsent), numeric=True, expendable=_SEMANTICS)
        )
    return columns


def _latency_column(objects: _Objects, name: str, expendable: int) -> Column:
    cells = _cells(objects, lambda o: format_ns((o["latency_ns"] or {}).get(name)))
    return Column(name, cells, numeric=True, expendable=expendable)


def _cores(objects: _Objects) -> list[Column]:
    """Return the cores of each role; in parentheses what a cycle counter says of them; and the
    kernel's interrupts."""
    roles = sorted(dict.fromkeys(role for o in objects for role in o["cpu"]), key=_LAST_ROLES.count)
    columns = {
        role: tuple(_cores_of(o, role) if o["rx"] else "" for o in objects) for role in roles
    }
    columns["softirq"] = tuple(_softirq(o) if o["rx"] else "" for o in objects)
    listed: list[Column] = []
    for heading, cells in columns.items():
        if any(cells):
            above = "" if listed else "cores"
            listed.append(Column(heading, cells, above, numeric=True, expendable=_CORES))
    return listed


def _times(objects: _Objects) -> list[Column]:
    """Return the seconds of setting up and of taking down; in parentheses the switch's own."""

    def cell(o: Printed, whole: str, own: str) -> str:
        if o[whole] is None:
            return ""
        return f"{o[whole]:.2f}" + ("" if o[own] is None else f" ({o[own]:.2f})")

    columns = {"set-up": ("setup_s", "start_s"), "tear-down": ("teardown_s", "stop_s")}
    return [
        Column(heading, tuple(cell(o, *names) for o in objects), "seconds", numeric=True)
        for heading, names in columns.items()
    ]


def _cores_of(content: Printed, role: str) -> str:
    cores = content["cpu"].get(role)
    if cores is None:
        return ""
    by_cycles = {each["part"]: each["cycle_cores"] for each in content["cost"]["disagreements"]}
    return f"{cores:.2f} ({by_cycles[role]:.2f})" if role in by_cycles else f"{cores:.2f}"


def _softirq(content: Printed) -> str:
    kernel = content["cost"]["kernel_softirq"]
    return f"{kernel['cores']:.2f}" if kernel and kernel["cores"] >= SHOWN_CORES else ""


def _rate_interval(content: Printed) -> str:
    return interval(content["ci95_pps"], content["rx"]["pps"], "pps")


def _latency_interval(content: Printed) -> str:
    return interval(content["ci95_ns"], (content["latency_ns"] or {}).get("p50"), "ns")


def _median(content: Printed) -> str:
    median = format_ns((content["latency_ns"] or {}).get("p50"))
    return f"{doubt(content)}{median}" if median else "-"


def _axis(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
