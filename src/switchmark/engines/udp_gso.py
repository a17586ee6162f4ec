"""UDP sockets, with one system call and one packet per burst, which the sending device splits into
frames (UDP segmentation offload): the kernel writes the headers."""

from __future__ import annotations

from switchmark.engines.gso import Gso

ENGINE = Gso(
    name="udp-gso",
    summary="UDP sockets, one packet of up to 128 datagrams per system call, split by the device",
    needs_ip=True,
    vlan=False,
    flows_by=frozenset({"port"}),
    flows_max=256,
    capabilities=frozenset(),
    resources=frozenset({"function_cores"}),
    packet_frames=128,
    chosen_for=frozenset(),
    since=(6, 11),
    plain="udp-mmsg",
)
