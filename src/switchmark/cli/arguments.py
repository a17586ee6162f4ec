"""Defines the arguments and options that several commands share, but for the axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)

campaign_file = click.argument(
    "campaign", metavar="[CAMPAIGN.yaml]", required=False, type=PATH, help="a file of axes"
)
run_folder = click.argument("folder", metavar="RUN", type=PATH, help="a run folder")
run_folders = click.argument(
    "runs", metavar="RUN...", nargs=-1, required=True, type=PATH, help="run folders"
)
out = click.option(
    "--out", metavar="FOLDER", default=Path("runs"), type=PATH, help="where run folders are kept"
)
run_name = click.option(
    "--name", metavar="NAME", help="the run folder, instead of one of the campaign and the time"
)
json_array = click.option("--json", "as_json", is_flag=True, help="an array of objects on stdout")
wide = click.option(
    "--wide", is_flag=True, help="all columns of the table, whatever the terminal's width"
)
explain = click.option(
    "--explain", is_flag=True, help="print what each mark, doubt and figure means, too"
)
keep = click.option(
    "--keep", is_flag=True, help="leave the topology up, and say how to enter each node"
)
cluster = click.option(
    "--cluster",
    metavar="ADDRESS|FILE",
    help="run it on the testbeds of a lab: a Dask scheduler's address, or a file that says how",
)
spread = click.option(
    "--spread", is_flag=True, help="with --cluster: repeats of a test on different testbeds"
)
on_host = click.option("--host", metavar="NAME", help="on this host of the host file, by ssh")
tune = click.option(
    "--tune",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="try N settings of each switch, and compare the best with the default",
)


def json_lines(what: str) -> Decorator:
    """Return the option `--json` of a command that prints an object for each test, pair or row."""
    told = f"one object a {what} on stdout, each on one line; no table"
    return click.option("--json", "as_json", is_flag=True, help=told)


def output(told: str | None = None) -> Decorator:
    """Return the option `-o`, which names the file to write."""
    return click.option("-o", "--output", metavar="FILE", type=PATH, help=told)


@dataclass(frozen=True)
class Measuring:
    """How a command that measures shows its results, and what it tells its lab: an option for each
    field, which `options.with_measuring` adds."""

    as_json: bool = False
    wide: bool = False
    explain: bool = False
    quiet: bool = False
    capture: int | None = None
    strict: bool = False
    calibrate: str = "auto"
    gate: str = "refuse"
    rerun: int = 0
    share_machine: bool = False


MEASURING: tuple[Decorator, ...] = (
    json_lines("test"),
    wide,
    explain,
    click.option("--quiet", is_flag=True, help="no progress on stderr"),
    click.option(
        "--capture",
        metavar="N",
        type=click.IntRange(1),
        help="keep the first N frames of each port as pcap",
    ),
    click.option("--strict", is_flag=True, help="exit with 5 if a trial is doubted"),
    click.option(
        "--calibrate",
        metavar="WHEN",
        default=Measuring.calibrate,
        help="the traffic program without a switch: auto, never, again",
    ),
    click.option(
        "--gate",
        metavar="WHAT",
        default=Measuring.gate,
        help="a switch that does other work: refuse, doubt, off (untried)",
    ),
    click.option(
        "--rerun",
        metavar="N",
        default=Measuring.rerun,
        type=click.IntRange(0, 100),
        help="repeat a spoiled trial up to N times",
    ),
    click.option(
        "--share-machine",
        is_flag=True,
        help="measure beside another run on this machine; trials are doubted",
    ),
)
"""The options of `Measuring`, in the order of help."""
