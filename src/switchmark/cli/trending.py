"""The command `trend`: the history of tests over many runs, for a person or for CI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from switchmark.cli.arguments import PATH, json_lines, output
from switchmark.cli.help import GroupedCommand
from switchmark.errors import Exit

if TYPE_CHECKING:
    from switchmark.report.trend import Place


@click.command("trend", cls=GroupedCommand)
@click.argument(
    "runs",
    metavar="RUN...|FOLDER",
    nargs=-1,
    required=True,
    type=PATH,
    help="run folders, or a folder of them",
)
@click.option(
    "--fail-on",
    metavar="CONDITION,...",
    multiple=True,
    help="exit with 1 if a test is worse than its last good state: slower:2%, "
    "latency-p99:10%, loss",
)
@click.option("--accept", metavar="RUN", help="the state of this run is good: its change was meant")
@click.option(
    "--x",
    "place",
    type=click.Choice(["time", "run", "version"]),
    default="time",
    help="the x axis of charts: the day, the name of the run, or the version of the switch",
)
@click.option(
    "--baseline/--no-baseline",
    "use_cable",
    default=True,
    help="divide each figure by the baseline of its night",
)
@output("write a page (.html), or Markdown (.md)")
@click.option("--junit", metavar="FILE", type=PATH, help="also write the result as JUnit XML")
@click.option("--markdown", metavar="FILE", type=PATH, help="also write the result as Markdown")
@json_lines("series")
def trend(
    runs: tuple[Path, ...],
    fail_on: tuple[str, ...],
    accept: str | None,
    place: Place,
    use_cable: bool,
    output: Path | None,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> int:
    """Show the history of tests over runs: steps and drifts, without the changes of the host.

    Exits with 1 on the conditions of --fail-on.
    """
    from switchmark.campaign.store import read_records
    from switchmark.errors import UsageError
    from switchmark.report.conditions import parse_conditions
    from switchmark.report.files import write_file
    from switchmark.report.trend import as_object, trend_of
    from switchmark.report.trend_page import page_of_trend
    from switchmark.report.trend_text import trend_junit, trend_lines, trend_markdown
    from switchmark.runs.jsonl import to_line

    if output is not None and output.suffix not in (".html", ".md"):
        raise UsageError(f"-o writes .html or .md, not '{output.name}'")
    conditions = parse_conditions(fail_on)
    folders = run_folders_of(runs)
    read = [(folder.resolve().name, read_records(folder)) for folder in folders]
    found = trend_of(read, conditions, place=place, accepted=accept, use_cable=use_cable)
    if not found.series:
        raise UsageError(f"none of these {len(folders)} runs has a measured test with a date")
    if output is not None:
        draw = page_of_trend if output.suffix == ".html" else trend_markdown
        write_file(output, draw(found))
    for path, write in ((junit, trend_junit), (markdown, trend_markdown)):
        if path is not None:
            write_file(path, write(found))
    failures = found.failures
    if as_json:
        for series in found.series:
            print(to_line(as_object(series, failures)))
    else:
        print(*trend_lines(found), sep="\n")
    return Exit.FAILED if failures else Exit.FINE


def run_folders_of(paths: Sequence[Path]) -> list[Path]:
    """Return the run folders among these paths, and in those that are folders of runs. Raise
    UsageError for a path without a run."""
    from switchmark.campaign.store import is_run
    from switchmark.errors import UsageError

    folders: list[Path] = []
    for path in paths:
        inside = [path] if is_run(path) else []
        if not inside and path.is_dir():
            inside = sorted(one for one in path.iterdir() if is_run(one))
        if not inside:
            raise UsageError(
                f"{path} is no run folder and contains no run",
                hint="name run folders, or the folder that 'switchmark run --out FOLDER' writes to",
            )
        folders += inside
    return list(dict.fromkeys(folders))
