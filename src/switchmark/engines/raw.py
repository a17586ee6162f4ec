"""AF_PACKET sockets, with one system call per frame."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="raw",
    summary="AF_PACKET, one system call per frame",
    resources=frozenset({"function_cores"}),
)
