"""The streams that a command prints to. Records may contain text from others, and a terminal obeys
control characters, so terminals get only printable text. Failed writes are reported as errors."""

from __future__ import annotations

import io
import os
import sys

from switchmark.errors import Exit
from switchmark.model.printable import printable


class OutputLost(OSError):
    """Standard output accepts no more data, for instance because a disk is full."""

    exit_code = Exit.INCOMPLETE

    def __str__(self) -> str:
        return f"the output cannot be written: {self.strerror}"


class ReaderGone(Exception):
    """The reader of standard output has ended, as `head` does when it has seen enough. It is no
    BrokenPipeError, which click handles itself, and leaves the output unflushed."""


class _Output(io.FileIO):
    """Standard output: a failed write ends the command."""

    def write(self, data: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from error


class _Remarks(io.FileIO):
    """Standard error: a failed write is dropped, so that a run does not end for lack of a
    reader."""

    def write(self, data: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return len(data)


class _Text(io.TextIOWrapper):
    """A text stream: a terminal gets printable text, a file or pipe gets the text unchanged."""

    def write(self, text: str, /) -> int:
        return super().write(printable(text) if self.isatty() else text)


def open_streams() -> None:
    """Replace the standard streams with those of this module. A closed stream leads to /dev/null,
    so that files opened later do not get its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is sys.__stdout__:  # not if code in this process captures the output
        sys.stdout = _opened(_Output(1, "wb", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _opened(_Remarks(2, "wb", closefd=False), sys.stderr)


def _opened(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    """Return a text stream with the encoding of the stream before. It replaces characters that the
    encoding lacks, such as bars."""
    encoding = before.encoding if isinstance(before, io.TextIOWrapper) else "utf-8"
    return _Text(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="replace",
        newline="\n",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )


def give_up_output() -> None:
    """Discard unflushed output at exit: standard output accepts no more data."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
