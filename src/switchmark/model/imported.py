"""The content of another program's file about a test, in place of trials."""

from __future__ import annotations

from pydantic import Field

from switchmark.model.written import Written


class Imported(Written):
    """The source of a record that this program did not measure, and its rates."""

    tool: str
    """The program whose format the file has, such as `CSIT`."""

    measured_by: str
    """The traffic generator, with its version."""

    rates_pps: tuple[float, ...] = ()
    """The received rate of each trial, in frames per second over all receivers; empty if the file
    has none."""

    axes: frozenset[str] = frozenset()
    """The axes with a value in the file. All other axes have the defaults of the model."""

    differs: dict[str, str] = Field(default_factory=dict)
    """Why a figure is defined otherwise than here, by the name of the figure or goal."""
