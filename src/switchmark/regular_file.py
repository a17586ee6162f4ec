"""This module reads files whose content others decide, without waiting for them and without end: a
file that is none of a disk, or larger than it can rightly be, is refused."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

MIB = 1 << 20

_NULL = os.makedev(1, 3)
"""/dev/null stands for a file that says nothing."""

_PIECE = MIB // 4
_SMALL = 64 * MIB
"""No file that a person writes is larger."""


# A pipe without a writer would be waited for.
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_regular(path: Path | str, most_bytes: int = _SMALL, *, links: bool = True) -> IO[bytes]:
    """Open a file to be read. OSError, whose `strerror` says why, for one that is no regular file,
    such as a device or a pipe, or that holds more than `most_bytes`; without `links` also for a
    symbolic link in its place, as in a run folder, which somebody else may have made."""
    opened = os.open(path, _TO_READ) if links else open_no_link(path, _TO_READ)
    return _checked(opened, path, most_bytes)


def open_no_link(
    path: Path | str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
) -> int:
    """Open a file as `os.open`; OSError for a symbolic link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        why = "it is a symbolic link, which may lead to anything that this user can read"
        raise OSError(errno.ELOOP, why, str(path)) from error


def read_within(folder: Path, name: str) -> bytes:
    """Return the content of a file below a folder that somebody else may have made; OSError where a
    symbolic link is on the way, which may lead anywhere, and for what is no regular file."""
    *folders, last = Path(name).parts
    at = os.open(folder, _TO_READ | os.O_DIRECTORY)
    try:
        for each in folders:
            below = open_no_link(each, _TO_READ | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        opened = open_no_link(last, _TO_READ, dir_fd=at)
    finally:
        os.close(at)
    with _checked(opened, folder / name, sys.maxsize) as file:
        return file.read()


def _checked(descriptor: int, path: Path | str, most_bytes: int) -> IO[bytes]:
    try:
        check_regular(descriptor, path, most_bytes)
        return os.fdopen(descriptor, "rb", buffering=0)
    except OSError:
        os.close(descriptor)
        raise


def read_regular(path: Path | str, most_bytes: int = _SMALL, *, links: bool = True) -> bytes:
    """Return the content of a file; OSError as `open_regular`."""
    content = bytearray()
    with open_regular(path, most_bytes, links=links) as file:
        # Files of the kernel do not tell their size.
        while piece := file.read(_PIECE):
            content += piece
            if len(content) > most_bytes:
                raise _too_large(path, most_bytes)
    return bytes(content)


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of JSON that a file of a run folder holds; empty if the file is not there,
    is a symbolic link, or holds something else."""
    from pydantic_core import from_json  # the anchor imports this module by the plain interpreter

    with suppress(OSError, ValueError):
        content = from_json(read_regular(path, links=False))
        if isinstance(content, dict):
            return content
    return {}


def check_regular(descriptor: int, path: Path | str | None, most_bytes: int) -> None:
    """Raise OSError, as `open_regular`, for an open file that is not to be read."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", _name(path))
    if not stat.S_ISREG(status.st_mode) and status.st_rdev != _NULL:
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", _name(path))
    if status.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path | str | None, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most_bytes // MIB} MiB", _name(path))


def _name(path: Path | str | None) -> str | None:
    return None if path is None else str(path)
