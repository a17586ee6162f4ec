"""Files of a host's kernel are taken at one moment, in one round trip, and read by whoever knows
what is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Protocol

__all__ = ["Reads", "Taken"]


class Reads(Protocol):
    """What has files gives those that match a shell's pattern, as `Host` does."""

    def read_all(self, *patterns: str) -> Mapping[str, bytes]: ...


class Taken:
    """These are the files of a host that matched some patterns when they were taken."""

    def __init__(self, host: Reads, *patterns: str) -> None:
        self._files = host.read_all(*dict.fromkeys(patterns))

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        """Return those of the files that match."""
        folders = [re.compile(translate(each.replace("/", "\0"))) for each in patterns]
        return {
            path: content
            for path, content in self._files.items()
            if any(
                folder.match(path.replace("/", "\0")) and path.count("/") == each.count("/")
                for folder, each in zip(folders, patterns, strict=True)
            )
        }
