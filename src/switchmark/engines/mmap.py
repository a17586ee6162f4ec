"""AF_PACKET with rings shared with the kernel (PACKET_MMAP); frames bypass the qdisc."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="mmap",
    summary="PACKET_MMAP rings, qdisc bypass",
    resources=frozenset({"function_cores"}),
)
