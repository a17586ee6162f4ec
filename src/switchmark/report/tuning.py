"""The result of tuning: the default, the tuned settings, and their difference."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from switchmark.metrics.difference import Difference
from switchmark.metrics.family import Results
from switchmark.model.labels import label
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.report.compare_table import relation_text
from switchmark.report.figures import BOUND_NOTE, outcome, sure_rate
from switchmark.report.json import to_object


def tuning_lines(
    default: Record,
    tuned: Record | None,
    tried: int,
    axes: tuple[str, ...],
    results: Results,
) -> list[str]:
    """Return the lines for one test: both figures with their intervals, the settings, and the
    command that measures them again.

    `tried` is the number of settings, and `axes` are the axes that distinguish this test in the
    run. `results` are the final measurements of all tests, without the trials that selected the
    best settings.
    """
    name = label(default.test, axes)
    if tuned is None:
        why = "has nothing to tune" if not tried else f"none of {tried} settings could be measured"
        return [f"{name}: default {_figure(default)}; {why}"]
    difference = results.difference(default, tuned)
    outcome = relation_text(difference) + _needed(difference)
    figures = f"default {_figure(default)}, tuned {_figure(tuned)}"
    return [
        f"{name}: {figures}: {outcome} (the best of {tried} settings)",
        f"  {command_of(tuned.test)}",
        *([f"  {BOUND_NOTE}"] if difference.before.bound or difference.after.bound else []),
    ]


def _needed(difference: Difference) -> str:
    """Return the number of rounds that would probably decide, as text."""
    if difference.reason != "chance" or difference.needed is None:
        return ""
    return f", about {difference.needed} rounds would decide"


def _figure(record: Record) -> str:
    if record.status != "ok":
        return outcome(record)
    return sure_rate(record, to_object(record))


def command_of(test: Test) -> str:
    """Return the command line that runs a test."""
    return shlex.join(("switchmark", "run", *_arguments(test)))


def _arguments(test: Test) -> Iterator[str]:
    usual = Test(dimension=test.dimension)
    for name, axis in AXES.items():
        value = getattr(test, name)
        if name == "switch" or value != getattr(usual, name):
            yield from (axis.option, "none" if value is None else _written(value))


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
