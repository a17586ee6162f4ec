"""This module says what a testbed, such as this host, makes of the path of a test, without building
it."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.errors import SwitchmarkError
from switchmark.lab.drawing import sketch
from switchmark.lab.probes import Probes
from switchmark.model.test import AXES, Test

OF_THE_PATH = tuple(name for name, axis in AXES.items() if axis.changes != "trial")
"""The axes on which it depends whether a host can run a test."""


@dataclass(frozen=True, slots=True)
class Ability:
    """An ability is what the path waits for on a host, or the doubts of its placement there and the
    mode of its switch."""

    waits: str
    doubts: tuple[str, ...] = ()
    mode: str | None = None


def ability(test: Test, probes: Probes) -> Ability:
    """Return what the host that is probed makes of the path of a test."""
    try:
        at = probes.locate(test)
        at.versions()
        path = sketch(at)
    except SwitchmarkError as error:
        return Ability(error.message.partition("\n")[0])
    emulated = "emulated" in (path.modes.get(test.environment) or "")
    doubts = (*path.placement.doubts, *(["emulated"] if emulated else []))
    return Ability("", doubts, at.switch.mode)
