"""This engine uses AF_XDP sockets: native mode where the driver has it, zero-copy where it is
offered."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="xdp",
    summary="AF_XDP",
    privilege="root",
    frame_max=3524,  # one chunk of umem, a page, holds it with its headroom
    capabilities=frozenset({"NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"}),
    resources=frozenset({"function_cores"}),
    queue_a_core=True,
)
