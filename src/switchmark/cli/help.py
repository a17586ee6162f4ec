"""The layout of a command's help: options in groups, and examples as a user types them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

GROUPS = {
    "what": "What is measured",
    "where": "Environments, ports and resources",
    "load": "Load",
    "trial": "Trials",
    "statistics": "Statistics",
}
"""The headings of axis groups, in order. All other options come before them."""

_EXAMPLES = Path(__file__).with_name("examples.txt")
"""Example commands, one per line."""


class AxisOption(click.Option):
    """The option of an axis, with its help group."""

    def __init__(self, *declarations: Any, group: str, **options: Any) -> None:
        super().__init__(*declarations, **options)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help shows option groups under headings, and examples at the end."""

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [param for param in self.get_params(ctx) if isinstance(param, click.Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([_record_of(argument, ctx) for argument in arguments])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        groups |= {heading: [] for heading in GROUPS.values()}
        for param in self.get_params(ctx):
            line = param.get_help_record(ctx)
            if isinstance(param, click.Option) and line is not None:
                heading = GROUPS[param.group] if isinstance(param, AxisOption) else "Options"
                groups[heading].append(line)
        for heading, lines in groups.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if lines := examples_of(self.name or ""):
            with formatter.section("Examples"):
                indent = " " * formatter.current_indent
                formatter.write("".join(f"{indent}{line}\n" for line in lines))


def examples_of(command: str) -> list[str]:
    """Return the examples of a command."""
    lines = _EXAMPLES.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(f"switchmark {command} ")]


def _record_of(argument: click.Argument, ctx: click.Context) -> tuple[str, str]:
    """Return an argument's syntax and its help text."""
    usage, description = argument.get_help_record(ctx)
    if argument.required:
        return usage, f"{description}  [required]"
    default = argument.default
    named = isinstance(default, str) and default  # click represents a missing default by an object
    return usage, f"{description}  [default: {default}]" if named else description
