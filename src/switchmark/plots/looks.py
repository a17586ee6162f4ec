"""The looks of series: a colour and a mark for each switch, the same in every chart.

They follow the order of the table of switches, so this module names no switch. Colours are
distinguishable for colour-blind readers (Okabe and Ito, 2008; Tol, 2021) and in print, at least
among the switches that are often compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from switchmark.model.version import plain_name
from switchmark.plots.chart import Chart
from switchmark.plugins import names_in

GREY, INK = "#767676", "#333333"
"""The colours of references and of error bars."""

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8B6F00", "#666666"),
    *("#7A3E9D", "#A6761D"),
)
"""The colours of series that do not stand for switches."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right",
           "triangle-left")  # fmt: skip
"""The shapes of marks. A cross is a published value."""

_OF_SWITCHES = (
    *("#444444", "#332288", "#CC6677", "#8A8A1E", "#2F9C8C", "#4FA3C7", "#882255", "#117733"),
    *("#AA4499", "#B8860B", "#5E81B5", "#D55E00", "#A0522D", "#0072B2", "#009E73", "#CC79A7"),
    *("#8B6F00", "#E69F00", "#56B4E9", "#666666", "#7A3E9D", "#661100", "#999999"),
    *("#B5487A", "#1F4E5F"),
)
"""The colours of switches in the order of their table."""

_HOURGLASS = "M-0.9,-1L0.9,-1L-0.9,1L0.9,1Z"

_SHAPES_OF_SWITCHES = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right"),
    *("triangle-left", "circle", "square", "triangle-up", "diamond", "triangle-down"),
    *("square", "circle", "square", "triangle-up", "triangle-left", "diamond", "triangle-right"),
    *(_HOURGLASS, "triangle-right", "triangle-up", "diamond", "triangle-left", "circle"),
)
"""The shapes of switches in the order of their table."""

_DASHES = ((1, 0), (5, 3), (2, 2), (7, 2, 2, 2))
"""The dashes of lines that share a colour."""

_PALER = 0.35
"""The share of white that each further series of a switch adds to its colour."""


@dataclass(frozen=True, slots=True)
class Look:
    """The colour, the shape and the dashes of a series."""

    colour: str
    shape: str
    dash: tuple[int, ...] = _DASHES[0]


def looks_of(chart: Chart) -> dict[str, Look]:
    """Return the looks of the series of a chart in their order.

    A series that stands for a switch has the look of that switch. Several series of the same switch
    among series of other switches share its colour, and differ in shape and dashes. All other
    series have the colours of `COLOURS` in turn.
    """
    names = [name for name in chart.series_names() if name]
    switches = _switches(chart, names)
    if len(set(switches.values())) < 2 and len(names) > 1:
        switches = {}
    looks: dict[str, Look] = {}
    counts: dict[str, int] = {}
    for number, name in enumerate(names):
        switch = switches.get(name)
        if switch is None:
            looks[name] = Look(COLOURS[number % len(COLOURS)], SHAPES[number % len(SHAPES)])
            continue
        variant = counts[switch] = counts.get(switch, -1) + 1
        looks[name] = look_of_switch(switch, variant)
    return looks


def _switches(chart: Chart, names: Sequence[str]) -> Mapping[str, str]:
    """Return the switch of each series without its version; empty if a series has several, or
    none."""
    found: dict[str, set[str]] = {}
    for mark in (*chart.marks, *chart.second):
        if mark.series:
            found.setdefault(mark.series, set()).add(plain_name(mark.switch))
    if any(len(of_series) != 1 or "" in of_series for of_series in found.values()):
        return {}
    return {name: min(found[name]) for name in names}


def _place(switch: str) -> int:
    """Return the place of a switch in its table. A switch that this build lacks has a fixed place,
    too."""
    names = names_in("switchmark.switches")
    return names.index(switch) if switch in names else crc32(switch.encode()) % len(_OF_SWITCHES)


def look_of_switch(switch: str, variant: int = 0) -> Look:
    """Return the look of a switch: the first one, or that of a further series of the switch."""
    place = _place(plain_name(switch)) % len(_OF_SWITCHES)
    shape = _SHAPES_OF_SWITCHES[place]
    if variant:
        others = [other for other in SHAPES if other != shape]
        shape = others[variant % len(others)]
    colour = paler(_OF_SWITCHES[place], _PALER * min(variant, 2))
    return Look(colour, shape, _DASHES[variant % len(_DASHES)])


def paler(colour: str, share: float) -> str:
    """Return a colour mixed with this share of white."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02X}" for part in parts)


def on_dark() -> dict[str, str]:
    """Return the colour for a dark page in place of each colour of a chart."""
    colours = {*COLOURS, *_OF_SWITCHES, GREY, INK}
    shades = {paler(colour, _PALER * step) for colour in colours for step in range(3)}
    return {shade: paler(shade, _BRIGHTER) for shade in sorted(shades)}


_BRIGHTER = 0.4
"""The share of white that colours have on a dark page."""
