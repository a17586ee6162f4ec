"""Files of JSON lines that a crash cannot damage: each line is appended as a whole and fsynced.

This module does not know what the lines mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json

from switchmark.errors import RecordFailed
from switchmark.regular_file import MIB, check_regular

MOST_BYTES = 4096 * MIB
"""The largest file of lines; the records of the longest campaigns take a tenth of it."""


class Entry(BaseModel):
    """A line, or a part of a line; bytes are stored as base64."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )


def append_entry(descriptor: int, entry: Entry) -> None:
    """Append a line, or leave the file unchanged and raise RecordFailed."""
    try:
        append_line(descriptor, entry.model_dump_json())
    except OSError as error:
        raise RecordFailed(f"cannot write down what is to be undone: {error}") from error


def append_line(descriptor: int, line: str) -> None:
    """Append a line and flush it to the disk. An OSError leaves the file unchanged; if even that
    fails, the next process that opens the file removes the torn line."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        rest = line.encode() + b"\n"
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fdatasync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, end)
        raise


def whole_lines(descriptor: int) -> list[bytes]:
    """Return the complete lines; remove a torn last line from the file. Raise OSError for a file
    that is not regular or too large."""
    check_regular(descriptor, None, MOST_BYTES)
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    whole, newline, torn = content.rpartition(b"\n")
    if torn:
        os.ftruncate(descriptor, len(whole) + len(newline))
    return whole.split(b"\n") if newline else []


def to_line(content: Mapping[str, Any], *, compact: bool = False) -> str:
    """Return an object as a line without its newline: `compact` for a file, otherwise with spaces
    for a person. Raise ValueError for a number that JSON lacks."""
    return json.dumps(content, separators=(",", ":") if compact else None, allow_nan=False)


def parse_line(line: str | bytes) -> dict[str, Any]:
    """Return the object in a line. Raise ValueError for other content."""
    entry = from_json(line)
    if not isinstance(entry, dict):
        raise ValueError("not an object of JSON")
    return entry
