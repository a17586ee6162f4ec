"""The base class of the parts of a record that may lack members. They are written with the members
that they were read with.

A record of an earlier version is therefore read and written unchanged: it gains no members, and it
keeps members that this version does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    WrapSerializer,
    model_serializer,
)
from pydantic_core import CoreSchema

_T = TypeVar("_T")


class Written(BaseModel):
    """A part of a record; a member with a default may be missing."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_serializer(mode="wrap")
    def _as_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields_set = self.model_fields_set
        return {name: value for name, value in write(self).items() if name in fields_set}


def object_schema(**members: Any) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these members, by name and schema."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


class _MaybeEmpty:
    """Marks a member that may be an empty object, in JSON Schema too."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), object_schema()]}


def _known_members(value: object) -> object:
    return None if value == {} else value


def _or_empty(value: object, write: SerializerFunctionWrapHandler) -> object:
    return {} if value is None else write(value)


OrEmpty = Annotated[
    _T | None, BeforeValidator(_known_members), WrapSerializer(_or_empty), _MaybeEmpty()
]
"""A part of a record that is None for an empty object."""
