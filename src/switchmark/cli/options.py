"""The axes become options by their records: a new axis is an option by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from switchmark.model.axis import Axis
from switchmark.model.spec import AXES

__all__ = ["with_axes"]


def with_axes(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that takes `axes: dict[str, str]` an option for each axis in its place.

    The command gets what was written for the axes that were given, by the names of the fields.
    """
    own = inspect.signature(command, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "axes"]
    axes = [_option(axis) for axis in AXES.values()]

    def wrapper(**given: Any) -> int:
        written = {name: given.pop(name) for name in AXES}
        chosen = {name: text for name, text in written.items() if text is not None}
        return command(axes=chosen, **given)

    every = [*kept, *axes]
    wrapper.__signature__ = own.replace(parameters=every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    return wrapper


def _option(axis: Axis) -> inspect.Parameter:
    """Make a parameter of a command for an axis: a text, or None where it is not given."""
    told = ": ".join(filter(None, (axis.help, ", ".join(axis.choices))))
    if axis.field.default_factory is None:
        told += " [none]" if axis.default is None else f" [{axis.default}]"
    option = typer.Option(axis.option, help=told, metavar="...", show_default=False)
    return inspect.Parameter(
        axis.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )
