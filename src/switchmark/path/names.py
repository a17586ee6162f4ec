"""This module checks that every name of a test is in the table of its axis. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.model.refusal import Refusal, unknown_name
from switchmark.model.test import AXES, Test
from switchmark.plugins import Table
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import TABLE as SEARCHES
from switchmark.switches import TABLE as SWITCHES

TABLES: Mapping[str, tuple[str, Table[Any]]] = {
    "engines": ("engine", ENGINES),
    "environments": ("environment", ENVIRONMENTS),
    "functions": ("function", FUNCTIONS),
    "scenarios": ("scenario", SCENARIOS),
    "searches": ("search", SEARCHES),
    "switches": ("switch", SWITCHES),
}
"""What one member of a folder is called, and the table of all of them."""


def unknown_names(test: Test) -> list[Refusal]:
    """Return the refusals of names that are in no table, each with the nearest name or with the
    reason why the plug-in of that name cannot be used."""
    refusals = []
    for axis in AXES.values():
        if not axis.table:
            continue
        what, table = TABLES[axis.table]
        name = getattr(test, axis.name)
        if name in table:
            continue
        error = table.why_not(name)
        if name == axis.chosen:
            why = f"{what} {name} is chosen where a run begins: name one here"
            refusals.append(Refusal((axis.name,), why, f"{axis.option} {axis.default}"))
        elif error is None:
            known = (*filter(None, [axis.chosen]), *table)
            refusals.append(unknown_name(what, name, known, (axis.name,)))
        else:
            unusable = f"'{name}' cannot be used: " * (name in table.unusable)
            refusals.append(Refusal((axis.name,), f"{unusable}{error.message}", error.hint))
    return refusals
