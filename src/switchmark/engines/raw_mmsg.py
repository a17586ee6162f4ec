"""AF_PACKET sockets, with one system call per burst."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="raw-mmsg",
    summary="AF_PACKET, sendmmsg and recvmmsg",
    resources=frozenset({"function_cores"}),
)
