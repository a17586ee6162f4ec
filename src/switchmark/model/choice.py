"""The notation of /sys for one of several values: all values in a line, the current one in
brackets."""

from __future__ import annotations

import re

_CURRENT = re.compile(rb"(?:^|\s)\[(\S+)\](?=\s|$)")


def chosen(content: bytes) -> bytes | None:
    """Return the value in brackets, None if there is none. Such a file takes the value alone, and
    refuses the line that it shows."""
    current = _CURRENT.search(content)
    return current[1] if current else None
