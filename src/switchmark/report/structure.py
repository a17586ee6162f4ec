"""This module says what DuckDB reads of the models of a record: names and types, nested as the
models are."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel

from switchmark.model.evidence import Evidence
from switchmark.model.record import Record, TrialResult

HOST: Mapping[str, str] = {
    **dict.fromkeys(("kernel", "machine", "distribution", "cpu_model"), "VARCHAR"),
    **dict.fromkeys(("cores_usable", "memory_kib"), "BIGINT"),
    "virtual": "BOOLEAN",
}
"""Facts of a host that are columns of a test, with their types."""

_NOT_READ: Mapping[type[BaseModel], set[str]] = {
    Record: {"noise", "calibration", "gate", "discarded"},
    TrialResult: {"counters", "cost"},
    Evidence: Evidence.model_fields.keys() - {"after_end"},
}
"""What takes long to read, and is no column: `records.record` has it."""

_AS_TEXT = {(TrialResult, "intervals")}
"""Lists that are read as JSON: they are long, and Python, which computes with them, takes texts
sooner than DuckDB's lists."""

_TYPES: Mapping[object, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
}


def structure(kind: Any) -> Any:
    """Return the structure of a type of Python, of a model all that is read of it. What may be of
    several kinds is text, or JSON."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        left_out = _NOT_READ.get(kind, set())
        return {
            name: "JSON" if (kind, name) in _AS_TEXT else structure(field.annotation)
            for name, field in kind.model_fields.items()
            if not field.exclude and name not in left_out
        }
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return structure(inner[0])
    if origin is Literal:
        return "VARCHAR"
    if origin in (typing.Union, types.UnionType):
        some = [each for each in inner if each is not types.NoneType]
        if len(some) == 1:
            return structure(some[0])
        return "VARCHAR" if set(some) <= {*_TYPES} or _is_choice(some) else "JSON"
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        element = structure(inner[0])
        return [element]
    return _TYPES.get(kind, "JSON")


def in_sql(kind: Any) -> str:
    """Return a structure as a type of SQL."""
    if isinstance(kind, dict):
        members = (f'"{name}" {in_sql(each)}' for name, each in kind.items())
        return f"STRUCT({', '.join(members)})"
    return f"{in_sql(kind[0])}[]" if isinstance(kind, list) else str(kind)


def _is_choice(kinds: Iterable[object]) -> bool:
    return all(kind in _TYPES or typing.get_origin(kind) is Literal for kind in kinds)
