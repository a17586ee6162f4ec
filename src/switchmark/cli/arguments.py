"""This module defines the arguments and options that commands share, but for the axes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

CampaignFile = Annotated[
    Path | None,
    typer.Argument(metavar="[CAMPAIGN.yaml]", help="a file of axes", show_default=False),
]
RunFolderPath = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="where run folders are kept")]
Named = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="the run folder, instead of one of the campaign and the time"
    ),
]
JsonLines = Annotated[
    bool, typer.Option("--json", help="one object a test on stdout, each on one line; no table")
]
JsonPairs = Annotated[
    bool, typer.Option("--json", help="one object a pair on stdout, each on one line; no table")
]
JsonRows = Annotated[
    bool, typer.Option("--json", help="one object a row on stdout, each on one line; no table")
]
Json = Annotated[bool, typer.Option("--json", help="an array of objects on stdout")]
Wide = Annotated[
    bool, typer.Option("--wide", help="all columns of the table, whatever the terminal's width")
]
Keep = Annotated[
    bool, typer.Option("--keep", help="leave the topology up, and say how to enter each node")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|FILE",
        help="run it on the testbeds of a lab: a Dask scheduler's address, or a file that says how",
    ),
]
Spread = Annotated[
    bool, typer.Option("--spread", help="with --cluster: repeats of a test on different testbeds")
]
OnHost = Annotated[
    str | None,
    typer.Option("--host", metavar="NAME", help="on this host of the host file, by ssh"),
]
Tune = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1000,
        help="try N settings of each switch, and compare the best with the default",
    ),
]


@dataclass(frozen=True, slots=True)
class Measuring:
    """These options are of every command that measures: how its results are shown, and what its lab
    is told. `options.with_measuring` makes them of the fields."""

    as_json: JsonLines = False
    wide: Wide = False
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress on stderr")] = False
    capture: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="keep the first N frames of each port as pcap"),
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="exit with 5 if a trial is doubted")] = (
        False
    )
    calibrate: Annotated[
        str,
        typer.Option(
            metavar="WHEN", help="the traffic program without a switch: auto, never, again"
        ),
    ] = "auto"
    gate: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="a switch that does other work: refuse, doubt, off (untried)",
        ),
    ] = "refuse"
    rerun: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=100, help="repeat a spoiled trial up to N times"),
    ] = 0
    share_machine: Annotated[
        bool,
        typer.Option(
            "--share-machine", help="measure beside another run on this machine; trials are doubted"
        ),
    ] = False
