"""This module defines the commands: each parses, calls and prints; the work is done elsewhere.

A command returns its exit status and imports what it needs when it is run, so that `--help` is
quick.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import switchmark
from switchmark.cli.arguments import (
    CalibrateOption,
    CampaignFile,
    Capture,
    Cluster,
    GateOption,
    Json,
    JsonLines,
    Keep,
    Named,
    OnHost,
    Out,
    Quiet,
    Rerun,
    RunFolderPath,
    ShareMachine,
    Spread,
    Strict,
    Tune,
    Wide,
)
from switchmark.cli.comparing import compare
from switchmark.cli.completion import experiments, print_completion, things
from switchmark.cli.exporting import add_commands
from switchmark.cli.gallery import gallery
from switchmark.cli.help import Command
from switchmark.cli.labs import check_cluster, check_same_lab, measure_on_lab
from switchmark.cli.options import with_axes, with_host_file
from switchmark.cli.running import (
    Shown,
    campaign_of,
    check_keep,
    lab_options,
    measure,
    new_run,
    print_json,
    print_records,
    print_report,
    steps_of,
)
from switchmark.cli.tuning import go_on_tuning, print_tuning, search_settings
from switchmark.errors import Exit

__all__ = ["app"]

app = typer.Typer(
    help="The benchmark for virtual switches.",
    epilog="--debug, anywhere, shows the traceback of an error.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

command = partial(app.command, cls=Command)
command("completion")(print_completion)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> int:
    """Show the version or the help where no command is given."""
    if version:
        print(f"switchmark {switchmark.__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
    return 0


@command("version")
def print_version() -> int:
    """Print the version."""
    print(f"switchmark {switchmark.__version__}")
    return 0


@command()
@with_host_file
@with_axes
def run(
    axes: dict[str, str],
    campaign: CampaignFile = None,
    out: Out = Path("runs"),
    name: Named = None,
    as_json: JsonLines = False,
    wide: Wide = False,
    quiet: Quiet = False,
    keep: Keep = False,
    capture: Capture = None,
    strict: Strict = False,
    calibrate: CalibrateOption = "auto",
    gate: GateOption = "refuse",
    rerun: Rerun = 0,
    share_machine: ShareMachine = False,
    tune: Tune = None,
    cluster: Cluster = None,
    spread: Spread = False,
) -> int:
    """Run the tests of a campaign, of the axes given here, or of both.

    An axis takes one value, a comma list, or start..step..stop. One that is given here takes
    the place of the campaign's.
    """
    chosen = campaign_of(campaign, axes)
    check_keep(keep, chosen, tune is not None)
    lab, show = (
        lab_options(keep, capture, calibrate, gate, rerun, share_machine),
        Shown(as_json, wide, quiet),
    )
    check_cluster(cluster, spread, keep=keep, capture=capture, tune=tune)
    if cluster is not None:
        return measure_on_lab(cluster, (chosen, out, name), show, lab, strict, spread=spread)
    if tune is not None:
        return search_settings(chosen, tune, (out, name), show, lab, strict)
    return measure(new_run(chosen, out, name), show, lab, strict)


@command("plan")
@with_host_file
@with_axes
def plan_(axes: dict[str, str], campaign: CampaignFile = None) -> int:
    """Print how many tests there are, how long they take, and the exact steps of each; touch
    nothing, need no root."""
    from switchmark.cli.steps import script

    for line in script(campaign_of(campaign, axes).tests):
        print(line)
    return 0


@command()
@with_host_file
def resume(
    folder: RunFolderPath,
    as_json: JsonLines = False,
    wide: Wide = False,
    quiet: Quiet = False,
    keep: Keep = False,
    capture: Capture = None,
    strict: Strict = False,
    calibrate: CalibrateOption = "auto",
    gate: GateOption = "refuse",
    rerun: Rerun = 0,
    share_machine: ShareMachine = False,
    cluster: Cluster = None,
    spread: Spread = False,
) -> int:
    """Run the tests that a run has not finished, and those that failed in it."""
    from switchmark.campaign.store import RunFolder, read_campaign
    from switchmark.campaign.tuning import is_tuning
    from switchmark.machine.anchor import anchor

    tuning = is_tuning(folder)
    check_keep(keep, read_campaign(folder), tuning)
    check_cluster(cluster, spread, keep=keep, capture=capture, tune=tuning or None)
    check_same_lab(folder, cluster)
    lab = lab_options(keep, capture, calibrate, gate, rerun, share_machine)
    show = Shown(as_json, wide, quiet)
    if cluster is not None:
        return measure_on_lab(cluster, folder, show, lab, strict, spread=spread)
    anchor()
    go_on = go_on_tuning if tuning else measure
    return go_on(RunFolder(folder), show, lab, strict)


@command()
@with_host_file
@with_axes
def paper(
    axes: dict[str, str],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="see: switchmark list papers; 'ara-2021/*' is many",
            autocompletion=experiments,
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="fewer points and shorter trials: some two minutes")
    ] = False,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="the paper's rates, not shares of this host's R+")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="draw it: .html, .svg, .pdf or .png"),
    ] = None,
    out: Out = Path("runs"),
    as_json: JsonLines = False,
    wide: Wide = False,
    quiet: Quiet = False,
    capture: Capture = None,
    strict: Strict = False,
    calibrate: CalibrateOption = "auto",
    gate: GateOption = "refuse",
    rerun: Rerun = 0,
    share_machine: ShareMachine = False,
) -> int:
    """Run experiments of the literature, and show their results beside the published ones.

    Each claim of the paper is answered: it holds here, does not hold here, or cannot be told.
    """
    from switchmark.cli.papers import run_papers

    lab = lab_options(False, capture, calibrate, gate, rerun, share_machine)
    show = Shown(as_json, wide, quiet)
    return run_papers(
        name,
        axes,
        out,
        show,
        lab,
        quick=quick,
        as_published=as_published,
        strict=strict,
        output=output,
    )


@command("list")
@with_host_file
def list_(
    thing: Annotated[
        str,
        typer.Argument(
            metavar="THING",
            help="switches, engines, environments, functions, scenarios, searches, noises, ...",
            autocompletion=things,
        ),
    ],
    port: Annotated[
        str | None, typer.Option(metavar="KIND", help="only what has this kind of port")
    ] = None,
    as_json: Json = False,
) -> int:
    """List names, whether this host can use them, and why not."""
    from switchmark.cli.listing import listed, print_listed, thing_named

    entries = listed(thing_named(thing), port)
    if as_json:
        print_json(entries)
    else:
        print_listed(entries, sys.stdout)
    return 0


@command()
@with_host_file
def doctor(as_json: Json = False, host: OnHost = None) -> int:
    """Say what this host can do, what is missing, and the command that mends it."""
    from switchmark.cli.doctor import examine, print_findings
    from switchmark.machine.reach import FileHosts

    with FileHosts() as hosts:
        findings = examine() if host is None else examine(hosts[host])
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings, sys.stdout)
    return 0 if all(finding.ok for finding in findings if finding.needed) else Exit.UNAVAILABLE


@command()
@with_host_file
def clean(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="only these, such as sm3f2a")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done")] = False,
    host: OnHost = None,
) -> int:
    """Undo what dead runs left on this machine, and on the hosts that they used."""
    from switchmark.machine.clean import clean, clean_there
    from switchmark.machine.reach import FileHosts

    with FileHosts() as hosts:
        if host is None:
            cleaned = clean(runs=runs or (), dry_run=dry_run, hosts=hosts)
        else:
            cleaned = clean_there(hosts[host], runs=runs or (), dry_run=dry_run)
    for each in cleaned:
        print(f"{each.run}: {each.state}")
        for line in (*each.actions, *(f"failed: {failure}" for failure in each.failures)):
            print(f"  {line}")
    if not cleaned:
        print("nothing to clean")
    return Exit.INCOMPLETE if any(each.failures for each in cleaned) else 0


@command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="run folders")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help=".html, .svg, .pdf, .png, .md or .csv"),
    ] = None,
    as_json: JsonLines = False,
    wide: Wide = False,
) -> int:
    """Show the results of runs again, from their records only."""
    from switchmark.campaign.store import read_records
    from switchmark.campaign.tuning import folders_of
    from switchmark.report.files import writer_of

    write = None if output is None else writer_of(output)
    folders = {
        each: "/".join((run.resolve().name, *each.relative_to(run).parts))
        for run in runs
        for each in folders_of(run)
    }
    results = [(name, read_records(folder)) for folder, name in folders.items()]
    if write is not None:
        write(results, {name: steps_of(folder) for folder, name in folders.items()})
    for name, records in results:
        if as_json:
            print_records(records)
        elif output is None:
            print(f"{name}\n")
            print_report(records, wide)
    for run in runs if output is None and not as_json else ():
        print_tuning(run, sys.stdout)
    return 0


command()(gallery)
command()(compare)
add_commands(app)
