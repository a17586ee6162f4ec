"""This module writes tables of a run into the guide, and moves those that they replace to the
history of benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.pairs import Interval
from bench.peaks import BUDGET_NS, CORES, LINE_MPPS
from bench.peers import PEERS
from bench.report import Row, number

_DOCS = Path(__file__).parents[1] / "docs"
GUIDE = _DOCS / "guide/benchmarks.md"
HISTORY = _DOCS / "decisions/benchmarks-history.md"
NEWEST = "<!-- make bench: what was replaced last comes first -->"

TABLES = {
    "kernel": (
        *("raw-mmsg", "raw-gso", "udp-gso", "best", "trafgen", "xdp-trafficgen"),
        *("kernel-pktgen", "rtt"),
    ),
    "user-space": ("vhost", "memif", "bypass-testpmd"),
    "time": ("setup", "records", "page", "labs", "pacing"),
    "environments": ("container", "start-function"),
    "null": ("null",),
    "threads": ("threads",),
    "peaks": ("peaks",),
}
"""The tables of the guide, and the names or families of comparisons that each of them shows."""

_VERDICTS = {"not shown either way": "undecided"}


def table_of(name: str) -> str | None:
    """Return the table that shows a comparison or a row; None if the guide does not."""
    first = name.split(",")[0].split(" ")[0]
    for table, names in TABLES.items():
        if any(first == one or first.startswith(f"{one}-") for one in names):
            return table
    return None


def write(
    rows: Sequence[Row],
    skipped: dict[str, str],
    facts: dict[str, Any],
    seconds: float,
    *,
    guide: Path = GUIDE,
    history: Path = HISTORY,
) -> list[str]:
    """Write the tables that a run has rows for, and return their names."""
    text, old = guide.read_text(), history.read_text()
    text, _ = _placed(text, "peers", _table(_peers()))
    written = []
    for table in TABLES:
        shown = [row for row in rows if table_of(row.name) == table]
        if not shown:
            continue
        missing = {name: why for name, why in skipped.items() if table_of(name) == table}
        lines = [_caption(shown, facts, seconds), "", *_lines(table, shown), *_missing(missing)]
        text, replaced = _placed(text, table, lines)
        if replaced:
            old = old.replace(NEWEST, f"{NEWEST}\n\n## {table}\n\n{replaced}", 1)
        written.append(table)
    guide.write_text(text)
    history.write_text(old)
    return written


def _placed(text: str, table: str, lines: Sequence[str]) -> tuple[str, str]:
    """Return the text with these lines as one of its tables, and the lines that they replace."""
    begin, end = (f"<!-- make bench, {table}: {word} -->" for word in ("begin", "end"))
    before, found, rest = text.partition(begin)
    replaced, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"there is no place for table {table}: {begin}, {end}")
    return "".join((before, begin, "\n\n", "\n".join(lines), "\n\n", end, after)), replaced.strip()


def _caption(rows: Sequence[Row], facts: dict[str, Any], seconds: float) -> str:
    counts = sorted({row.count for row in rows})
    pairs = " to ".join(str(count) for count in {counts[0]: 0, counts[-1]: 0})
    return (
        f"{pairs} pairs of {seconds:g} s, {facts['started'][:10]}: {facts['cores']} cores,"
        f" {facts['processor']}, Linux {facts['kernel']}, steal {100 * facts['steal']:.1f} %."
    )


def _missing(skipped: dict[str, str]) -> list[str]:
    return ["", *(f"- `{name}` is absent: {why}." for name, why in skipped.items())] * bool(skipped)


def _lines(table: str, rows: Sequence[Row]) -> list[str]:
    if table == "peaks":
        return [*_table(_peaks(rows)), "", *_table(_costs(rows))]
    return _table(_compared(rows) if any(row.b for row in rows) else _measured(rows))


def _table(cells: Iterator[tuple[str, ...]]) -> list[str]:
    head, *rest = cells
    return [_line(head), _line(("---",) * len(head)), *map(_line, rest)]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _compared(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    yield ("comparison", "ours", "peer", "receivers", "ratio", "A/A", "limit")
    for row in rows:
        peer = f"{row.b} {_median(row, 'B')} {row.unit}" if row.b else ""
        same = _interval(row.same) if row.same else ""
        checks = f"**{row.checks}**" if len({*row.checks.split(" / ")}) == 2 else row.checks
        ours = f"{row.a} {_median(row, 'A')} {row.unit}"
        ratio = _interval(row.figure) if row.b else ""
        yield (row.name, ours, peer, checks, ratio, same, _limit(row))


def _measured(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    yield ("measurement", "result", "limit")
    for row in rows:
        yield (f"{row.name}, {row.a}", f"{_interval(row.figure)} {row.unit}", _limit(row))


def _peers() -> Iterator[tuple[str, ...]]:
    yield ("peer", "looks in received frames at", "how to get it")
    for peer in PEERS:
        how = f"{peer.how}; `{peer.variable}` names it" if peer.variable else peer.how
        yield (peer.name, peer.checks, how)


def _peaks(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    yield ("path", "work", "Mpps", f"share of {LINE_MPPS:.1f} Mpps")
    for row in rows:
        share = f"{100 * row.figure.median / LINE_MPPS:.1f} %"
        yield (_path(row), row.a, _interval(row.figure), share)


def _costs(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    yield (
        *("path", "work", "core", "ns per frame"),
        f"over {BUDGET_NS:.1f} ns ({CORES} + {CORES} cores)",
        "ns per frame by function",
    )
    for row in rows:
        for core, functions in row.parts.items():
            frame_ns = sum(functions.values())
            over = f"{frame_ns - BUDGET_NS:.1f}" if frame_ns > BUDGET_NS else "nothing"
            by_function = ", ".join(f"`{name}` {ns:.1f}" for name, ns in functions.items())
            yield (_path(row), row.a, core, f"{frame_ns:.1f}", over, by_function)


def _path(row: Row) -> str:
    return row.name.partition(", ")[2]


def _limit(row: Row) -> str:
    if row.limit is None:
        return ""
    return f"{row.limit}, {_VERDICTS.get(str(row.verdict), row.verdict)}"


def _median(row: Row, slot: str) -> str:
    return number(row.median(slot))


def _interval(measured: Interval) -> str:
    return f"{number(measured.median)} [{number(measured.low)}, {number(measured.high)}]"
