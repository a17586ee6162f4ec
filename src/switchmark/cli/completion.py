"""This module completes the command line in shells, by what typer has for it. Scripts are printed;
nothing is written anywhere.

A shell runs the command itself to learn what may follow; the values of an axis are read from its
record or its table then, not before.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from switchmark.errors import UsageError

if TYPE_CHECKING:
    from switchmark.model.axis import Axis

SHELLS = ("bash", "zsh", "fish")

_PROGRAM = "switchmark"
_VARIABLE = "_SWITCHMARK_COMPLETE"
"""Set by a shell that asks what may follow."""


def enable_completion(*, asked: bool | None = None) -> None:
    """Make ready to serve a shell: if it is one that asks, or as told."""
    if _VARIABLE in os.environ if asked is None else asked:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # it registers the shells


def print_completion(
    context: typer.Context,
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL", help=", ".join(SHELLS), autocompletion=lambda: list(SHELLS)
        ),
    ],
) -> int:
    """Print what makes a shell complete this command: names, options, values of axes."""
    if shell not in SHELLS:
        raise UsageError(f"'{shell}' is no shell that can be served\n  known: {', '.join(SHELLS)}")
    from typer.completion import shell_complete

    enable_completion(asked=True)
    return shell_complete(context.find_root().command, {}, _PROGRAM, _VARIABLE, f"source_{shell}")


def completer(axis: Axis) -> Callable[[str], list[str]] | None:
    """Return what completes the last of some values of an axis; None where values are not names."""
    if not axis.choices and not axis.table:
        return None

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _names(axis) if name.startswith(last)]

    return complete


def experiments() -> list[str]:
    """Return the names of the experiments of the literature."""
    from switchmark.papers.experiment import names

    return list(names())


def things() -> list[str]:
    """Return what can be listed."""
    from switchmark.cli.listing import Thing

    return list(Thing)


def _names(axis: Axis) -> Sequence[str]:
    if axis.choices:
        return axis.choices
    table = importlib.import_module(f"switchmark.{axis.table}").TABLE
    return (*filter(None, [axis.chosen]), *table)
