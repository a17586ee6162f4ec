"""This module keeps files of the user's cache: what takes a while to find out and holds beyond a
run. One that cannot be read or written costs only time."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["cache_folder", "read_cache", "write_cache"]


def cache_folder() -> Path:
    """Return the project's folder in the cache of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "switchmark")


def read_cache(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file holds; empty if it holds none."""
    with suppress(OSError, ValueError):
        content = json.loads(path.read_text())
        if isinstance(content, dict):
            return content
    return {}


def write_cache(path: Path, content: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(content, indent=1))
        new.replace(path)
