"""The table of commands, and the program built from it.

The program's help comes from the table alone. A command's module is imported only when the command
or its help is needed, so the program's help is fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import click

import switchmark
from switchmark.cli.help import GroupedCommand

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("measuring:run", "Run the tests of a campaign, of axes, or of both."),
    "plan": ("measuring:plan", "Print the tests, their duration and their exact steps."),
    "resume": ("measuring:resume", "Continue a run: unfinished and failed tests."),
    "paper": ("measuring:paper", "Run experiments from the literature and check their claims."),
    "conform": ("conforming:conform", "Answer a standard, such as RFC 2544, clause by clause."),
    "report": ("exporting:report", "Show the results of runs, or write a report."),
    "compare": ("comparing:compare", "Compare runs test by test; in CI, fail on a regression."),
    "trend": ("trending:trend", "Show the history of tests over runs; in CI, fail on a change."),
    "gallery": ("gallery:gallery", "Draw all experiments from the literature on one page."),
    "export": ("exporting:export", "Write the tests of runs as CSV, Parquet, LaTeX, CSIT's JSON."),
    "query": ("exporting:query", "Query the records of runs with SQL."),
    "bundle": ("exporting:bundle", "Write an archive of a run for reviewers."),
    "schema": ("exporting:schema_", "Print the JSON Schema of a stored or printed object."),
    "pods": ("pods:pods", "Measure the network between pods of a Kubernetes cluster."),
    "list": ("hosts:list_", "List switches, engines and more, and whether this host has them."),
    "doctor": ("hosts:doctor", "Check this host: what works, what is missing, how to fix it."),
    "verify": ("verifying:verify", "Test with real frames whether a switch does all it must."),
    "clean": ("hosts:clean", "Remove what crashed runs left behind."),
    "completion": ("completion:print_completion", "Print a completion script for a shell."),
    "help": ("app:print_help", "Print the help of a command."),
    "version": ("app:print_version", "Print the version."),
}
"""The commands by name: the place of the function in this folder, and a one-line summary."""


class _Commands(Mapping[str, click.Command]):
    """The commands by name; access to a command imports its module."""

    def __getitem__(self, name: str) -> click.Command:
        place, summary = COMMANDS[name]
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(f"switchmark.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        command.short_help = summary
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(click.Group):
    """The program, which lists its commands without importing them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    "switchmark",
    cls=_Group,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    help="The benchmark for virtual switches.",
    epilog="--debug, anywhere, shows the traceback of an error.",
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.option("--version", is_flag=True, help="print the version")
@click.pass_context
def app(context: click.Context, version: bool) -> int:
    """Print the version if requested, or the help if there is no command."""
    if version:
        _print_version()
    elif context.invoked_subcommand is None:
        print(context.get_help())
    return 0


@click.command("help", cls=GroupedCommand)
@click.argument("command", metavar="[COMMAND]", default="", help="one of the commands")
def print_help(command: str) -> int:
    """Print the help of a command, or of the whole program."""
    path = [command] if command else []
    return app([*path, "--help"], prog_name="switchmark", standalone_mode=False) or 0


@click.command("version", cls=GroupedCommand)
def print_version() -> int:
    """Print the version, and the commit that it was built from."""
    _print_version()
    return 0


def _print_version() -> None:
    from switchmark.hosts.commit import own_commit

    built_from = own_commit()
    print(
        f"switchmark {switchmark.__version__}" + (f" (commit {built_from})" if built_from else "")
    )
