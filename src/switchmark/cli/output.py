"""This module has the streams that a command prints to. A terminal obeys control characters, and
records hold what others wrote: so it gets none. What cannot be written is told as that."""

from __future__ import annotations

import io
import os
import sys

from switchmark.errors import Exit
from switchmark.model.printable import printable


class OutputLost(OSError):
    """Standard output takes no more, for instance because a disk is full."""

    exit_code = Exit.INCOMPLETE

    def __str__(self) -> str:
        return f"the output cannot be written: {self.strerror}"


class _Output(io.FileIO):
    """What cannot be written to standard output ends the command."""

    def write(self, data: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from error


class _Remarks(io.FileIO):
    """What cannot be written to standard error is lost: no run ends for want of a reader."""

    def write(self, data: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return len(data)


class _Text(io.TextIOWrapper):
    """A terminal is shown text; a file or a pipe gets what is written."""

    def write(self, text: str, /) -> int:
        return super().write(printable(text) if self.isatty() else text)


def open_streams() -> None:
    """Make the standard streams those of this module. One that is closed leads to nowhere: a file
    that is opened later must not get its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is sys.__stdout__:  # not where somebody listens in this process
        sys.stdout = _opened(_Output(1, "wb", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _opened(_Remarks(2, "wb", closefd=False), sys.stderr)


def _opened(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    """Return a stream of text like the one before. A terminal without bars is no bug."""
    encoding = before.encoding if isinstance(before, io.TextIOWrapper) else "utf-8"
    return _Text(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="replace",
        newline="\n",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )


def give_up_output() -> None:
    """Let nothing be flushed to standard output when the interpreter ends: it takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
