"""The ability of a testbed to run the path of a test, determined without building the path."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.errors import SwitchmarkError
from switchmark.lab.drawing import sketch
from switchmark.lab.probes import Probes
from switchmark.model.test import AXES, Test

OF_THE_PATH = tuple(name for name, axis in AXES.items() if axis.changes != "trial")
"""The axes that decide whether a host can run a test."""


@dataclass(frozen=True, slots=True)
class Ability:
    """The reason why a host cannot run a path; otherwise the doubts of its placement there and the
    mode of its switch."""

    waits: str
    doubts: tuple[str, ...] = ()
    mode: str | None = None


def ability(test: Test, probes: Probes) -> Ability:
    """Return the probed host's ability to run the path of a test."""
    try:
        location = probes.locate(test)
        location.versions()
        path = sketch(location)
    except SwitchmarkError as error:
        return Ability(error.message.partition("\n")[0])
    emulated = "emulated" in (path.found.modes.get(test.environment) or "")
    doubts = (*path.placement.doubts, *(["emulated"] if emulated else []))
    return Ability("", doubts, location.switch.mode)
