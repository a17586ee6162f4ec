"""The commands that show a host's abilities, or remove the remains of runs from it.

A command returns its exit status and imports its dependencies at run time, so that `--help` is
fast.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from switchmark.cli.arguments import experiment_folders, json_array, on_host
from switchmark.cli.completion import things
from switchmark.cli.help import GroupedCommand
from switchmark.cli.options import with_host_file
from switchmark.cli.running import print_json
from switchmark.errors import Exit, UsageError


@click.command("list", cls=GroupedCommand)
@click.argument(
    "thing",
    metavar="[THING]",
    default="",
    shell_complete=things,
    help="switches, engines, environments, functions, scenarios, searches, noises, papers",
)
@click.option("--port", metavar="KIND", help="only entries with this kind of port")
@experiment_folders
@json_array
@with_host_file
def list_(thing: str, port: str | None, folders: tuple[Path, ...], as_json: bool) -> int:
    """List switches, engines and more, and whether this host has them."""
    from switchmark.cli.listing import Thing, listed, print_listed, thing_named
    from switchmark.cli.papers import listed_papers

    asked = thing_named(thing or Thing.SWITCHES)
    if folders and asked is not Thing.PAPERS:
        raise UsageError(
            f"--experiments is of 'list papers', not of 'list {asked}'",
            hint=f"switchmark list papers --experiments {folders[0]}",
        )
    entries = listed_papers(folders) if asked is Thing.PAPERS else listed(asked, port)
    if as_json:
        print_json(entries)
    else:
        print_listed(entries, sys.stdout)
        if not thing:
            others = ", ".join(thing for thing in Thing if thing is not Thing.SWITCHES)
            print(f"\nThese are the switches. There are lists of {others}, too.")
    return 0


@click.command("doctor", cls=GroupedCommand)
@json_array
@on_host
@with_host_file
def doctor(as_json: bool, host: str | None) -> int:
    """Check this host: what works, what is missing, and the command that fixes it."""
    from switchmark.cli.doctor import examine, print_findings
    from switchmark.hosts.hosts import Hosts
    from switchmark.runs.own_run import OwnRun

    with Hosts(OwnRun) as hosts:
        findings = examine() if host is None else examine(hosts[host])
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings, sys.stdout)
    return 0 if all(finding.ok for finding in findings if finding.needed) else Exit.UNAVAILABLE


@click.command("clean", cls=GroupedCommand)
@click.argument("runs", metavar="[RUN]...", nargs=-1, help="only these, such as sm3f2a")
@click.option("--dry-run", is_flag=True, help="only print what would be removed")
@on_host
@click.option(
    "--forget",
    metavar="HOST",
    multiple=True,
    help="forget what is left on a host that no longer exists",
)
@with_host_file
def clean(runs: tuple[str, ...], dry_run: bool, host: str | None, forget: tuple[str, ...]) -> int:
    """Remove what crashed runs left on this machine and on the hosts that they used."""
    from switchmark.errors import UsageError
    from switchmark.hosts.hosts import Hosts
    from switchmark.runs.clean import clean, clean_there
    from switchmark.runs.own_run import OwnRun

    if host is not None and forget:
        raise UsageError("--forget is of runs that this machine began, --host of another machine")
    with Hosts(OwnRun) as hosts:
        if host is None:
            cleaned = clean(runs=runs, dry_run=dry_run, hosts=hosts, forget=forget)
        else:
            cleaned = clean_there(hosts[host], runs=runs, dry_run=dry_run)
    for outcome in cleaned:
        print(f"{outcome.run}: {outcome.state}")
        for line in (*outcome.actions, *(f"failed: {failure}" for failure in outcome.failures)):
            print(f"  {line}")
    if not cleaned:
        print("nothing to clean")
    if far := sorted({name for outcome in cleaned for name in outcome.out_of_reach}):
        options = " ".join(f"--forget {name}" for name in far)
        print(
            "\nhint: --host-file FILE, where another one names them; of hosts that are gone for "
            f"good: switchmark clean {options}",
            file=sys.stderr,
        )
    return Exit.INCOMPLETE if any(outcome.failures for outcome in cleaned) else 0
