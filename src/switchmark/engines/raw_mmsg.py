"""AF_PACKET sockets, a system call a burst."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="raw-mmsg",
    summary="AF_PACKET, sendmmsg and recvmmsg",
)
