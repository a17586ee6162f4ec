"""The axes become options by their records: a new axis is an option by itself."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from switchmark.cli.arguments import Measuring
from switchmark.cli.completion import completer

if TYPE_CHECKING:
    from switchmark.model.axis import Axis


def with_axes(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that takes `axes: dict[str, str]` an option for each axis in its place.

    The command gets what was written for the axes that were given, by the names of the fields.
    """
    from switchmark.model.test import AXES

    own = inspect.signature(command, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "axes"]
    in_order = sorted(AXES.values(), key=lambda axis: axis.used, reverse=True)
    axes = [_option(axis) for axis in in_order]

    def wrapper(**given: Any) -> int:
        written = {name: given.pop(name) for name in AXES}
        chosen = {name: text for name, text in written.items() if text is not None}
        return command(axes=chosen, **given)

    return _taking([*kept, *axes], wrapper, command)


def with_measuring(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that takes `how: Measuring` an option for each of its fields in its place."""
    own = inspect.signature(command, eval_str=True).parameters
    told = inspect.signature(Measuring, eval_str=True).parameters
    options = [option.replace(kind=own["how"].kind) for option in told.values()]

    def wrapper(**given: Any) -> int:
        return command(how=Measuring(**{name: given.pop(name) for name in told}), **given)

    every = [(options if name == "how" else [parameter]) for name, parameter in own.items()]
    return _taking([*chain.from_iterable(every)], wrapper, command)


def with_host_file(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the option `--host-file`, and have it read before anything else is done."""
    own = inspect.signature(command, eval_str=True)
    told = "where this host has programs [~/.config/switchmark/host.toml]"
    option = inspect.Parameter(
        "host_file",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option("--host-file", metavar="FILE", help=told, show_default=False),
        ],
    )

    def wrapper(*, host_file: Path | None, **given: Any) -> int:
        _use_host_file(host_file)
        return command(**given)

    return _taking([*own.parameters.values(), option], wrapper, command)


def _taking(
    every: Sequence[inspect.Parameter], wrapper: Callable[..., int], command: Callable[..., int]
) -> Callable[..., int]:
    """Return a wrapper of a command with the parameters that it takes instead."""
    wrapper.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
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


def _option(axis: Axis) -> inspect.Parameter:
    """Make a parameter of a command for an axis: a text, or None where it is not given."""
    told = ": ".join(filter(None, (axis.help, ", ".join(axis.choices))))
    if axis.field.default_factory is None:
        told += " [none]" if axis.default is None else f" [{axis.default}]"
    if axis.chosen:
        told = told.removesuffix("]") + f"; {axis.chosen} where no campaign is named]"
    option = typer.Option(
        axis.option,
        help=told,
        metavar="...",
        show_default=False,
        autocompletion=completer(axis),
        rich_help_panel=axis.group,
    )
    return inspect.Parameter(
        axis.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )
