"""This engine uses AF_PACKET sockets, with one system call for each frame."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="raw",
    summary="AF_PACKET, a system call a frame",
    resources=frozenset({"function_cores"}),
)
