"""This module lays out what `--help` says of a command: its options in groups, its examples as they
are typed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer.core import TyperCommand

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

_GROUPS = {
    "what": "What is measured",
    "where": "Where its parts are, and what they have",
    "load": "Load",
    "trial": "Trials",
    "statistics": "Statistics",
}
"""The headings of groups of axes, in their order. All other options stand above them."""

_EXAMPLES = Path(__file__).with_name("examples.txt")
"""What is typed, one command a line."""


class Command(TyperCommand):
    """A command shows each group of options below a heading of its own, and its examples last, as
    they were written."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Return the words of the line of usage: arguments as they are written, with the brackets
        that say which may be left out."""
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(str(each.metavar) for each in arguments)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        told: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        told |= {heading: [] for heading in _GROUPS.values()}
        for param in self.get_params(ctx):
            line = param.get_help_record(ctx)
            if line is not None:
                group = _GROUPS.get(getattr(param, "rich_help_panel", None) or "", "Options")
                if param.param_type_name == "argument":
                    told["Arguments"].append((str(param.metavar), line[1]))
                else:
                    told[group].append(line)
        for heading, lines in told.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        every = _EXAMPLES.read_text().splitlines()
        if lines := [line for line in every if line.startswith(f"switchmark {self.name} ")]:
            with formatter.section("Examples"):
                indent = " " * formatter.current_indent
                formatter.write("".join(f"{indent}{line}\n" for line in lines))
