"""The commands that run tests, or show how they would run: a command parses, calls and prints, and
other modules do the work.

A command returns its exit status and imports its dependencies at run time, so that `--help` is
fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from switchmark.cli.arguments import (
    PATH,
    Measuring,
    campaign_file,
    cluster,
    experiment_folders,
    keep,
    out,
    output,
    run_folder,
    run_name,
    spread,
    tune,
)
from switchmark.cli.completion import experiments
from switchmark.cli.help import GroupedCommand
from switchmark.cli.labs import bench, check_cluster, check_same_lab
from switchmark.cli.options import with_axes, with_host_file, with_measuring
from switchmark.cli.running import (
    campaign_of,
    check_keep,
    check_new,
    checked_options,
    chosen_engines,
    measure,
    say_engines,
    say_unfinished,
    status_of,
)
from switchmark.cli.tuning import go_on_tuning, search_settings

if TYPE_CHECKING:
    from switchmark.report.drawn import Mode


@click.command("run", cls=GroupedCommand)
@campaign_file
@out
@run_name
@with_measuring
@keep
@tune
@cluster
@spread
@with_axes
@with_host_file
def run(
    axes: dict[str, str],
    campaign: Path | None,
    out: Path,
    name: str | None,
    how: Measuring,
    keep: bool,
    tune: int | None,
    cluster: str | None,
    spread: bool,
) -> int:
    """Run the tests of a campaign, of the axes given here, or of both.

    An axis takes one value, a comma list, or start..step..stop. One that is given here takes
    the place of the campaign's.
    """
    from switchmark.hosts.hosts import Hosts
    from switchmark.runs.own_run import OwnRun

    with Hosts(OwnRun) as hosts:
        asked = campaign_of(campaign, axes, hosts, far=True, in_lab=cluster is not None)
        check_keep(keep, asked, tune is not None)
        show, options = checked_options(how, keep)
        check_cluster(cluster, spread, keep=keep, capture=how.capture, tune=tune)
        check_new(out, name)
        if tune is not None:
            return search_settings(asked, tune, (out, name), show, options, hosts, how.strict)
        with bench(cluster, hosts, show, share_machine=how.share_machine, spread=spread) as there:
            folder = there.new_run(asked, out, name)
            say_engines(campaign, axes, asked, show)
            records = measure(there, folder, show, options)
    return status_of(records, how.strict)


@click.command("plan", cls=GroupedCommand)
@campaign_file
@with_axes
@with_host_file
def plan(axes: dict[str, str], campaign: Path | None) -> int:
    """Print how many tests there are, how long they take, and the exact steps of each; touch
    nothing, need no root."""
    from switchmark.cli.steps import script
    from switchmark.hosts.hosts import Hosts
    from switchmark.runs.own_run import OwnRun

    with Hosts(OwnRun) as hosts:
        chosen = campaign_of(campaign, axes, hosts)
    for line in script(chosen.tests, chosen_engines(campaign, axes, chosen)):
        print(line)
    return 0


@click.command("resume", cls=GroupedCommand)
@run_folder
@with_measuring
@keep
@cluster
@spread
@with_host_file
def resume(folder: Path, how: Measuring, keep: bool, cluster: str | None, spread: bool) -> int:
    """Continue a run: unfinished and failed tests."""
    from switchmark.campaign.store import read_campaign
    from switchmark.campaign.tuning import is_tuning
    from switchmark.hosts.hosts import Hosts
    from switchmark.runs.own_run import OwnRun

    tuning = is_tuning(folder)
    check_keep(keep, read_campaign(folder), tuning)
    show, options = checked_options(how, keep)
    check_cluster(cluster, spread, keep=keep, capture=how.capture, tune=tuning or None)
    check_same_lab(folder, cluster)
    with (
        Hosts(OwnRun) as hosts,
        bench(cluster, hosts, show, share_machine=how.share_machine, spread=spread) as there,
    ):
        begun = there.old_run(folder)
        say_unfinished(begun, show)
        if tuning:
            return go_on_tuning(begun, show, options, hosts, how.strict)
        records = measure(there, begun, show, options)
    return status_of(records, how.strict)


@click.command("paper", cls=GroupedCommand)
@click.argument(
    "name",
    metavar="[NAME]",
    default="",
    shell_complete=experiments,
    help="see: switchmark list papers; 'ara-2021/*' selects several",
)
@click.option(
    "--from",
    "runs",
    metavar="RUN",
    multiple=True,
    type=PATH,
    help="measure nothing: judge and draw a stored run again, by its own experiment or by NAME",
)
@click.option("--quick", is_flag=True, help="fewer points and shorter trials, about two minutes")
@click.option(
    "--as-published", is_flag=True, help="the paper's rates, not shares of this host's R+"
)
@experiment_folders
@click.option(
    "--data",
    metavar="FILE.csv",
    multiple=True,
    type=PATH,
    help="more published values: read from a figure, or values.csv of another run",
)
@output("draw it: .html, .svg, .pdf or .png, or a folder with all of them, tables and BibTeX")
@click.option(
    "--values",
    "mode",
    type=click.Choice(["absolute", "relative"]),
    help="the values in pictures [relative where only shapes are judged]",
)
@out
@with_measuring
@cluster
@spread
@with_axes
@with_host_file
def paper(
    axes: dict[str, str],
    name: str,
    runs: tuple[Path, ...],
    mode: Mode | None,
    quick: bool,
    as_published: bool,
    folders: tuple[Path, ...],
    data: tuple[Path, ...],
    output: Path | None,
    out: Path,
    how: Measuring,
    cluster: str | None,
    spread: bool,
) -> int:
    """Run experiments from the literature and print the results next to the published ones.

    Each claim of the paper is answered: it holds here, does not hold here, or cannot be told. NAME
    may be a path to an experiment of your own.
    """
    from switchmark.cli.papers import judge_runs, run_papers
    from switchmark.errors import UsageError

    if runs:
        if axes or quick or as_published or cluster or spread:
            raise UsageError("--from measures nothing: it takes no axes, no --quick and no lab")
        show, _ = checked_options(how)
        return judge_runs(
            runs,
            name,
            show,
            strict=how.strict,
            output=output,
            mode=mode,
            experiments=folders,
            data=data,
        )
    if not name:
        raise UsageError("no experiment is named", hint="switchmark list papers")
    check_cluster(cluster, spread, keep=False, capture=how.capture, tune=None)
    show, lab = checked_options(how)
    return run_papers(
        name,
        axes,
        out,
        show,
        lab,
        quick=quick,
        as_published=as_published,
        strict=how.strict,
        output=output,
        mode=mode,
        cluster=cluster,
        spread=spread,
        folders=folders,
        data=data,
    )
