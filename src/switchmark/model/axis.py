"""The record of an axis: everything about a field of `Test`, in one place.

The command line, campaign files, the reference, paths, cables, JSON and tables use these records.
The axes themselves are in `model.test`; this module knows no axis by name.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

Property = Literal["switch", "ports", "functions", "chain", "path", "load", "method"]
"""The thing that an axis describes: the switch under test, the ports, the functions, the functions
of a chain, the rest of the path, the offered load and the background load of a trial, or the method
of measurement."""

Changes = Literal["switch", "path", "trial"]
"""The thing to build again for another value: another switch needs another path, and another path
another trial."""

Group = Literal["what", "where", "load", "trial", "statistics"]
"""The groups of `--help`: the test, the places of its parts, the offered load, the trials and their
number."""

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
    """Everything about an axis except its type, limits and default, which the field itself has.

    The first two members are required; the defaults of the others suit most axes.
    """

    of: Property
    """The thing that it describes. A measurement without that thing, such as a baseline on a cable,
    uses the default."""
    help: str
    """Its description in `--help` and the reference."""
    followed_by: tuple[Literal["switch", "engine"], ...] = ()
    """The kinds of drivers that name it in `resources` to support it. All other drivers accept the
    default only."""
    blame_rank: int = 0
    """The order of blame when a driver rejects a wiring without a reason, greatest first; 0 for an
    axis that a wiring does not show."""

    unit: str = ""
    """The unit of a bare number."""
    values: str = ""
    """The spelling of values, in Markdown, if the type does not show it."""
    table: str = ""
    """The folder of implementations whose names are the values."""
    parse: Callable[[Any], Any] | None = None
    """Parses a written value, or raises UsageError."""
    sweeps: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """The words that stand for several values."""
    as_written: bool = False
    """Whether the value stays as written after `parse` has checked it."""
    undivided: bool = False
    """Whether a single value may contain commas; several values are then a YAML list."""
    is_list: bool = False
    """Whether a single value is a list of words; a YAML list is one value as well."""
    of_campaign: bool = False
    """Whether all tests of a campaign share one value."""
    chosen: str = ""
    """The value by which switchmark chooses: the default of commands without a campaign, never the
    value of a test."""
    compared: float | None = None
    """The default for several switches whose trials are interleaved."""
    apart: float | None = None
    """The default for several switches that run one at a time."""
    given: float | None = None
    """The default for several switches if the duration of a trial is given."""

    asked_as: Group | None = None
    """Its group in `--help`, if that does not follow from `of`."""
    used: int = 0
    """How often people use it, from 0 to 4; `--help` lists the greatest first."""

    json_name: str = ""
    """The name in JSON, with the unit as a suffix, if it differs from the field's."""
    json_number: str = ""
    """The name in JSON of a second member with the value as a number."""
    heading: str = ""
    """The heading of its column in a table, if that is not its name."""
    own_column: bool = False
    """Whether it has a column if tests differ in it, even if other axes identify the tests."""
    tries: tuple[Any, ...] = ()
    """More values for `--tune`, with a switch that names the axis in `resources`; empty for an axis
    that is not tunable."""
    left_out: int = 0
    """The order in which axes disappear from the names of tests that other axes identify, greatest
    first; 0 for an axis that always stays."""

    later: bool = False
    """Whether earlier results lack it: these have its default, and keys omit the default."""

    name: str = ""
    """The name of its field, set by `axes_of`."""
    field: FieldInfo = dataclasses.field(default_factory=FieldInfo)
    """Its field, set by `axes_of`."""

    @property
    def key(self) -> str:
        """Return the name in campaign files, such as `frame-size`."""
        return key_of(self.name)

    @property
    def option(self) -> str:
        """Return the name on the command line, such as `--frame-size`."""
        return f"--{self.key}"

    @property
    def label(self) -> str:
        """Return the name in text, such as `frame size`."""
        return self.name.replace("_", " ")

    @property
    def changes(self) -> Changes:
        """Return the thing to build again for another value."""
        return _CHANGES.get(self.of, "path")

    @property
    def group(self) -> Group:
        """Return its group in `--help`."""
        return self.asked_as or _GROUPS[self.of]

    @property
    def default(self) -> Any:
        """Return the default value; None if it depends on other axes."""
        return _default_of(self)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the possible values; empty if the type does not list them."""
        is_choice = get_origin(self.field.annotation) is Literal
        return get_args(self.field.annotation) if is_choice else ()

    @property
    def takes_none(self) -> bool:
        """Say whether the value `none` is allowed."""
        return NoneType in get_args(self.field.annotation)

    @property
    def counts(self) -> bool:
        """Say whether it is a count, so that a range without a step goes up by one."""
        kinds = get_args(self.field.annotation) or (self.field.annotation,)
        return int in kinds and str not in kinds

    def meaning(self, value: Any) -> Any:
        """Return the parsed value, which is equal for two spellings of the same value."""
        if self.as_written and self.parse is not None and value is not None:
            return self.parse(value)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Make pydantic call `parse` on a value before it checks the type."""
        schema = handler(source)
        if self.parse is None:
            return schema
        return core_schema.no_info_before_validator_function(self._read, schema)

    def _read(self, value: Any) -> Any:
        if self.parse is None or value is None:
            return value
        parsed = self.parse(value)
        return str(value) if self.as_written else parsed


@functools.cache
def _default_of(axis: Axis) -> Any:
    """Return the default of an axis. Pydantic copies it each time, and each check asks for all."""
    return axis.field.get_default()


def axes_of(model: type[BaseModel]) -> Mapping[str, Axis]:
    """Return the records of all fields of a model, by name and in order.

    Raises TypeError for a field without exactly one record."""
    axes = {}
    for name, field in model.model_fields.items():
        records = [record for record in field.metadata if isinstance(record, Axis)]
        if len(records) != 1:
            raise TypeError(
                f"the field {model.__name__}.{name} has {len(records)} records of an axis, not one"
            )
        axes[name] = dataclasses.replace(records[0], name=name, field=field)
    return MappingProxyType(axes)


def key_of(name: str) -> str:
    """Return the spelling of a field's name in campaign files and on the command line."""
    return name.replace("_", "-")


def field_name(key: str) -> str:
    """Return the name of the field with this key (or this name) in a campaign file."""
    return key.replace("-", "_")


def ranked(axes: Mapping[str, Axis], rank: Callable[[Axis], int]) -> tuple[str, ...]:
    """Return the names of the ranked axes, greatest rank first; among equals the last one first."""
    order = {name: number for number, name in enumerate(axes)}
    having = [axis for axis in axes.values() if rank(axis)]
    having.sort(key=lambda axis: (rank(axis), order[axis.name]), reverse=True)
    return tuple(axis.name for axis in having)
