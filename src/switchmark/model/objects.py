"""This module names the JSON objects that have no type of their own: another program writes or
reads them, and what they hold is said elsewhere."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]
"""A command to the traffic program, its answer, or a part of one (`traffic/src/config.c` has their
members)."""

Printed = dict[str, Any]
"""An object that `--json` prints, or a part of it (docs/guide/reading-a-record.md)."""
