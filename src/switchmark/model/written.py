"""Parts of a record: they are written with the members that they were given, and no others.

So a record of an earlier version is read and written again the same: what it did not know is not
added, what this version does not know is kept.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

__all__ = ["Written"]


class Written(BaseModel):
    """A part of a record. A member that has a default is one that may be missing."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    @model_serializer(mode="wrap")
    def _as_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = self.model_fields_set
        return {name: value for name, value in write(self).items() if name in given}
