"""The record of an axis: everything about a field of `Test`, in one place.

The command line, campaign files, the reference, paths, cables, JSON and tables read it from here.
This module knows no axis; `model.test` has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

Property = Literal["switch", "ports", "functions", "chain", "path", "load", "method"]
"""What an axis can be a property of: the switch under test, the ports, functions, functions of a
chain, the rest of the path, the load of a trial with its background load, the method by which a
test is measured."""

Changes = Literal["switch", "path", "trial"]
"""What has to be made anew for another value: another switch needs another path, and another path
another trial."""

Group = Literal["what", "where", "load", "trial", "statistics"]
"""The groups of `--help`: what is measured, where its parts are, what is sent, how a trial is run,
and how often."""

_GROUPS: Mapping[Property, Group] = {
    "switch": "what",
    "path": "what",
    "chain": "what",
    "ports": "where",
    "functions": "where",
    "load": "load",
    "method": "trial",
}

_CHANGES: Mapping[Property, Changes] = {"switch": "switch", "load": "trial", "method": "trial"}


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Everything about one axis but its type, limits and default, which are the field's own.

    The first two members are required; the defaults of the others are right for most axes.
    """

    of: Property
    """What it is a property of. A measurement without that thing, such as one on a cable, has the
    default."""
    help: str
    """What it sets, as `--help` and the reference say it."""
    followed_by: tuple[Literal["switch", "engine"], ...] = ()
    """The drivers that have to name it in `resources` if they follow it. With a driver that does
    not, it can only have its default."""
    blame_rank: int = 0
    """Which axis to name when a driver rejects a wiring without giving a reason: the greatest
    first; 0 for an axis that a wiring does not show."""

    unit: str = ""
    """The unit of a number that is written without one."""
    values: str = ""
    """How values are written, in Markdown, where the type does not tell."""
    table: str = ""
    """The folder of the implementations whose names are its values."""
    parse: Callable[[Any], Any] | None = None
    """Reads a value as it is written, or raises UsageError."""
    as_written: bool = False
    """Whether the value stays as it is written once `parse` has read it."""
    undivided: bool = False
    """Whether one value has commas of its own; several values are a YAML list then."""
    of_campaign: bool = False
    """Whether a campaign has one value for all of its tests."""
    chosen: str = ""
    """The value that lets switchmark choose: the default of a command without a campaign, never the
    value of a test."""
    compared: float | None = None
    """The default where several switches are compared in turn."""
    apart: float | None = None
    """The same where they are compared one at a time."""
    given: float | None = None
    """The same where the duration of a trial is given."""

    asked_as: Group | None = None
    """Its group in `--help`, where that does not follow from what it is a property of."""
    used: int = 0
    """How often people use it, from 0 to 4; the greatest come first in `--help`."""

    json_name: str = ""
    """The name in JSON, where that is not the field's: one that ends in the unit."""
    json_number: str = ""
    """The name in JSON of a second member, which has the value as a number."""
    heading: str = ""
    """The heading of its column in a table, where that is not its name."""
    own_column: bool = False
    """Whether it has a column wherever tests differ in it, even if other axes tell them apart."""
    tries: tuple[Any, ...] = ()
    """Further values that `--tune` tries, with a switch that names the axis in `resources`; none
    for an axis that is no setting."""
    left_out: int = 0
    """Which axis to leave out of the name of a test where other axes tell the tests apart: the
    greatest first; 0 for an axis that is always named."""

    later: bool = False
    """Whether there are results from before it existed: these have its default, which keys leave
    out."""

    name: str = ""
    """The name of its field; `axes_of` sets it."""
    field: FieldInfo = dataclasses.field(default_factory=FieldInfo)
    """Its field; `axes_of` sets it."""

    @property
    def key(self) -> str:
        """Return the name as campaign files write it."""
        return key_of(self.name)

    @property
    def option(self) -> str:
        """Return the name as the command line writes it."""
        return f"--{self.key}"

    @property
    def words(self) -> str:
        """Return the name as text writes it."""
        return self.name.replace("_", " ")

    @property
    def changes(self) -> Changes:
        """Return what has to be made anew for another value."""
        return _CHANGES.get(self.of, "path")

    @property
    def group(self) -> Group:
        """Return the group that it stands in."""
        return self.asked_as or _GROUPS[self.of]

    @property
    def default(self) -> Any:
        """Return the usual value; None where it depends on other axes."""
        return self.field.get_default()

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the only values that there are; none where the type leaves them open."""
        is_choice = get_origin(self.field.annotation) is Literal
        return get_args(self.field.annotation) if is_choice else ()

    @property
    def takes_none(self) -> bool:
        """Say whether it may have no value, written `none`."""
        return NoneType in get_args(self.field.annotation)

    @property
    def counts(self) -> bool:
        """Say whether it counts things, so that a range without a step goes up by one."""
        kinds = get_args(self.field.annotation) or (self.field.annotation,)
        return int in kinds and str not in kinds

    def meaning(self, value: Any) -> Any:
        """Return what a value means, which is the same for two that are written differently."""
        if self.as_written and self.parse is not None and value is not None:
            return self.parse(value)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Have pydantic read values with `parse` before it checks their type."""
        schema = handler(source)
        if self.parse is None:
            return schema
        return core_schema.no_info_before_validator_function(self._read, schema)

    def _read(self, value: Any) -> Any:
        if self.parse is None or value is None:
            return value
        parsed = self.parse(value)
        return str(value) if self.as_written else parsed


def axes_of(model: type[BaseModel]) -> Mapping[str, Axis]:
    """Return the records of all fields of a model, by name, in their order; TypeError for a field
    that has none, or more than one."""
    axes = {}
    for name, field in model.model_fields.items():
        records = [each for each in field.metadata if isinstance(each, Axis)]
        if len(records) != 1:
            raise TypeError(
                f"the field {model.__name__}.{name} has {len(records)} records of an axis, not one"
            )
        axes[name] = dataclasses.replace(records[0], name=name, field=field)
    return MappingProxyType(axes)


def key_of(name: str) -> str:
    """Return the name of a field as campaign files and the command line write it."""
    return name.replace("_", "-")


def field_name(key: str) -> str:
    """Return the name of the field that a campaign file names by its key, or by itself."""
    return key.replace("-", "_")


def ranked(axes: Mapping[str, Axis], rank: Callable[[Axis], int]) -> tuple[str, ...]:
    """Return the names of the axes that have a rank, the greatest first, of equal ones the last."""
    order = {name: number for number, name in enumerate(axes)}
    having = [axis for axis in axes.values() if rank(axis)]
    having.sort(key=lambda axis: (rank(axis), order[axis.name]), reverse=True)
    return tuple(axis.name for axis in having)
