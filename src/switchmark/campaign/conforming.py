"""The tests that measure the clauses of a standard, by the standard's campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from switchmark.campaign.expand import grouped
from switchmark.campaign.load import Campaign, Check, Choose, parse
from switchmark.errors import UsageError
from switchmark.model.axis import field_name
from switchmark.model.test import AXES, Test
from switchmark.standards.standard import Standard

_CHOSEN = ("search", "verification", "dimension")
"""The axes that a standard sets."""


@dataclass(frozen=True, slots=True)
class ClauseTests:
    """The campaign of a standard, and why some of its parts can never be measured, by name."""

    campaign: Campaign | None
    refused: Mapping[str, str]


def tests_of(
    standard: Standard,
    names: Sequence[str],
    options: Mapping[str, str],
    check: Check,
    choose: Choose,
    *,
    quick: bool,
) -> ClauseTests:
    """Return the tests of some campaigns of a standard, with the axes of the command line in place
    of the standard's. Raise UsageError for axes that none of these campaigns can have."""
    for name in _CHOSEN:
        if name in options:
            raise UsageError(
                f"{AXES[name].option} is set by the standard",
                hint=f"switchmark run {AXES[name].option} {options[name]}",
            )
    engine = AXES["engine"]
    given = {engine.name: engine.chosen, **options}
    changed = {field_name(axis): value for axis, value in standard.quick.items()} if quick else {}
    tests: list[Test] = []
    refused: dict[str, str] = {}
    for name in names:
        axes = {field_name(axis): value for axis, value in standard.campaigns[name].items()}
        axes |= {axis: value for axis, value in changed.items() if axis in axes}
        text = yaml.safe_dump(axes)
        try:
            made = parse(text, given, check, choose, source=standard.name, name=standard.name)
        except UsageError as error:
            refused[name] = " ".join(error.message.split())
            if len(refused) == len(names):
                raise
            continue
        tests += made.tests
    unique = grouped(dict.fromkeys(tests))
    return ClauseTests(Campaign(standard.name, tuple(unique)) if tests else None, refused)
