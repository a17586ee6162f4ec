"""Captions of tables: the axis values that all tests have in common."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.record import Record
from switchmark.model.test import AXES, Test

_SAID = frozenset(
    {
        *("dimension", "locality", "scenario", "direction", "switch", "environment", "engine"),
        *("frame_size", "rate", "search", "port", "semantics", "duration", "repeat"),
        *("warmup", "seed"),
    }
)
"""Axes that the caption words specially or omits."""


def caption(records: Sequence[Record]) -> str:
    """Return the axis values that all tests of a section share. Most defaults are omitted."""
    first = records[0].test
    shared = {
        axis: value
        for axis, value in first.model_dump().items()
        if all(getattr(record.test, axis) == value for record in records)
        and all(record.imported is None or axis in record.imported.axes for record in records)
    }
    parts = [str(shared[axis]) for axis in ("scenario",) if axis in shared]
    parts += ["bidirectional"] * (shared.get("direction") == "bi")
    ports = {record.port for record in records if record.port}
    parts += [f"ports {ports.pop()}"] if len(ports) == 1 else []
    parts += [f"in {shared['environment']}"] if "environment" in shared else []
    parts += [f"engine {shared['engine']}"] if "engine" in shared else []
    if "frame_size" in shared:
        size = shared["frame_size"]
        parts.append(f"{size} B" if isinstance(size, int) else size)
    if shared.get("search") != "fixed" and "search" in shared:
        parts.append(f"search {shared['search']}")
    if "rate" in shared and (shared["rate"] != "max" or shared.get("search") == "fixed"):
        parts.append(f"rate {shared['rate']}")
    kinds = {record.semantics for record in records if record.semantics}
    parts += list(kinds) if len(kinds) == 1 else []
    parts += [
        f"{AXES[axis].label} {axis_text(value)}"
        for axis, value in shared.items()
        if axis not in _SAID and value not in (None, _usual(first, axis))
    ]
    if alike := records[0].alike:
        parts.append(f"testbed{'s' * (len(alike) > 1)} {', '.join(alike)}")
    if "duration" in shared and "repeat" in shared:
        trials = "a trial" if shared["repeat"] == 1 else f"{shared['repeat']} trials"
        parts.append(f"{trials} of {shared['duration']:g} s")
    return f"{first.dimension}: {', '.join(parts)}"


def _usual(test: Test, axis: str) -> object:
    """Return the default of an axis for tests of this dimension."""
    record = AXES[axis]
    if record.field.default_factory is None:
        return record.default
    return getattr(Test(dimension=test.dimension), axis)


def axis_text(value: object) -> str:
    """Return the value of an axis as text."""
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
