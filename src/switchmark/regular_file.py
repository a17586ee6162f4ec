"""Safe reads of files with untrusted content: reads never block and are limited in size. Files that
are not regular, or are too large, are refused."""

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
"""/dev/null counts as an empty file."""

_PIECE = MIB // 4
_SMALL = 64 * MIB
"""Larger than any file that a person writes."""


# Without O_NONBLOCK, opening a pipe would wait for a writer.
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_regular(path: Path | str, most_bytes: int = _SMALL, *, links: bool = True) -> IO[bytes]:
    """Open a file for reading. OSError, with the reason in `strerror`, if it is not a regular file
    (for instance a device or a pipe) or holds more than `most_bytes`. Without `links`, also for a
    symbolic link: other users may have created files in a run folder."""
    opened = os.open(path, _TO_READ) if links else open_no_link(path, _TO_READ)
    return _checked(opened, path, most_bytes)


def open_no_link(
    path: Path | str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
) -> int:
    """Open a file like `os.open`; OSError for a symbolic link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        why = "it is a symbolic link, which may lead to anything that this user can read"
        raise OSError(errno.ELOOP, why, str(path)) from error


def read_within(folder: Path, name: str) -> bytes:
    """Return the content of a file below a folder that another user may have created. OSError for a
    file that is not regular, and for a symbolic link in the path, which could point anywhere."""
    *folders, last = Path(name).parts
    descriptor = os.open(folder, _TO_READ | os.O_DIRECTORY)
    try:
        for part in folders:
            below = open_no_link(part, _TO_READ | os.O_DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        opened = open_no_link(last, _TO_READ, dir_fd=descriptor)
    finally:
        os.close(descriptor)
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
    """Return the content of a file; raises OSError like `open_regular`."""
    content = bytearray()
    with open_regular(path, most_bytes, links=links) as file:
        # Kernel files do not report their size.
        while piece := file.read(_PIECE):
            content += piece
            if len(content) > most_bytes:
                raise _too_large(path, most_bytes)
    return bytes(content)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run folder; empty if the file is missing, is a symbolic
    link, or does not contain an object."""
    from pydantic_core import from_json  # the anchor imports this module with the plain interpreter

    with suppress(OSError, ValueError):
        content = from_json(read_regular(path, links=False))
        if isinstance(content, dict):
            return content
    return {}


def check_regular(descriptor: int, path: Path | str | None, most_bytes: int) -> None:
    """Raise OSError, like `open_regular`, for an open file that must not be read."""
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
