"""The command `compare`: it compares tests of runs, for a person or for CI."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from switchmark.cli.arguments import PATH, json_lines
from switchmark.cli.help import GroupedCommand
from switchmark.errors import Exit

if TYPE_CHECKING:
    from switchmark.metrics.family import Results
    from switchmark.model.record import Record
    from switchmark.report.host_differences import RunFacts
    from switchmark.report.pairing import Sides

_Side = tuple[str, "list[list[Record]]"]
"""The name of a side as the user typed it, and the records of its runs."""


@click.command("compare", cls=GroupedCommand)
@click.argument(
    "runs",
    metavar="RUN...",
    nargs=-1,
    required=True,
    help="run folders, the old one first; those joined by commas repeat each other",
)
@click.option(
    "--fail-on",
    metavar="CONDITION,...",
    multiple=True,
    help="exit with 1 if a condition holds: slower:3%, latency:5%, latency-p99:10%, loss, "
    "loss:0.1%, undecided",
)
@click.option(
    "--undecided",
    metavar="<pass|fail>",
    type=click.Choice(["pass", "fail"]),
    help="the result if a condition of --fail-on is undecided [exit with 6]",
)
@click.option("--ignore", metavar="AXIS,...", help="compare tests that differ in these axes")
@click.option(
    "--base",
    metavar="NAME",
    help="compare everything with this value of an axis, such as a switch, or burst=32, "
    "or with this run [compare every pair]",
)
@click.option(
    "--good",
    metavar="FOLDER",
    type=PATH,
    help="compare with the last good state of the trend of the runs in this folder",
)
@click.option(
    "--same-within",
    metavar="SHARE",
    help="the difference that counts as the same [that of --fail-on, else 1%]",
)
@click.option(
    "--until-decided",
    metavar="LIMIT",
    type=click.IntRange(3, 1000),
    help="measure more rounds of one run, up to LIMIT repeats, until its switches are "
    "decided; exit with 6 if they stay undecided",
)
@click.option("--junit", metavar="FILE", type=PATH, help="also write the result as JUnit XML")
@click.option("--markdown", metavar="FILE", type=PATH, help="also write the result as Markdown")
@json_lines("pair")
def compare(
    runs: tuple[str, ...],
    fail_on: tuple[str, ...],
    undecided: str | None,
    ignore: str | None,
    base: str | None,
    good: Path | None,
    same_within: str | None,
    until_decided: int | None,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> int:
    """Compare runs test by test, or the tests of one run with each other.

    Exits with 1 if a test failed, was refused, or is not in the later run, and on the conditions of
    --fail-on; with 6 if one of these is undecided, or after --until-decided if a pair still is.
    """
    from switchmark.errors import UsageError
    from switchmark.model.record import LOOKS
    from switchmark.model.units import parse_share
    from switchmark.report.cells import in_markdown
    from switchmark.report.compare import as_object, compared
    from switchmark.report.compare_markdown import compare_markdown
    from switchmark.report.compare_table import compare_lines, result_line
    from switchmark.report.conditions import parse_conditions
    from switchmark.report.files import write_file
    from switchmark.report.host_differences import host_differences
    from switchmark.report.junit import junit as junit_xml
    from switchmark.report.pairing import defined_alike
    from switchmark.runs.jsonl import to_line

    conditions = parse_conditions(fail_on)
    if undecided and not conditions:
        raise UsageError("--undecided needs a condition of --fail-on, and there is none")
    margin = None if same_within is None else parse_share(same_within)
    looks = _go_on(runs, until_decided) if until_decided is not None else 0
    read, facts = _read(runs)
    ignored = _axes(ignore)
    if good is None:
        sides = _sides(read, base, ignored)
    else:
        if base is not None or until_decided is not None or len(read) > 1:
            raise UsageError(
                "--good compares one run with a trend: it takes no --base, no second run"
            )
        sides, goods = _with_good(good, read[0], ignored)
        facts = [*goods, *facts]
    sides, apart = defined_alike(sides)
    results = _results(read, sides, ignored)
    fails = undecided == "fail"
    result = compared(sides, conditions, margin, results, unknown_fails=fails)
    for reason in apart:
        print(f"not compared: {reason}", file=sys.stderr)
    hosts, names = host_differences(facts), [host.name for host in facts]
    if as_json:
        for pair in result.pairs:
            print(to_line(as_object(pair, result.failures_of(pair), result.unknown_of(pair))))
        if conditions:
            print(result_line(result), file=sys.stderr)
    else:
        columns = shutil.get_terminal_size((0, 0)).columns or None  # a pipe has no width limit
        print(*compare_lines(result, hosts, names, columns), sep="\n")
    claims = _claims(runs) if markdown is not None or not as_json else []
    if claims and not as_json:
        print("", *claims, sep="\n")
    for path, write in ((junit, junit_xml), (markdown, compare_markdown)):
        if path is not None:
            listed = [f"- {line.strip()}" for line in claims] if path is markdown else []
            below = "\n".join(["", *map(in_markdown, listed), ""]) if listed else ""
            write_file(path, write(result, hosts, names) + below)
    if result.failures:
        return Exit.FAILED
    is_open = looks > 0 and any(pair.is_undecided for pair in result.pairs)
    if is_open and looks >= LOOKS:
        print(f"judged {looks} times, which is as often as a run may be", file=sys.stderr)
    return Exit.UNDECIDED if (result.unknown or is_open) and not undecided else Exit.FINE


def _go_on(runs: Sequence[str], limit: int) -> int:
    """Measure more rounds of a run, like `resume`, until its switches are decided. Return the
    number of times that the run was judged. UsageError for a run without rounds."""
    from switchmark.campaign.rounds import groups, not_in_turn
    from switchmark.campaign.store import read_campaign
    from switchmark.cli.arguments import Measuring
    from switchmark.cli.labs import check_same_lab
    from switchmark.cli.running import HostBench, Shown, checked_options, measure
    from switchmark.errors import UsageError
    from switchmark.hosts.hosts import Hosts
    from switchmark.runs.own_run import OwnRun

    if len(runs) != 1 or (len(runs[0].split(",")) > 1 and not Path(runs[0]).is_dir()):
        raise UsageError("--until-decided measures more rounds of one run: name one alone")
    path = Path(runs[0])
    tests = read_campaign(path).tests
    check_same_lab(path, None)
    if not groups(tests):
        why = next(iter(not_in_turn(tests).values()), "no two of its tests differ in the switch")
        raise UsageError(f"{path} has no rounds that could go on: {why}")
    _, options = checked_options(Measuring())
    show = Shown(as_json=False, wide=False, quiet=False, only_progress=True)
    with Hosts(OwnRun) as hosts:
        bench = HostBench(hosts, until_decided=limit)
        records = measure(bench, bench.old_run(path), show, options)
    return max((record.turns.looks for record in records if record.turns), default=1)


def _read(runs: Sequence[str]) -> tuple[list[_Side], list[RunFacts]]:
    """Return the sides, and the facts about the hosts of their runs."""
    from switchmark.campaign.store import read_host
    from switchmark.cli.reading import records_of
    from switchmark.report.host_differences import RunFacts

    sides, facts = [], []
    for text in runs:
        folders = _folders(text)
        records = [records_of(folder) for folder in folders]
        sides.append((text, records))
        facts += [
            RunFacts(folder.resolve().name, read_host(folder), run)
            for folder, run in zip(folders, records, strict=True)
        ]
    return sides, facts


def _with_good(
    folder: Path, side: _Side, ignore: tuple[str, ...]
) -> tuple[list[Sides], list[RunFacts]]:
    """Return the tests of a run, each with the latest run of its last good state among the runs of
    a folder, and the facts about the hosts of those runs. UsageError if they have no test in
    common."""
    from switchmark.campaign.store import read_host, read_records
    from switchmark.cli.trending import run_folders_of
    from switchmark.errors import UsageError
    from switchmark.report.host_differences import RunFacts
    from switchmark.report.pairing import between
    from switchmark.report.trend import good_records

    own = {path.resolve() for path in _folders(side[0])}
    others = [path for path in run_folders_of([folder]) if path.resolve() not in own]
    read = {path.resolve().name: read_records(path) for path in others}
    good = good_records(list(read.items()))
    sides = [pair for pair in between([good], side[1], ignore) if pair.other]
    if not any(pair.base for pair in sides):
        raise UsageError(f"the trend of {folder} and {side[0]} have no test in common")
    used = {record.origin.run for pair in sides for record in pair.base if record.origin}
    hosts = {path.resolve().name: read_host(path) for path in others}
    return sides, [
        RunFacts(name, hosts[name], records) for name, records in read.items() if name in used
    ]


def _claims(runs: Sequence[str]) -> list[str]:
    """Return the answers to the claims of runs that know their experiment."""
    from switchmark.cli.judging import judged_run
    from switchmark.cli.reading import records_of
    from switchmark.report.matrix import claim_lines

    folders = [folder for text in runs for folder in _folders(text)]
    judged = [(f.resolve().name, judged_run(f, records_of(f))) for f in folders]
    return claim_lines(judged)


def _folders(text: str) -> list[Path]:
    """Return the run folders of a side. The name of a folder may contain a comma."""
    return [Path(text)] if Path(text).is_dir() else [Path(name) for name in text.split(",")]


def _axes(text: str | None) -> tuple[str, ...]:
    """Return the fields of the axes to ignore; UsageError for an unknown axis."""
    from switchmark.campaign.values import nearest
    from switchmark.errors import UsageError
    from switchmark.model.axis import field_name
    from switchmark.model.test import AXES

    keys = [key.strip() for key in (text or "").split(",")] if text else []
    for key in keys:
        if field_name(key) not in AXES:
            axis_keys = [axis.key for axis in AXES.values()]
            raise UsageError(f"--ignore: there is no axis '{key}'{nearest(key, axis_keys)}")
    return tuple(map(field_name, keys))


def _results(
    read: Sequence[_Side], sides: Sequence[Sides], ignore: tuple[str, ...]
) -> Results | None:
    """Return all results of a single run, or of runs that repeat each other: they are judged
    together, as in the run's own answer. None when runs are compared with each other, because those
    pairs were planned."""
    from switchmark.metrics.family import Results
    from switchmark.report.pairing import by_test

    if len(read) > 1 or any(side.are_two_runs for side in sides):
        return None
    return Results(by_test(read[0][1], ignore).values())


def _sides(read: Sequence[_Side], base: str | None, ignore: tuple[str, ...]) -> list[Sides]:
    """Return the tests to compare; UsageError if there are none."""
    from switchmark.errors import UsageError
    from switchmark.report.pairing import against, between, parted_by, within

    all_runs = [run for _, runs in read for run in runs]
    named = [runs for text, runs in read if base in (text, Path(text).name)]
    if base is not None and not (named and len(read) > 1):
        sides = against(all_runs, base, ignore)
    elif len(read) == 1:
        sides = within(all_runs, ignore)
        if not sides:
            raise UsageError(
                f"{read[0][0]} has no tests that differ in one axis only",
                hint="name another run too",
            )
    elif named:
        others = [runs for _, runs in read if runs is not named[0]]
        sides = [side for other in others for side in between(named[0], other, ignore)]
    else:
        pairs = itertools.combinations([runs for _, runs in read], 2)
        sides = [side for one, other in pairs for side in between(one, other, ignore)]
    if not any(side.base and side.other for side in sides):
        names = " and ".join(text for text, _ in read)
        apart = parted_by(read[0][1], read[-1][1]) if len(read) > 1 and base is None else []
        raise UsageError(
            f"{names} have no test in common",
            hint=f"--ignore {','.join(apart)} pairs those that are most alike" if apart else None,
        )
    return sides
