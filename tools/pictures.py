"""Measures the data of the pictures of the README and the guide, and draws them.

`make pictures` measures all of them again, PICTURES="rates loads" some of them. --redraw draws the
earlier runs in build/pictures again.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from switchmark.campaign.store import read_records
from switchmark.model.record import Record
from switchmark.plots import TABLE
from switchmark.plots.chart import Chart
from switchmark.plots.render import svg
from switchmark.plots.scales import in_handy_units
from switchmark.plots.vega import specification

REPOSITORY = Path(__file__).resolve().parents[1]
RUNS = REPOSITORY / "build" / "pictures"
PICTURES = REPOSITORY / "docs" / "pictures"

_PAPER = {"background": "#ffffff", "padding": 16}
"""A white background, readable on a dark page."""


class Picture(NamedTuple):
    """One plot of one campaign."""

    plot: str
    title: str
    campaign: tuple[str, ...]
    """Options of `switchmark run`."""


ALL = {
    "rates": Picture(
        "figures",
        "Received rate of two kernel switches, a router and Open vSwitch",
        (
            *("--switch", "direct,linux-bridge,ip-forward,ovs", "--search", "max"),
            *("--duration", "1", "--repeat", "5"),
        ),
    ),
    "sizes": Picture(
        "gbps-against-size",
        "Received rate in bits by frame size",
        (
            *("--switch", "linux-bridge,ip-forward,ovs", "--frame-size", "64,512,1024,1500"),
            *("--duration", "0.5", "--warmup", "0.2", "--repeat", "3"),
        ),
    ),
    "loads": Picture(
        "received-against-offered",
        "Received rate against offered load",
        (
            *("--switch", "linux-bridge,ovs", "--rate", "20%,40%,60%,80%,90%,100%,120%,150%"),
            *("--duration", "0.5", "--warmup", "0.2", "--repeat", "3"),
        ),
    ),
}
"""The pictures by the names of their files."""


def measure(name: str) -> None:
    """Run the campaign of a picture into a folder of its name. It replaces the earlier run."""
    shutil.rmtree(RUNS / name, ignore_errors=True)
    command = str(Path(sys.executable).with_name("switchmark"))
    options = ("--out", str(RUNS), "--name", name)
    subprocess.run((command, "run", *ALL[name].campaign, *options), check=True)


def chart_of(name: str, records: Sequence[Record]) -> Chart:
    """Return the chart of a picture, with a note on where and when it was measured. ValueError if
    the records do not have its data."""
    picture = ALL[name]
    drawn = TABLE[picture.plot].draw(records)
    if drawn is None:
        raise ValueError(f"{name}: no record shows {picture.plot}")
    return replace(in_handy_units(drawn), title=picture.title, note=where(records))


def draw(name: str, records: Sequence[Record]) -> Path:
    """Write a picture, and return its path."""
    specified: dict[str, Any] = specification(chart_of(name, records))
    PICTURES.mkdir(exist_ok=True)
    path = PICTURES / f"{name}.svg"
    path.write_text(svg({**specified, **_PAPER}) + "\n")
    return path


def where(records: Sequence[Record]) -> str:
    """Return the host and the date of a run in words."""
    origin = next(record.origin for record in records if record.origin)
    host = origin.host
    kind = "a virtual machine of " if host.get("virtual") else ""
    began = min(record.started for record in records if record.started)
    return (
        f"measured {began[:10]} on {kind}{host['cores_usable']} CPUs ({host['cpu_model']}), "
        f"Linux {host['kernel'].partition('-')[0]}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 once all pictures are drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--redraw", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(ALL):
        parser.error(f"there is no picture {', '.join(sorted(unknown))}: {', '.join(ALL)}")
    for name in options.names or ALL:
        if not options.redraw:
            measure(name)
        print(draw(name, read_records(RUNS / name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
