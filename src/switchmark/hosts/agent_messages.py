"""What this side and the agent of another host say to each other, as bytes (agent/src/wire.h,
agent/src/serve.c). Numbers are in this processor's byte order: the agent is of this build."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from switchmark.errors import HostLost

VERSION = 1
"""Of frames and messages; it must be the agent's (wire.h)."""

PART = 65536
"""Bytes of a frame's payload, at most."""

WINDOW = 262144
"""Bytes of a stream that are under way at most."""

CHANNELS = 256

_HEAD = struct.Struct("=IHBB")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANY = 0xFFFFFFFF
_ORDER = sys.byteorder


class Kind(IntEnum):
    """The kinds of frames."""

    HELLO, START, DATA, END, GRANT, SIGNAL, EXIT, ASK, ANSWER = range(9)


class Ask(IntEnum):
    """What the agent may be asked."""

    RUN, CANCEL, SPAWN, END = range(4)
    READ, WRITE, EXISTS, REMOVE, READ_ALL, INODES = range(4, 10)
    HOLD, NOTE, JOURNAL, LET_GO, RUNS, CLEAN = range(10, 16)


class Undo(IntEnum):
    """The kinds of undos that the agent holds."""

    DONE, COMMAND, WRITE, REMOVE, STOP, LEASE = range(6)


class End(IntEnum):
    """How a command ended."""

    RAN, SKIPPED, OVERDUE, NOT_STARTED, TOO_LONG = range(5)


def frame(channel: int, kind: Kind, stream: int, payload: bytes) -> bytes:
    """Return one frame."""
    return _HEAD.pack(len(payload), channel, kind, stream) + payload


def frames(buffer: bytearray) -> Iterator[tuple[int, Kind, int, bytes]]:
    """Take whole frames out of a buffer: yield channel, kind, stream and payload of each."""
    at = 0
    try:
        while len(buffer) - at >= _HEAD.size:
            length, channel, kind, stream = _HEAD.unpack_from(buffer, at)
            if length > PART:
                raise ValueError("a frame is longer than any")
            if len(buffer) - at < _HEAD.size + length:
                return
            at += _HEAD.size + length
            yield channel, Kind(kind), stream, bytes(buffer[at - length : at])
    finally:
        del buffer[:at]


def message(number: int, ask: Ask, payload: bytes) -> bytes:
    """Return the frames of a question; `number` is that of its answer, 0 where none is wanted."""
    whole = struct.pack("=II", number, ask) + payload
    parts = [whole[at : at + PART] for at in range(0, len(whole), PART)]
    return b"".join(frame(0, Kind.ASK, part is not parts[-1], part) for part in parts)


def uint32(value: int) -> bytes:
    """Return a number of 32 bits; a negative one as its two's complement."""
    return struct.pack("=I", value & _ANY)


def uint64(value: int) -> bytes:
    return struct.pack("=Q", value)


def text(value: str) -> bytes:
    """Return a text as the kernel takes it. ValueError for a NUL, which none can hold."""
    if "\0" in value:
        raise ValueError("embedded null byte")
    return os.fsencode(value) + b"\0"


def texts(values: Iterable[str]) -> bytes:
    return b"".join(map(text, values))


def counted(content: bytes) -> bytes:
    return uint32(len(content)) + content


def variables(env: Mapping[str, str]) -> bytes:
    """Return variables of the environment. ValueError for what is no name of one."""
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
    """Return a command that is one of a batch."""
    fine = uint32(_ANY) if ok is None else uint32(len(ok)) + b"".join(map(uint32, ok))
    limit = uint32(min(int(timeout_s * 1000), _ANY - 1))
    given = uint32(stdin is not None) + counted(stdin or b"")
    return uint32(batch) + limit + fine + given + variables(env) + texts(argv)


class Answer:
    """An answer of `host` is read from its beginning. HostLost where it is none: a host is not
    trusted to answer well."""

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
        """Say whether something is left."""
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
