"""Names for untyped JSON objects that other programs write or read."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]
"""A command to the traffic program, its answer, or a part of them (`traffic/src/command.c`,
`open_plan.c` and `arm_plan.c` define the members)."""

Printed = dict[str, Any]
"""An object of `--json`, or a part of it (docs/guide/reading-a-record.md)."""
