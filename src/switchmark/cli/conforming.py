"""The command `conform`: it measures what a standard asks for, or takes stored runs, and answers
the standard clause by clause."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from switchmark.cli.arguments import PATH, Measuring, out, output, run_name
from switchmark.cli.completion import standards
from switchmark.cli.help import GroupedCommand
from switchmark.cli.options import with_axes, with_host_file, with_measuring

if TYPE_CHECKING:
    from switchmark.model.record import Record
    from switchmark.standards.judging import Judgement
    from switchmark.standards.standard import Clause, Standard

_ASKED = "conform.json"
"""The file of a run folder with the standard that it was made for, and whether it is quick."""


@click.command("conform", cls=GroupedCommand)
@click.argument("standard", shell_complete=standards, help="such as rfc2544, rfc9004")
@click.argument(
    "runs", metavar="[RUN]...", nargs=-1, type=PATH, help="stored runs to judge, of any campaign"
)
@click.option("--quick", is_flag=True, help="few sizes and short trials; never FULL")
@output("write it: .html, or .md")
@out
@run_name
@with_measuring
@with_axes
@with_host_file
def conform(
    axes: dict[str, str],
    standard: str,
    runs: tuple[Path, ...],
    quick: bool,
    output: Path | None,
    out: Path,
    name: str | None,
    how: Measuring,
) -> int:
    """Measure what a standard asks for, and answer it clause by clause: met, deviates, not tested,
    or not applicable.

    Stored runs are judged without measuring. With runs and axes, or --quick, only what the runs
    lack is measured. The exit code is 0 if every MUST of every switch is met.
    """
    from switchmark.cli.reading import records_of
    from switchmark.errors import Exit, UsageError
    from switchmark.regular_file import read_object
    from switchmark.report.conform import lines_of, object_of
    from switchmark.runs.jsonl import to_line
    from switchmark.standards.judging import judge
    from switchmark.standards.standard import read

    asked = read(standard)
    if output is not None and output.suffix not in (".html", ".md"):
        raise UsageError(f"-o writes .html or .md, not '{output.name}'")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} for {output.name}")
    records = [record for folder in runs for record in records_of(folder)]
    was_quick = any(read_object(folder / _ASKED).get("quick") for folder in runs)
    reasons: Mapping[str, str] = {}
    if not runs or axes or quick:
        wanted = asked.campaigns_of(_untested(asked, records, axes.get("switch", "")))
        made, reasons = _measured(asked, wanted, axes, (out, name), how, quick=quick)
        records += made
    judgements = judge(asked, records, reasons, quick=quick or was_quick)
    if output is not None:
        _write(output, judgements, records)
    for number, judgement in enumerate(judgements):
        if how.as_json:
            print(to_line(object_of(judgement)))
        else:
            print(*[""] * (number > 0), *lines_of(judgement), sep="\n")
    if not all(judgement.is_met for judgement in judgements):
        return Exit.FAILED
    doubted = how.strict and any(record.doubts for record in records)
    return Exit.DOUBTED if doubted else Exit.FINE


def _untested(standard: Standard, records: Sequence[Record], switches: str) -> list[Clause]:
    """Return the clauses that some records leave untested, for one of these switches or any."""
    from switchmark.standards.judging import judge

    return [
        answer.clause
        for switch in switches.split(",")
        for judgement in judge(
            standard, [one for one in records if not switch or one.test.switch == switch]
        )
        for answer in judgement.answers
        if answer.word == "not tested"
    ]


def _measured(
    standard: Standard,
    wanted: Sequence[str],
    axes: Mapping[str, str],
    folder: tuple[Path, str | None],
    how: Measuring,
    *,
    quick: bool,
) -> tuple[list[Record], Mapping[str, str]]:
    """Measure some campaigns of a standard. Return the records, and why parts were refused."""
    from switchmark.campaign.conforming import tests_of
    from switchmark.campaign.duration import expected_s
    from switchmark.campaign.store import read_records
    from switchmark.cli.progress import clock
    from switchmark.cli.running import HostBench, check_new, checked_options, measure
    from switchmark.hosts.hosts import Hosts
    from switchmark.lab.usable import UsableHere
    from switchmark.path.choosing import with_engines
    from switchmark.path.refusals import check
    from switchmark.report.files import write_file
    from switchmark.runs.own_run import OwnRun

    show, options = checked_options(how)
    check_new(*folder)
    with Hosts(OwnRun) as hosts:
        usable = UsableHere(hosts, far=True)
        found = tests_of(
            standard,
            wanted,
            axes,
            check,
            lambda tests: with_engines(tests, usable=usable),
            quick=quick,
        )
        if found.campaign is None:
            return [], found.refused
        if not show.quiet:
            tests = found.campaign.tests
            print(
                f"{standard.name}: {len(tests)} tests, about {clock(expected_s(tests))}",
                file=sys.stderr,
            )
        bench = HostBench(hosts, show.quiet)
        run = bench.new_run(found.campaign, *folder)
        written = json.dumps({"schema": 1, "standard": standard.name, "quick": quick})
        write_file(run.path / _ASKED, written + "\n")
        tables = (show.wide or show.explain) and not show.as_json
        measure(bench, run, replace(show, as_json=False, only_progress=not tables), options)
        return read_records(run.path), found.refused


def _write(path: Path, judgements: Sequence[Judgement], records: Sequence[Record]) -> None:
    from switchmark.report.conform import markdown_of, page_of_conform
    from switchmark.report.files import write_file

    draw = page_of_conform if path.suffix == ".html" else markdown_of
    write_file(path, draw(judgements, records))
