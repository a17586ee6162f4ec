"""Files of a host's kernel are taken at one moment, in one round trip, and read by whoever knows
what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable


class Reads(Protocol):
    """What has files gives those that match a shell's pattern, as `Host` does."""

    def read_all(self, *patterns: str) -> Mapping[str, bytes]: ...


@runtime_checkable
class ReadsLater(Protocol):
    """What is far away begins to read, and gives the files when that is called which it returns,
    before anything else is asked of it."""

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]: ...


_Host = TypeVar("_Host", bound=Reads)


def taken_at_once(wanted: Mapping[_Host, Sequence[str]]) -> dict[_Host, Taken]:
    """Take the files of several hosts, side by side: by host those that match its patterns."""
    begun = {host: _begun(host, tuple(dict.fromkeys(each))) for host, each in wanted.items()}
    return {host: Taken(files()) for host, files in begun.items()}


def _begun(host: Reads, patterns: Sequence[str]) -> Callable[[], Mapping[str, bytes]]:
    if isinstance(host, ReadsLater):
        return host.read_later(*patterns)
    return partial(host.read_all, *patterns)


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
