"""Files of a host's kernel are taken at one moment, in one round trip, and read by whoever knows
what is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Protocol

from switchmark.hosts.base import Host


class Reads(Protocol):
    """What has files gives those that match a shell's pattern, as `Host` does."""

    def read_all(self, *patterns: str) -> Mapping[str, bytes]: ...


def taken_at_once(wanted: Mapping[Host, Sequence[str]]) -> dict[Host, Taken]:
    """Take the files of several hosts, side by side: by host those that match its patterns."""
    begun = {host: host.read_later(*dict.fromkeys(each)) for host, each in wanted.items()}
    return {host: Taken(files()) for host, files in begun.items()}


class Taken:
    """These are files of a host as they were when they were taken."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

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
