"""Kernel files of hosts, read at one moment and in one round trip; other modules parse them
later."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Protocol

from switchmark.hosts.base import Host


class Reads(Protocol):
    """A source of files that match a shell pattern, such as a `Host`."""

    def read_all(self, *patterns: str) -> Mapping[str, bytes]: ...


def taken_at_once(patterns_by_host: Mapping[Host, Sequence[str]]) -> dict[Host, Taken]:
    """Read files of several hosts in parallel; return by host the files that match its patterns."""
    begun = {
        host: host.read_later(*dict.fromkeys(paths)) for host, paths in patterns_by_host.items()
    }
    return {host: Taken(files()) for host, files in begun.items()}


class Taken:
    """The files of a host at the moment when they were read."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        """Return the files that match a pattern."""
        folders = [re.compile(translate(pattern.replace("/", "\0"))) for pattern in patterns]
        return {
            path: content
            for path, content in self._files.items()
            if any(
                folder.match(path.replace("/", "\0")) and path.count("/") == pattern.count("/")
                for folder, pattern in zip(folders, patterns, strict=True)
            )
        }
