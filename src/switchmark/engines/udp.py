"""UDP sockets, with one system call per datagram: the kernel writes the headers."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="udp",
    summary="UDP sockets, one system call per datagram",
    needs_ip=True,
    vlan=False,
    flows_by=frozenset({"port"}),
    flows_max=256,
    capabilities=frozenset(),
    resources=frozenset({"function_cores"}),
)
