"""The messages between this side and the agent of another host, as bytes.

The agent's side is agent/src/wire.h and agent/src/serve.c. Numbers are in this processor's byte
order, because the agent comes from the same build.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from switchmark.errors import HostLost

VERSION = 1
"""The version of frames and messages; the agent must have the same (wire.h)."""

PART = 65536
"""The most bytes of payload in a frame."""

WINDOW = 262144
"""The most bytes of a stream in flight."""

CHANNELS = 256

_HEAD = struct.Struct("=IHBB")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANY = 0xFFFFFFFF
_ORDER = sys.byteorder


class Kind(IntEnum):
    """The kinds of frames."""

    HELLO, START, DATA, END, GRANT, SIGNAL, EXIT, ASK, ANSWER = range(9)


class Ask(IntEnum):
    """The requests to an agent."""

    RUN, CANCEL, SPAWN, END = range(4)
    READ, WRITE, EXISTS, REMOVE, READ_ALL, INODES = range(4, 10)
    HOLD, NOTE, JOURNAL, LET_GO, RUNS, CLEAN = range(10, 16)


class Undo(IntEnum):
    """The kinds of undos that the agent holds."""

    DONE, COMMAND, WRITE, REMOVE, STOP, LEASE = range(6)


class CallEnd(IntEnum):
    """The ways in which a command can end."""

    RAN, SKIPPED, OVERDUE, NOT_STARTED, TOO_LONG = range(5)


def frame(channel: int, kind: Kind, stream: int, payload: bytes) -> bytes:
    """Return one frame."""
    return _HEAD.pack(len(payload), channel, kind, stream) + payload


def frames(buffer: bytearray) -> Iterator[tuple[int, Kind, int, bytes]]:
    """Remove whole frames from a buffer; yield the channel, kind, stream and payload of each
    frame."""
    start = 0
    try:
        while len(buffer) - start >= _HEAD.size:
            length, channel, kind, stream = _HEAD.unpack_from(buffer, start)
            if length > PART:
                raise ValueError("a frame is longer than any")
            if len(buffer) - start < _HEAD.size + length:
                return
            start += _HEAD.size + length
            yield channel, Kind(kind), stream, bytes(buffer[start - length : start])
    finally:
        del buffer[:start]


def message(number: int, ask: Ask, payload: bytes) -> bytes:
    """Return the frames of a request; `number` is the number of its answer, 0 for no answer."""
    whole = struct.pack("=II", number, ask) + payload
    parts = [whole[start : start + PART] for start in range(0, len(whole), PART)]
    return b"".join(frame(0, Kind.ASK, part is not parts[-1], part) for part in parts)


def uint32(value: int) -> bytes:
    """Encode a number as 32 bits; a negative number as its two's complement."""
    return struct.pack("=I", value & _ANY)


def uint64(value: int) -> bytes:
    return struct.pack("=Q", value)


def text(value: str) -> bytes:
    """Encode a text as the kernel takes it. Raise ValueError for a NUL."""
    if "\0" in value:
        raise ValueError("embedded null byte")
    return os.fsencode(value) + b"\0"


def texts(values: Iterable[str]) -> bytes:
    return b"".join(map(text, values))


def counted(content: bytes) -> bytes:
    return uint32(len(content)) + content


def variables(env: Mapping[str, str]) -> bytes:
    """Encode environment variables. Raise ValueError for an invalid name."""
    for name in env:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no name of a variable")
    return uint32(len(env)) + texts(f"{name}={value}" for name, value in env.items())


def command(
    batch: int,
    timeout_s: float,
    ok: Sequence[int] | None,
    stdin: bytes | None,
    env: Mapping[str, str],
    argv: Sequence[str],
) -> bytes:
    """Encode a command of a batch."""
    fine = uint32(_ANY) if ok is None else uint32(len(ok)) + b"".join(map(uint32, ok))
    limit = uint32(min(int(timeout_s * 1000), _ANY - 1))
    payload = uint32(stdin is not None) + counted(stdin or b"")
    return uint32(batch) + limit + fine + payload + variables(env) + texts(argv)


class Answer:
    """A reader of one answer of `host`. It raises HostLost for a malformed answer, because a host
    is not trusted to answer correctly."""

    def __init__(self, content: bytes, host: str) -> None:
        self._whole = content
        self._host = host
        self._at = 0

    def number(self) -> int:
        return int.from_bytes(self._take(4), _ORDER)

    def status(self) -> int:
        """Return an exit status: negative for a signal."""
        return int.from_bytes(self._take(4), _ORDER, signed=True)

    def long(self) -> int:
        return int.from_bytes(self._take(8), _ORDER)

    def text(self) -> str:
        end = self._whole.find(0, self._at)
        if end < 0:
            raise self._cut_off()
        value = os.fsdecode(self._whole[self._at : end])
        self._at = end + 1
        return value

    def counted(self) -> bytes:
        return self._take(self.number())

    def __bool__(self) -> bool:
        """Return whether unread bytes are left."""
        return self._at < len(self._whole)

    def _take(self, length: int) -> bytes:
        taken = self._whole[self._at : self._at + length]
        if len(taken) < length:
            raise self._cut_off()
        self._at += length
        return taken

    def _cut_off(self) -> HostLost:
        return HostLost(
            f"an answer of the agent on host {self._host} is cut off",
            hint=f"switchmark doctor --host {self._host}",
        )
