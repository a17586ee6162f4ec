"""This module defines the commands that show or export the records of runs. Each command parses
its arguments, calls a function and prints the result.

The commands only read run folders. Imports are inside the functions, so that `--help` is quick.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from switchmark.cli.arguments import explain, json_lines, output, run_folder, run_folders, wide
from switchmark.cli.help import GroupedCommand
from switchmark.cli.running import print_json, print_records, print_report, steps_of
from switchmark.cli.tuning import print_tuning

if TYPE_CHECKING:
    from switchmark.model.record import Record
    from switchmark.report.judged import Judged
    from switchmark.report.rows import Tables

_FORMS = {".csv": "csv", ".parquet": "parquet", ".tex": "latex", "": "csit"}
"""The form of an export, by the suffix of its file."""

_POINTS = {"in": 72, "cm": 72 / 2.54, "mm": 72 / 25.4, "pt": 1, "": 1}
"""Points in a unit of length."""

_WIDTHS = 120, 4000
"""The minimum and maximum width of a picture, in points."""

_COLUMNS = 100
"""The width of a table without a terminal."""


@click.command("report", cls=GroupedCommand)
@run_folders
@click.option(
    "-o",
    "--output",
    metavar="FILE|FOLDER/",
    help="a page (.html), a picture (.svg, .pdf, .png) or a table (.md, .csv); for a folder, "
    "every chart as .svg and .pdf",
)
@click.option("--chart", metavar="NAME,...", help="charts to draw, or all [the first]")
@click.option("--width", metavar="LENGTH", help="width of a picture: 3.3in, 84mm, 8.4cm or 240pt")
@json_lines("test")
@wide
@explain
def report(
    runs: tuple[Path, ...],
    output: str | None,
    chart: str | None,
    width: str | None,
    as_json: bool,
    wide: bool,
    explain: bool,
) -> int:
    """Show the results of runs from their records."""
    from switchmark.campaign.tuning import folders_of
    from switchmark.cli.judging import judged_run
    from switchmark.cli.reading import records_of
    from switchmark.errors import UsageError
    from switchmark.report.files import PICTURES, writer_of
    from switchmark.report.paper import print_judged

    path = None if output is None else Path(output)
    in_folder = path is not None and (str(output).endswith("/") or path.is_dir())
    write = None if path is None or in_folder else writer_of(path)
    pictured = path is not None and (in_folder or path.suffix.lower() in PICTURES)
    if (chart or width) and not pictured:
        raise UsageError("--chart and --width are for a picture", hint="-o report.pdf")
    points = None if width is None else _points(width)
    folders = {
        folder: "/".join((run.resolve().name, *folder.relative_to(run).parts))
        for run in runs
        for folder in folders_of(run)
    }
    results = [(name, records_of(folder)) for folder, name in folders.items()]
    if pictured and path is not None:
        names = chart.split(",") if chart else ["all"] if in_folder else []
        _draw(path, results, names, points, in_folder=in_folder)
    elif write is not None:
        steps = {name: steps_of(folder) for folder, name in folders.items()}
        write(results, steps, [result for run in folders for result in _judged(run)])
    for folder, (name, records) in zip(folders, results, strict=True):
        if as_json:
            print_records(records)
        elif path is None:
            print(f"{name}\n")
            print_report(records, wide=wide, explain=explain)
            for result in judged_run(folder, records):
                print()
                print_judged(result, sys.stdout)
    for run in runs if path is None and not as_json else ():
        print_tuning(run, sys.stdout)
    return 0


def _draw(
    output: Path,
    results: Sequence[tuple[str, Sequence[Record]]],
    names: Sequence[str],
    width: int | None,
    *,
    in_folder: bool,
) -> None:
    """Draw charts into a picture, or each into a file of a folder. If the user named no chart, list
    the charts left out."""
    from switchmark.report.files import chosen_charts, picture_of, write_file, write_pictures
    from switchmark.report.headline import provenance

    drawn, others = chosen_charts(results, names)
    all_records = [record for _, records in results for record in records]
    source = provenance(all_records, brief=width is not None)
    if in_folder:
        for path in write_pictures(output, drawn, width, source):
            print(path, file=sys.stderr)
        return
    write_file(output, picture_of(output, drawn, width, source))
    if others and not names:
        print(
            f"{output}: {drawn[0].name}; there are {len(others)} more charts: {', '.join(others)}\n"
            f"  --chart {others[0]} draws that one, --chart all draws all",
            file=sys.stderr,
        )


def _points(length: str) -> int:
    """Return a length in points. Raise UsageError if it is not a length, or out of range."""
    from switchmark.errors import UsageError

    number, unit = re.fullmatch(r"([0-9.]*)(.*)", length.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        points = round(float(number) * _POINTS[unit.strip()])
    except (KeyError, ValueError):
        raise UsageError(
            f"'{length}' is not a length", hint="--width 3.3in, 84mm, 8.4cm or 240pt"
        ) from None
    least, most = _WIDTHS
    if not least <= points <= most:
        raise UsageError(f"a picture is {least} to {most} points wide (72 an inch), not {points}")
    return points


@click.command("export", cls=GroupedCommand)
@run_folders
@click.option(
    "--format", "form", metavar="FORM", help="csv, parquet, latex or csit [from the suffix]"
)
@click.option(
    "--table",
    metavar="TABLE",
    type=click.Choice(["tests", "claims", "figures"]),
    default="tests",
    help="tests, or the claims or the figures of the experiments of `paper`",
)
@output("the file, or for csit the folder [CSV and LaTeX: standard output]")
def export(runs: tuple[Path, ...], form: str | None, table: str, output: Path | None) -> int:
    """Write the tests of runs for other programs: CSV, Parquet, a LaTeX table or FD.io's JSON.

    Failed and refused tests have rows, too. csit makes a folder with a file for each test.
    """
    from switchmark.errors import UsageError

    form = form or (_FORMS.get(output.suffix) if output else "csv")
    if form not in _FORMS.values():
        raise UsageError(
            f"there is no form '{form or output}'\n  known: csv, parquet, latex, csit",
            hint="--format csv, or -o tests.csv",
        )
    if output is None and form in ("parquet", "csit"):
        raise UsageError(f"{form} cannot be written to standard output", hint=f"-o tests.{form}")
    if form == "csit" and table != "tests":
        raise UsageError(f"csit has no table of {table}", hint="--format csv")
    if form == "csit":
        _write_csit(_read(runs), output or Path())
    elif form == "latex" and table != "tests":
        if table == "claims":
            raise UsageError("latex has no table of claims", hint="--table figures")
        from switchmark.report.paper_values import values_as_latex

        _write(values_as_latex([result for run in runs for result in _judged(run)]), output)
    else:
        from switchmark.report.export import rows_as_csv, write_parquet
        from switchmark.report.latex import as_latex
        from switchmark.report.query import opened

        with _tables(runs) as tables:
            if form == "parquet" and output is not None:
                with opened(tables) as database:
                    write_parquet(database, output, table)
            else:
                rows = as_latex(tables) if form == "latex" else rows_as_csv(tables, table)
                _write(rows, output)
    return 0


@click.command("bundle", cls=GroupedCommand)
@run_folder
@output("an archive, .tar.gz or .zip")
def bundle(folder: Path, output: Path | None) -> int:
    """Write an archive of a run for reviewers: records, commands, host, report.

    The same run makes the same archive, byte by byte.
    """
    from switchmark.cli.judging import judged_run
    from switchmark.report.bundle import packed, time_of, write_bundle
    from switchmark.report.export import rows_as_csv
    from switchmark.report.rows import Tables

    ((name, records),) = _read([folder])
    experiments = judged_run(folder, records)
    files = packed(folder, records, rows_as_csv(Tables([folder])), experiments)
    path = output or Path(f"{name}.tar.gz")
    write_bundle(path, name, files, time_of(records))
    print(f"{path}: {len(files)} files of run {name}")
    return 0


@click.command("query", cls=GroupedCommand)
@click.argument(
    "arguments",
    metavar="RUN... [SQL]",
    nargs=-1,
    required=True,
    help="run folders, then a query in quotes",
)
@json_lines("row")
@click.option("--csv", "as_csv", is_flag=True, help="CSV on stdout, no table")
def query(arguments: tuple[str, ...], as_json: bool, as_csv: bool) -> int:
    """Query the records of runs with SQL.

    The tables are tests, trials, flows, goals, searches, records and all_trials; for runs of
    `paper` claims and figures, too.
    Without a query it lists the columns of each table.
    """
    from switchmark.errors import UsageError
    from switchmark.report.export import as_csv as write_csv
    from switchmark.report.export import as_objects
    from switchmark.report.grid import grid
    from switchmark.report.query import ask, columns_of_tables, opened

    *folders, sql = arguments
    if Path(sql).is_dir():
        folders, sql = [*arguments], ""
    if not folders:
        raise UsageError("no run folder is named", hint='switchmark query RUN "select ..."')
    with _tables([Path(folder) for folder in folders]) as tables, opened(tables) as database:
        answer = ask(database, sql) if sql else columns_of_tables()
    if as_json:
        for line in as_objects(answer.columns, answer.rows):
            print(line)
    elif as_csv:
        _write(write_csv(answer.columns, answer.rows), None)
    else:
        width = shutil.get_terminal_size((_COLUMNS, 0)).columns
        print(*grid(answer.columns, answer.rows, width), sep="\n")
    return 0


@click.command("schema", cls=GroupedCommand)
@click.argument(
    "name",
    metavar="[NAME]",
    default="records",
    help="records, trials (files of a run), json, or paper",
)
def schema_(name: str) -> int:
    """Print the JSON Schema of a file of a run folder, or of the output of --json."""
    from switchmark.errors import UsageError
    from switchmark.report.schema import SCHEMAS, schema

    if name not in SCHEMAS:
        schemas = "\n".join(
            f"  {schema_name}: {title}" for schema_name, (title, _) in SCHEMAS.items()
        )
        raise UsageError(f"there is no schema named '{name}'\n{schemas}")
    print_json(schema(name))
    return 0


# --- what they share -------------------------------------------------------------------------


def _read(folders: Sequence[Path]) -> list[tuple[str, list[Record]]]:
    """Return the records of runs by name. Print a note for each unfinished run."""
    from switchmark.campaign.store import read_records

    runs = []
    for folder in folders:
        records = read_records(folder)
        _tell_missing(folder, len(records))
        runs.append((folder.resolve().name, records))
    return runs


@contextmanager
def _tables(folders: Sequence[Path]) -> Iterator[Tables]:
    """Read the records of runs. Raise UsageError with the position of a corrupt line."""
    from switchmark.campaign.store import read_campaign, read_records
    from switchmark.report.rows import Tables, Unreadable

    for folder in folders:
        read_campaign(folder)
    gc.disable()  # garbage collection of millions of objects would take longer than reading
    try:
        tables = Tables(folders, _outcomes)
        gc.freeze()
        gc.enable()
        for folder in folders:
            _tell_missing(folder, tables.finished(folder))
        yield tables
    except Unreadable:
        for folder in folders:
            read_records(folder)  # raises an error that names the line
        raise
    finally:
        gc.enable()
        gc.unfreeze()


def _outcomes(folder: Path) -> list[dict[str, Any]]:
    """Return the outcomes of the experiments of a run."""
    from switchmark.report.paper import as_object

    return [as_object(result) for result in _judged(folder)]


def _judged(folder: Path) -> list[Judged]:
    from switchmark.cli.judging import judged_run
    from switchmark.cli.reading import records_of

    return judged_run(folder, records_of(folder))


def _tell_missing(folder: Path, records: int) -> None:
    """Print a note on standard error if a run has tests without a record."""
    from switchmark.campaign.store import read_campaign

    tests = len(read_campaign(folder).tests)
    if records < tests:
        print(f"note: {folder}: {records} of {tests} tests have a record", file=sys.stderr)
    path = folder / "records.jsonl"
    if path.is_file() and _last_byte(path) not in (b"", b"\n"):
        print(f"note: {path}: its incomplete last line is ignored", file=sys.stderr)


def _last_byte(path: Path) -> bytes:
    """Return the last byte of a file; nothing of an empty one."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        return file.read(1)


def _write(text: str, output: Path | None) -> None:
    from switchmark.report.files import write_file

    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)


def _write_csit(runs: Sequence[tuple[str, Sequence[Record]]], folder: Path) -> None:
    from switchmark.errors import RecordFailed
    from switchmark.report.csit import as_csit, document, file_name
    from switchmark.report.files import write_file

    others = [record for _, records in runs for record in records]
    try:
        for name, records in runs:
            (folder / name).mkdir(parents=True, exist_ok=True)
            for record in records:
                write_file(folder / name / file_name(record), document(as_csit(record, others)))
    except OSError as error:
        raise RecordFailed(f"{folder} cannot be written: {error.strerror}") from error
