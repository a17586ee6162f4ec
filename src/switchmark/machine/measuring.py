"""This module keeps two measurements off one machine: who measures holds a lock that all its users
share.

The lock is a file in /tmp, as /run is not the same for all: a user namespace has one of its own.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from switchmark.errors import Unavailable

__all__ = ["VARIABLE", "measuring_alone", "myself"]

VARIABLE = "SWITCHMARK_MACHINE_LOCK"
"""The environment variable that names another file, such as one that containers of one machine
share; /dev/null: nobody is waited for."""

_FILE = "/tmp/switchmark-measuring"
_TOLD = 300
"""Bytes that a holder may say of itself."""


@contextmanager
def measuring_alone(
    who: str, *, shared: bool = False, told: Callable[[str], None] = lambda holder: None
) -> Iterator[None]:
    """Hold the machine's lock as `who`. `told` is told of whoever holds it, before that is waited
    for; `shared` waits for nobody, and keeps others out where nobody does so already."""
    path = os.environ.get(VARIABLE) or _FILE
    if path == os.devnull:
        yield
        return
    descriptor = _opened(path)
    try:
        held = _take(descriptor, wait=False)
        if not held and not shared:
            told(_holder(descriptor))
            held = _take(descriptor, wait=True)
        if held:
            _say(descriptor, who)
        try:
            yield
        finally:
            if held:
                _say(descriptor, "")
    finally:
        os.close(descriptor)


def _opened(path: str) -> int:
    """Open the file, that of another user too; made where it is not there, for all users."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(2):
        with suppress(FileNotFoundError):
            try:
                descriptor = os.open(path, flags)
            except PermissionError:  # a lock needs no more than that
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise
                raise _unusable(path, error.strerror or str(error)) from error
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise _unusable(path, "it is no file")
            return descriptor
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        os.fchmod(descriptor, 0o666)  # whatever the umask
        return descriptor
    raise _unusable(path, "others make and remove it")


def _unusable(path: str, why: str) -> Unavailable:
    return Unavailable(
        f"the lock of this machine cannot be had: {path}: {why}",
        hint=f"{VARIABLE}=FILE names another one, {VARIABLE}=/dev/null none",
    )


def _take(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _say(descriptor: int, who: str) -> None:
    """Leave word of who measures; another user's file may not be written to."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, who.encode()[:_TOLD], 0)


def _holder(descriptor: int) -> str:
    """Return what the holder says of itself, as a terminal may print it."""
    said = os.pread(descriptor, _TOLD, 0).decode(errors="replace")
    return "".join(each for each in said if each.isprintable()) or "another switchmark"


def myself(folder: Path) -> str:
    """Return how a run is told of to whoever waits for it."""
    return f"pid {os.getpid()}, {folder.absolute()}"
