"""AF_PACKET sockets, with one system call and one packet per burst, which the sending device splits
into frames (UDP segmentation offload)."""

from __future__ import annotations

from switchmark.engines.gso import Gso

ENGINE = Gso(
    name="raw-gso",
    summary="AF_PACKET, one packet of up to 128 frames per system call, split by the device",
    resources=frozenset({"function_cores"}),
    packet_frames=128,
    chosen_for=frozenset(),
    since=(6, 2),
    plain="raw-mmsg",
)
