"""Names for JSON objects without a type of their own, which other programs write or read."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]
"""A command to the traffic program, its answer, or a part of one (`traffic/src/command.c`,
`open_plan.c` and `arm_plan.c` have their members)."""

Printed = dict[str, Any]
"""An object that `--json` prints, or a part of it (docs/guide/reading-a-record.md)."""
