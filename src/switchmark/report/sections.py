"""The tables of a report. Each dimension and each kind of search has a section,
with a row per test or per goal of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from switchmark.metrics.doubts import severity_of
from switchmark.metrics.loss import loss_bound, lost_share
from switchmark.metrics.searched import values_of_goal
from switchmark.metrics.throughput import MIN_REPEATS, is_lower_bound
from switchmark.model.labels import telling
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.search import Goal
from switchmark.model.test import AXES
from switchmark.report import outage
from switchmark.report.caption import axis_text, caption
from switchmark.report.figures import (
    BOUND_MARK,
    MARKS,
    bound,
    cable_latency,
    doubt,
    format_median,
    format_ns,
    goal_name,
    percent,
    precision,
    rate,
    searched_figure,
    share,
    sure_latency,
    sure_rate,
)
from switchmark.report.json import DETAILS, to_object
from switchmark.report.notes import SHOWN_CORES
from switchmark.report.recovery import recovery_text
from switchmark.report.table import Column, Section, folded

_IN_COLUMNS = tuple(name for name, axis in AXES.items() if axis.own_column)

_LAST_ROLES = ("switch",)
"""Roles whose column is the last: senders and receivers stand before the switch."""

_NO_GOALS = ("fixed", "max")
"""Searches without goals: their result is the figure of the test."""

LIMITS = MappingProxyType(
    {
        "sender": "generator",
        "receiver": "generator",
        "offered-load": "offered load",
        "function": "function",
        "host": "host",
        "switch": "switch",
        "unknown": "unknown",
    }
)
"""The words for verdicts in the brief table."""

_NOT_BRIEF = ("Gbps L1", "semantics", "actual semantics")

_GBPS, _P99, _P50, _SEMANTICS, _LOST, _LAST = 6, 5, 4, 3, 2, 1


@dataclass(frozen=True, slots=True)
class _Row:
    """A row is a test, or one goal of its search. R+ has a row like a goal."""

    record: Record
    content: Printed
    goal: Goal | None = None


_Rows = Sequence[_Row]


def sections(
    records: Sequence[Record], *, wide: bool = False, brief: bool = False
) -> list[Section]:
    """Return the sections of these records, with rows in the order of the records.

    Empty columns are left out. Values that all rows share are in the caption, unless the table is
    `wide`. A `brief` section has the figures, their limits, and a mark for doubts.
    """
    kinds: dict[tuple[str, str, tuple[str, ...]], list[Record]] = {}
    for record in records:
        search = "" if record.test.search in _NO_GOALS else record.test.search
        kinds.setdefault((record.test.dimension, search, record.alike), []).append(record)
    make = _brief_section if brief else partial(_section, wide=wide)
    return [make(group, search) for (_, search, _), group in kinds.items()]


def _section(records: Sequence[Record], search: str, wide: bool) -> Section:
    rows, figures = _rows_of(records, search)
    common = _common_doubts(rows) if not wide else []
    of_wide = [_loss_bounds(rows), *_cores(rows)] if wide else []
    columns = [*_axes(rows), *figures, *of_wide, _verdicts(rows)]
    columns += [_testbeds(rows), _doubts(rows, common), *(_times(rows) if wide else [])]
    below = [] if wide else _cores_line(rows)
    below += [f"doubts of all tests: {', '.join(common)}"] if common else []
    filled = tuple(column for column in columns if any(column.cells))
    keys = tuple(row.record.key[:16] for row in rows)
    section = Section(caption(records), filled, tuple(below), keys)
    return section if wide else folded(section)


def _brief_section(records: Sequence[Record], search: str) -> Section:
    rows, figures = _rows_of(records, search)
    columns = [*_axes(rows), *(figure for figure in figures if figure.name not in _NOT_BRIEF)]
    limits = [] if records[0].test.dimension == "outage" else [_limits(rows)]
    columns += [*limits, _marks(rows)]
    shown_columns = (
        replace(column, cells=_unmarked(column.cells)) for column in columns if any(column.cells)
    )
    keys = tuple(row.record.key[:16] for row in rows)
    return Section(caption(records), tuple(shown_columns), (), keys)


def _rows_of(records: Sequence[Record], search: str) -> tuple[_Rows, list[Column]]:
    """Return the rows of a section, and the columns with measured figures."""
    rows = [row for record in records for row in (_goals(record) if search else [_row(record)])]
    if search:
        return rows, _of_search(rows)
    if records[0].test.dimension == "latency":
        return rows, _of_latency(rows)
    if records[0].test.dimension == "outage":
        return rows, _of_outage(rows)
    return rows, _of_rate(rows)


def _row(record: Record) -> _Row:
    return _Row(record, to_object(record, DETAILS))


def _goals(record: Record) -> list[_Row]:
    """Return the rows of a search: one per goal, and one for its initial R+."""
    content, search = to_object(record, DETAILS), record.search
    if search is None or record.status != "ok":
        return [_Row(record, content)]
    rows = [_Row(record, content, goal) for goal in search.goals]
    if search.r_plus_pps is not None:
        r_plus = Goal(goal="r+", loss_ratio=0.0, rate_pps=search.r_plus_pps)
        rows.append(_Row(record, content, r_plus))
    return rows


def _axes(rows: _Rows) -> list[Column]:
    """Return the columns of the axes in which tests differ. The switch always has a column, so that
    readers do not need the caption."""
    tests = [row.record.test for row in rows]
    return [
        Column(
            AXES[axis].heading or AXES[axis].label,
            tuple(axis_text(getattr(test, axis)) for test in tests),
            numeric=axis == "frame_size",
        )
        for axis in dict.fromkeys((*_IN_COLUMNS, *telling(tests)))
        if axis == "switch" or len({getattr(test, axis) for test in tests}) > 1
        if axis != "dimension"
    ]


# --- figures ---------------------------------------------------------------------------------


def _of_rate(rows: _Rows) -> list[Column]:
    """Return the columns of throughput tests."""
    return [
        *_semantics(rows),
        _repeated(rows, "received", "ci95_pps", sure_rate),
        Column("Gbps L1", _cells(rows, _gbps), numeric=True, expendable=_GBPS),
        *_losses(rows),
        _latency_column(rows, "p50", _P50),
        _latency_column(rows, "p99", _P99),
    ]


def _of_latency(rows: _Rows) -> list[Column]:
    """Return the columns of latency tests."""
    on_cable = _cells(rows, lambda row: cable_latency(row.content))
    return [
        *_semantics(rows),
        _repeated(rows, "p50", "ci95_ns", sure_latency),
        Column("floor p50", on_cable, numeric=True, expendable=_P50),
        _latency_column(rows, "p99", _SEMANTICS),
        Column("received", _cells(rows, lambda row: rate(row.content)), "", True, _GBPS),
        *_losses(rows),
    ]


def _of_outage(rows: _Rows) -> list[Column]:
    """Return the columns of outage tests."""

    def column(
        heading: str, text: Callable[[Record], str], expendable: int = 0, above: str = ""
    ) -> Column:
        cells = _cells(rows, lambda row: text(row.record), failed=not expendable)
        return Column(heading, cells, above, True, expendable)

    phases = {
        "stop": lambda phases: phases.stop_s,
        "start": lambda phases: phases.start_s,
        "links": lambda phases: phases.links_s,
        "rest": lambda phases: phases.rest_s,
    }
    counts = {
        "duplicated": lambda trial: trial.duplicated,
        "reordered": lambda trial: trial.reordered,
        "late": lambda trial: trial.late,
    }
    return [
        *_semantics(rows),
        column("outage", outage.outage_text),
        column("by loss", outage.by_loss_text, _P50),
        column("by time", outage.by_time_text, _P50),
        column("from the event", outage.span_text, _P99),
        *(
            column(name, partial(outage.phase_text, read=read), _GBPS, above="in which")
            for name, read in phases.items()
        ),
        column("lost frames", outage.lost_text, _LOST),
        *(
            column(name, partial(outage.count_text, read=read), _SEMANTICS)
            for name, read in counts.items()
        ),
        column("p99 back after", outage.recovery_text, _GBPS),
    ]


def _of_search(rows: _Rows) -> list[Column]:
    """Return the columns of searches: the figure of each goal, with the precision of one search."""
    several = any(row.record.test.pairs > 1 or row.record.test.direction == "bi" for row in rows)
    heading = "each sender" if several else "found"
    sure = any(row.record.search and len(row.record.search.repeats) >= MIN_REPEATS for row in rows)
    return [
        *_semantics(rows),
        Column("goal", tuple(_goal_text(row) for row in rows)),
        Column(heading + " [95 %]" * sure, tuple(_result(row) for row in rows), numeric=True),
        Column("precision", tuple(_precision(row) for row in rows), "", True, _LOST),
        Column("lost", tuple(_lost_share(row) for row in rows), "", True, _LOST),
        *(
            Column(name, tuple(_goal_latency(row, name) for row in rows), "", True, expendable)
            for name, expendable in (("p50", _SEMANTICS), ("p99", _P50))
        ),
    ]


def _cells(rows: _Rows, text: Callable[[_Row], str], *, failed: bool = False) -> tuple[str, ...]:
    """Return a cell per row. A test without trials has an empty cell, or its status if `failed`."""
    return tuple(
        text(row) if row.content["rx"] else row.record.status if failed else "" for row in rows
    )


def _repeated(rows: _Rows, heading: str, ends: str, figure: Callable[..., str]) -> Column:
    """Return a column of figures with their spread over the repeats. The heading names it: the 95 %
    interval, or minimum and maximum if all tests have the same small number of repeats."""
    counts = {row.content["repeats"] for row in rows if row.content["rx"]}
    sure = any(row.content[ends] for row in rows)
    alike = len(counts) == 1 and not sure
    interval = " [95 %]" if sure else " (min..max)" * (alike and counts != {1})

    def cell(row: _Row) -> str:
        return figure(row.record, row.content, count=not alike)

    return Column(heading + interval, _cells(rows, cell, failed=True), numeric=True)


def _gbps(row: _Row) -> str:
    return f"{bound(row.content)}{row.content['rx']['gbps_l1']:.3g}"


def _semantics(rows: _Rows) -> list[Column]:
    """Return a column if the switches have different semantics. Otherwise the caption has them.

    If tests request different semantics, the axis has a column already. Then add a column with the
    actual semantics only if they differ from the requested ones.
    """
    kinds = tuple(row.content["semantics"] or "" for row in rows)
    semantics = tuple(row.record.test.semantics for row in rows)
    if len(set(filter(None, kinds))) < 2:
        return []
    if len(set(semantics)) == 1:
        return [Column("semantics", kinds, expendable=_SEMANTICS)]
    if all(kind in ("", word) for kind, word in zip(kinds, semantics, strict=True)):
        return []
    return [Column("actual semantics", kinds, expendable=_SEMANTICS)]


def _losses(rows: _Rows) -> list[Column]:
    """Return a column with the share of lost frames. If a test has unsent frames, add a column with
    their share of the offered load."""

    def lost(row: _Row) -> str:
        ratio = lost_share(row.record)
        return "" if ratio is None else percent(ratio)

    def unsent(row: _Row) -> str:
        sent = row.content["tx"]
        return share(sent["unsent"], sent["frames"] + sent["unsent"])

    columns = [Column("lost", _cells(rows, lost), "", True, _LOST, folds=True)]
    if any(row.content["tx"] and row.content["tx"]["unsent"] for row in rows):
        columns.append(Column("unsent", _cells(rows, unsent), "", True, _LOST))
    return columns


def _loss_bounds(rows: _Rows) -> Column:
    """Return a column with the loss ratio that the trials exclude with 95 % confidence."""

    def cell(row: _Row) -> str:
        ratio = row.goal.loss_bound if row.goal else loss_bound(row.record)
        return "" if ratio is None else f"{ratio:.1e}"

    return Column("loss below", _cells(rows, cell), numeric=True)


def _latency_column(rows: _Rows, name: str, expendable: int) -> Column:
    def text(row: _Row) -> str:
        latency = row.content["latency_ns"] or {}
        unsure = format_ns(latency.get("unsure_ns")) if latency.get(name) is not None else ""
        text = format_median(latency) if name == "p50" else format_ns(latency.get(name))
        return text + (unsure and f" ± {unsure}")

    return Column(name, _cells(rows, text), numeric=True, expendable=expendable)


def _verdicts(rows: _Rows) -> Column:
    def text(row: _Row) -> str:
        if row.record.status != "ok":
            return row.record.status if row.content["rx"] else ""
        return (row.goal.verdict or "") if row.goal else row.record.verdict

    return Column("verdict", tuple(map(text, rows)), expendable=_LOST, folds=True)


def _limits(rows: _Rows) -> Column:
    """Return a column with the limit of each figure."""

    def text(row: _Row) -> str:
        if row.record.status != "ok":
            return row.record.status if row.content["rx"] else ""
        verdict = row.goal.verdict if row.goal else row.record.verdict
        return LIMITS.get(verdict or "", verdict or "")

    return Column("limited by", tuple(map(text, rows)), expendable=_LOST)


def _marks(rows: _Rows) -> Column:
    """Return a column that marks tests whose figures may be wrong."""
    marks = (MARKS[severity_of(row.record.doubts)] if row.content["rx"] else "" for row in rows)
    return Column("", tuple(marks))


def _unmarked(cells: tuple[str, ...]) -> tuple[str, ...]:
    marks = tuple(f"{mark} " for mark in MARKS.values() if mark)
    return tuple(cell[2:] if cell.startswith(marks) else cell for cell in cells)


def _testbeds(rows: _Rows) -> Column:
    """Return a column with the testbeds of each test. It is empty in a run of one host."""
    cells = tuple(" ".join(row.record.testbeds) for row in rows)
    return Column("testbed", cells, expendable=_GBPS, folds=True)


# --- goals -----------------------------------------------------------------------------------


def _goal_text(row: _Row) -> str:
    return goal_name(row.goal, row.record.search) if row.goal and row.record.search else ""


def _result(row: _Row) -> str:
    """Return the figure that a search found for a goal."""
    goal = row.goal
    if goal is None:
        return row.record.status
    if goal.overload_pps is not None:
        return recovery_text(goal)
    mark = doubt(row.content) + BOUND_MARK * is_lower_bound(goal.verdict or "")
    of_burst, of_load = goal.burst_frames is not None, goal.low_pps is None
    values = () if of_load and not of_burst else values_of_goal(row.record, goal.goal)
    value = goal.burst_frames if of_burst else goal.rate_pps
    if value is None:
        return "none"
    return mark + searched_figure(value, values, "frames" if of_burst else "pps")


def _precision(row: _Row) -> str:
    return precision(row.goal) if row.goal else ""


def _lost_share(row: _Row) -> str:
    """Return the share of lost frames at a load. Other searches state it in their goals."""
    if row.goal is None or row.goal.latency_ns is None or row.goal.low_pps is not None:
        return ""
    return share(row.goal.loss_ratio, 1)


def _goal_latency(row: _Row, name: str) -> str:
    figures = row.goal.latency_ns if row.goal else None
    value = getattr(figures, name) if figures else None
    if value is None or row.goal is None:
        return ""
    if name == "p50" and row.record.test.search == "latency-at-load":
        return searched_figure(value, values_of_goal(row.record, row.goal.goal), "ns")
    return format_ns(value)


# --- doubts and cores ------------------------------------------------------------------------


def _common_doubts(rows: _Rows) -> list[str]:
    """Return the doubts that all tests with trials share, if there are several such tests."""
    measured = [row.record.doubts for row in rows if row.content["rx"]]
    if len(measured) < 2:
        return []
    return [doubt for doubt in measured[0] if all(doubt in doubts for doubts in measured)]


def _doubts(rows: _Rows, common: Sequence[str]) -> Column:
    cells = (
        ", ".join(
            doubt for doubt in row.record.doubts if doubt not in common or not row.content["rx"]
        )
        for row in rows
    )
    return Column("doubts", tuple(cells), expendable=_LAST, wraps=True)


def _roles(rows: _Rows) -> list[str]:
    roles = dict.fromkeys(role for row in rows for role in row.content["cpu"])
    return sorted(roles, key=_LAST_ROLES.count)


def _cores_line(rows: _Rows) -> list[str]:
    """Return a line with the CPU use of each role in cores, minimum and maximum of all tests."""
    parts = []
    for role in _roles(rows):
        used = [cores for row in rows if (cores := row.content["cpu"].get(role)) is not None]
        if used:
            ends = dict.fromkeys(f"{cores:.2f}" for cores in (min(used), max(used)))
            parts.append(f"{role} {'..'.join(ends)}")
    return [f"cores: {', '.join(parts)}"] if parts else []


def _cores(rows: _Rows) -> list[Column]:
    """Return columns with the CPU use of each role and of the kernel's softirqs, in cores. The
    figure of a cycle counter is in parentheses if it differs."""
    columns = {role: _cells(rows, partial(_cores_of, role)) for role in _roles(rows)}
    columns["softirq"] = _cells(rows, _softirq)
    listed: list[Column] = []
    for heading, cells in columns.items():
        if any(cells):
            above = "" if listed else "cores"
            listed.append(Column(heading, cells, above, numeric=True))
    return listed


def _times(rows: _Rows) -> list[Column]:
    """Return columns with the seconds of set-up and tear-down; parentheses have the switch's."""

    def cell(row: _Row, whole: str, switch: str) -> str:
        took, of_switch = row.content[whole], row.content[switch]
        if took is None:
            return ""
        return f"{took:.2f}" + ("" if of_switch is None else f" ({of_switch:.2f})")

    columns = {"set-up": ("setup_s", "start_s"), "tear-down": ("teardown_s", "stop_s")}
    return [
        Column(heading, tuple(cell(row, *names) for row in rows), "seconds", numeric=True)
        for heading, names in columns.items()
    ]


def _cores_of(role: str, row: _Row) -> str:
    cores = row.content["cpu"].get(role)
    if cores is None:
        return ""
    disagreements = row.content["cost"]["disagreements"]
    by_cycles = {case["part"]: case["cycle_cores"] for case in disagreements}
    return f"{cores:.2f} ({by_cycles[role]:.2f})" if role in by_cycles else f"{cores:.2f}"


def _softirq(row: _Row) -> str:
    kernel = row.content["cost"]["kernel_softirq"]
    return f"{kernel['cores']:.2f}" if kernel and kernel["cores"] >= SHOWN_CORES else ""
