"""This module has the table of the commands, and makes a program of it.

The help of the whole is written from the table. A command's own module is imported when the command
is used, or when its own help is asked for: so the help comes at once, whatever commands there are.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import switchmark

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("measuring:run", "Run the tests of a campaign, of axes, or of both."),
    "plan": ("measuring:plan", "Print the tests, their time and their exact steps, no more."),
    "resume": ("measuring:resume", "Run the tests that a run has not finished or that failed."),
    "paper": ("measuring:paper", "Run experiments of the literature, and judge their claims."),
    "report": ("exporting:report", "Show the results of runs again, or write them as a page."),
    "compare": ("comparing:compare", "Compare runs test by test, for a person or as a gate."),
    "gallery": ("gallery:gallery", "Draw all experiments of the literature on one page."),
    "export": ("exporting:export", "Write the tests of runs as CSV, Parquet, LaTeX, CSIT's JSON."),
    "query": ("exporting:query", "Ask the records of runs by SQL."),
    "bundle": ("exporting:bundle", "Write an archive of a run for whoever checks it."),
    "schema": ("exporting:schema_", "Print the JSON Schema of what is stored or printed."),
    "list": ("hosts:list_", "List names, whether this host can use them, and why not."),
    "doctor": ("hosts:doctor", "Say what this host can do, what is missing, what mends it."),
    "clean": ("hosts:clean", "Undo what dead runs left on this machine and their hosts."),
    "completion": ("completion:print_completion", "Print what completes commands in a shell."),
    "help": ("app:print_help", "Print the help of a command."),
    "version": ("app:print_version", "Print the version."),
}
"""Each command by its name: where its function is in this folder, and what it does, in a line."""


class _Commands(Mapping[str, "Command"]):
    """These are the commands by name; each is made when it is asked for."""

    def __getitem__(self, name: str) -> Command:
        from switchmark.cli.help import Command

        place, words = COMMANDS[name]
        module, _, function = place.partition(":")
        one = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        add = one.command(name, cls=Command, short_help=words)
        add(getattr(importlib.import_module(f"switchmark.cli.{module}"), function))
        return typer.main.get_command(one)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    """The program has the commands of the table, and imports none to tell of them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


app = typer.Typer(
    cls=_Group,
    help="The benchmark for virtual switches.",
    epilog="--debug, anywhere, shows the traceback of an error.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> int:
    """Print the version where that is asked for, or the help where nothing is."""
    if version:
        print_version()
    elif context.invoked_subcommand is None:
        print(context.get_help())
    return 0


def print_help(
    command: Annotated[str, typer.Argument(metavar="[COMMAND]", help="one of the commands")] = "",
) -> int:
    """Print the help of a command, or of the whole program."""
    asked = [command] if command else []
    return app([*asked, "--help"], prog_name="switchmark", standalone_mode=False) or 0


def print_version() -> int:
    """Print the version, and the commit that it was built from."""
    from switchmark.hosts.commit import commit

    told = commit()
    print(f"switchmark {switchmark.__version__}" + (f" (commit {told})" if told else ""))
    return 0
