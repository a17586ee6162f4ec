"""The kernel itself generates frames: BPF_PROG_RUN with live frames. The engine only sends."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="xdp-live",
    summary="BPF_PROG_RUN with live frames",
    privilege="root",
    receiver="mmap",
    napi=True,
    frame_max=3076,  # a page of the page pool, with headroom
    # It enters a private namespace for a moment: that needs SYS_ADMIN, which includes BPF.
    capabilities=frozenset({"SYS_ADMIN"}),
    # Another engine must receive, and its frames enter the switch without passing sockets.
    chosen_for=frozenset(),
)
