"""Report files. The suffix of the file name selects the format."""

from __future__ import annotations

import csv
import io
import json
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from switchmark.errors import RecordFailed, UsageError
from switchmark.metrics.throughput import repeated_latencies_ns, repeated_rates_pps
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.plots import charts
from switchmark.plots.chart import Chart
from switchmark.plots.render import pdf, png, svg
from switchmark.plots.vega import specification, together
from switchmark.report.answer import answer
from switchmark.report.cells import in_csv, in_markdown
from switchmark.report.headline import provenance
from switchmark.report.json import to_object
from switchmark.report.judged import Judged
from switchmark.report.page import page
from switchmark.report.paper import claims_in_markdown
from switchmark.report.paper_page import sections_of
from switchmark.report.sections import sections

_WIDTH = 640
"""The width of a picture in points, if none is given."""

PICTURES = (".svg", ".pdf", ".png")
"""The suffixes of pictures."""

Runs = Sequence[tuple[str, Sequence[Record]]]
"""Runs with their names."""


def as_csv(runs: Runs) -> str:
    """Return all tests of some runs as CSV (RFC 4180), with a row for each test.

    The columns are the fields of `--json` by their path, such as `rx.pps` and `test.burst`, without
    the evidence of the trials. A null field is empty, and a list is JSON.
    """
    rows = [
        _flat(to_object(record) | {"evidence": {}} | _ranges(record))
        for _, records in runs
        for record in records
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _ranges(record: Record) -> Printed:
    """Return the minimum and the maximum of the repeats, which may be too few for an interval."""
    repeats = {
        "range_pps": repeated_rates_pps(record),
        "range_ns": repeated_latencies_ns(record),
    }
    return {
        name: [min(values), max(values)] if len(values) > 1 else None
        for name, values in repeats.items()
    }


def as_markdown(runs: Runs) -> str:
    """Return the answer and the tables of some runs as Markdown."""
    lines = []
    for name, records in runs:
        lines += [f"## {in_markdown(name)}", ""]
        lines += [line for sentence in answer(records) for line in (in_markdown(sentence), "")]
        for section in sections(records):
            names = [in_markdown(column.name) for column in section.columns]
            rows = zip(*(map(in_markdown, column.cells) for column in section.columns), strict=True)
            rules = ["---:" if column.numeric else "---" for column in section.columns]
            lines += [in_markdown(section.caption), ""]
            lines += [f"| {' | '.join(row)} |" for row in (names, rules, *rows)]
            lines.append("")
    return "\n".join(lines)


def writer_of(path: Path) -> Callable[..., None]:
    """Return a function that writes a report of runs to a file of this name, with the steps of the
    runs and the results of their experiments if the format has them. Raise UsageError for an
    unknown suffix."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"'{path.name}' has no suffix of a report",
            hint=f"-o {path.stem or 'report'}.html for a page, .svg, .pdf or .png for a picture, "
            ".md or .csv for a table",
        )
    return partial(_write, path, form)


def chosen_charts(runs: Runs, names: Sequence[str]) -> tuple[list[Chart], list[str]]:
    """Return the charts with these names (the first chart if there are no names, all charts for
    `all`), and the names of the other charts. Raise UsageError for an unknown name."""
    drawn = charts([record for _, records in runs for record in records])
    available = [chart.name for chart in drawn]
    requested = available if [*names] == ["all"] else [*names] or available[:1]
    for name in requested:
        if name not in available:
            raise UsageError(
                f"these tests have no chart '{name}'\n  known: {', '.join(available) or 'none'}",
                hint=f"--chart {available[0]}, or --chart all" if available else None,
            )
    chosen = [drawn[available.index(name)] for name in requested]
    return chosen, [name for name in available if name not in requested]


def picture_of(
    path: Path, drawn: Sequence[Chart], width: int | None = None, source: Sequence[str] = ()
) -> str | bytes:
    """Return charts in a column as a picture with a width of `width` points, in the format of the
    suffix. `source` are lines on the origin of the figures, below the first title. Raise UsageError
    for an unknown suffix, or without charts."""
    converters: Mapping[str, Callable[[dict[str, Any]], str | bytes]]
    converters = {".svg": svg, ".pdf": pdf, ".png": png}
    convert = converters.get(path.suffix.lower())
    if convert is None:
        raise UsageError(
            f"'{path.name}' has no suffix of a picture",
            hint=f"-o {path.stem or 'report'}.html, .svg, .pdf or .png",
        )
    if not drawn:
        raise UsageError("no test has a figure to draw")
    whole = width is not None
    specifications = [
        specification(
            chart, _WIDTH if width is None else width, whole=whole, source=() if number else source
        )
        for number, chart in enumerate(drawn)
    ]
    return convert(together(specifications))


def write_pictures(
    folder: Path, drawn: Sequence[Chart], width: int | None, source: Sequence[str]
) -> list[Path]:
    """Write each chart into a folder as SVG and as PDF, with its name. Return the paths."""
    if not drawn:
        raise UsageError("no test has a figure to draw")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordFailed(f"{folder} cannot be made: {error.strerror}") from error
    paths = [folder / f"{chart.name}{suffix}" for chart in drawn for suffix in (".svg", ".pdf")]
    for chart, path in zip((chart for chart in drawn for _ in range(2)), paths, strict=True):
        write_file(path, picture_of(path, [chart], width, source))
    return paths


def write_file(path: Path, content: str | bytes) -> None:
    """Write a whole file. If that fails, leave the existing file and raise RecordFailed."""
    data = content if isinstance(content, bytes) else content.encode(errors="backslashreplace")
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(data)  # a device or a pipe cannot be replaced
            return
        temporary = target.with_name(f".switchmark-{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(data)
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordFailed(f"{path} cannot be written: {reason}") from error


def _write(
    path: Path,
    form: Callable[[Runs], str | bytes],
    runs: Runs,
    steps: Mapping[str, str],
    experiments: Sequence[Judged] = (),
) -> None:
    if form is page:
        make_sections = partial(sections_of, experiments) if experiments else None
        content: str | bytes = page(runs, steps, sections_of=make_sections)
    elif form is as_markdown:
        content = "\n".join([as_markdown(runs), *claims_in_markdown(experiments)])
    else:
        content = form(runs)
    write_file(path, content)


def _flat(content: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            fields |= _flat(value, f"{before}{name}.")
        else:
            fields[before + name] = _in_cell(value)
    return fields


def _in_cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    return in_csv(value) if isinstance(value, str) else value


def _picture(suffix: str, runs: Runs) -> str | bytes:
    """Return the first chart of some runs as a picture."""
    source = provenance([record for _, records in runs for record in records])
    return picture_of(Path(f"report{suffix}"), chosen_charts(runs, ())[0], None, source)


_FORMS: Mapping[str, Callable[[Runs], str | bytes]] = {
    ".html": page,
    ".htm": page,
    ".csv": as_csv,
    ".md": as_markdown,
    ".svg": partial(_picture, ".svg"),
    ".pdf": partial(_picture, ".pdf"),
    ".png": partial(_picture, ".png"),
}
