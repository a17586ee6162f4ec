"""Completes the command line in shells, by click. Scripts are printed; nothing is written anywhere.

A shell runs the command itself to learn what may follow; the values of an axis are read from its
record or its table then, not before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from switchmark.cli.help import GroupedCommand
from switchmark.errors import UsageError

if TYPE_CHECKING:
    from switchmark.model.axis import Axis

SHELLS = ("bash", "zsh", "fish")

_PROGRAM = "switchmark"
_VARIABLE = "_SWITCHMARK_COMPLETE"
"""Set by a shell that asks what may follow; click derives it from the program's name."""

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
"""Called by click with what is typed so far of a value; returns what it may become."""


@click.command("completion", cls=GroupedCommand)
@click.argument(
    "shell",
    metavar="SHELL",
    shell_complete=lambda context, param, typed: _beginning(SHELLS, typed),
    help=", ".join(SHELLS),
)
@click.pass_context
def print_completion(context: click.Context, shell: str) -> int:
    """Print what makes a shell complete this command: names, options, values of axes."""
    if shell not in SHELLS:
        raise UsageError(f"'{shell}' is no shell that can be served\n  known: {', '.join(SHELLS)}")
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    script = maker(context.find_root().command, {}, _PROGRAM, _VARIABLE).source()
    if shell == "fish":  # an axis takes a list of values: its commas are no separators of click's
        script = script.replace('string split ","', 'string split --max 1 ","')
    print(script)
    return 0


def completer(axis: Axis) -> Completer | None:
    """Return what completes the last of some values of an axis; None where values are not names."""
    if not axis.choices and not axis.table:
        return None

    def complete(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
        before, comma, last = typed.rpartition(",")
        return [f"{before}{comma}{name}" for name in _beginning(_names(axis), last)]

    return complete


def experiments(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Return the names of the experiments of the literature."""
    from switchmark.papers.experiment import names

    return _beginning(names(), typed)


def things(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Return what can be listed."""
    from switchmark.cli.listing import Thing

    return _beginning(list(Thing), typed)


def _beginning(names: Sequence[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]


def _names(axis: Axis) -> Sequence[str]:
    if axis.choices:
        return axis.choices
    table = importlib.import_module(f"switchmark.{axis.table}").TABLE
    return (*filter(None, [axis.chosen]), *table)
