"""Adds options to commands: one for each axis, by its record, so that a new axis is an option by
itself; those of measuring; and the host file."""

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
    """Give a command that takes `axes: dict[str, str]` an option for each axis instead.

    The command gets what was written for the axes that were given, by the names of the fields.
    """
    from switchmark.model.test import AXES

    @wraps(command)
    def wrapper(**given: Any) -> int:
        written = {name: given.pop(name) for name in AXES}
        chosen = {name: text for name, text in written.items() if text is not None}
        return command(axes=chosen, **given)

    in_order = sorted(AXES.values(), key=lambda axis: axis.used, reverse=True)
    return _decorated(wrapper, [_option(axis) for axis in in_order])


def with_measuring(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that takes `how: Measuring` an option for each of its fields instead."""
    names = [field.name for field in fields(Measuring)]

    @wraps(command)
    def wrapper(**given: Any) -> int:
        return command(how=Measuring(**{name: given.pop(name) for name in names}), **given)

    return _decorated(wrapper, MEASURING)


def with_host_file(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the option `--host-file`, and have it read before anything else is done."""

    @wraps(command)
    def wrapper(*, host_file: Path | None, **given: Any) -> int:
        _use_host_file(host_file)
        return command(**given)

    told = "where this host has programs [~/.config/switchmark/host.toml]"
    return click.option("--host-file", metavar="FILE", type=PATH, help=told)(wrapper)


def _decorated(wrapper: Callable[..., int], options: Sequence[Decorator]) -> Callable[..., int]:
    """Return a function with options, which help shows in this order."""
    for option in reversed(options):
        wrapper = option(wrapper)
    return wrapper


def _use_host_file(path: Path | None) -> None:
    """Read a host file, or the usual one, and refuse what it should not hold."""
    from switchmark.hosts.host_file import VARIABLE, check_names, host_entries
    from switchmark.hosts.programs import OTHER_PROGRAMS

    if path is not None:
        os.environ[VARIABLE] = str(path.absolute())  # for what this command starts again, too
    if any(entry.programs for entry in host_entries().values()):
        from switchmark.switches import TABLE

        programs = [switch.name for switch in TABLE.values() if switch.program]
        check_names((*programs, *OTHER_PROGRAMS))


def _option(axis: Axis) -> Decorator:
    """Return the option of an axis: a text, or None where it is not given."""
    told = ": ".join(filter(None, (axis.help, ", ".join(axis.choices))))
    if axis.field.default_factory is None:
        told += " [none]" if axis.default is None else f" [{axis.default}]"
    if axis.chosen:
        told = told.removesuffix("]") + f"; {axis.chosen} where no campaign is named]"
    return click.option(
        axis.option,
        axis.name,
        cls=AxisOption,
        help=told,
        metavar="...",
        shell_complete=completer(axis),
        group=axis.group,
    )
