"""Decorators that add options to commands: `--host-file`, the options of measuring, and an option
per axis, generated from the axis records."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from switchmark.cli.arguments import MEASURING, PATH, Decorator, Measuring
from switchmark.cli.completion import completer
from switchmark.cli.help import AxisOption

if TYPE_CHECKING:
    from switchmark.model.axis import Axis


def with_axes(command: Callable[..., int]) -> Callable[..., int]:
    """Replace the argument `axes: dict[str, str]` of a command with an option per axis.

    The command gets the text of the given axes, by field name.
    """
    from switchmark.model.test import AXES

    @wraps(command)
    def wrapper(**options: Any) -> int:
        axes = {name: options.pop(name) for name in AXES}
        chosen = {name: text for name, text in axes.items() if text is not None}
        return command(axes=chosen, **options)

    in_order = sorted(AXES.values(), key=lambda axis: axis.used, reverse=True)
    return _decorated(wrapper, [_option(axis) for axis in in_order])


def with_measuring(command: Callable[..., int]) -> Callable[..., int]:
    """Replace the argument `how: Measuring` of a command with an option per field."""
    names = [field.name for field in fields(Measuring)]

    @wraps(command)
    def wrapper(**options: Any) -> int:
        return command(how=Measuring(**{name: options.pop(name) for name in names}), **options)

    return _decorated(wrapper, MEASURING)


def with_host_file(command: Callable[..., int]) -> Callable[..., int]:
    """Add the option `--host-file` to a command, and read the file before the command runs."""

    @wraps(command)
    def wrapper(*, host_file: Path | None, **options: Any) -> int:
        _use_host_file(host_file)
        return command(**options)

    description = "where this host has programs [~/.config/switchmark/host.toml]"
    return click.option("--host-file", metavar="FILE", type=PATH, help=description)(wrapper)


def _decorated(wrapper: Callable[..., int], options: Sequence[Decorator]) -> Callable[..., int]:
    """Return a function with options, in the order in which help shows them."""
    for option in reversed(options):
        wrapper = option(wrapper)
    return wrapper


def _use_host_file(path: Path | None) -> None:
    """Read a host file, or the default one, and refuse unknown names."""
    from switchmark.hosts.host_file import VARIABLE, check_names, host_entries
    from switchmark.hosts.programs import OTHER_PROGRAMS

    if path is not None:
        os.environ[VARIABLE] = str(path.absolute())  # also for child processes of this command
    if any(entry.programs for entry in host_entries().values()):
        from switchmark.switches import TABLE

        programs = [switch.name for switch in TABLE.values() if switch.program]
        check_names((*programs, *OTHER_PROGRAMS))


def _option(axis: Axis) -> Decorator:
    """Return the option of an axis: its value is the text that the user typed, or None."""
    description = ": ".join(filter(None, (axis.help, ", ".join(axis.choices))))
    if axis.table:
        description += f" (switchmark list {axis.table})"
    if axis.field.default_factory is None:
        description += " [none]" if axis.default is None else f" [{axis.default}]"
    if axis.chosen:
        description = description.removesuffix("]") + f"; {axis.chosen} where no campaign is named]"
    return click.option(
        axis.option,
        axis.name,
        cls=AxisOption,
        help=description,
        metavar="...",
        shell_complete=completer(axis),
        group=axis.group,
    )
