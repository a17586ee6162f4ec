"""The user's cache: values that take a while to determine and stay valid after a run. An unreadable
or unwritable cache costs only time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Return the project's folder in this user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "switchmark")


def read_cache(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if the file holds none."""
    with suppress(OSError, ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    return {}


def update_cache(path: Path, content: dict[str, Any], keep: Callable[[Any], bool]) -> None:
    """Update members of the JSON object in a file; keep other members whose values `keep` accepts.
    One process at a time replaces the whole file."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f"{path.name}.lock").open("a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = {key: value for key, value in read_cache(path).items() if keep(value)}
            new = path.with_name(f"{path.name}.{os.getpid()}")
            new.write_text(json.dumps({**entries, **content}, indent=1), encoding="utf-8")
            new.replace(path)
