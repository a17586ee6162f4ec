"""AF_PACKET with rings shared with the kernel, whose slots hold one packet per burst, which the
sending device splits into frames (UDP segmentation offload)."""

from __future__ import annotations

from switchmark.engines.gso import Gso

ENGINE = Gso(
    name="mmap-gso",
    summary="PACKET_MMAP rings, a packet of up to 128 frames per slot, split by the device",
    resources=frozenset({"function_cores"}),
    packet_frames=128,
    chosen_for=frozenset(),
    since=(6, 2),
    plain="mmap",
)
