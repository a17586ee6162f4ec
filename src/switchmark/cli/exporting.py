"""This module defines the commands that hand on what runs have recorded: each parses, calls and
prints.

They read run folders only, and import what they need when they are run.
"""

from __future__ import annotations

from typing import Annotated

import typer

from switchmark.cli.running import print_json

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Add these commands to those of the program."""
    app.command("schema")(schema_)


def schema_(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="records, trials (files of a run), or json")
    ] = "records",
) -> int:
    """Print the JSON Schema of what a run folder holds, or of what --json prints."""
    from switchmark.errors import UsageError
    from switchmark.report.schema import SCHEMAS, schema

    if name not in SCHEMAS:
        known = "\n".join(f"  {each}: {title}" for each, (title, _) in SCHEMAS.items())
        raise UsageError(f"there is no schema named '{name}'\n{known}")
    print_json(schema(name))
    return 0
