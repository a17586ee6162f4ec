"""This engine has the kernel itself make frames: BPF_PROG_RUN with live frames. It only sends."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="xdp-live",
    summary="BPF_PROG_RUN with live frames",
    privilege="root",
    receiver="mmap",
    napi=True,
    frame_max=3076,  # a page of the page pool, with headroom
    # It enters a namespace of its own for a moment: that takes SYS_ADMIN, which stands for BPF.
    capabilities=frozenset({"SYS_ADMIN"}),
    # Another engine receives, and its frames enter the switch past the sockets.
    chosen_for=frozenset(),
)
