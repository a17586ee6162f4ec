"""This module writes and reads lines of JSON, and keeps files of them that a death cannot spoil:
each line is appended whole and fsynced.

It knows nothing of what the lines say.
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
"""No file of lines is larger: the records of the longest campaigns are a tenth of it."""


class Entry(BaseModel):
    """An entry is a line, or a part of one; bytes are kept as base64."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )


def append_entry(descriptor: int, entry: Entry) -> None:
    """Append a line, or leave the file as it was and raise RecordFailed."""
    try:
        append_line(descriptor, entry.model_dump_json())
    except OSError as error:
        raise RecordFailed(f"cannot write down what is to be undone: {error}") from error


def append_line(descriptor: int, line: str) -> None:
    """Write a line to the disk. OSError leaves the file as it was; where even that fails, the torn
    line is cut off by the next who opens it."""
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
    """Return the lines that were written to their end; a torn last one is cut off the file. OSError
    for what is no regular file, or a larger one."""
    check_regular(descriptor, None, MOST_BYTES)
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    whole, newline, torn = content.rpartition(b"\n")
    if torn:
        os.ftruncate(descriptor, len(whole) + len(newline))
    return whole.split(b"\n") if newline else []


def to_line(content: Mapping[str, Any], *, compact: bool = False) -> str:
    """Return an object as a line without its end: `compact` in a file, else with spaces, as a
    person may read it. ValueError for a number that JSON does not have."""
    return json.dumps(content, separators=(",", ":") if compact else None, allow_nan=False)


def parse_line(line: str | bytes) -> dict[str, Any]:
    """Return the object that a line holds. ValueError if it holds something else."""
    entry = from_json(line)
    if not isinstance(entry, dict):
        raise ValueError("not an object of JSON")
    return entry
