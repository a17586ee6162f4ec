"""Shell completion of the command line, by click. The command prints the script and writes no
files.

The shell runs the command to get completions; it reads the values of an axis from the axis record
or from its table only then.
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
"""The variable that a shell sets to request completions; click derives it from the program's
name."""

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
"""click calls it with the typed part of a value; it returns the possible completions."""


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
    if shell == "fish":  # an axis takes a comma list, which click's separator would split
        script = script.replace('string split ","', 'string split --max 1 ","')
    print(script)
    return 0


def completer(axis: Axis) -> Completer | None:
    """Return a completer for the last value in a comma list of an axis; None if the values are not
    names."""
    if not axis.choices and not axis.table:
        return None

    def complete(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
        before, comma, last = typed.rpartition(",")
        return [f"{before}{comma}{name}" for name in _beginning(_names(axis), last)]

    return complete


def experiments(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Return the names of the literature's experiments that match."""
    from switchmark.papers.library import names

    return _beginning(names(), typed)


def standards(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Return the names of the standards that match."""
    from switchmark.standards.standard import names

    return _beginning(names(), typed)


def switches(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Return the names of the switches that match."""
    from switchmark.switches import TABLE

    return _beginning(list(TABLE), typed)


def things(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Return the matching kinds of things for `list`."""
    from switchmark.cli.listing import Thing

    return _beginning(list(Thing), typed)


def _beginning(names: Sequence[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]


def _names(axis: Axis) -> Sequence[str]:
    if axis.choices:
        return axis.choices
    table = importlib.import_module(f"switchmark.{axis.table}").TABLE
    return (*filter(None, [axis.chosen]), *table)
