"""This module keeps files of JSON lines that a death cannot spoil: each line is appended whole and
fsynced.

It knows nothing of what the lines say.
"""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict

from switchmark.errors import RecordFailed

__all__ = ["Entry", "append_entry", "whole_lines"]


class Entry(BaseModel):
    """An entry is a line, or a part of one; bytes are kept as base64."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )


def append_entry(descriptor: int, entry: Entry) -> None:
    """Append a line, or leave the file as it was and raise RecordFailed."""
    line = entry.model_dump_json().encode() + b"\n"
    end = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        if os.write(descriptor, line) != len(line):
            raise OSError("the disk is full")
        os.fdatasync(descriptor)
    except OSError as error:
        os.ftruncate(descriptor, end)
        raise RecordFailed(f"cannot write down what is to be undone: {error}") from error


def whole_lines(descriptor: int) -> list[bytes]:
    """Return the lines that were written to their end; a torn last one is cut off the file."""
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    whole, newline, torn = content.rpartition(b"\n")
    if torn:
        os.ftruncate(descriptor, len(whole) + len(newline))
    return whole.split(b"\n") if newline else []
