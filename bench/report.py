"""This module shows what came out: rows, the table, the JSON, and the facts of the host that they
hold for."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.pairs import Interval, Limit, Verdict, median_interval, ratios, verdict
from switchmark.report.table import columns_of, drawn


@dataclass(frozen=True, slots=True)
class Row:
    """A row is one line of the table. `figure` is a ratio A/B or, without a B, a figure of A;
    `same` is A/A. Samples are in the order in which they were measured."""

    name: str
    a: str
    b: str | None
    unit: str
    figure: Interval
    same: Interval | None
    limit: Limit | None
    verdict: Verdict | None
    samples: dict[str, list[float]]
    notes: tuple[str, ...] = ()
    checks: str = ""
    """Which side checks the frames that it receives, as `checked / unchecked`; empty if neither
    receives."""
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """What a frame costs on each core, in nanoseconds by function."""

    def median(self, slot: str) -> float:
        """Return the median of the samples of A or of B."""
        return median_interval(self.samples[slot]).median

    @property
    def count(self) -> int:
        return len(self.samples["A"])


def compared(
    name: str,
    a: str,
    b: str,
    unit: str,
    samples: dict[str, list[float]],
    limit: Limit | None,
    notes: Sequence[str] = (),
    *,
    checks: tuple[bool, bool] | None = None,
) -> Row:
    """Make a row from interleaved samples: `A`, `B`, and `A again`. `checks` says whether the
    receivers of A and of B check each frame."""
    figure = median_interval(ratios(samples["A"], samples["B"]))
    same = None
    if "A again" in samples:
        same = median_interval(ratios(samples["A again"], samples["A"]))
        if not same.low <= 1 <= same.high:
            notes = (*notes, "A against itself is not 1 either: the machine was not steady")
    return Row(
        name=name,
        a=a,
        b=b,
        unit=unit,
        figure=figure,
        same=same,
        limit=limit,
        verdict=None if limit is None else verdict(figure, limit),
        samples=samples,
        notes=tuple(notes),
        checks=" / ".join("checked" if one else "unchecked" for one in checks or ()),
    )


def absolute(
    name: str,
    a: str,
    unit: str,
    values: Sequence[float],
    limit: Limit | None,
    notes: Sequence[str] = (),
    *,
    parts: dict[str, dict[str, float]] | None = None,
) -> Row:
    """Make a row of a figure that has no peer; `parts` are the costs of a frame by function."""
    figure = median_interval(values)
    return Row(
        name=name,
        a=a,
        b=None,
        unit=unit,
        figure=figure,
        same=None,
        limit=limit,
        verdict=None if limit is None else verdict(figure, limit),
        samples={"A": list(values)},
        notes=tuple(notes),
        parts=parts or {},
    )


def _cpu_times() -> tuple[int, int]:
    """Return the stolen CPU time, and all of it, since the host started."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return fields[7], sum(fields)


@dataclass(slots=True)
class Machine:
    """These are the facts of this host; load and steal from when it is made to when it is read."""

    _cpu_then: tuple[int, int] = field(default_factory=_cpu_times)
    _load_then: tuple[float, float, float] = field(default_factory=os.getloadavg)
    _started: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z"))

    def facts(self) -> dict[str, Any]:
        stolen, total = (
            now - before for now, before in zip(_cpu_times(), self._cpu_then, strict=True)
        )
        return {
            "started": self._started,
            "cores": len(os.sched_getaffinity(0)),
            "processor": _processor(),
            "kernel": platform.release(),
            "load_average_before": self._load_then[0],
            "load_average_after": os.getloadavg()[0],
            "steal": stolen / total if total else 0.0,
        }


def table(rows: Sequence[Row], skipped: dict[str, str], facts: dict[str, Any]) -> str:
    """Return the rows as plain text, the skipped peers with their reasons, and the host."""
    headings = ("name", "A", "B", "checks", "A/B or figure", "A/A", "limit", "verdict", "n")
    cells = [
        (
            row.name,
            _side(row, "A", row.a),
            _side(row, "B", row.b) if row.b else "",
            row.checks,
            _interval(row.figure, "" if row.b else row.unit),
            _interval(row.same) if row.same else "",
            str(row.limit) if row.limit else "",
            row.verdict or "",
            str(row.count),
        )
        for row in rows
    ]
    lines = drawn(columns_of(headings, cells, left=len(headings)))
    notes = [f"{row.name}: {note}" for row in rows for note in row.notes]
    notes += [f"{name}: skipped: {why}" for name, why in skipped.items()]
    machine = (
        f"{facts['cores']} cores, {facts['processor']}, Linux {facts['kernel']}, load average "
        f"{facts['load_average_before']:.2f} before and {facts['load_average_after']:.2f} after, "
        f"steal {100 * facts['steal']:.2f} %"
    )
    return "\n".join([*lines, "", *notes, *([""] if notes else []), machine])


def write_json(
    path: Path, rows: Sequence[Row], skipped: dict[str, str], facts: dict[str, Any]
) -> None:
    """Write everything, with all samples."""
    content = {"schema": 1, "machine": facts, "rows": [asdict(r) for r in rows], "skipped": skipped}
    path.write_text(json.dumps(content, indent=1) + "\n")


def _side(row: Row, slot: str, label: str) -> str:
    if row.b is None:
        return label
    return f"{label} {number(row.median(slot))} {row.unit}"


def _interval(measured: Interval, unit: str = "") -> str:
    text = f"{number(measured.median)} [{number(measured.low)}, {number(measured.high)}]"
    return f"{text} {unit}".rstrip()


def number(value: float) -> str:
    """Return a figure with as many digits as it deserves in a table."""
    return f"{value:.4g}" if abs(value) < 0.1 else f"{value:.3f}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
