"""Defines the arguments and options that several commands share, except the axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)

experiment_folders = click.option(
    "--experiments",
    "folders",
    metavar="FOLDER",
    multiple=True,
    type=PATH,
    help="more experiments, in PAPER/NAME.yaml; several times for several folders",
)

campaign_file = click.argument(
    "campaign", metavar="[CAMPAIGN.yaml]", required=False, type=PATH, help="a file of axes"
)
run_folder = click.argument("folder", metavar="RUN", type=PATH, help="a run folder")
run_folders = click.argument(
    "runs", metavar="RUN...", nargs=-1, required=True, type=PATH, help="run folders"
)
out = click.option(
    "--out", metavar="FOLDER", default=Path("runs"), type=PATH, help="where to write run folders"
)
run_name = click.option("--name", metavar="NAME", help="name of the run folder [campaign and time]")
json_array = click.option("--json", "as_json", is_flag=True, help="an array of objects on stdout")
wide = click.option(
    "--wide", is_flag=True, help="print all columns, whatever the width of the terminal"
)
explain = click.option(
    "--explain", is_flag=True, help="also print all doubts with their cures, CPU use and versions"
)
keep = click.option(
    "--keep", is_flag=True, help="leave the topology up, and print how to enter each node"
)
cluster = click.option(
    "--cluster",
    metavar="ADDRESS|FILE",
    help="run on the testbeds of a lab: the address of a Dask scheduler, or a lab file",
)
spread = click.option(
    "--spread", is_flag=True, help="with --cluster: run the repeats of a test on different testbeds"
)
on_host = click.option("--host", metavar="NAME", help="use this host of the host file, over ssh")
tune = click.option(
    "--tune",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="try N settings of each switch and compare the best with the default",
)


def json_lines(content: str) -> Decorator:
    """Return the option `--json` of a command that prints one object per test, pair or row."""
    description = f"print one JSON object per {content} in place of a table"
    return click.option("--json", "as_json", is_flag=True, help=description)


def output(description: str | None = None) -> Decorator:
    """Return the option `-o`, which names the file to write."""
    return click.option("-o", "--output", metavar="FILE", type=PATH, help=description)


@dataclass(frozen=True)
class Measuring:
    """The options of a command that measures. `options.with_measuring` adds an option for each
    field."""

    as_json: bool = False
    """Whether to print JSON in place of tables."""
    wide: bool = False
    """Whether tables have all columns."""
    explain: bool = False
    """Whether to add the meaning of marks and doubts."""
    quiet: bool = False
    """Whether to hide the progress."""
    capture: int | None = None
    """The number of frames to capture at each port; None for no capture."""
    strict: bool = False
    """Whether doubts make the exit code 1."""
    calibrate: str = "auto"
    """When to measure on a cable (`lab.calibration.Mode`)."""
    gate: str = "refuse"
    """The response to a switch that forwards wrongly (`lab.gate.Gate`)."""
    rerun: int = 0
    """How often to repeat a disturbed test."""
    share_machine: bool = False
    """Whether to measure while other runs measure."""


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
    click.option("--strict", is_flag=True, help="exit with 5 if a trial has a doubt"),
    click.option(
        "--calibrate",
        metavar="WHEN",
        default=Measuring.calibrate,
        help="when to measure the generator's own limit: auto, never, again",
    ),
    click.option(
        "--gate",
        metavar="WHAT",
        default=Measuring.gate,
        help="if the switch forwards frames wrongly: refuse the test, doubt it, or off (no check)",
    ),
    click.option(
        "--rerun",
        metavar="N",
        default=Measuring.rerun,
        type=click.IntRange(0, 100),
        help="repeat a disturbed trial up to N times",
    ),
    click.option(
        "--share-machine",
        is_flag=True,
        help="measure while another run uses this machine; marks the trials",
    ),
)
"""The options of `Measuring`, in the order of the help text."""
