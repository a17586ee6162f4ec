"""Writes the manual pages of the command and of all its commands, from the same tables as `--help`.

`python tools/manual.py FOLDER` writes FOLDER/switchmark.1, FOLDER/switchmark-run.1 and so on.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

import switchmark
from switchmark.cli.app import COMMANDS, app
from switchmark.cli.help import GROUPS, AxisOption, examples_of

PROGRAM = "switchmark"
GUIDE = Path(__file__).parents[1] / "docs/guide/exit-codes.md"


def roff(text: str) -> str:
    """Return text that roff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha")
    escaped = escaped.replace("~", "\\(ti").replace("`", "\\(ga").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line[:1] == "." else line for line in escaped.split("\n"))


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page."""
    context = click.Context(app, info_name=PROGRAM, **app.context_settings)
    commands = {name: app.get_command(context, name) for name in app.list_commands(context)}
    yield f"{PROGRAM}.1", "\n".join(_of_program(context))
    for name, command in commands.items():
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield f"{PROGRAM}-{name}.1", "\n".join(_of_command(name, command, inner))


def _title(name: str, summary: str) -> Iterator[str]:
    version = f"{PROGRAM} {switchmark.__version__}"
    yield f'.TH "{roff(name.upper())}" "1" "" "{roff(version)}" "User Commands"'
    yield from (".nh", ".SH NAME", f"{roff(name)} \\- {roff(summary.rstrip('.'))}", ".SH SYNOPSIS")


def _of_program(context: click.Context) -> Iterator[str]:
    yield from _title(PROGRAM, "benchmark for virtual switches")
    yield from (f".B {PROGRAM}", "\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]", ".SH DESCRIPTION")
    yield roff(
        "Measures the throughput, latency, loss and CPU cost of virtual switches, and says which "
        "part of a set-up was the limit."
    )
    yield ".SH COMMANDS"
    for name, (_, summary) in COMMANDS.items():
        yield from (".TP", f"\\fB{roff(f'{PROGRAM}-{name}')}\\fR(1)", roff(summary))
    yield ".SH OPTIONS"
    yield from _records(app, context)
    yield ".SH EXIT STATUS"
    for code, meaning in _exit_codes():
        yield from (".TP", f"\\fB{code}\\fR", roff(meaning))


def _exit_codes() -> Iterator[tuple[str, str]]:
    """Yield the exit codes with their meanings, from the guide."""
    for code, meaning in re.findall(
        r"^\| (\d+) \| \S+ \| (.*) \|$", GUIDE.read_text(), re.MULTILINE
    ):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning)
        yield code, plain.replace("`", "").replace(" (in CI)", "")


def _of_command(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield from _title(f"{PROGRAM}-{name}", COMMANDS[name][1])
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"\\fB{PROGRAM} {roff(name)}\\fR {roff(usage)}", ".SH DESCRIPTION")
    for number, paragraph in enumerate(textwrap.dedent(command.help or "").split("\n\n")):
        yield from ([".PP"] * bool(number) + [roff(" ".join(paragraph.split()))])
    yield from (".SH OPTIONS", *_records(command, context))
    if examples := examples_of(name):
        yield from (".SH EXAMPLES", ".nf", *map(roff, examples), ".fi")
    yield from (".SH SEE ALSO", f"\\fB{PROGRAM}\\fR(1)")


def _records(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the arguments and the options of a command; those of axes under their headings."""
    headings: dict[str, list[str]] = {"": [], **{heading: [] for heading in GROUPS.values()}}
    for param in command.get_params(context):
        if isinstance(param, click.Argument):
            record = (param.make_metavar(context), getattr(param, "help", None) or "")
        else:
            record = param.get_help_record(context) or ("", "")
        if not record[0]:
            continue
        heading = GROUPS[param.group] if isinstance(param, AxisOption) else ""
        words = " ".join(record[1].split())
        headings[heading] += [".TP", f"\\fB{roff(record[0])}\\fR", roff(words)]
    for heading, lines in headings.items():
        if lines:
            yield from ([f'.SS "{roff(heading)}"'] * bool(heading) + lines)


def main() -> None:
    """Write the pages into the folder that the command names."""
    (folder,) = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / name).write_text(text + "\n")


if __name__ == "__main__":
    main()
